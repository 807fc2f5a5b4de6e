#!/usr/bin/env python3
"""nvrtc.py: kernels that include our headers compile under NVRTC with -I <include> alone.

    nvrtc.py headers <include folder> <C compiler> [<nvcc>]
    nvrtc.py wheels <include folder> <folder> [<nvcc>]
    nvrtc.py clang <include folder> <folder> [<nvcc>]

headers: by the toolkit's library itself: every allocator, old and new architectures, C++11 to
C++20, beside typedefs and macros of other libraries. wheels: as CuPy and cuda.core compile, which
pip installs into <folder>. clang: likewise, by clang as a CUDA compiler. Nothing runs, so no GPU
and no driver are needed. Full optimization of the default allocator takes 10 to 40 s, so most
is compiled to PTX, and fast. Skipped (77) where there is no NVRTC, or nothing to install from.
"""
import ctypes
import ctypes.util
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FAST = "--Ofast-compile=max"
PTX = [FAST, "-arch=compute_90"]
KERNEL = """#include <warpheap/warpheap.h>
extern "C" __global__ void k(wh_heap_ref h, int **out) {
    out[threadIdx.x] = static_cast<int *>(wh_malloc(h, 64));
    wh_free(h, out[threadIdx.x]);
}
"""
CALLS = """#include <warpheap/warpheap.h>
typedef struct args { wh_heap_ref heap; void **out; } args;
WH_KERNEL(every_call, args, a) {
    void *p = wh_realloc(a.heap, wh_calloc(a.heap, 3, 5), 40);
    p = wh_owns(a.heap, p) ? p : wh_aligned_alloc(a.heap, 64, wh_usable_size(a.heap, p));
    wh_free(a.heap, p);
    wh_free_warp(a.heap, wh_activemask(), wh_malloc_warp(a.heap, wh_activemask(), 100));
    a.out[wh_thread_id()] = wh_malloc(a.heap, 16);
}
"""
SCAN = """#include <warpheap/core/grid_scan.h>
typedef struct args { const unsigned *in; unsigned long *sums, n; } args;
#define NUMBER(a, i) (a)->in[i]
WH_GRID_SCAN(scan, args, a, a.n, NUMBER, a.sums)
"""
TREE = """#include <warpheap/kdtree_device.h>
extern "C" __global__ void every_ray(wh_kdtree_ref tree, const wh_kdtree_ray *rays,
                                     wh_kdtree_hit *hits) {
    const unsigned i = threadIdx.x;
    hits[3 * i] = wh_kdtree_closest(tree, rays[i]);
    hits[3 * i + 1] = wh_kdtree_any(tree, rays[i]);
    hits[3 * i + 2] = wh_kdtree_hit_of_all(tree, rays[i], 0);
}
"""
CONTAINERS = """#include <warpheap/warpheap.hpp>
extern "C" __global__ void every_container(wh::heap_ref heap, wh::queue<int> *queue,
                                           wh::hash_map<int, float> *map, int *out) {
    wh::vector<int> vector(heap);
    wh::string text(heap);
    int x = 0;
    if (vector.push_back(1) && text.append_float(0.5) && queue->push(2) && queue->pop(x)) {
        *out = map->insert(x, 1).failed() ? vector[0] : *text.c_str();
    }
    wh::destroy(heap, wh::make<int>(heap, 3));
    wh::destroy(heap, new (heap) int(4));
}
"""
# The operator that C++17 takes for a type of a larger alignment; the other one would do, silently.
ALIGNED = """#include <warpheap/warpheap.hpp>
extern "C" __global__ void aligned_new(wh::heap_ref heap, void **out) {
    out[0] = new (static_cast<std::align_val_t>(64), heap) int;
}
"""
ARENA = """#include <warpheap/arena.h>
extern "C" __global__ void every_arena(wh_heap_ref heap, void **out) {
    WH_SHARED(wh_block_arena, shared, 1);
    wh_arena lane = wh_arena_open(0, 0);
    wh_warp_arena warp = wh_warp_arena_open(WH_FULL_WARP, 0, 0);
    wh_block_arena_open(heap, shared, 0, 0);
    out[0] = wh_arena_malloc(heap, &lane, 16);
    out[1] = wh_warp_arena_malloc(heap, &warp, 16);
    out[2] = wh_block_arena_malloc(heap, shared, 16);
    wh_arena_close(heap, &lane);
    wh_warp_arena_close(heap, &warp);
    wh_block_arena_close(heap, shared);
}
"""
# What other libraries say uint64_t and the like are.
TYPES = "typedef unsigned char uint8_t; typedef int int32_t; typedef unsigned int uint32_t;\n"
LONG = TYPES + """typedef long int64_t; typedef unsigned long uint64_t;
typedef unsigned long uintptr_t; typedef unsigned long size_t;
"""
LONG_LONG = TYPES + """typedef long long int64_t; typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
"""
MACROS = """#define uint32_t unsigned
#define uint64_t unsigned long long
#define UINT64_MAX 0xffffffffffffffffull
#define offsetof(t, m) ((size_t)&reinterpret_cast<char const volatile &>(((t *)0)->m))
"""
IN_USE = "__device__ uint64_t theirs; __device__ uint32_t theirs_too;\n"
WORDS = """#define NAME "mine"
#define EACH 17
#define malloc(n) wh_malloc(h, n)
#define free(p) wh_free(h, p)
#define linux 1
#define I 1i
"""


def skip(why):
    print(f"nvrtc: skipped, {why}")
    sys.exit(77)


def library(nvcc):
    """Path of NVRTC, or None: beside nvcc, or where the system looks."""
    places = [os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))] if nvcc else []
    places += [os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    for place in filter(None, places):
        for folder in ("lib64", "lib", "targets/x86_64-linux/lib"):
            found = sorted(glob.glob(f"{place}/{folder}/libnvrtc.so.[0-9]*"))
            if found:
                return found[0]
    return ctypes.util.find_library("nvrtc")


class Nvrtc:
    def __init__(self, path, include):
        self.lib = ctypes.CDLL(path)
        self.include = include
        self.failed = self.passed = 0

    def text(self, program, call):
        size = ctypes.c_size_t()
        getattr(self.lib, f"nvrtcGet{call}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(self.lib, f"nvrtcGet{call}")(program, text)
        return text.raw[:-1].decode(errors="replace")

    def compile(self, source, options):
        """Result, log and PTX."""
        program = ctypes.c_void_p()
        words = [f"-I{self.include}", *options]
        argv = (ctypes.c_char_p * len(words))(*[word.encode() for word in words])
        self.lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"user.cu", 0, None,
                                    None)
        result = self.lib.nvrtcCompileProgram(program, len(words), argv)
        log = self.text(program, "ProgramLog")
        ptx = "" if result != 0 else self.text(program, "PTX")
        self.lib.nvrtcDestroyProgram(ctypes.byref(program))
        return result, log, ptx

    def case(self, name, source, options=PTX, needle=""):
        """One test: compiles without a word, and the PTX has the needle."""
        result, log, ptx = self.compile(source, options)
        if result == 0 and not log.strip() and needle in ptx:
            self.passed += 1
        else:
            self.failed += 1
            missing = f"no {needle!r} in the PTX" if result == 0 and not log.strip() else ""
            print(f"FAIL {name}: {result} {missing}\n{log[:3000]}")


def allocators(include):
    """(identifier, family) of each entry of alloc/list.h."""
    text = pathlib.Path(include, "warpheap/detail/alloc/list.h").read_text(encoding="utf-8")
    return re.findall(r"#define WH_FAMILY_OF_(\w+) (\w+)", text)


def chosen(ident):
    return f"#define WH_ALLOCATOR {ident}\n"


def sizes(include, compiler, names):
    """Includes, and assertions that structures are as large as the host's compiler says."""
    names = [name for name in names if name[0] != "cuda"]  # not for the simulated device
    things = [f"wh_{ident}_ref" for ident, _ in names] + [
        "wh_stats", "wh_report", "wh_tessera_options", "wh_ouroboros_options", "wh_plan",
        "wh_walk_sink", "wh_tessera_header"]
    headers = "".join(f'#include "warpheap/detail/alloc/{family}/{family}.h"\n'
                      for family in sorted({family for _, family in names}))
    prints = "".join(f'    printf("%zu\\n", sizeof({thing}));\n' for thing in things)
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "sizes.c"), os.path.join(folder, "sizes")
        pathlib.Path(source).write_text(
            f"{headers}#include <stdio.h>\nint main(void) {{\n{prints}}}\n", encoding="utf-8")
        # -O1: without what is not called, which would have to be linked
        subprocess.run([compiler, "-std=c11", "-O1", f"-I{include}", source, "-o", program],
                       check=True)
        output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return headers + "".join(f'static_assert(sizeof({thing}) == {size}, "{thing}");\n'
                             for thing, size in zip(things, output.split(), strict=True))


def check_types(rtc, toolkit):
    """Typedefs and macros of others, before and after."""
    bump = chosen("bump") + KERNEL
    for kind, types in (("long", LONG), ("long long", LONG_LONG)):
        rtc.case(f"{kind} before", types + bump + IN_USE)
        rtc.case(f"{kind} after", bump + types + IN_USE)
    rtc.case("types as macros before", MACROS + KERNEL + IN_USE)
    rtc.case("types as macros after", KERNEL + MACROS + IN_USE)
    rtc.case("words as macros", WORDS + KERNEL.replace("wh_malloc(h, 64)", "malloc(64)"))
    rtc.case("ours leave no macro", bump + "".join(
        f"#ifdef {name}\n#error {name} is left\n#endif\n"
        for name in ("uint8_t", "uint64_t", "uintptr_t", "UINT64_MAX", "SIZE_MAX", "offsetof")))
    cccl = f"{toolkit}/include/cccl"
    if os.path.exists(f"{cccl}/cuda/std/cstdint"):
        std = "#include <cuda/std/cstdint>\n"
        options = [*PTX, f"-I{toolkit}/include", f"-I{cccl}"]
        rtc.case("cuda/std/cstdint before", std + bump, options)
        rtc.case("cuda/std/cstdint after", bump + std, options)


def check_headers(rtc, include, compiler, toolkit):
    names = allocators(include)
    for ident, _ in names:
        rtc.case(ident, chosen(ident) + KERNEL)
    rtc.case("every call", CALLS, PTX, ".entry every_call(")
    rtc.case("a scan", SCAN, PTX, ".entry scan_each(")
    rtc.case("rays", TREE, PTX, ".entry every_ray(")
    rtc.case("containers", CONTAINERS, [*PTX, "-std=c++14"], ".entry every_container(")
    rtc.case("aligned new", ALIGNED, [*PTX, "-std=c++17"], ".entry aligned_new(")
    rtc.case("arenas", ARENA, PTX, ".entry every_arena(")
    for arch in ("sm_75", "sm_121"):
        rtc.case(arch, KERNEL, [FAST, f"-arch={arch}"])
    bump = chosen("bump") + KERNEL
    for arch in ("sm_75", "sm_80", "sm_90", "sm_100", "sm_121"):
        rtc.case(f"bump for {arch}, optimized", bump, [f"-arch={arch}"])
    for standard in (11, 14, 17, 20):
        rtc.case(f"C++{standard}", KERNEL, [*PTX, f"-std=c++{standard}"])
    rtc.case("no option", KERNEL, [])
    rtc.case("relocatable", bump, [*PTX, "-rdc=true"])
    rtc.case("functions for the device by default", KERNEL, [*PTX, "-default-device"])
    rtc.case("sizes as on the host", sizes(include, compiler, names))
    check_types(rtc, toolkit)
    print(f"{rtc.passed} of {rtc.passed + rtc.failed} compile under NVRTC")
    return rtc.failed != 0


# CuPy asks a device for the method that makes machine code; the other one needs none.
CUPY = """
import sys
from cupy.cuda import compiler
code, _ = compiler.compile_using_nvrtc(sys.argv[1], ("-I" + sys.argv[2], "-dlto"), "90", "user.cu",
                                       method="lto")
assert len(code) > 10000
"""
CORE = """
import sys
from cuda.core import Program, ProgramOptions
options = ProgramOptions(arch="sm_90", include_path=sys.argv[2], ofast_compile="max")
code = Program(sys.argv[1], "c++", options).compile("cubin")
assert b"every_call" in code.code
"""
WHEELS = ["cupy-cuda13x==14.2.0", "cuda-core==1.2.2", "cuda-bindings==13.5.0",
          "cuda-pathfinder==1.9.1", "numpy"]  # without what they also want: a second NVRTC


def install(folder, wheels):
    """Whether pip has them there, whole."""
    if not os.path.isdir(folder):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as half:
            if subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps",
                               "--disable-pip-version-check", "--root-user-action", "ignore",
                               "--only-binary", ":all:", "--target", f"{half}/wheels", *wheels],
                              check=False).returncode != 0:
                return False
            os.rename(f"{half}/wheels", folder)
    return True


def check_wheels(include, folder, toolkit):
    if not install(folder, WHEELS):
        skip("pip could not install " + " ".join(WHEELS))
    env = dict(os.environ, PYTHONPATH=folder, CUDA_PATH=toolkit, CUDA_HOME=toolkit,
               CUPY_CACHE_DIR=f"{folder}/cache")
    failed = 0
    for name, program in (("cupy", CUPY), ("cuda.core", CORE)):
        done = subprocess.run([sys.executable, "-c", program, CALLS, include], env=env, check=False)
        print(f"{'FAIL' if done.returncode else 'compiles by'} {name}")
        failed += done.returncode != 0
    return failed != 0


# clang's front end alone: the compiler with the part for GPUs is in no wheel. Of a kernel's
# launch it knows nothing in the device's half, so user.cu, which has one, is read in the host's.
CLANG = "clang-tidy==23.1.4"
FLAGS = ["-x", "cuda", "--cuda-gpu-arch=sm_90", "-nocudalib", "-stdlib=libstdc++", "-Wall",
         "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wold-style-cast"]


def check_clang(include, folder, toolkit):
    if not install(folder, [CLANG]):
        skip("pip could not install " + CLANG)
    here = os.path.dirname(os.path.abspath(__file__))
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        plain = os.path.join(work, "plain.cu")
        pathlib.Path(plain).write_text(KERNEL, encoding="utf-8")
        for file, side, first in ((plain, "device", 11), (f"{here}/user.cu", "host", 11),
                                  (f"{here}/user_containers.cu", "host", 14),
                                  (f"{here}/hostile_macros.c", "host", 11)):
            for standard in (first, 20):
                done = subprocess.run(
                    [f"{folder}/clang_tidy/data/bin/clang-tidy", "--quiet", "--allow-no-checks",
                     "--checks=-*,clang-diagnostic-*", "--warnings-as-errors=*",
                     "--header-filter=.*", file, "--", *FLAGS, f"--cuda-path={toolkit}",
                     f"--cuda-{side}-only", f"-std=c++{standard}", f"-I{include}"], check=False)
                failed += done.returncode != 0
                print(f"{'FAIL' if done.returncode else 'read'}: {os.path.basename(file)} by clang "
                      f"as C++{standard}, {side}")
    return failed != 0


def main():
    what, include, third = sys.argv[1:4]
    path = library(sys.argv[4] if len(sys.argv) > 4 else None)
    if path is None:
        skip("there is no NVRTC")
    toolkit = re.sub(r"/(targets/[^/]*/)?lib(64)?/[^/]*$", "", path)
    if what == "headers":
        return check_headers(Nvrtc(path, include), include, third, toolkit)
    if ".so.13" not in path:
        skip("the wheels are for CUDA 13")
    check = {"wheels": check_wheels, "clang": check_clang}[what]
    return check(include, os.path.abspath(third), toolkit)


sys.exit(main())
