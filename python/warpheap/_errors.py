"""Exceptions: one class for each status of the library that callers tell apart."""


class Error(Exception):
    """A call of the library failed. status: its name, "WH_BAD_ARGUMENT"; text: what the library
    said about it."""

    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status
        self.text = text


class ArgumentError(Error, ValueError):
    """An argument is out of its range, or does not fit the others."""


class OutOfMemoryError(Error, MemoryError):
    """The device or the host has not enough memory."""


class UnsupportedError(Error):
    """This allocator, device or build does not offer that, or this link between two GPUs."""


class NoDeviceError(Error):
    """There is no such device: no GPU, no driver, or a library without CUDA."""


class DeviceError(Error):
    """The device reported an error, of a kernel for example."""


class CorruptError(Error):
    """A check found a broken invariant. report: how many, and the first one."""

    report = None


class FileError(Error, OSError):
    """A file could not be read or written, or is of another kind."""

    def __str__(self):
        return f"{self.status}: {self.text}"


class ClosedError(Error, ValueError):
    """The heap or device is closed, or the view belongs to a closed heap."""

    def __init__(self, text):
        super().__init__("closed", text)


CLASSES = {
    "WH_BAD_ARGUMENT": ArgumentError,
    "WH_HEAP_TOO_SMALL": ArgumentError,
    "WH_UNKNOWN_ALLOCATOR": ArgumentError,
    "WH_NO_DEVICE": NoDeviceError,
    "WH_OUT_OF_MEMORY": OutOfMemoryError,
    "WH_RESERVE_FULL": OutOfMemoryError,
    "WH_WRONG_TARGET": ArgumentError,
    "WH_UNSUPPORTED": UnsupportedError,
    "WH_NO_PEER_ACCESS": UnsupportedError,
    "WH_NO_PEER_ATOMICS": UnsupportedError,
    "WH_DEVICE_ERROR": DeviceError,
    "WH_CORRUPT": CorruptError,
    "WH_IO_ERROR": FileError,
    "WH_BAD_FORMAT": FileError,
}
