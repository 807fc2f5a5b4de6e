#!/usr/bin/env python3
"""plain_forms.py: what malloc and free cost in plain kernels, by how these are compiled. Needs
nvcc, a GPU, and the library built for it.

    tools/plain_forms.py --library build/libwarpheap.a --json FILE [--heap BYTES] [--reps N]
                         [--forms NAMES] [--caps N,N,...]

Compiles tools/plain_forms.cu in each of the forms that docs/CUDA.md names, runs each, and writes
one row a line (results/README.md). A table goes to the output. --forms takes some of them, by the
first words of their names. The linked form has the slow path of src/device/linked.cu, compiled
with a limit of 40 registers; --caps makes a form of each of several limits.
Exit status: 1 if a form failed, 77 if there is no nvcc or no GPU.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import compile_cost
import rows as files

ROOT = pathlib.Path(__file__).resolve().parent.parent
CAPPED = ["-rdc=true", "-Xptxas", "--device-function-maxrregcount=40"]
LINKED = ["-rdc=true", "-DWH_LINKED=1"]
FREE_CAP = 32  # of the functions for free, as in cmake/WhDevice.cmake


def forms_of(args):
    """Name: flags, and the limit of the linked slow path or None."""
    forms = {f"linked, {cap} registers": (LINKED, cap) for cap in args.caps}
    if args.caps == [40]:
        forms = {"linked": (LINKED, 40)}
    forms.update({"plain": ([], None),
                  "launch bounds 1024": (["-DFORM_BOUNDS=__launch_bounds__(1024)"], None),
                  "capped at 40 registers": (CAPPED, None),
                  "fast compile": (["-Ofc", "max"], None)})
    return {name: form for name, form in forms.items() if name.startswith(tuple(args.forms))}


def commit():
    r = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
                       cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return r.stdout.strip() or "unknown"


def call(command):
    """Seconds of CPU time that a command takes."""
    child = subprocess.Popen(command)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise subprocess.CalledProcessError(child.returncode, command)
    return used.ru_utime + used.ru_stime


def build(args, nvcc, form, program):
    """The program of a form; seconds of CPU time, without those of what it is linked with."""
    flags, cap = form
    command = [nvcc, f"-arch={args.arch}", "-std=c++17", "-O3", f"-I{ROOT / 'include'}"]
    objects = []
    for part, most in ((1, cap), (2, FREE_CAP)) if cap else ():
        objects.append(f"{program}.{part}.o")
        call([*command, "-rdc=true", f"-DWH_LINKED_DEFINE={part}", f"-maxrregcount={most}", "-c",
              str(ROOT / "src/device/linked.cu"), "-o", objects[-1]])
    return round(call([*command, *flags, str(ROOT / "tools/plain_forms.cu"), *objects,
                       args.library, "-o", str(program)]), 1)


def run(args, name, form, program, seconds):
    r = subprocess.run([str(program), str(args.heap), str(args.reps)], stdout=subprocess.PIPE,
                       text=True)
    if r.returncode != 0:
        return r.returncode, []
    rows = [json.loads(line) for line in r.stdout.splitlines()]
    rows[0].update(flags=" ".join(form[0]), compile_cpu_seconds=seconds)
    if form[1]:
        rows[0].update(linked_registers=form[1])
    return 0, [dict(form=name, **row) for row in rows]


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
    parser.add_argument("--forms", type=lambda text: text.split(","), default=[""],
                        help="names of forms, with a comma between; default: all")
    parser.add_argument("--caps", type=lambda text: [int(n) for n in text.split(",")],
                        default=[40], help="limits of the linked slow path; default: 40")
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
        forms = forms_of(args)
        programs = {name: pathlib.Path(folder) / f"form{i}" for i, name in enumerate(forms)}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            seconds = pool.map(lambda name: build(args, nvcc, forms[name], programs[name]), forms)
            seconds = dict(zip(forms, seconds))
        for name, form in forms.items():
            code, more = run(args, name, form, programs[name], seconds[name])
            status = status or (code if code == 77 else 1 if code else 0)
            rows += more
    for row in rows:  # each program says what it runs on; all run on one device
        header.update((k, row.pop(k)) for k in ("device", "driver") if k in row)
    table(rows)
    pathlib.Path(args.json).write_text(files.text_of(header, rows))
    return status


if __name__ == "__main__":
    sys.exit(main())
