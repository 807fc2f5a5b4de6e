"""Views: bytes of a heap's memory as arrays of NumPy, CuPy, PyTorch and others."""
import ctypes
import math
from ctypes import CFUNCTYPE, POINTER, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint64, \
    c_void_p

from . import _errors

# The type strings of NumPy that make sense in device memory: kind, and sizes in bytes.
_KINDS = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
_DLPACK_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_NAMES = {"bool": "b1", "int": "i", "uint": "u", "float": "f", "complex": "c"}
DLPACK_CPU, DLPACK_CUDA = 1, 2


def type_string(dtype):
    """A type of an element as kind and bytes: "f4" of "float32", "<f4", a NumPy type, ..."""
    text = getattr(dtype, "str", None) or getattr(dtype, "name", None) or dtype
    if isinstance(dtype, type):  # numpy.float32, int, float
        text = {int: "i8", float: "f8", bool: "b1"}.get(dtype, dtype.__name__)
    text = str(text).rsplit(".", 1)[-1]  # torch.float32
    name = text.rstrip("0123456789")
    if name in _NAMES and name != "bool" and text != name:
        text = f"{_NAMES[name]}{int(text[len(name):]) // 8}"
    text = _NAMES["bool"] if text == "bool" else text.lstrip("<|=")
    if text[:1] not in _KINDS or text[1:] not in map(str, _KINDS[text[:1]]):
        raise TypeError(f"{dtype!r} is no type of a number of fixed size: use \"f4\" or float32")
    return text


class _Device(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("ordinal", c_int32)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", _Device), ("ndim", c_int32), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("offset", c_uint64)]


class _Managed(ctypes.Structure):
    pass


_DELETER = CFUNCTYPE(None, POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", _DELETER)]
_DESTRUCTOR = CFUNCTYPE(None, c_void_p)
_api = ctypes.pythonapi
_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, ctypes.c_char_p, _DESTRUCTOR)(
    ("PyCapsule_New", _api))
_capsule_is = ctypes.PYFUNCTYPE(c_int, c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_capsule_get = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api))
_NAME = b"dltensor"
_given_out = {}  # address of a _Managed: it, its shape, and the view, until its deleter is called


@_DELETER
def _delete(managed):
    _given_out.pop(ctypes.addressof(managed.contents), None)


@_DESTRUCTOR
def _destroy(capsule):  # of a capsule that nobody has taken
    if _capsule_is(capsule, _NAME):
        _given_out.pop(_capsule_get(capsule, _NAME), None)


class View:
    """Memory of a heap, from an address on, as an array: for numpy.asarray (the simulated device),
    cupy.asarray, torch.as_tensor and others that know __cuda_array_interface__ or DLPack.

    A view of a closed heap raises ClosedError. Arrays that were made of it before keep the heap's
    memory until they are gone. Nobody owns a block: after its free the view shows what comes next.
    """

    def __init__(self, core, address, shape, kind):
        self._core = core
        self._exported = False
        self.address = address
        self.shape = shape
        self.kind = kind
        self._size = int(kind[1:])
        core.views.add(self)

    @property
    def nbytes(self):
        return math.prod(self.shape) * self._size

    @property
    def closed(self):
        core = self._core
        return core is None or core.closed

    def _live(self):
        core = self._core
        if core is None or core.closed:
            raise _errors.ClosedError("the heap of this view is closed")
        return core

    def _export(self):
        """From now on the heap's memory stays as long as the view. It may be gone already: a trim
        took the memory of a block that was freed."""
        core = self._live()
        with core.device._lock:  # another thread may close the heap
            self._live()
            core.bounds(self.address, self.nbytes)
            self._exported = True

    def _interface(self, device, version):
        target = self._live().device.target
        if target != device:
            where = {"sim": "the simulated device: use numpy.asarray",
                     "cuda": "a GPU: use cupy.asarray or torch.as_tensor, or .tobytes()"}
            raise AttributeError(f"the heap lies on {where[target]}")
        self._export()
        order = "|" if self._size == 1 else "<"
        return {"shape": self.shape, "typestr": order + self.kind, "data": (self.address, False),
                "strides": None, "version": version}

    @property
    def __cuda_array_interface__(self):
        return self._interface("cuda", 3)

    @property
    def __array_interface__(self):
        return self._interface("sim", 3)

    def __dlpack_device__(self):
        info = self._live().device.info
        return (DLPACK_CUDA, info["ordinal"]) if info["target"] == "cuda" else (DLPACK_CPU, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        kind, ordinal = self.__dlpack_device__()
        if copy or (dl_device is not None and tuple(dl_device) != (kind, ordinal)):
            raise BufferError("a view lends its memory where it is, and makes no copy")
        self._export()
        shape = (c_int64 * len(self.shape))(*self.shape)
        tensor = _Tensor(self.address, _Device(kind, ordinal), len(self.shape),
                         _DLPACK_KINDS[self.kind[0]], 8 * self._size, 1, shape, None, 0)
        managed = _Managed(tensor, None, _delete)
        address = ctypes.addressof(managed)
        _given_out[address] = (managed, shape, self)
        return _capsule_new(address, _NAME, _destroy)

    def tobytes(self):
        """A copy of what is there now, from any device."""
        return self._live().read(self.address, self.nbytes)

    def frombytes(self, data):
        """Copies bytes, or anything with the buffer protocol, there: as many as the view has."""
        data = memoryview(data).cast("B")
        if data.nbytes != self.nbytes:
            raise _errors.ArgumentError("WH_BAD_ARGUMENT", f"{data.nbytes} bytes do not fit a view "
                                        f"of {self.nbytes}")
        self._live().write(self.address, data)

    def numpy(self):
        """A NumPy array: the memory itself on the simulated device, a copy of a GPU's."""
        import numpy
        if self._live().device.target == "sim":
            return numpy.asarray(self)
        return numpy.frombuffer(bytearray(self.tobytes()), dtype=self.kind).reshape(self.shape)

    def _end(self):
        """The heap is closed: the view lets go of it, unless an array has its memory."""
        if not self._exported:
            self._core = None

    def __len__(self):
        if not self.shape:
            raise TypeError("a view of one element, of shape (), has no length")
        return self.shape[0]

    def __repr__(self):
        state = " of a closed heap" if self.closed else ""
        return f"<warpheap.View {self.kind} {self.shape} at 0x{self.address:x}{state}>"
