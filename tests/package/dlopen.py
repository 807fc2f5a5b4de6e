#!/usr/bin/env python3
"""dlopen.py: a program that was not linked with the library loads it and calls it.

    dlopen.py <libwarpheap.so | libwarpheap_graph.so | ...>

Extensions find the main library beside themselves.
"""
import ctypes
import sys

NO_DEVICE = b"WH_NO_DEVICE"

lib = ctypes.CDLL(sys.argv[1])
extensions = {"_graph": ["graph"], "_ops": ["join", "group"], "_kdtree": ["kdtree"]}
made_by_it = [calls for name, calls in extensions.items() if name in sys.argv[1]]
if made_by_it:
    text = lib.wh_last_error_text
    text.restype = ctypes.c_char_p
    for name in made_by_it[0]:
        made = ctypes.c_void_p()
        create, destroy = lib[f"wh_{name}_create"], lib[f"wh_{name}_destroy"]
        status = create(ctypes.byref(made), (ctypes.c_uint64 * 32)(8))
        print(name, status, text().decode())
        if b"struct_bytes is 8" not in text() or destroy(None) != 0:
            sys.exit(f"the options of a {name} have another size, and this was not said")
    sys.exit(0)
if "_checkpoint" in sys.argv[1]:
    lib.wh_last_error_text.restype = ctypes.c_char_p
    loaded, moved = ctypes.c_void_p(), ctypes.c_int64(1)
    status = lib.wh_heap_load(ctypes.byref(loaded), b"/no/such", None, ctypes.byref(moved))
    text = lib.wh_last_error_text().decode()
    print("load", status, text)
    sys.exit(0 if status != 0 and "/no/such: cannot open" in text else "it has opened no file")
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
