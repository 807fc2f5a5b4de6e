#!/usr/bin/env python3
"""plain_forms.py: what malloc and free cost in plain kernels, by how these are compiled. Needs
nvcc, a GPU, and the library built for it.

    tools/plain_forms.py --library build/libwarpheap.a --json FILE [--heap BYTES] [--reps N]

Compiles tools/plain_forms.cu in each of the forms that README names, runs each, and writes one
row a line (results/README.md). A table goes to the output.
Exit status: 1 if a form failed, 77 if there is no nvcc or no GPU.
"""
import argparse
import datetime
import json
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

import compile_cost
import rows as files

ROOT = pathlib.Path(__file__).resolve().parent.parent
CAPPED = ["-rdc=true", "-Xptxas", "--device-function-maxrregcount=40"]
FORMS = {
    "plain": [],
    "launch bounds 1024": ["-DFORM_BOUNDS=__launch_bounds__(1024)"],
    "capped at 40 registers": CAPPED,
    "fast compile": ["-Ofc", "max"],
}


def commit():
    r = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
                       cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return r.stdout.strip() or "unknown"


def build(args, nvcc, flags, program):
    """Seconds of CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([nvcc, f"-arch={args.arch}", "-std=c++17", "-O3", *flags,
                    f"-I{ROOT / 'include'}", str(ROOT / "tools/plain_forms.cu"), args.library,
                    "-o", str(program)], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(sum(after[:2]) - sum(before[:2]), 1)


def run(args, nvcc, form, flags, folder):
    program = folder / "plain_forms"
    seconds = build(args, nvcc, flags, program)
    r = subprocess.run([str(program), str(args.heap), str(args.reps)], stdout=subprocess.PIPE,
                       text=True)
    if r.returncode != 0:
        return r.returncode, []
    rows = [json.loads(line) for line in r.stdout.splitlines()]
    rows[0].update(flags=" ".join(flags), compile_cpu_seconds=seconds)
    return 0, [dict(form=form, **row) for row in rows]


def table(rows):
    for row in rows:
        if row["op"] == "kernel":
            print(f"{row['form']}: {row['registers']} registers, {row['local_bytes']} B local, "
                  f"{row['reserved_bytes'] >> 20} MiB reserved, "
                  f"compiled in {row['compile_cpu_seconds']} s (three kernels)")
        else:
            size = f"{row['size_min']}..{row['size']}"
            what = row.get("error") or (f"{row['us']:8.1f} us   failed {row['failed']}, "
                                        f"bad {row['bad']}")
            print(f"    {row['block']:>5} threads {size:>11} B {row['op']:<7} {what}")


def main():
    parser = argparse.ArgumentParser(description="malloc and free in plain kernels, by form")
    parser.add_argument("--library", required=True, help="libwarpheap.a, built for the GPU")
    parser.add_argument("--json", metavar="FILE", required=True)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--heap", type=int, default=8 << 30)
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--commit", default=None, help="of the library; default: git's")
    args = parser.parse_args()
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        print("there is no nvcc", file=sys.stderr)
        return 77
    header = {"tool": "plain_forms", "commit": args.commit or commit(), "arch": args.arch,
              "nvcc": compile_cost.release(nvcc), "heap_bytes": args.heap,
              "date": datetime.date.today().isoformat()}
    rows = []
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        for form, flags in FORMS.items():
            code, more = run(args, nvcc, form, flags, pathlib.Path(folder))
            status = status or (code if code == 77 else 1 if code else 0)
            rows += more
    for row in rows:  # each program says what it runs on; all run on one device
        header.update((k, row.pop(k)) for k in ("device", "driver") if k in row)
    table(rows)
    pathlib.Path(args.json).write_text(files.text_of(header, rows))
    return status


if __name__ == "__main__":
    sys.exit(main())
