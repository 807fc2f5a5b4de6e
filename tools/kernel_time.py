#!/usr/bin/env python3
"""kernel_time.py: how long the benchmark's kernels take on the GPU alone, and how many
instructions their warps execute, by NVIDIA's profiler (ncu).

    tools/kernel_time.py WARPHEAP OUT.json [--alloc NAME]

WARPHEAP: the command line program. The benchmark's own times are those of a launch and its
kernel; what the launch takes differs from run to run by more than most changes to an
allocator. The profiler's times repeat within 2 %. Cases single, mixed and warp, a process of
the benchmark for each size; medians over its repetitions and the one that warms up.
Exit status 1 if ncu or the program fails.
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

CASES = {
    "single": (16, 64, 256, 1024, 4096, 8192),
    "mixed": (64, 1024, 4096, 8192),
    "warp": (16, 512, 4096, 8192),
}
TIME, INSTRUCTIONS = "gpu__time_duration.sum", "smsp__inst_executed.sum"
NCU = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv"]
TO_US = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3}


def launches(text):
    """Kernels of ncu's table in the order of their launches: (name, us, instructions)."""
    table = csv.DictReader(line for line in text.splitlines() if line.startswith('"'))
    found = {}
    for row in table:
        entry = found.setdefault(int(row["ID"]), {"name": row["Kernel Name"]})
        value = float(row["Metric Value"].replace(",", ""))
        if row["Metric Name"] == TIME:
            value *= TO_US[row["Metric Unit"]]
        entry[row["Metric Name"]] = value
    return [(e["name"], e[TIME], e[INSTRUCTIONS]) for _, e in sorted(found.items())]


def rows_of(case, size, text):
    """The benchmark goes through its repetitions twice, cold and warm, malloc and free in turn."""
    rows = []
    for op in ("malloc", "free"):
        mine = [x for x in launches(text) if op in x[0]]
        half = len(mine) // 2
        if half == 0 or len(mine) % 2 != 0:
            raise ValueError(f"{case} {size}: {len(mine)} launches of {op}")
        for phase, part in (("cold", mine[:half]), ("warm", mine[half:])):
            rows.append({
                "case": case, "phase": phase, "op": op, "size": size, "launches": half,
                "us": round(statistics.median(x[1] for x in part), 3),
                "us_min": round(min(x[1] for x in part), 3),
                "us_max": round(max(x[1] for x in part), 3),
                "instructions": statistics.median(x[2] for x in part),
            })
    return rows


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpheap")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--alloc", default="tessera")
    options = parser.parse_args()
    # Without an early end: a launch takes long under the profiler, and rows_of wants all.
    bench = [options.warpheap, "bench", "--device", "cuda", "--alloc", options.alloc,
             "--limit", "600"]
    try:
        with tempfile.TemporaryDirectory() as folder:
            probe = pathlib.Path(folder) / "probe.json"
            run([*bench, "--case", "init", "--json", str(probe)])
            meta = json.loads(probe.read_text())["meta"]
        rows = []
        for case, sizes in CASES.items():
            for size in sizes:
                text = run([*NCU, "-k", "regex:k_(malloc|free)_(single|mixed|warp|all)",
                            "--metrics", f"{TIME},{INSTRUCTIONS}",
                            *bench, "--case", case, "--sizes", str(size)])
                rows += [{"alloc": options.alloc, **row} for row in rows_of(case, size, text)]
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        print(f"kernel_time: {error}", file=sys.stderr)
        return 1
    meta["tool"] = " ".join(NCU[:5])
    options.out.write_text(json.dumps({"meta": meta, "rows": rows}, indent=1) + "\n")
    for row in rows:
        print(f"{row['case']:7} {row['size']:5} {row['op']:6} {row['phase']} {row['us']:8.2f} us "
              f"{row['instructions']:12.0f} instructions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
