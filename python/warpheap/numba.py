"""Device functions for kernels of Numba-CUDA, over wh_abi1_malloc and its like.

    from numba import cuda
    from warpheap import Heap, numba as wh

    @cuda.jit
    def kernel(heap, lists, n):           # heap: heap.handle, a number of 64 bits
        i = cuda.grid(1)
        if i < n:
            p = wh.malloc(heap, 8 * (i + 1))
            if p != 0:                    # 0: the heap is full
                a = wh.array(p, i + 1, float64)
                a[i] = 1.5
            lists[i] = p

Addresses are uint64. Each function links get_link() into the kernel. The calls that a whole warp
makes together are not here: Numba may move or copy them (numba/numba#9503).
numba-cuda 0.20 or newer; 0.30 needs NumPy before 2.5.
"""
try:
    from numba import cuda
    from numba.cuda import types
    from numba.cuda.extending import intrinsic
    from numba.cuda.np.arrayobj import np_cfarray
    from numba.cuda.typing import signature as _signature
except (ImportError, AttributeError) as error:  # np.row_stack, which NumPy 2.5 has no more
    raise ImportError("warpheap.numba: numba-cuda 0.20 or newer is needed, and NumPy before 2.5 "
                      f"for numba-cuda 0.30: {error}") from error

from ._paths import get_link

_LINK = get_link()

# name: signature of Numba. No function returns void, of which numba-cuda makes a wrong prototype.
_DECLARED = {
    "malloc": "uint64(uint64, uint64)",
    "free": "int32(uint64, uint64)",
    "calloc": "uint64(uint64, uint64, uint64)",
    "realloc": "uint64(uint64, uint64, uint64)",
    "aligned_alloc": "uint64(uint64, uint64, uint64)",
    "usable_size": "uint64(uint64, uint64)",
    "owns": "int32(uint64, uint64)",
    "fits": "int32(uint64)",
}


def _declare(name):
    return cuda.declare_device(f"wh_abi1_{name}", _DECLARED[name], link=_LINK, abi="c")


malloc = _declare("malloc")                # (heap, bytes): an address, 0: the heap is full
free = _declare("free")                    # (heap, p)
calloc = _declare("calloc")                # (heap, n, bytes): n * bytes bytes of zeros
realloc = _declare("realloc")              # (heap, p, bytes)
aligned_alloc = _declare("aligned_alloc")  # (heap, align, bytes)
usable_size = _declare("usable_size")      # (heap, p)
owns = _declare("owns")                    # (heap, p): 1 if p points into the heap
fits = _declare("fits")                    # (heap): 1 if this code can use the heap


# These are intrinsics, and not device functions, which Numba compiles only where there is a GPU.

def _pointer(context, builder, signature, args, element):
    """The address, the first argument, as a pointer to elements of a type."""
    word = context.cast(builder, args[0], signature.args[0], types.uint64)
    return builder.inttoptr(word, context.get_data_type(element).as_pointer())


def _element(context, builder, signature, args, element):
    index = context.cast(builder, args[1], signature.args[1], types.int64)
    return builder.gep(_pointer(context, builder, signature, args, element), [index])


@intrinsic
def array(typing_context, address, shape, dtype):
    """The memory at an address as an array: shape, a number or a tuple; dtype, a type of Numba
    that the kernel names (float32). Nobody owns it."""
    ndim = len(shape) if isinstance(shape, types.BaseTuple) else 1
    made = types.Array(dtype.dtype, ndim, "C")
    like_c = _signature(made, types.CPointer(dtype.dtype), shape)

    def build(context, builder, signature, args):
        pointer = _pointer(context, builder, signature, args, dtype.dtype)
        return np_cfarray(context, builder, like_c, [pointer, args[1]])

    return made(address, shape, dtype), build


@intrinsic
def load(typing_context, address, index, dtype):
    """Element `index` of those of a type at an address."""
    def build(context, builder, signature, args):
        place = _element(context, builder, signature, args, dtype.dtype)
        return context.unpack_value(builder, dtype.dtype, place)

    return dtype.dtype(address, index, dtype), build


@intrinsic
def store(typing_context, address, index, value, dtype):
    """The same, written."""
    def build(context, builder, signature, args):
        place = _element(context, builder, signature, args, dtype.dtype)
        value_of_type = context.cast(builder, args[2], signature.args[2], dtype.dtype)
        context.pack_value(builder, dtype.dtype, value_of_type, place)
        return context.get_dummy_value()

    return types.void(address, index, value, dtype), build
