#!/usr/bin/env python3
"""dlopen.py: a program that was not linked with the library loads it and calls it.

    dlopen.py <libwarpheap.so>
"""
import ctypes
import sys

NO_DEVICE = b"WH_NO_DEVICE"

lib = ctypes.CDLL(sys.argv[1])
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
