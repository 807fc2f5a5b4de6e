#!/usr/bin/env python3
"""compile_cost.py: what one plain kernel with one wh_malloc of the default allocator costs its
user: seconds of compiling, registers, stack and machine code. Needs nvcc, but no GPU.

    tools/compile_cost.py [--linked] [--json FILE] [--check CEILINGS] [--threads N]

The kernel is an ordinary __global__ function without launch bounds; --threads N gives it
__launch_bounds__(N). With --linked malloc's slow path is not compiled with the kernel but linked,
as by warpheap::device; registers and stack are those of the linked kernel. The seconds are those
of the processor, not of the clock: other work on the machine hardly changes them. --check compares
with the ceilings in a JSON file, which hold for one release of nvcc; those of --linked are its
member "linked".

Exit status: 1 if a figure is above its ceiling, 2 if something failed; 77 if there is no nvcc,
or another one than the ceilings are for.
"""
import argparse
import json
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNEL = """#include <warpheap/warpheap.h>
__global__ void {bounds} plain(wh_heap_ref heap, void **out, size_t n) {{
    out[blockIdx.x * blockDim.x + threadIdx.x] = wh_malloc(heap, n);
}}
"""
EMPTY = "__global__ void plain(void **out) {}\n"
LINKED = ["-rdc=true", "-DWH_LINKED=1"]
LIBRARY = ["-rdc=true", "-DWH_LINKED_DEFINE=1", "-maxrregcount=40"]  # as WARPHEAP_DEVICE_REGISTERS
LIBRARY_FREE = ["-rdc=true", "-DWH_LINKED_DEFINE=2", "-maxrregcount=32"]
FIGURES = (  # key, unit
    ("cpu_seconds", "s of CPU time to compile it"),
    ("more_cpu_seconds", "s of these more than an empty kernel takes"),
    ("library_cpu_seconds", "s of CPU time to compile what it is linked with, once"),
    ("library_bytes", "bytes of machine code of that"),
    ("registers", "registers a thread"),
    ("max_threads", "threads a block at most"),
    ("stack_bytes", "bytes of stack a thread"),
    ("code_bytes", "bytes of machine code"))
CEILINGS = ("cpu_seconds", "more_cpu_seconds", "registers", "stack_bytes", "code_bytes")


class Failed(Exception):
    pass


def code_bytes(path):
    """The size of all sections of machine code (.text.*) in an ELF file of 64 bits."""
    data = path.read_bytes()
    try:
        if data[:5] != b"\x7fELF\x02":
            raise Failed(f"{path.name} is no ELF file of 64 bits")
        table, = struct.unpack_from("<Q", data, 40)
        entry, count, names = struct.unpack_from("<HHH", data, 58)
        sections = [struct.unpack_from("<IIQQQQ", data, table + i * entry) for i in range(count)]
        at = sections[names][4]
        return sum(s[5] for s in sections if data.startswith(b".text.", at + s[0]))
    except (struct.error, IndexError) as e:
        raise Failed(f"{path.name}: {e}") from e


def max_threads(registers):
    """Threads of a block that 65,536 registers are enough for. A warp gets them in units of
    256, and warps come in fours."""
    warps = 65536 // (-(-registers // 8) * 256)
    return min(1024, (warps - warps % 4) * 32)


def call(command):
    """What the command says, and the seconds of CPU time that it takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if r.returncode != 0:
        raise Failed(f"nvcc: exit status {r.returncode}\n{r.stdout[:2000]}")
    return r.stdout, round(sum(after[:2]) - sum(before[:2]), 2)


def cubin(nvcc, arch, source, flags):
    """Machine code of a source: its path, what ptxas says, seconds."""
    path = source.with_suffix(".cubin")
    said, seconds = call([nvcc, "-cubin", f"-arch={arch}", "-std=c++17", "-O3", "-Xptxas", "-v",
                          *flags, f"-I{ROOT / 'include'}", "-o", str(path), str(source)])
    return path, said, seconds


def used(said, patterns):
    """The registers, and the first of the patterns that is there: bytes of stack."""
    registers = re.search(r"[Uu]sed (\d+) registers", said)
    stack = next(filter(None, (re.search(p, said) for p in patterns)), None)
    if registers is None or stack is None:
        raise Failed(f"nvcc says nothing of registers or stack\n{said[:2000]}")
    return {"registers": int(registers.group(1)), "stack_bytes": int(stack.group(1))}


def linked(nvcc, arch, folder, kernel):
    """The figures of a kernel that is linked with malloc's slow path."""
    empty = folder / "empty.cu"
    empty.write_text(EMPTY)
    _, _, least = cubin(nvcc, arch, empty, LINKED)
    source = folder / "library.cu"
    source.write_text("#include <warpheap/warpheap.h>\n")
    library, _, seconds = cubin(nvcc, arch, source, LIBRARY)
    source = folder / "library_free.cu"  # what free calls, and malloc's slow path, too
    source.write_text("#include <warpheap/warpheap.h>\n")
    free, _, more_seconds = cubin(nvcc, arch, source, LIBRARY_FREE)
    plain, _, more = cubin(nvcc, arch, kernel, LINKED)
    said, _ = call([nvcc, "-dlink", "-cubin", f"-arch={arch}", "-Xnvlink", "-v", str(plain),
                    str(library), str(free), "-o", str(folder / "all.cubin")])
    return {**used(said, [r"(\d+) stack"]), "cpu_seconds": more,
            "more_cpu_seconds": round(more - least, 2), "code_bytes": code_bytes(plain),
            "library_cpu_seconds": round(seconds + more_seconds, 2),
            "library_bytes": code_bytes(library) + code_bytes(free)}


def compiled(args, nvcc):
    """The figures of the kernel."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "plain.cu"
        bounds = f"__launch_bounds__({args.threads})" if args.threads else ""
        source.write_text(KERNEL.format(bounds=bounds))
        if args.linked:
            figures = linked(nvcc, args.arch, source.parent, source)
        else:
            path, said, seconds = cubin(nvcc, args.arch, source, [])
            # Of the functions that the kernel calls the stack is in the sum.
            figures = used(said, [r"(\d+) bytes cumulative stack size",
                                  r"(\d+) bytes stack frame"])
            figures.update(cpu_seconds=seconds, code_bytes=code_bytes(path))
        figures["max_threads"] = min(max_threads(figures["registers"]), args.threads or 1024)
        return figures


def release(nvcc):
    r = subprocess.run([nvcc, "--version"], stdout=subprocess.PIPE, text=True)
    found = re.search(r"release (\d+\.\d+)", r.stdout)
    if found is None:
        raise Failed(f"{nvcc} does not tell its release")
    return found.group(1)


def above(figures, ceilings):
    """Complaints about figures above their ceilings."""
    return [f"{key}: {figures[key]} is above the ceiling of {ceilings[key]}"
            for key in CEILINGS if key in figures and figures[key] > ceilings[key]]


def run(args, nvcc):
    ceilings = None
    figures = {"allocator": "default", "arch": args.arch, "nvcc": release(nvcc)}
    if args.check:
        ceilings = json.loads(pathlib.Path(args.check).read_text())
        if figures["nvcc"] != ceilings["nvcc"]:
            print(f"the ceilings are those of nvcc {ceilings['nvcc']}, not {figures['nvcc']}")
            return SKIPPED
        ceilings = ceilings["linked"] if args.linked else ceilings
    figures.update(compiled(args, nvcc))
    print(f"one plain kernel with one wh_malloc{', linked' if args.linked else ''}, {args.arch}, "
          f"nvcc {figures['nvcc']}:")
    for key, unit in FIGURES:
        if key in figures:
            print(f"{figures[key]:>10} {unit}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(figures, indent=1) + "\n")
    complaints = above(figures, ceilings) if ceilings else []
    for text in complaints:
        print(text, file=sys.stderr)
    return 1 if complaints else 0


def main():
    parser = argparse.ArgumentParser(
        description="What one plain kernel with one wh_malloc costs: seconds of compiling, "
        "registers, stack, machine code.")
    parser.add_argument("--nvcc", help="the compiler; default: of PATH, or /usr/local/cuda")
    parser.add_argument("--arch", default="sm_90", help="default: sm_90")
    parser.add_argument("--threads", type=int, default=0, help="launch bounds; default: none")
    parser.add_argument("--linked", action="store_true",
                        help="link malloc's slow path instead of compiling it")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--check", metavar="CEILINGS", help="a JSON file of the most allowed")
    args = parser.parse_args()
    nvcc = next(filter(None, map(shutil.which, (
        [args.nvcc] if args.nvcc else ["nvcc", "/usr/local/cuda/bin/nvcc"]))), None)
    if nvcc is None:
        print("there is no nvcc", file=sys.stderr)
        return SKIPPED
    try:
        return run(args, nvcc)
    except (Failed, OSError, ValueError, KeyError) as e:
        print(f"compile_cost.py: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
