"""Devices: GPUs, and the simulated one."""
import contextlib
import ctypes
import threading
import weakref

from . import _errors
from ._library import (POLICIES, TARGETS, DeviceCounters, SimOptions, c_text, checked_u64, library)

_SIM_WORDS = ("seed", "policy_arg", "n_sms", "blocks_per_sm", "workers", "step_budget",
              "memory_bytes", "weak")
_SIM_FILES = ("record", "replay", "switches", "schedules")


def _sim_options(given):
    options = SimOptions()
    for name, value in given.items():
        if name == "policy":
            if value not in POLICIES:
                raise _errors.ArgumentError("WH_BAD_ARGUMENT", f"there is no policy {value!r}: "
                                            f"there are {', '.join(POLICIES)}")
            options.policy = POLICIES.index(value)
        elif name in _SIM_FILES:
            setattr(options, name, c_text(str(value), name))
        elif name in _SIM_WORDS:
            bits = getattr(SimOptions, name).size * 8
            setattr(options, name, checked_u64(value, name, bits=bits))
        else:
            raise TypeError(f"the simulated device has no option {name!r}: there are policy, "
                            f"{', '.join(_SIM_WORDS + _SIM_FILES)}")
    return options


class Turn:
    """The lock of a device and its heaps, for `with`. Devices that are peers run their kernels
    together, so they have one lock from then on: `_next` says whose."""

    def __init__(self):
        self._lock = threading.RLock()
        self._next = None
        self._taken = []  # by whoever has it: what to release

    def _take(self, wait=True):
        while True:
            turn = self
            while turn._next is not None:
                turn = turn._next
            if not turn._lock.acquire(blocking=wait):
                return False
            if turn._next is None:
                if turn is not self:
                    self._next = turn  # not by way of all that have come and gone
                self._taken.append(turn)
                return True
            turn._lock.release()  # it became another one's while this thread waited

    def _give(self):
        self._taken.pop()._lock.release()

    def __enter__(self):
        self._take()

    def __exit__(self, *_):
        self._give()

    @contextlib.contextmanager
    def joining(self, other):
        """Has both; after the end, unless something was raised, they are one."""
        first, second = self, other
        first._take()
        while not second._take(wait=False):  # nobody waits who has one
            first._give()
            first, second = second, first
            first._take()
        try:
            yield
            mine, theirs = self._taken[-1], other._taken[-1]
            if mine is not theirs:
                theirs._next = mine
        finally:
            second._give()
            first._give()


def _close(turn, pointer):
    with turn:  # peers that it leaves may run kernels
        library().device_close(pointer)


class Device:
    """A GPU, or the simulated device. A context manager; heaps keep it open until they end.

    spec: "cuda:0", "cuda" (the current GPU), "sim", or "auto": the current GPU, or the simulated
    device where there is none. Words are of the simulated device (docs/SIMULATOR.md): seed,
    policy, n_sms, workers, memory_bytes and so on.

    Threads may share a device and its heaps: calls take turns.
    """

    def __init__(self, spec="auto", **sim):
        if not isinstance(spec, str):
            raise TypeError(f"a device is named by a string, not by {spec!r}")
        lib = library()
        pointer = ctypes.c_void_p()
        options = _sim_options(sim)
        lib.device_open(ctypes.byref(pointer), c_text(spec, "the device"), ctypes.byref(options))
        self._pointer = pointer.value
        self._lock = Turn()
        self._close = weakref.finalize(self, _close, self._lock, self._pointer)
        info = lib.device_get_info(self._pointer).contents.as_dict()
        info["target"] = TARGETS[info["target"]]
        info["spec"] = "sim" if info["target"] == "sim" else f"cuda:{info['ordinal']}"
        self.info = info

    @property
    def target(self):
        """ "cuda" or "sim"."""
        return self.info["target"]

    @property
    def closed(self):
        return not self._close.alive

    def _live(self):
        if self.closed:
            raise _errors.ClosedError("the device is closed")
        return self._pointer

    def _told(self, function, *args):
        """Calls it, with the device's own text where that has one."""
        try:
            return function(*args)
        except _errors.DeviceError as error:
            text = library().device_error_text(self._pointer).decode()
            raise _errors.DeviceError(error.status, text or error.text) from None

    def sync(self):
        """Waits for all work of the device."""
        with self._lock:
            self._told(library().device_sync, self._live())

    def wait_stream(self, stream):
        """Waits for the work of one stream."""
        with self._lock:
            self._told(library().stream_sync, self._live(), stream_of(stream))

    def counters(self):
        """Exact counts of the simulated device: steps, atomics, switches; of a GPU zeros."""
        counters = DeviceCounters()
        with self._lock:
            self._told(library().device_get_counters, self._live(), ctypes.byref(counters))
        return counters.as_dict()

    def close(self):
        """Closes the device, with the last of its heaps. More than once is no error."""
        with self._lock:
            self._close()

    def __enter__(self):
        self._live()
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        state = " closed" if self.closed else ""
        return f"<warpheap.Device {self.info['spec']} ({self.info['name']}){state}>"


def devices():
    """What there is: a dict for each GPU, and one for the simulated device, with what to open it
    by ("spec"), name, memory_bytes and so on. Opens each for a moment."""
    found = []
    for spec in [f"cuda:{i}" for i in range(library().device_cuda_count())] + ["sim"]:
        with Device(spec) as device:
            found.append(device.info)
    return found


def stream_of(stream):
    """The number of a stream: of an integer, or of an object of torch, CuPy, cuda.core or Numba.
    None: None, of all streams."""
    if stream is None:
        return None
    if hasattr(stream, "__cuda_stream__"):
        value = stream.__cuda_stream__
        return int((value() if callable(value) else value)[1])
    for name in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, name):
            value = getattr(stream, name)
            return int(getattr(value, "value", value) or 0)
    try:
        return int(stream)
    except TypeError:
        raise TypeError(f"{stream!r} is no stream") from None
