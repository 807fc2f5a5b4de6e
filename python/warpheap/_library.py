"""The shared library: its structures as ctypes knows them, its functions, and statuses as
exceptions. python/tests/test_layout.py compares all of it with the C headers."""
import ctypes
import functools
import glob
import os
import pathlib
from ctypes import (CFUNCTYPE, POINTER, c_char, c_char_p, c_int, c_int32, c_int64,
                    c_size_t, c_uint32, c_uint64, c_void_p)

from . import _errors, _paths

UNKNOWN = 2**64 - 1  # WH_UNKNOWN
VERSION = (0, 2)  # major, minor: what the structures below are of


class Struct(ctypes.Structure):
    """One whose first field is its size, where it has a field struct_bytes."""

    def __init__(self, *args, **fields):
        super().__init__(*args, **fields)
        if hasattr(type(self), "struct_bytes"):
            self.struct_bytes = ctypes.sizeof(type(self))

    def as_dict(self):
        """Numbers and texts by name, WH_UNKNOWN as None, without what is of the binding alone."""
        found = {}
        for name, _ in self._fields_:
            value = getattr(self, name)
            if name in ("struct_bytes", "unused"):
                continue
            if isinstance(value, Struct):
                value = value.as_dict()
            elif isinstance(value, bytes):
                value = value.decode(errors="replace")
            elif value == UNKNOWN:
                value = None
            found[name] = value
        return found


ALLOC_FN = CFUNCTYPE(c_void_p, c_uint64, c_uint64, c_void_p, c_void_p)
FREE_FN = CFUNCTYPE(None, c_void_p, c_uint64, c_void_p, c_void_p)
VISIT_FN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint64)


class MemorySource(Struct):
    c_name = "wh_memory_source"
    _fields_ = [("alloc", ALLOC_FN), ("free", FREE_FN), ("user", c_void_p)]


class HeapOptions(Struct):
    c_name = "wh_heap_options"
    _fields_ = [("struct_bytes", c_uint64), ("bytes", c_uint64), ("allocator", c_char_p),
                ("device", c_void_p), ("memory", c_void_p), ("options", c_void_p),
                ("reserve_bytes", c_uint64), ("source", MemorySource), ("cuda_pool", c_void_p)]


class AnyOptions(Struct):
    c_name = "wh_any_options"
    _fields_ = [("family", c_char_p), ("any_bytes", c_uint64), ("values", c_uint64 * 16)]


class SimOptions(Struct):
    c_name = "wh_sim_options"
    _fields_ = [("struct_bytes", c_uint64), ("seed", c_uint64), ("policy", c_int),
                ("policy_arg", c_uint32), ("n_sms", c_uint32), ("blocks_per_sm", c_uint32),
                ("workers", c_uint32), ("step_budget", c_uint64), ("memory_bytes", c_uint64),
                ("weak", c_uint32), ("record", c_char_p), ("replay", c_char_p),
                ("switches", c_char_p), ("schedules", c_char_p)]


class DeviceInfo(Struct):
    c_name = "wh_device_info"
    _fields_ = [("target", c_int), ("name", c_char * 128), ("driver", c_char * 64),
                ("n_sms", c_uint32), ("ordinal", c_int32), ("memory_bytes", c_uint64),
                ("shared_bytes", c_uint32), ("blocks_per_sm", c_uint32)]


class DeviceCounters(Struct):
    c_name = "wh_device_counters"
    _fields_ = [(name, c_uint64) for name in ("steps", "atomics", "switches")]


class ClassStats(Struct):
    c_name = "wh_class_stats"
    _fields_ = [(name, c_uint64) for name in ("block_bytes", "live", "capacity")]


class Stats(Struct):
    c_name = "wh_stats"
    _fields_ = [(name, c_uint64) for name in (
        "struct_bytes", "heap_bytes", "metadata_bytes", "used_bytes", "peak_bytes", "live_blocks",
        "largest_free", "failed", "bad_frees", "mallocs", "frees")] + [
            ("n_classes", c_uint32), ("timed_out", c_uint32), ("classes", ClassStats * 64)]


class Report(Struct):
    c_name = "wh_report"
    _fields_ = [(name, c_uint64) for name in ("errors", "first_tag", "first_where")]


class GrowthOptions(Struct):
    c_name = "wh_growth_options"
    _fields_ = [("struct_bytes", c_uint64), ("max_bytes", c_uint64), ("step_bytes", c_uint64),
                ("ahead_bytes", c_uint64), ("wait_us", c_uint32), ("no_thread", c_uint32)]


class GrowthInfo(Struct):
    c_name = "wh_growth_info"
    _fields_ = [(name, c_uint64) for name in (
        "struct_bytes", "mapped_bytes", "ahead_bytes", "max_bytes", "requests", "refused")] + [
            ("status", c_uint32), ("unused", c_uint32)]


class HandleKind(Struct):
    c_name = "wh_handle_kind"
    _fields_ = [("struct_bytes", c_uint64), ("allocator", c_char_p), ("handle_bytes", c_uint64),
                ("layout", c_uint64), ("version", c_uint32), ("target", c_int),
                ("checks", c_uint64), ("peers", c_uint64)]


class AllocatorInfo(Struct):
    c_name = "wh_allocator_info"
    _fields_ = [("name", c_char_p), ("title", c_char_p), ("source", c_char_p), ("caps", c_uint32),
                ("max_align", c_uint32), ("max_size", c_uint64), ("family", c_char_p)]


class OptionInfo(Struct):
    c_name = "wh_option_info"
    _fields_ = [("family", c_char_p), ("name", c_char_p), ("meaning", c_char_p)]


class GaugeSample(Struct):
    c_name = "wh_gauge_sample"
    _fields_ = [(name, c_uint64) for name in (
        "struct_bytes", "time_ns", "took_ns", "read_bytes", "heap_bytes", "metadata_bytes",
        "claimed_bytes", "used_bytes", "live_blocks", "failed", "bad_frees", "peak_bytes",
        "mallocs")]


class GaugeView(Struct):
    c_name = "wh_gauge_view"
    _fields_ = [("struct_bytes", c_uint64), ("pid", c_uint64), ("state", c_uint32),
                ("interval_ms", c_uint32), ("program", c_char * 64), ("allocator", c_char * 32),
                ("device", c_char * 128), ("sample", GaugeSample)]


class Site(Struct):
    c_name = "wh_record_site"
    _fields_ = [("file", c_char * 52), ("line", c_uint32)]


class Record(Struct):
    c_name = "wh_record"
    _fields_ = [("number", c_uint64), ("kind", c_uint32), ("block", c_uint32),
                ("thread", c_uint64), ("address", c_uint64), ("bytes", c_uint64),
                ("offset", c_int64), ("site", Site), ("allocated", Site), ("freed", Site),
                ("free_bytes", c_uint64), ("largest_free", c_uint64), ("class_bytes", c_uint64),
                ("class_partial", c_uint64)]


class Leak(Struct):
    c_name = "wh_leak"
    _fields_ = [("site", Site), ("bytes", c_uint64), ("blocks", c_uint64), ("total", c_uint64),
                ("address", c_uint64), ("block", c_uint64), ("thread", c_uint64)]


class Call(Struct):
    c_name = "wh_heap_call"
    _fields_ = [("kind", c_uint32), ("unused", c_uint32), ("block", c_void_p),
                ("bytes", c_uint64), ("align", c_uint64)]


# Those of the library's enumerations that the package names.
POLICIES = ("round-robin", "random", "sticky", "pct", "stall")
TARGETS = ("sim", "cuda")
GAUGE_STATES = ("live", "ended", "gone")
CALLS = ("malloc", "calloc", "realloc", "aligned_alloc", "free", "usable_size", "owns")
CAPS = ("disjoint", "free", "any-size", "exact-oom", "usable-size", "aligned", "owns", "stats",
        "walk", "check", "bad-free", "sim", "reset", "own-memory", "grow", "left", "reserve",
        "compact", "peers")

# name: (result, arguments). A result STATUS is checked: other ones than WH_OK are exceptions. TOLD:
# wh_last_error_text has a line about the call's failure (types.h says for which calls).
STATUS, TOLD = "status", "told"
FUNCTIONS = {
    "wh_version": (c_uint32, []),
    "wh_status_name": (c_char_p, [c_int]),
    "wh_status_text": (c_char_p, [c_int]),
    "wh_last_error_text": (c_char_p, []),
    "wh_allocator_at": (POINTER(AllocatorInfo), [c_uint32]),
    "wh_option_at": (POINTER(OptionInfo), [c_uint32]),
    "wh_options_set": (TOLD, [POINTER(AnyOptions), c_char_p, c_uint64]),
    "wh_device_open": (TOLD, [POINTER(c_void_p), c_char_p, POINTER(SimOptions)]),
    "wh_device_close": (None, [c_void_p]),
    "wh_device_get_info": (POINTER(DeviceInfo), [c_void_p]),
    "wh_device_cuda_count": (c_uint32, []),
    "wh_device_copy_in": (STATUS, [c_void_p, c_void_p, c_void_p, c_uint64]),
    "wh_device_copy_out": (STATUS, [c_void_p, c_void_p, c_void_p, c_uint64]),
    "wh_device_sync": (STATUS, [c_void_p]),
    "wh_device_get_counters": (STATUS, [c_void_p, POINTER(DeviceCounters)]),
    "wh_device_error_text": (c_char_p, [c_void_p]),
    "wh_stream_sync": (STATUS, [c_void_p, c_void_p]),
    "wh_heap_create": (TOLD, [POINTER(c_void_p), POINTER(HeapOptions)]),
    "wh_heap_min_bytes": (TOLD, [POINTER(HeapOptions), POINTER(c_uint64)]),
    "wh_heap_destroy": (STATUS, [c_void_p]),
    "wh_heap_destroy_on": (STATUS, [c_void_p, c_void_p]),
    "wh_heap_memory": (STATUS, [c_void_p, POINTER(c_void_p), POINTER(c_uint64)]),
    "wh_heap_reset": (STATUS, [c_void_p]),
    "wh_heap_reset_on": (STATUS, [c_void_p, c_void_p]),
    "wh_heap_extend": (TOLD, [c_void_p, c_uint64]),
    "wh_heap_trim": (TOLD, [c_void_p, c_uint64, POINTER(c_uint64)]),
    "wh_heap_extent": (STATUS, [c_void_p, POINTER(c_uint64), POINTER(c_uint64),
                                POINTER(c_uint64)]),
    "wh_heap_enable_peer": (TOLD, [c_void_p, c_void_p]),
    "wh_heap_peers": (c_uint32, [c_void_p]),
    "wh_heap_growth_start": (TOLD, [c_void_p, POINTER(GrowthOptions)]),
    "wh_heap_growth_stop": (TOLD, [c_void_p]),
    "wh_heap_growth_poll": (STATUS, [c_void_p]),
    "wh_heap_growth_get_info": (STATUS, [c_void_p, POINTER(GrowthInfo)]),
    "wh_heap_get_stats": (STATUS, [c_void_p, POINTER(Stats)]),
    "wh_heap_get_stats_on": (STATUS, [c_void_p, POINTER(Stats), c_void_p]),
    "wh_heap_check": (STATUS, [c_void_p, POINTER(Report)]),
    "wh_heap_check_on": (STATUS, [c_void_p, POINTER(Report), c_void_p]),
    "wh_heap_walk": (STATUS, [c_void_p, VISIT_FN, c_void_p]),
    "wh_heap_copy_handle": (TOLD, [c_void_p, POINTER(HandleKind), c_void_p]),
    "wh_heap_handle_bytes": (c_uint64, [c_void_p]),
    "wh_heap_allocator": (POINTER(AllocatorInfo), [c_void_p]),
    "wh_heap_blocks_left": (STATUS, [c_void_p, c_uint64, POINTER(c_uint64)]),
    "wh_heap_make_calls": (TOLD, [c_void_p, POINTER(Call), c_size_t, c_uint32]),
    "wh_heap_mark": (TOLD, [c_void_p, POINTER(c_uint64)]),
    "wh_heap_leaks": (TOLD, [c_void_p, c_uint64, POINTER(Leak), c_size_t, c_uint32,
                             POINTER(c_uint32)]),
    "wh_leak_text": (c_char_p, [POINTER(Leak), c_char_p, c_size_t]),
    "wh_heap_snapshot_save": (TOLD, [c_void_p, c_char_p]),
    "wh_heap_violations": (TOLD, [c_void_p, POINTER(Record), c_size_t, c_uint32,
                                  POINTER(c_uint32)]),
    "wh_heap_failures": (TOLD, [c_void_p, POINTER(Record), c_size_t, c_uint32,
                                POINTER(c_uint32)]),
    "wh_heap_check_blocks": (TOLD, [c_void_p, c_int, POINTER(c_uint64)]),
    "wh_record_name": (c_char_p, [c_uint32]),
    "wh_record_text": (c_char_p, [POINTER(Record), c_char_p, c_size_t]),
    "wh_gauge_open": (TOLD, [POINTER(c_void_p), c_void_p]),
    "wh_gauge_close": (TOLD, [c_void_p]),
    "wh_gauge_read": (TOLD, [c_void_p, c_uint32, POINTER(GaugeSample)]),
    "wh_gauge_publish": (TOLD, [c_void_p, c_char_p, c_uint32, c_uint32]),
    "wh_gauge_read_file": (TOLD, [c_char_p, POINTER(GaugeView)]),
    "wh_heap_abi1_handle": (TOLD, [c_void_p, POINTER(c_uint64)]),
}
OPTIONAL = {"wh_heap_abi1_handle"}  # of a library without them the calls are UNSUPPORTED


class Library:
    """The functions of FUNCTIONS as attributes, without wh_: lib.heap_create(...)."""

    def __init__(self, path):
        self.path = path
        _load_cuda_runtime()
        try:
            loaded = ctypes.CDLL(str(path))
        except OSError as error:
            raise ImportError(f"warpheap: {path} cannot be loaded: {error}") from error
        for name, (result, arguments) in FUNCTIONS.items():
            short = name.removeprefix("wh_")
            try:
                function = getattr(loaded, name)
            except AttributeError:
                if name not in OPTIONAL:
                    raise ImportError(f"warpheap: {path} has no {name}: it is of another version "
                                      "than this package") from None
                setattr(self, short, functools.partial(_missing, name, path))
                continue
            function.argtypes = arguments
            checked = result in (STATUS, TOLD)
            function.restype = c_int if checked else result
            setattr(self, short, functools.partial(self._checked, function, result == TOLD)
                    if checked else function)
        number = self.version()
        self.version_text = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        if (number // 10000, number // 100 % 100) != VERSION:
            raise ImportError(f"warpheap: {path} is of version {self.version_text}, this package "
                              f"knows {VERSION[0]}.{VERSION[1]}")

    def _checked(self, function, told, *args):
        """Calls it. The error of a device has its text there; `device` is found by the caller."""
        status = function(*args)
        if status != 0:
            raise self.error(status, self.last_error_text().decode() if told else "")
        return status

    def error(self, status, text=""):
        name = self.status_name(status).decode()
        text = text or self.status_text(status).decode()
        return _errors.CLASSES.get(name, _errors.Error)(name, text)


def _missing(name, path, *_):
    raise _errors.UnsupportedError("WH_UNSUPPORTED", f"{path} has no {name}: it was built without "
                                   "the binary interface for device code")


def _load_cuda_runtime():
    """A library built for GPUs wants libcudart. The package nvidia-cuda-runtime brings one, which
    the loader does not find by itself; a library that is loaded already it takes."""
    for folder in _paths.nvidia_folders():
        for file in sorted(glob.glob(os.path.join(folder, "lib", "libcudart.so.*"))):
            try:
                ctypes.CDLL(file, mode=ctypes.RTLD_GLOBAL)
                return
            except OSError:
                continue


@functools.lru_cache(maxsize=None)
def library():
    """The library, loaded when it is first needed."""
    return Library(pathlib.Path(_paths.get_library()))


def c_text(value, what):
    """Text or a path for C, which reads up to a byte 0."""
    text = os.fsencode(value)
    if b"\0" in text:
        raise _errors.ArgumentError("WH_BAD_ARGUMENT", f"{what} is {value!r}: it has a byte 0")
    return text


def checked_u64(value, what, least=0, bits=64):
    """An argument that is a number of so many bits, from any kind of integer."""
    try:
        number = value.__index__()
    except (AttributeError, TypeError):
        raise _errors.ArgumentError("WH_BAD_ARGUMENT",
                                    f"{what} is {value!r}, not an integer") from None
    if not least <= number < 2**bits:
        raise _errors.ArgumentError("WH_BAD_ARGUMENT", f"{what} is {number}: it must be from "
                                    f"{least} to 2**{bits} - 1")
    return number
