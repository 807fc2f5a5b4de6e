"""warpheap: malloc and free for GPU kernels, from Python.

    import warpheap
    with warpheap.Heap(64 << 20) as heap:      # on the GPU, or on the simulated device
        kernel(..., heap.handle)               # a kernel that is linked with get_link()
        print(heap.stats())

get_include() and get_link() are for compilers and linkers of kernels; `python -m warpheap` prints
them. docs/PYTHON.md of the project has more.
"""
from ._device import Device, devices
from ._errors import (ArgumentError, ClosedError, CorruptError, DeviceError, Error, FileError,
                      NoDeviceError, OutOfMemoryError, UnsupportedError)
from ._heap import Gauge, Heap, allocators, options, read_gauge
from ._paths import get_include, get_library, get_link, get_links
from ._stats import Stats
from ._views import View

__version__ = "0.2.0"

__all__ = [
    "ArgumentError", "ClosedError", "CorruptError", "Device", "DeviceError", "Error", "FileError",
    "Gauge", "Heap", "NoDeviceError", "OutOfMemoryError", "Stats", "UnsupportedError", "View",
    "allocators", "devices", "get_include", "get_library", "get_link", "get_links", "options",
    "read_gauge",
]
