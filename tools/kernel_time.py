#!/usr/bin/env python3
"""kernel_time.py: how long the benchmark's kernels take on the GPU alone, and how many
instructions their warps execute, by NVIDIA's profiler (ncu).

    tools/kernel_time.py WARPHEAP OUT.jsonl [--alloc NAME] [--accesses FLOOR_PROBE]

WARPHEAP: the command line program. FLOOR_PROBE: bench/probes/floor_probe.cu, compiled; its rows
come with it, as case "accesses". The benchmark's own times are those of a launch and its kernel;
what the launch takes differs from run to run by more than most changes to an allocator. The
profiler's times repeat within 2 %. Cases single, mixed and warp, a process of
the benchmark for each size; medians over its repetitions and the one that warms up.
Exit status 1 if ncu or the program fails, or if OUT.jsonl cannot be written.
"""
import argparse
import csv
import pathlib
import statistics
import subprocess
import sys
import tempfile

import rows as files

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


def summary(part):
    """Of launches."""
    return {
        "us": round(statistics.median(x[1] for x in part), 3),
        "us_min": round(min(x[1] for x in part), 3),
        "us_max": round(max(x[1] for x in part), 3),
        "instructions": statistics.median(x[2] for x in part),
    }


def rows_of(case, size, text, measured):
    """The benchmark goes through its repetitions once a phase, malloc and free in turn. Its own
    rows say which phases an allocator has: without reset none cold, without free none warm."""
    if not measured:
        raise ValueError(f"{case} {size}: no rows")
    rows = []
    for op in ("malloc", "free"):
        mine = [x for x in launches(text) if op in x[0]]
        phases = [r["phase"] for r in measured if r["op"] == op]
        if not mine and not phases:
            continue
        n = len(mine) // max(len(phases), 1)
        if n == 0 or n * len(phases) != len(mine):
            raise ValueError(f"{case} {size}: {len(mine)} launches of {op}, "
                             f"phases: {', '.join(phases) or 'none'}")
        for i, phase in enumerate(phases):
            part = mine[i * n:(i + 1) * n]
            rows.append({
                "case": case, "phase": phase, "op": op, "size": size, "launches": n,
                **summary(part),
            })
    return rows


def accesses_of(text, names):
    """The probe launches one kernel of each of its rows in turn, round after round."""
    mine = launches(text)
    n = len(mine) // len(names)
    if n == 0 or n * len(names) != len(mine):
        raise ValueError(f"accesses: {len(mine)} launches of {len(names)} kernels")
    return [{"case": "accesses", "op": name, "launches": n, **summary(mine[i::len(names)])}
            for i, name in enumerate(names)]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout


def check_writable(path):
    """Fails before all the profiling rather than after it; a file that is there stays as it is."""
    new = not path.exists()
    with path.open("a", encoding="utf-8"):
        pass
    if new:
        path.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpheap")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--alloc", default="tessera")
    parser.add_argument("--accesses", metavar="FLOOR_PROBE")
    options = parser.parse_args()
    # Without an early end: a launch takes long under the profiler, and rows_of wants all.
    bench = [options.warpheap, "bench", "--device", "cuda", "--alloc", options.alloc,
             "--limit", "600"]
    rows = []
    try:
        check_writable(options.out)
        with tempfile.TemporaryDirectory() as folder:
            # The header is that of a run without the profiler.
            own = pathlib.Path(folder) / "own.jsonl"
            run([*bench, "--case", "init", "--json", str(own)])
            header = files.read(own).header
            for case, sizes in CASES.items():
                for size in sizes:
                    text = run([*NCU, "-k", "regex:k_(malloc|free)_(single|mixed|warp|all)",
                                "--metrics", f"{TIME},{INSTRUCTIONS}", *bench, "--case", case,
                                "--sizes", str(size), "--json", str(own)])
                    measured = files.read(own).rows
                    rows += [{"alloc": options.alloc, **row}
                             for row in rows_of(case, size, text, measured)]
            if options.accesses:
                names = [row["name"] for row in files.parse(run([options.accesses])).rows]
                text = run([*NCU, "-k", "regex:null_kernel|malloc_add|malloc_spans|free_blocks",
                            "--metrics", f"{TIME},{INSTRUCTIONS}", options.accesses])
                rows += accesses_of(text, names)
        header["tool"] = " ".join(NCU[:5])
        options.out.write_text(files.text_of(header, rows))
    except (OSError, RuntimeError, ValueError, KeyError, files.Unreadable) as error:
        print(f"kernel_time: {error}", file=sys.stderr)
        return 1
    for row in rows:
        print(f"{row['case']:8} {row.get('size', ''):>5} {row['op']:20} {row.get('phase', ''):4} "
              f"{row['us']:8.2f} us {row['instructions']:12.0f} instructions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
