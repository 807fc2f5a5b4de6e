#!/usr/bin/env python3
"""python_torch.py: a heap whose memory comes from PyTorch's caching allocator, so that tensors and
the heap share one pool, and torch.cuda.memory_allocated counts the heap.

    python_torch.py <shared library, built for the GPU>

Exit status 77: no PyTorch, or no GPU.
"""
import ctypes
import sys


class Source(ctypes.Structure):
    ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p,
                             ctypes.c_void_p)
    FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p,
                            ctypes.c_void_p)
    _fields_ = [("alloc", ALLOC), ("free", FREE), ("user", ctypes.c_void_p)]


class Options(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
                ("allocator", ctypes.c_char_p), ("device", ctypes.c_void_p),
                ("memory", ctypes.c_void_p), ("options", ctypes.c_void_p),
                ("reserve_bytes", ctypes.c_uint64), ("source", Source)]


def torch_source(torch):
    """Keep what it returns for as long as the heap lives."""
    def alloc(size, align, stream, user):
        try:  # multiples of 512; stream None is the default one, 0
            return torch.cuda.caching_allocator_alloc(size, stream=stream or 0)
        except Exception:  # torch.OutOfMemoryError: nothing may leave this function
            return None

    def free(p, size, stream, user):
        torch.cuda.caching_allocator_delete(p)

    return Source(Source.ALLOC(alloc), Source.FREE(free), None)


def main():
    try:
        import torch
        if not torch.cuda.is_available():
            raise RuntimeError("no GPU")
    except Exception as e:  # whatever keeps PyTorch from its GPU
        print(f"skipped: {e}")
        return 77
    library = ctypes.CDLL(sys.argv[1])
    for name in ("wh_status_name", "wh_last_error_text"):
        getattr(library, name).restype = ctypes.c_char_p

    def must(status):
        if status != 0:
            raise SystemExit(f"{library.wh_status_name(status)}: {library.wh_last_error_text()}")

    torch.cuda.init()
    torch.zeros(1, device="cuda")
    device, heap, left = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    must(library.wh_device_open(ctypes.byref(device), b"cuda", None))
    source = torch_source(torch)
    before = torch.cuda.memory_allocated()
    options = Options(ctypes.sizeof(Options), 64 << 20, None, device, None, None, 0, source)
    must(library.wh_heap_create(ctypes.byref(heap), ctypes.byref(options)))
    during = torch.cuda.memory_allocated()
    must(library.wh_heap_blocks_left(heap, ctypes.c_uint64(1024), ctypes.byref(left)))
    must(library.wh_heap_check(heap, None))
    must(library.wh_heap_destroy(heap))
    after = torch.cuda.memory_allocated()
    library.wh_device_close(device)
    print(f"PyTorch had {before} bytes out, {during} with the heap, {after} after it; "
          f"{left.value} blocks of 1 KiB")
    return 0 if during >= before + (64 << 20) and after == before and left.value > 60000 else 1


if __name__ == "__main__":
    sys.exit(main())
