"""Memory that is somebody else's, for a heap to lie in: arrays of GPUs, and buffers of the host."""
import ctypes
import math

from . import _errors
from ._library import ALLOC_FN, FREE_FN, MemorySource, checked_u64

ALIGN = 256


def _refuse(text):
    raise _errors.ArgumentError("WH_BAD_ARGUMENT", f"memory: {text}")


def _of_gpu(memory, device):
    """(address, bytes) of what has __cuda_array_interface__."""
    interface = memory.__cuda_array_interface__
    address, read_only = interface["data"]
    size = int(interface["typestr"].lstrip("<>|=")[1:])
    shape, strides = interface["shape"], interface.get("strides")
    expected = size
    for n, stride in reversed(list(zip(shape, strides or ()))):
        if n > 1 and stride != expected:
            _refuse("the array is not contiguous")
        expected *= n
    if read_only:
        _refuse("the array may only be read")
    stream = interface.get("stream")
    if stream not in (None, 0, 1):  # 1: the default stream, for which wh_heap_create waits
        device.wait_stream(stream)
    return address, math.prod(shape) * size


def _of_host(memory):
    """(address, bytes) of what has the buffer protocol, and what keeps it where it is."""
    try:
        view = memoryview(memory)
    except TypeError:
        _refuse(f"a {type(memory).__name__} has neither __cuda_array_interface__ nor a buffer")
    if view.readonly:
        _refuse("the buffer may only be read")
    if not view.c_contiguous:
        _refuse("the buffer is not contiguous")
    held = (ctypes.c_char * view.nbytes).from_buffer(view)
    return ctypes.addressof(held), view.nbytes, held


def region(memory, size, device):
    """(address, bytes, what to hold) of the part that a heap can have: from a multiple of 256 on.
    size: how many bytes the caller wants of it; None: all of them."""
    held = memory
    if isinstance(memory, tuple) and len(memory) == 2:
        address, there = (checked_u64(word, "memory", 1) for word in memory)
    elif hasattr(memory, "__cuda_array_interface__"):
        if device.target != "cuda":
            _refuse("it is of a GPU, and the heap's device is the simulated one")
        address, there = _of_gpu(memory, device)
    elif device.target != "sim":
        _refuse(f"a {type(memory).__name__} has no __cuda_array_interface__, and the heap's device "
                "is a GPU")
    else:
        address, there, held = _of_host(memory)
    skipped = -address % ALIGN
    room = there - skipped
    if size is None:
        size = max(room, 0) // ALIGN * ALIGN
    if size > room:
        _refuse(f"it has {max(room, 0)} bytes from a multiple of {ALIGN} on, the heap {size}")
    return address + skipped, size, (memory, held)


def source_of(pair, raised):
    """The two functions alloc(bytes, align, stream) and free(address, bytes, stream) for C. What
    alloc raises goes to the list."""
    try:
        alloc, free = pair
    except (TypeError, ValueError):
        alloc = free = None
    if not (callable(alloc) and callable(free)):
        raise TypeError("source is a pair of functions: alloc(bytes, align, stream), which returns "
                        "an address or None, and free(address, bytes, stream)")

    def for_c_alloc(size, align, stream, _):
        try:  # no exception may leave it, and what is no address must not reach C
            address = alloc(size, align, stream or 0)
            return checked_u64(0 if address is None else address, "what alloc returned") or None
        except Exception as error:
            raised.append(error)
            return None

    def for_c_free(address, size, stream, _):
        try:
            free(address, size, stream or 0)
        except Exception:
            pass

    return MemorySource(ALLOC_FN(for_c_alloc), FREE_FN(for_c_free), None)
