#!/usr/bin/env python3
"""abi_jit.py: a kernel that NVRTC compiles with warpheap_abi.h alone, and links by nvJitLink with
what warpheap::abi installs for that: machine code in a fatbin, PTX, and LTO-IR with the fatbins of
warpheap::device. So it does LTO-IR that says malloc, with warpheap_malloc.ltoir: no call of CUDA's
is left, and no values where ours would overwrite them. PTX of clang as a CUDA compiler, where it
is, links, too.

    abi_jit.py <nvcc> <source folder> <warpheap_abi.fatbin>

No GPU is needed. Exit status 77: there is no NVRTC or nvJitLink.
"""
import ctypes
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gpu" / "linked"))
import jit  # noqa: E402
import live  # noqa: E402

ARCH = "sm_90"
SLOW = ["-fatbin", f"-arch={ARCH}", "-Ofc", "max"]  # whether it links is the question
MALLOC = """extern "C" __global__ void plain(int **out) {
    int *p = new int[5];
    out[threadIdx.x] = p != nullptr ? static_cast<int *>(malloc(p[1])) : nullptr;
    delete[] p;
}
"""
OURS = ("malloc", "free", "__cuda_syscall_aligned_malloc")
# As clang sees it without the headers of a toolkit, of which it may know only older ones.
CLANG = """#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#include <warpheap/warpheap_abi.h>
extern "C" __global__ void by_clang(wh_abi1_heap heap, void **out) {
    out[0] = wh_abi1_malloc(heap, 40);
}
"""


def make(nvcc, root, source, output, options):
    """A file of device code, as cmake/WhAbi.cmake and WhDevice.cmake make it."""
    done = subprocess.run([nvcc, f"-I{root}/include", "-std=c++17", "-rdc=true", *options,
                           f"{root}/src/device/{source}", "-o", output], check=False,
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise jit.Failed(f"nvcc {source}: {done.stdout}{done.stderr}")
    return pathlib.Path(output).read_bytes()


def compiled(nvrtc, include, source, options, kind):
    """What NVRTC makes of a kernel."""
    words = [f"-I{include}", *options]
    argv = (ctypes.c_char_p * len(words))(*[word.encode() for word in words])
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"user.cu", 0, None, None)
    result = nvrtc.nvrtcCompileProgram(program, len(words), argv)
    log = jit.text_of(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    if result != 0 or log.strip(b"\0\n "):
        raise jit.Failed(f"NVRTC: {result} {log.decode(errors='replace')[:2000]}")
    return jit.text_of(getattr(nvrtc, f"nvrtcGet{kind}Size"), getattr(nvrtc, f"nvrtcGet{kind}"),
                       program)


def by_clang(include):
    """PTX that clang makes; None: there is no clang that does."""
    clang = shutil.which("clang++") or shutil.which("clang++-14")
    if clang is None:
        return None
    done = subprocess.run(
        [clang, "-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_75", "-nocudainc",
         "-nocudalib", "-fgpu-rdc", "-O2", "-S", f"-I{include}", "-o", "-", "-"],
        input=CLANG.encode(), check=False, capture_output=True)
    return done.stdout if done.returncode == 0 else None


def symbols(code, undefined=False):
    """The functions and variables that linked code has for others, or leaves to the driver."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        said = subprocess.run(["readelf", "--syms", "--wide", file.name], check=False,
                              capture_output=True, text=True).stdout
    return {line.split()[-1] for line in said.splitlines()
            if " GLOBAL " in line and (" UND " in line) == undefined}


def has(code, *names):
    """The linked code has these functions, and leaves none of them to be found by the driver."""
    missing = [name for name in names if name not in symbols(code)]
    if missing:
        raise jit.Failed(f"the linked code has no {', '.join(missing)}")


def replaced(nvcc, code):
    """LTO has put our malloc in the place of CUDA's, and safely so."""
    left = symbols(code, undefined=True).intersection(OURS)
    if left:
        raise jit.Failed(f"calls of CUDA's {', '.join(left)} are left")
    has(code, "wh_malloc_heap", "live_malloc", "live_free", "plain")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        status, said = live.check(nvcc, file.name)
    if status == 1:
        raise jit.Failed(said)
    print(said)


def main():
    nvcc, root, fatbin = sys.argv[1:4]
    fatbin = pathlib.Path(fatbin).read_bytes()
    nvrtc, linker = jit.library("nvrtc", nvcc), jit.library("nvJitLink", nvcc)
    here = pathlib.Path(root) / "tests/compile"
    user = (here / "abi_user.cu").read_text(encoding="utf-8")
    include = f"{root}/include"
    with tempfile.TemporaryDirectory() as work:
        def file(source, *options):
            return make(nvcc, root, source, f"{work}/file", options)
        malloc = file("malloc.cu", "-ltoir", "-dlto", "-arch=sm_75")
        ltoir = file("abi.cu", "-ltoir", "-dlto", "-arch=sm_75", "-DWH_LINKED=1")
        slow = [("FATBIN", file("linked.cu", *SLOW, f"-DWH_LINKED_DEFINE={part}",
                                f"-maxrregcount={cap}")) for part, cap in ((1, 40), (2, 32))]
        for name, options, kind, words, rest in (
                ("machine code and the fatbin", ["-rdc=true", f"-arch={ARCH}"], "CUBIN", [],
                 [("FATBIN", fatbin)]),
                ("PTX and the fatbin", ["-rdc=true", "-arch=compute_90"], "PTX", [],
                 [("FATBIN", fatbin)]),
                ("LTO-IR, and the slow paths' fatbins", ["-dlto", f"-arch={ARCH}"], "LTOIR",
                 ["-lto", "-maxrregcount=64"], [("LTOIR", ltoir), *slow])):
            code = compiled(nvrtc, include, user, options, kind)
            begin = time.monotonic()
            linked = jit.nvjitlink(linker, ARCH, words, [(kind, code), *rest])
            if kind != "LTOIR":
                has(linked, "abi_user", "wh_abi1_malloc")
            print(f"{name}: {time.monotonic() - begin:.2f} s, {len(linked)} bytes")
        code = compiled(nvrtc, include, MALLOC + (here / "live_user.cu").read_text("utf-8"),
                        ["-dlto", f"-arch={ARCH}"], "LTOIR")
        linked = jit.nvjitlink(linker, ARCH, ["-lto", "-maxrregcount=64"], [
            ("LTOIR", code), ("LTOIR", malloc), ("LTOIR", ltoir), *slow])
        replaced(nvcc, linked)
        print("LTO-IR that says malloc: it is replaced")
        theirs = by_clang(include)
        if theirs is not None:
            linked = jit.nvjitlink(linker, ARCH, [], [("PTX", theirs), ("FATBIN", fatbin)])
            has(linked, "by_clang", "wh_abi1_malloc")
            print("PTX of clang links")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except jit.Failed as e:
        print(f"FAIL {e}")
        sys.exit(1)
