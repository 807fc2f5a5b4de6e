#!/usr/bin/env python3
"""jit.py: kernels that NVRTC compiles are linked with the fatbins of the device library: by
nvJitLink, of machine code, PTX and LTO-IR, and by the driver (cuLink). What comes out is launched
where there is a GPU: blocks of 1,024 threads allocate, write, check and free.

    jit.py <shared library> <include folder> <nvcc> <fatbins...>

Linking needs no GPU, launching does. Exit status 77: there is no NVRTC or nvJitLink.
"""
import ctypes
import glob
import os
import pathlib
import re
import sys
import time

THREADS, BLOCKS = 1024, 40
N = THREADS * BLOCKS
KERNELS = """
#include <warpheap/warpheap.h>
extern "C" __global__ void take(wh_heap_ref heap, unsigned **out, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = static_cast<unsigned *>(wh_malloc(heap, 16 + i % 8000));
        if (out[i] != nullptr) out[i][0] = out[i][3] = i;
    }
}
extern "C" __global__ void give(wh_heap_ref heap, unsigned **out, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const bool good = out[i] != nullptr && out[i][0] == i && out[i][3] == i;
        wh_free(heap, out[i]);
        out[i] = good ? nullptr : reinterpret_cast<unsigned *>(8);
    }
}
"""
INPUTS = {"CUBIN": 1, "PTX": 2, "LTOIR": 3, "FATBIN": 4}  # of nvJitLink
CU_INPUTS = {"CUBIN": 0, "PTX": 1, "FATBIN": 2}  # of the driver
WAYS = (  # by what, NVRTC's options without the architecture, what it makes, the linker's options
    ("nvJitLink", ["-rdc=true"], "CUBIN", []),
    ("nvJitLink", ["-rdc=true"], "PTX", []),
    ("nvJitLink", ["-dlto"], "LTOIR", ["-lto"]),
    ("driver", ["-rdc=true"], "CUBIN", []),
    ("driver", ["-rdc=true"], "PTX", []))


class Failed(Exception):
    pass


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def library(name, nvcc):
    """A library of the toolkit of this nvcc, or of the system."""
    toolkit = pathlib.Path(os.path.realpath(nvcc)).parent.parent
    for folder in ("lib64", "lib", "targets/x86_64-linux/lib"):
        found = sorted(glob.glob(f"{toolkit}/{folder}/lib{name}.so.[0-9]*"))
        if found:
            return ctypes.CDLL(found[0])
    skip(f"there is no lib{name} beside {nvcc}")


def text_of(size, get, *handle):
    n = ctypes.c_size_t()
    size(*handle, ctypes.byref(n))
    data = ctypes.create_string_buffer(max(n.value, 1))
    get(*handle, data)
    return data.raw[:n.value]


def compile_kernels(nvrtc, include, arch, options, kind):
    """What NVRTC makes of the kernels."""
    arch = arch.replace("sm_", "compute_") if kind == "PTX" else arch
    words = [f"-I{include}", "-DWH_LINKED=1", f"-arch={arch}", *options]
    argv = (ctypes.c_char_p * len(words))(*[word.encode() for word in words])
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), KERNELS.encode(), b"user.cu", 0, None, None)
    result = nvrtc.nvrtcCompileProgram(program, len(words), argv)
    log = text_of(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    if result != 0 or log.strip(b"\0\n "):
        raise Failed(f"NVRTC: {result} {log.decode(errors='replace')[:2000]}")
    return text_of(getattr(nvrtc, f"nvrtcGet{kind}Size"), getattr(nvrtc, f"nvrtcGet{kind}"),
                   program)


def nvjitlink(linker, arch, options, inputs):
    """Linked machine code, and what the linker says of it."""
    words = [f"-arch={arch}", "-verbose", *options]
    argv = (ctypes.c_char_p * len(words))(*[word.encode() for word in words])
    handle = ctypes.c_void_p()
    result = linker.nvJitLinkCreate(ctypes.byref(handle), len(words), argv)
    for kind, data in inputs:
        result = result or linker.nvJitLinkAddData(handle, INPUTS[kind], data, len(data), b"in")
    result = result or linker.nvJitLinkComplete(handle)
    log = b"".join(text_of(getattr(linker, f"nvJitLinkGet{what}LogSize"),
                           getattr(linker, f"nvJitLinkGet{what}Log"), handle)
                   for what in ("Error", "Info")).decode(errors="replace")
    if result != 0:
        raise Failed(f"nvJitLink: {result} {log[:2000]}")
    registers = [int(n) for n in re.findall(r"used (\d+) registers", log)]
    if not registers or max(registers) > 64:
        raise Failed(f"kernels with {registers} registers")
    print(f"{registers} registers, ", end="")
    return text_of(linker.nvJitLinkGetLinkedCubinSize, linker.nvJitLinkGetLinkedCubin, handle)


class Driver:
    """The GPU, or none."""

    def __init__(self):
        self.arch = None
        try:
            self.cuda = ctypes.CDLL("libcuda.so.1")
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self.must(self.cuda.cuInit(0))
            self.must(self.cuda.cuDeviceGet(ctypes.byref(device), 0))
            self.must(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
            self.must(self.cuda.cuCtxSetCurrent(context))
            capability = [ctypes.c_int(), ctypes.c_int()]
            for attribute, value in zip((75, 76), capability):
                self.must(self.cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device))
            self.arch = "sm_{}{}".format(*(value.value for value in capability))
        except (OSError, Failed) as e:
            print(f"linked, not launched: {e}")

    def must(self, result):
        if result != 0:
            raise Failed(f"the driver says {result}")

    def link(self, inputs):
        state, data, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        self.must(self.cuda.cuLinkCreate_v2(0, None, None, ctypes.byref(state)))
        for kind, what in inputs:
            self.must(self.cuda.cuLinkAddData_v2(state, CU_INPUTS[kind], what,
                                                 ctypes.c_size_t(len(what)), b"in", 0, None, None))
        self.must(self.cuda.cuLinkComplete(state, ctypes.byref(data), ctypes.byref(size)))
        return ctypes.string_at(data, size.value)

    def launch(self, code, handle):
        """Launches both kernels; how many threads had what they wanted."""
        module, function, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        self.must(self.cuda.cuModuleLoadData(ctypes.byref(module), code))
        self.must(self.cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(8 * N)))
        n = ctypes.c_uint32(N)
        arguments = (ctypes.c_void_p * 3)(*(ctypes.addressof(x) for x in (handle, memory, n)))
        for name in (b"take", b"give"):
            self.must(self.cuda.cuModuleGetFunction(ctypes.byref(function), module, name))
            self.must(self.cuda.cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, None,
                                               arguments, None))
            self.must(self.cuda.cuCtxSynchronize())
        words = (ctypes.c_uint64 * N)()
        self.must(self.cuda.cuMemcpyDtoH_v2(words, memory, ctypes.c_size_t(8 * N)))
        self.must(self.cuda.cuMemFree_v2(memory))
        self.must(self.cuda.cuModuleUnload(module))
        return sum(word == 0 for word in words)


class Options(ctypes.Structure):  # what comes behind these fields stays at its default
    _fields_ = [("struct_bytes", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
                ("allocator", ctypes.c_char_p), ("device", ctypes.c_void_p),
                ("memory", ctypes.c_void_p)]


class Kind(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_uint64), ("allocator", ctypes.c_char_p),
                ("handle_bytes", ctypes.c_uint64), ("layout", ctypes.c_uint64),
                ("version", ctypes.c_uint32), ("target", ctypes.c_int)]


class Heap:
    def __init__(self, path, include):
        self.lib = ctypes.CDLL(path)
        self.lib.wh_heap_handle_bytes.restype = ctypes.c_uint64
        self.lib.wh_last_error_text.restype = ctypes.c_char_p
        device, self.heap = ctypes.c_void_p(), ctypes.c_void_p()
        self.must(self.lib.wh_device_open(ctypes.byref(device), b"cuda", None))
        options = Options(ctypes.sizeof(Options), 1 << 30, None, device, None)
        self.must(self.lib.wh_heap_create(ctypes.byref(self.heap), ctypes.byref(options)))
        size = self.lib.wh_heap_handle_bytes(self.heap)
        text = pathlib.Path(include, "warpheap/detail/version.h").read_text(encoding="utf-8")
        x, y, z = (int(re.search(rf"WH_VERSION_{part} (\d+)", text)[1])
                   for part in ("MAJOR", "MINOR", "PATCH"))
        kind = Kind(ctypes.sizeof(Kind), b"tessera", size, 0, x * 10000 + y * 100 + z, 1)
        self.handle = ctypes.create_string_buffer(size)
        self.must(self.lib.wh_heap_copy_handle(self.heap, ctypes.byref(kind), self.handle))

    def must(self, status):
        if status != 0:
            raise Failed(f"warpheap says {status}: {self.lib.wh_last_error_text().decode()}")

    def check(self):
        self.must(self.lib.wh_heap_check(self.heap, None))


def main():
    shared, include, nvcc = sys.argv[1:4]
    nvrtc, linker = library("nvrtc", nvcc), library("nvJitLink", nvcc)
    device = [("FATBIN", pathlib.Path(path).read_bytes()) for path in sys.argv[4:]]
    gpu = Driver()
    heap = Heap(shared, include) if gpu.arch else None
    failed = 0
    for by, options, kind, more in WAYS:
        if by == "driver" and not gpu.arch:
            continue
        arch = gpu.arch or "sm_90"
        try:
            begin = time.monotonic()
            inputs = [(kind, compile_kernels(nvrtc, include, arch, options, kind)), *device]
            code = gpu.link(inputs) if by == "driver" else nvjitlink(linker, arch, more, inputs)
            print(f"{kind} and the fatbins by {by}: {time.monotonic() - begin:.1f} s", end="")
            if gpu.arch:
                served = gpu.launch(code, heap.handle)
                heap.check()
                print(f", {served} of {N} threads served", end="")
                failed += served != N
            print()
        except Failed as e:
            failed += 1
            print(f"FAIL {kind} by {by}: {e}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
