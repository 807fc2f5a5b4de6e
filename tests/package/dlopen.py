#!/usr/bin/env python3
"""dlopen.py: a program that was not linked with the library loads it and calls it.

    dlopen.py <libwarpheap.so | libwarpheap_graph.so>

The one of graphs finds the other one beside itself.
"""
import ctypes
import sys

NO_DEVICE = b"WH_NO_DEVICE"

lib = ctypes.CDLL(sys.argv[1])
if "graph" in sys.argv[1]:
    graph = ctypes.c_void_p()
    status = lib.wh_graph_create(ctypes.byref(graph), (ctypes.c_uint64 * 32)(8))
    text = lib.wh_last_error_text
    text.restype = ctypes.c_char_p
    print("graph", status, text().decode())
    if b"struct_bytes is 8" not in text() or lib.wh_graph_destroy(None) != 0:
        sys.exit("the options of a graph have another size, and this was not said")
    sys.exit(0)
lib.wh_status_name.restype = ctypes.c_char_p
lib.wh_device_close.argtypes = [ctypes.c_void_p]
for spec, expected in ((b"sim", b"WH_OK"), (b"cuda", None)):
    device = ctypes.c_void_p()
    status = lib.wh_device_open(ctypes.byref(device), spec, None)
    name = lib.wh_status_name(status)
    print(spec.decode(), name.decode())
    if expected is None:
        expected = b"WH_OK" if lib.wh_device_cuda_count() > 0 else NO_DEVICE
    if name != expected:
        sys.exit(f"{spec}: {name}, not {expected}")
    lib.wh_device_close(device)
