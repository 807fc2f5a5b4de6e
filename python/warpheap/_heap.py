"""Heaps: what the host does with one."""
import contextlib
import ctypes
import json
import operator
import os
import tempfile
import threading
import weakref

from . import _errors, _memory
from ._device import Device, stream_of
from ._library import (CALLS, CAPS, UNKNOWN, VISIT_FN, AnyOptions, Call, GaugeSample, GaugeView,
                       GAUGE_STATES, GrowthInfo, GrowthOptions, HandleKind, HeapOptions, Leak,
                       Record, Report, Stats as CStats, c_text, checked_u64, library)
from ._stats import Stats
from ._views import View, type_string

_RECORDS_AT_ONCE = 256


def allocators():
    """The allocators that the library has: a dict for each, with its name, one line about it,
    "caps", a set of what it can do ("free", "aligned", ...), max_align, max_size and family."""
    found = []
    while at := library().allocator_at(len(found)):
        found.append(_allocator(at))
    return found


def _allocator(pointer):
    record = pointer.contents.as_dict()
    record["caps"] = {cap for bit, cap in enumerate(CAPS) if record["caps"] >> bit & 1}
    return record


def options():
    """Options of allocators by name, "tessera.track_peak", and what each one means."""
    found = {}
    index = 0
    while at := library().option_at(index):
        option = at.contents.as_dict()
        found[f"{option['family']}.{option['name']}"] = option["meaning"]
        index += 1
    return found


class _Core:
    """A heap of C, which lives until the Heap is closed and no array has its memory."""

    def __init__(self, pointer, device, held):
        self.pointer = pointer
        self.device = device
        self.closed = False
        self.views = weakref.WeakSet()
        self.polling = threading.Lock()
        self._end = weakref.finalize(self, _Core._destroy, pointer, device, self.polling, held)

    @staticmethod
    def _destroy(pointer, device, polling, held, stream=None, on_stream=False):
        with device._lock, polling:
            if on_stream:
                device._told(library().heap_destroy_on, pointer, stream)
            else:
                device._told(library().heap_destroy, pointer)
        del held

    def close(self, stream, on_stream):
        """Ends the heap now, or with the last array that has its memory."""
        self.closed = True
        for view in list(self.views):
            view._end()
        if any(view._exported for view in self.views):
            return
        _, function, args, _ = self._end.detach()
        function(*args, stream=stream, on_stream=on_stream)

    def live(self):
        """Refuses a heap that is closed, with the device's lock."""
        if self.closed:
            raise _errors.ClosedError("the heap is closed")

    def extent(self):
        """[start, end) of the heap's addresses."""
        base, size = ctypes.c_void_p(), ctypes.c_uint64()
        library().heap_memory(self.pointer, ctypes.byref(base), ctypes.byref(size))
        return base.value, base.value + size.value

    def bounds(self, address, nbytes):
        """Refuses what is not the heap's memory, with the device's lock."""
        start, end = self.extent()
        if not start <= address <= address + nbytes <= end:
            raise _errors.ArgumentError("WH_BAD_ARGUMENT", f"{nbytes} bytes from 0x{address:x} on "
                                        f"are not in the heap, which has 0x{start:x} to 0x{end:x}")
        mapped, reserved, granule = (ctypes.c_uint64() for _ in range(3))
        library().heap_extent(self.pointer, *map(ctypes.byref, (mapped, reserved, granule)))
        if granule.value == 0 or nbytes == 0:
            return
        for block, usable in self.walk():  # some of its addresses have no memory
            if block <= address and address + nbytes <= block + usable:
                return
        raise _errors.ArgumentError("WH_BAD_ARGUMENT", f"{nbytes} bytes from 0x{address:x} on are "
                                    "not in one live block, of a heap with reserve_bytes")

    def walk(self):
        found = []

        @VISIT_FN
        def visit(_, block, usable):
            found.append((block, usable))
            return 0

        self.device._told(library().heap_walk, self.pointer, visit, None)
        return found

    def read(self, address, nbytes):
        with self.device._lock:
            self.live()
            self.bounds(address, nbytes)
            copy = ctypes.create_string_buffer(max(nbytes, 1))
            if nbytes:
                self.device._told(library().device_copy_out, self.device._pointer, copy, address,
                                  nbytes)
        return copy.raw[:nbytes]

    def write(self, address, data):
        data = bytes(data)
        with self.device._lock:
            self.live()
            self.bounds(address, len(data))
            if data:
                self.device._told(library().device_copy_in, self.device._pointer, address, data,
                                  len(data))


class Heap:
    """A heap of device memory, for kernels. A context manager: at its end the heap is closed.

    bytes          of the whole heap, metadata included (Heap.min_bytes says the fewest)
    device         "auto" (the current GPU, or the simulated device), "cuda", "cuda:1", "sim", or a
                   Device, which several heaps can share
    allocator      a name of allocators(); None: tessera
    reserve_bytes  addresses to reserve: the heap can grow to so many bytes in place
    memory         where the heap is to lie: what has __cuda_array_interface__ (torch, CuPy, RMM),
                   for "sim" what has a buffer (bytearray, NumPy), or (address, bytes). bytes may
                   be None: all of it. It is held until the heap ends, and its owner leaves it alone
    source         (alloc, free): functions from which the heap takes its memory (docs/MEMORY.md)
    cuda_pool      the same of a cudaMemPool_t
    options        of the allocator, by name: {"track_peak": 1}; warpheap.options() has them
    gauge          a file for `warpheap top`: the heap publishes there ten times a second

    Threads may share it: calls take turns. Kernels that use the heap must have ended before a call
    that reads, resets or closes it, or run on the `stream` that it is given.
    """

    def __init__(self, bytes=None, device="auto", *, gauge=None, **how):
        device = device if isinstance(device, Device) else Device(device)
        with device._lock:
            device._live()
            raised = []  # what a source of memory raised while C called it
            c, held = _heap_options(bytes, device, raised, **how)
            pointer = ctypes.c_void_p()
            try:
                device._told(library().heap_create, ctypes.byref(pointer), ctypes.byref(c))
            except _errors.Error as error:
                raise error from (raised[0] if raised else None)
        self._core = _Core(pointer.value, device, held)
        self._peers = ()
        self.device = device
        self.allocator = _allocator(library().heap_allocator(pointer))
        self._gauge = None
        if gauge is not None:
            try:
                self._gauge = self.gauge()
                self._gauge.publish(gauge, interval_ms=100)
            except BaseException:
                self.close()
                raise

    @staticmethod
    def min_bytes(device="auto", **how):
        """The fewest bytes with which a heap of these words (allocator, options, ...) begins."""
        device = device if isinstance(device, Device) else Device(device)
        least = ctypes.c_uint64()
        with device._lock:
            device._live()
            c, _ = _heap_options(1, device, [], **how)
            device._told(library().heap_min_bytes, ctypes.byref(c), ctypes.byref(least))
        return least.value

    @contextlib.contextmanager
    def _calling(self):
        """The heap of C, while no other thread calls it or its device."""
        core = self._core
        if core is None:
            raise _errors.ClosedError("the heap is closed")
        with core.device._lock:
            core.live()
            yield core

    def _call(self, name, *args):
        with self._calling() as core:
            return core.device._told(getattr(library(), name), core.pointer, *args)

    def _on(self, name, stream, *args):
        if stream is None:
            return self._call(name, *args)
        return self._call(name + "_on", *args, stream_of(stream))

    # --- life -------------------------------------------------------------------------------

    @property
    def closed(self):
        return self._core is None

    def close(self, stream=None):
        """Gives the memory back: now, or when the last array that was made of a view is gone.
        Views raise ClosedError from now on. More than once is no error."""
        core, number = self._core, stream_of(stream)  # what is no stream ends nothing
        if core is None:
            return
        with core.device._lock:
            if self._core is None:
                return
            self._core = None
            try:
                if self._gauge is not None:
                    self._gauge.close()
            finally:
                core.close(number, on_stream=stream is not None)

    def __enter__(self):
        with self._calling():
            return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        if self.closed:
            return "<warpheap.Heap closed>"
        return (f"<warpheap.Heap {self.allocator['name']}, {self.extent()['mapped']:,} bytes on "
                f"{self.device.info['spec']}>")

    # --- kernels of other devices -----------------------------------------------------------

    def enable_peer(self, device):
        """Opens the heap to kernels of another device, a Device or its name, beside those of its
        own. All these kernels are compiled with WH_PEERS as 1, and get handle_struct. More than
        once for a device is no error. The heap keeps it open."""
        device = device if isinstance(device, Device) else Device(device)
        core = self._core
        if core is None:
            raise _errors.ClosedError("the heap is closed")
        with core.device._lock.joining(device._lock):
            core.live()
            core.device._told(library().heap_enable_peer, core.pointer, device._live())
            if library().heap_peers(core.pointer) > len(self._peers):
                self._peers += (device,)

    @property
    def peers(self):
        """The devices, beside its own, whose kernels may use the heap: a tuple."""
        with self._calling():
            return self._peers

    def reset(self, stream=None):
        """Every block is gone, and the heap as new."""
        self._on("heap_reset", stream)

    # --- memory -----------------------------------------------------------------------------

    def memory(self):
        """(address, bytes) of the heap as it lies on the device."""
        with self._calling() as core:
            start, end = core.extent()
        return start, end - start

    def extent(self):
        """What it has of the device: "mapped" and "reserved" bytes, and bytes of a "granule"."""
        found = [ctypes.c_uint64() for _ in range(3)]
        self._call("heap_extent", *map(ctypes.byref, found))
        return dict(zip(("mapped", "reserved", "granule"), (word.value for word in found)))

    def extend(self, bytes):
        """Maps at least so many bytes more, of a heap with reserve_bytes. No pointer changes."""
        self._call("heap_extend", checked_u64(bytes, "bytes"))

    def trim(self, keep_bytes=0):
        """Gives memory in which no block lives back to the device, until keep_bytes are mapped.
        Returns how many bytes that is. No array of a view may be left."""
        keep, given = checked_u64(keep_bytes, "keep_bytes"), ctypes.c_uint64()
        with self._calling() as core:
            if any(view._exported for view in core.views):
                raise BufferError("arrays that were made of views still have memory of the heap")
            core.device._told(library().heap_trim, core.pointer, keep, ctypes.byref(given))
        return given.value

    def growth_start(self, max_bytes=0, step_bytes=0, ahead_bytes=0, wait_us=0, thread=True):
        """From now on the heap grows while kernels run, up to max_bytes (0: reserve_bytes), so
        many bytes at a time. thread False: the program calls growth_poll."""
        options = GrowthOptions(no_thread=not thread)
        for name, value, bits in (("max_bytes", max_bytes, 64), ("step_bytes", step_bytes, 64),
                                  ("ahead_bytes", ahead_bytes, 64), ("wait_us", wait_us, 32)):
            setattr(options, name, checked_u64(value, name, bits=bits))
        self._call("heap_growth_start", ctypes.byref(options))

    def growth_stop(self):
        """It grows no more; what is mapped ahead of need goes back to the device."""
        self._call("heap_growth_stop")

    def growth_poll(self):
        """Answers what kernels have asked for. Waits for no kernel, and no other thread's call."""
        core = self._core
        if core is None:
            raise _errors.ClosedError("the heap is closed")
        with core.polling:
            core.live()
            core.device._told(library().heap_growth_poll, core.pointer)

    def growth(self):
        """How it goes with growth: mapped_bytes, ahead_bytes, max_bytes, requests, refused."""
        info = GrowthInfo()
        self._call("heap_growth_get_info", ctypes.byref(info))
        found = info.as_dict()
        found["status"] = library().status_name(info.status).decode()
        return found

    # --- looking inside ---------------------------------------------------------------------

    def stats(self, stream=None):
        """Statistics of a quiet heap: a dict that prints as a table."""
        c = CStats()
        self._on("heap_get_stats", stream, ctypes.byref(c))
        found = {name: getattr(c, name) for name, _ in CStats._fields_
                 if name not in ("struct_bytes", "n_classes", "classes")}
        stats = Stats({name: None if value == UNKNOWN else value for name, value in found.items()})
        stats["classes"] = [c.classes[i].as_dict() for i in range(c.n_classes)
                            if c.classes[i].live or c.classes[i].capacity]
        return stats

    def check(self, stream=None):
        """Verifies every invariant of a quiet heap. CorruptError says what is broken."""
        report = Report()
        try:
            self._on("heap_check", stream, ctypes.byref(report))
        except _errors.CorruptError as error:
            error.report = report.as_dict()
            raise

    def blocks(self):
        """(address, usable bytes) of each live block, in no particular order."""
        with self._calling() as core:
            return core.walk()

    def blocks_left(self, bytes):
        """How many blocks of so many bytes malloc would give until the heap is full."""
        left = ctypes.c_uint64()
        self._call("heap_blocks_left", checked_u64(bytes, "bytes"), ctypes.byref(left))
        return left.value

    def snapshot(self, path=None):
        """Live blocks, and who allocated them (docs/LEAKS.md): to a JSON file for `warpheap view`,
        or, without a path, as a dict."""
        if path is not None:
            self._call("heap_snapshot_save", c_text(path, "path"))
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "snapshot.json")
            self._call("heap_snapshot_save", c_text(path, "path"))
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    def mark(self):
        """Begins a stretch of time, of a checked heap: leaks(since=mark) tells what came later."""
        mark = ctypes.c_uint64()
        self._call("heap_mark", ctypes.byref(mark))
        return mark.value

    def leaks(self, since=0):
        """Live blocks by the line that allocated them and by size, those with the most bytes
        first: dicts with bytes, blocks, total, site and a line of text."""
        n = ctypes.c_uint32()
        found = (Leak * 0)()
        with self._calling() as core:
            for room in (0, None):
                room = n.value if room is None else room
                found = (Leak * room)()
                core.device._told(library().heap_leaks, core.pointer, checked_u64(since, "since"),
                                  found if room else None, ctypes.sizeof(Leak), room,
                                  ctypes.byref(n))
        return [_with_text(leak, library().leak_text) for leak in found]

    def violations(self):
        """Takes out what a checked heap has noted of wrong frees and overwritten blocks."""
        return self._records("heap_violations")

    def failures(self):
        """Takes out what a heap with the option failure_records has noted of failed mallocs."""
        return self._records("heap_failures")

    def _records(self, name):
        found = []
        room = (Record * _RECORDS_AT_ONCE)()
        n = ctypes.c_uint32(_RECORDS_AT_ONCE)
        while n.value == _RECORDS_AT_ONCE:
            self._call(name, room, ctypes.sizeof(Record), _RECORDS_AT_ONCE, ctypes.byref(n))
            for record in room[:n.value]:
                record_dict = _with_text(record, library().record_text)
                record_dict["kind"] = library().record_name(record.kind).decode()
                found.append(record_dict)
        return found

    def check_blocks(self, leaks=False):
        """Looks at all blocks of a checked heap for what has been overwritten, and notes it for
        violations(). leaks: and each live block. Returns how many records came of it."""
        found = ctypes.c_uint64()
        self._call("heap_check_blocks", int(bool(leaks)), ctypes.byref(found))
        return found.value

    def gauge(self):
        """A Gauge, which reads how full the heap is while kernels use it."""
        return Gauge(self)

    # --- blocks -----------------------------------------------------------------------------

    def view(self, address, shape, dtype="u1"):
        """Memory of the heap from an address on as an array (View): shape, an integer or a tuple,
        of elements of this type."""
        kind = type_string(dtype)
        try:
            dims = tuple(operator.index(n) for n in shape)
        except TypeError:
            dims = (checked_u64(shape, "shape"),)
        if any(n < 0 for n in dims):
            raise _errors.ArgumentError("WH_BAD_ARGUMENT", f"shape is {shape}")
        with self._calling() as core:
            view = View(core, checked_u64(address, "address", 1), dims, kind)
            core.bounds(view.address, view.nbytes)
            return view

    def read(self, address, nbytes):
        """A copy of so many bytes from an address on, as bytes."""
        with self._calling() as core:
            return core.read(checked_u64(address, "address", 1), checked_u64(nbytes, "nbytes"))

    def write(self, address, data):
        """Copies bytes, or anything with the buffer protocol, to an address in the heap."""
        with self._calling() as core:
            core.write(checked_u64(address, "address", 1), memoryview(data).cast("B"))

    def calls(self, calls):
        """Makes device calls at the same time, each by a thread of the simulated device, and
        returns what each gives: [("malloc", 64), ("free", p)] gives [address or None, None].

        ("malloc", bytes), ("calloc", bytes), ("realloc", block, bytes),
        ("aligned_alloc", align, bytes), ("free", block), ("usable_size", block), ("owns", block).
        On a GPU: UnsupportedError; kernels make these calls there.
        """
        calls = list(calls)
        made = (Call * len(calls))()
        for c, call in zip(made, calls):
            name, *args = call
            if name not in CALLS:
                raise _errors.ArgumentError("WH_BAD_ARGUMENT", f"there is no device call {name!r}: "
                                            f"there are {', '.join(CALLS)}")
            fields = {"realloc": ("block", "bytes"), "aligned_alloc": ("align", "bytes")}.get(
                name, ("bytes",) if name.endswith("lloc") else ("block",))
            if len(args) != len(fields):
                raise TypeError(f"{name} takes {', '.join(fields)}, not {args}")
            c.kind = CALLS.index(name)
            for field, value in zip(fields, args):
                setattr(c, field, checked_u64(0 if value is None else value, field))
        if calls:
            self._call("heap_make_calls", made, ctypes.sizeof(Call), len(calls))
        return [_result(call[0], c) for call, c in zip(calls, made)]

    def _each(self, name, *columns):
        """One call, or one for each element where a column is a list."""
        length = next((len(c) for c in columns if hasattr(c, "__len__")), None)
        if length is None:
            return self.calls([(name, *columns)])[0]
        rows = [list(c) if hasattr(c, "__len__") else [c] * length for c in columns]
        if any(len(row) != length for row in rows):
            raise _errors.ArgumentError("WH_BAD_ARGUMENT", f"{name}: lists of different lengths")
        return self.calls([(name, *args) for args in zip(*rows)])

    def malloc(self, bytes):
        """On the simulated device: the address of a block, or None where the heap is full. A list
        of sizes: a list of them, allocated at the same time. (Of a GPU: kernels do that.)"""
        return self._each("malloc", bytes)

    def calloc(self, bytes):
        """As malloc, of zeros."""
        return self._each("calloc", bytes)

    def realloc(self, block, bytes):
        """As malloc: the block with another size, contents kept; None: it stays as it was."""
        return self._each("realloc", block, bytes)

    def aligned_alloc(self, align, bytes):
        """As malloc, at a multiple of align, a power of two."""
        return self._each("aligned_alloc", align, bytes)

    def free(self, block):
        """Gives a block, or a list of them, back. A pointer that is no block is refused, and
        counted (stats()["bad_frees"])."""
        self._each("free", block)

    def usable_size(self, block):
        """Bytes that may be used in a block, or in each of a list."""
        return self._each("usable_size", block)

    def owns(self, block):
        """Whether an address lies in the heap's memory."""
        return self._each("owns", block)

    # --- for kernels ------------------------------------------------------------------------

    @property
    def handle(self):
        """The word of 64 bits that kernels get which call wh_abi1_malloc and its like
        (get_link): an argument of type uint64."""
        word = ctypes.c_uint64()
        self._call("heap_abi1_handle", ctypes.byref(word))
        return word.value

    @property
    def handle_struct(self):
        """The bytes of a wh_heap_ref: for kernels that include warpheap/warpheap.h, of this
        version, and get it by value or in device memory. Of a heap with peers: kernels that are
        compiled with WH_PEERS as 1, which nobody checks here."""
        with self._calling() as core:
            size = library().heap_handle_bytes(core.pointer)
            copy = ctypes.create_string_buffer(size)
            target = 1 if core.device.target == "cuda" else 0
            kind = HandleKind(allocator=self.allocator["name"].encode(), handle_bytes=size,
                              version=library().version(), target=target, checks=1, peers=1)
            library().heap_copy_handle(core.pointer, ctypes.byref(kind), copy)
        return copy.raw


def _result(name, call):
    if name == "free":
        return None
    if name == "owns":
        return call.bytes == 1
    return call.bytes if name == "usable_size" else call.block


def _with_text(record, function):
    text = ctypes.create_string_buffer(512)
    found = record.as_dict()
    found["text"] = function(ctypes.byref(record), text, len(text)).decode(errors="replace")
    return found


def _heap_options(size, device, raised, *, allocator=None, reserve_bytes=0, memory=None,
                  source=None, cuda_pool=None, options=None):
    """wh_heap_options, and what must live as long as the heap. raised: as of source_of."""
    held = []
    if size is None and memory is None:
        raise TypeError("a heap needs bytes, or memory to lie in")
    c = HeapOptions(device=device._live(), reserve_bytes=checked_u64(reserve_bytes,
                                                                     "reserve_bytes"))
    c.bytes = 0 if size is None else checked_u64(size, "bytes", 1)
    if allocator is not None:
        c.allocator = c_text(str(allocator), "allocator")
    if memory is not None:
        c.memory, c.bytes, owner = _memory.region(memory, None if size is None else c.bytes,
                                                  device)
        held.append(owner)
    if source is not None:
        c.source = _memory.source_of(source, raised)
        held.append(c.source)
    if cuda_pool is not None:
        c.cuda_pool = checked_u64(cuda_pool, "cuda_pool", 1)
    if options:
        family = next((a["family"] for a in allocators() if a["name"] == (allocator or "tessera")),
                      allocator)
        own = AnyOptions()
        for name, value in options.items():
            full = name if "." in name else f"{family}.{name}"
            library().options_set(ctypes.byref(own), c_text(full, "an option"),
                                  checked_u64(value, full))
        c.options = ctypes.addressof(own)
        held.append(own)
    return c, held


class Gauge:
    """Reads how full a heap is while kernels use it (docs/GAUGE.md). A context manager. Threads
    may share it, and use it beside calls of the heap."""

    def __init__(self, heap):
        self._heap = heap
        pointer = ctypes.c_void_p()
        with heap._calling() as core:
            core.device._told(library().gauge_open, ctypes.byref(pointer), core.pointer)
        self._pointer = pointer.value
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, library().gauge_close, self._pointer)

    def _live(self):
        if not self._end.alive or self._heap.closed:
            raise _errors.ClosedError("the gauge or its heap is closed")

    def read(self, blocks=False):
        """A sample of now, as a dict. blocks: also live_blocks, which takes longer."""
        sample = GaugeSample()
        with self._lock:
            self._live()
            library().gauge_read(self._pointer, int(bool(blocks)), ctypes.byref(sample))
        return sample.as_dict()

    def publish(self, path, interval_ms=0, blocks=False):
        """From now on each sample goes to this file, for `warpheap top` and read_gauge. interval_ms
        not 0: a thread of the library takes one so often."""
        with self._lock:
            self._live()
            library().gauge_publish(self._pointer, c_text(path, "path"), int(bool(blocks)),
                                    checked_u64(interval_ms, "interval_ms", bits=32))

    def close(self):
        """Ends it. More than once is no error."""
        with self._lock:
            self._end()

    def __enter__(self):
        self._live()
        return self

    def __exit__(self, *_):
        self.close()


def read_gauge(path):
    """What the gauge of another program has written to its file: state ("live", "ended" or
    "gone"), pid, program, and "sample" as Gauge.read."""
    view = GaugeView()
    library().gauge_read_file(c_text(path, "path"), ctypes.byref(view))
    found = view.as_dict()
    found["state"] = GAUGE_STATES[found["state"]]
    return found
