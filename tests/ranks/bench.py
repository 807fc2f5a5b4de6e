#!/usr/bin/env python3
"""bench.py MPIRUN PROGRAM SOURCE_FOLDER: `warpheap bench --ranks` on simulated devices: its rows,
with 1 and 2 ranks, what it refuses, ranks with other options, and ranks that end, or hang.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MPIRUN, PROGRAM, SOURCE = sys.argv[1:4]
sys.path.insert(0, os.path.join(os.path.abspath(SOURCE), "tools"))
import rows as files  # noqa: E402 (of tools/)

with open(os.path.join(SOURCE, "bench/ranks/ranks.h"), encoding="utf-8") as HEAD:
    CASES = re.findall(r'X\("([\w-]+)",', HEAD.read())
SMALL = ["--device", "sim", "--sizes", "300", "--rows", "600", "--blocks", "200", "--bytes", "4K",
         "--reps", "2"]
# What each case measures.
OPS = {"edges": {"insert", "erase"}, "pagerank": {"pagerank"}, "triangles": {"triangles"},
       "rebalance": {"rebalance"}, "join": {"join", "small-build"}, "group": {"group"},
       "comm": {"agree", "all-to-all"},
       "peers": {"malloc", "free", "peer-free", "peer-malloc", "free-of-peer"}}
HEADER = {"commit": str, "device": str, "driver": str, "compiler": str, "flags": str, "date": str,
          "seed": int, "ranks": int, "engine": str, "devices": list, "reps": int}
NUMBER = (int, float)
ROW = {"alloc": str, "case": str, "op": str, "ranks": int, "n": int, "n_rank": int, "threads": int,
       "size": int, "reps": int,
       "us": NUMBER, "us_min": NUMBER, "us_max": NUMBER, "mops": NUMBER, "calls": int,
       "sent": int, "sent_all": int, "us_waited": NUMBER, "us_moved": NUMBER, "failed": int,
       "bad": int}
# What differs from run to run.
TIMES = re.compile(r'"(us|us_\w+|speedup|mops|date)":[^,}]*')

failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED:", what, flush=True)


def run(words, ranks=None, program=PROGRAM):
    """With mpirun, unless there is no number of ranks."""
    start = [] if ranks is None else [MPIRUN, "-n", str(ranks)]
    return subprocess.run([*start, program, "bench", "--ranks", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=240, check=False)


def run_unlike(*parts):
    """Ranks of their own words each, or of another program: a list that begins with its path."""
    starts = []
    for words in parts:
        own = words[:1] and words[0].startswith("/")
        starts += [":", "-n", "1", *([] if own else [PROGRAM, "bench", "--ranks"]), *words]
    return [MPIRUN, *starts[1:]]


def said_by(words):
    r = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       timeout=60, check=False)
    return r.returncode, [line for line in r.stderr.splitlines() if line.startswith("warpheap: ")]


def results(folder, ranks, *words):
    path = os.path.join(folder, f"{ranks}-{len(os.listdir(folder))}.jsonl")
    r = run([*SMALL, "--json", path, *words], ranks)
    check(r.returncode == 0, f"{ranks} ranks {words}: exit {r.returncode}, {r.stderr!r}")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    return text, files.parse(text), r


def check_row(row, ranks):
    name = f"{ranks} ranks, {row['case']} {row.get('op')}"
    for key, kind in ROW.items():
        check(isinstance(row.get(key), kind), f"{name}: {key} is {row.get(key)!r}")
    check(row["us_min"] <= row["us"] <= row["us_max"], f"{name}: min, median, max")
    check(row["bad"] == 0 and row["failed"] == 0, f"{name}: {row}")
    check(row["reps"] == (1 if row["case"] == "rebalance" else 2), f"{name}: reps")
    check(row["ranks"] == (ranks or 1), f"{name}: ranks")
    has_one = row["case"] not in ("rebalance", "comm")
    check(("us_one" in row) == has_one, f"{name}: the one-device figure")
    if has_one:
        check(abs(row["speedup"] - row["us_one"] / row["us"]) < 0.01 * row["speedup"],
              f"{name}: speedup")
    sends = row["case"] != "peers" and row["op"] != "agree" and (ranks or 1) > 1
    check((row["sent"] > 0) == sends and row["sent"] <= row["sent_all"], f"{name}: sent")
    if row["case"] == "edges":
        for phase in ("bring", "route", "exchange", "apply", "agree", "answer"):
            check(row[f"us_{phase}"] >= 0, f"{name}: {phase}")
        check(0 < row["applied"] <= row["n"], f"{name}: applied")
    if row["case"] in ("join", "group"):
        for phase in ("sample", "partition", "exchange", "operate"):
            check(row[f"us_{phase}"] >= 0, f"{name}: {phase}")
        few = 0 < row["rows"] <= 10 # groups
        check(row["rows"] == 600 if row["case"] == "join" else few, f"{name}: rows")
        # By itself a join sends only its small table, in place of what a hash says.
        even = row["most_of_mean"] == 1 and row["heavy"] == 0 and row["us_partition"] == 0
        check(even or row["op"] != "small-build", f"{name}: {row}")
    check(row["size"] == (64 if row["case"] == "peers" else row["n_rank"]
                          if row["op"] == "all-to-all" else 0), f"{name}: size")
    if row["op"] == "all-to-all":
        size = ranks or 1
        check(row["sent"] == row["n"] // size // size * (size - 1), f"{name}: bytes: {row}")


def test_rows(folder, ranks):
    text, data, r = results(folder, ranks)
    size = ranks or 1
    for key, kind in HEADER.items():
        check(isinstance(data.header.get(key), kind), f"header: {key}")
    check(data.header["ranks"] == size and len(data.header["devices"]) == size, "header: ranks")
    check(data.header["engine"] == "mpi", "header: engine")
    check(not data.left_out, f"nothing is left out: {data.left_out}")
    for row in data.rows:
        check_row(row, ranks)
    keys = {tuple(row.get(k) for k in files.KEY) for row in data.rows}
    check(len(keys) == len(data.rows), "tools can tell the rows apart")
    for case in CASES:
        ops = {row["op"] for row in data.rows if row["case"] == case}
        check(ops == OPS[case], f"{size} ranks, {case}: {ops}")
        inputs = {row.get("input") for row in data.rows if row["case"] == case}
        check(inputs == {None} if case in ("peers", "comm") else len(inputs) == 2,
              f"{case}: {inputs}")
    lines = r.stdout.splitlines()
    check(len(lines) == len(data.rows) + 2, f"the table has a line a row: {r.stdout}")
    check("sent/rank" in lines[1] and "one device" in lines[1], "the table's header")
    return text


def test_seed(folder, first):
    """first: the file of a run of all cases, with seed 0."""
    texts = first, *(results(folder, 2, "--case", "edges", "--seed", seed)[0]
                     for seed in ("0", "8"))
    rows, again, other = ([TIMES.sub("", line) for line in text.splitlines()
                           if re.search(r'"case":\s*"edges"', line)] for text in texts)
    check(len(rows) == 4 and rows == again, "two runs with one seed say the same")
    check(rows != other, "another seed says something else")


def test_refused():
    for words, pattern in (
            (["--engine", "carrier"], "--engine: unknown 'carrier'; known: mpi, nccl"),
            (["--sizes", "0"], "--sizes: '0' is not a number above 0"),
            (["--sizes", "2000000000"], "--sizes: 2000000000 is not in 1.."),
            (["--reps", "101"], "--reps: '101' is not a number in 1..100"),
            (["--blocks", "8G"], "--blocks: '8G' is not in 1.."),
            (["--seconds", "0"], "--seconds: '0' is not a number of seconds above 0"),
            (["--device", "cuda:1"], "unknown device 'cuda:1'; known: auto, sim, cuda"),
            (["frob"], "bench --ranks takes no argument 'frob'"),
            (["--device", "sim", "--engine", "nccl"], "--engine nccl wants a GPU of its own"),
            (["--json", "/nowhere/x", "--device", "sim"],
             "rank 0: WH_IO_ERROR: cannot write '/nowhere/x'")):
        ranks = 2 if words[0] in ("--reps", "--json") else None
        r = run(words, ranks)
        check(r.returncode == 2, f"{ranks} ranks {words}: exit {r.returncode}")
        said = [line for line in r.stderr.splitlines() if line.startswith("warpheap: ")]
        check(len(said) == 1 and said[0].startswith("warpheap: " + pattern),
              f"{ranks} ranks {words}: {r.stderr!r}")
        check("case" not in r.stdout, f"{words}: a table was started")
    r = subprocess.run([PROGRAM, "bench", "--help"], stdout=subprocess.PIPE, text=True,
                       check=False)
    check("--ranks" in r.stdout, "bench --help names --ranks")
    r = subprocess.run([PROGRAM, "bench", "--rank"], stderr=subprocess.PIPE, text=True,
                       check=False)
    check(r.returncode == 2 and "not to be shortened" in r.stderr, f"--rank: {r}")
    r = run(["--help"])
    check(r.returncode == 0 and all(f"\n  {case} " in r.stdout for case in CASES), "--help")


def test_unlike():
    """Ranks with other options than the rest: all end, and rank 0 names one of them."""
    well = ["--device", "sim", "--case", "comm", "--bytes", "1K"]
    known = ", ".join(CASES)
    for parts, pattern in (
            ((well, ["--case", "frob"]), f"rank 1: unknown case 'frob'; known: {known}"),
            ((["--bytes", "1023"], well), "rank 0: --bytes: '1023' is less than 1024"),
            (([*well, "--seed", "1"], [*well, "--seed", "2"]),
             "rank 1 has other options of the benchmark ")):
        status, said = said_by(run_unlike(*parts))
        check(status == 2 and len(said) == 1 and said[0].startswith("warpheap: " + pattern),
              f"{parts}: exit {status}, {said}")


def test_failure(folder):
    """A heap that is too small: the parts say so, and the run goes on. Ranks may have asks and
    files of their own."""
    path = os.path.join(folder, "results.jsonl")
    words = [*SMALL, "--heap", "1K", "--case", "edges,comm"]
    r = subprocess.run(run_unlike([*words, "--json", path],
                                  [*words, "--json", "/nowhere/x", "--asks", "9"]),
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                       check=False)
    with open(path, encoding="utf-8") as f:
        rows = files.parse(f.read()).rows
    check(r.returncode == 1 and "2 parts failed" in r.stderr, f"a small heap: {r}")
    bad = [row for row in rows if row["case"] == "edges"]
    check(len(bad) == 2 and all(row["failed"] == 1 and "a heap" in row["error"] for row in bad),
          f"rows of a small heap: {bad}")
    check(any(row["case"] == "comm" and row["failed"] == 0 for row in rows), "the run goes on")


def test_alone(folder):
    """A program without the one that needs MPI."""
    lonely = shutil.copy(PROGRAM, os.path.join(folder, "warpheap"))
    r = run([], program=lonely)
    check(r.returncode == 2 and r.stderr.count("\n") == 1 and "libopenmpi-dev" in r.stderr,
          f"without MPI: {r.returncode} {r.stderr!r}")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as f:
        return [int(child) for child in f.read().split()]


def has_open_mpi():
    version = subprocess.run([MPIRUN, "--version"], stdout=subprocess.PIPE, text=True, check=False)
    return re.search("Open MPI|OpenRTE", version.stdout)


def test_missing():
    """A rank that hangs after MPI_Init."""
    with open(f"{PROGRAM}-ranks", "rb") as f:
        library = re.search(rb"libmpi\.so[.0-9]*", f.read())
    text = (f"import ctypes, time; ctypes.CDLL({library[0].decode()!r}, ctypes.RTLD_GLOBAL)"
            ".MPI_Init(None, None); time.sleep(50)")
    begin = time.monotonic()
    status, said = said_by(run_unlike(["--device", "sim", "--seconds", "1"],
                                      [sys.executable, "-c", text]))
    check(status == 1 and time.monotonic() - begin < 40, f"a rank that hangs: exit {status}")
    check(said == ["warpheap: rank 1 did not open the communicator within 1 s"],
          f"a rank that hangs: {said}")


def test_no_init():
    """A rank that ends before MPI_Init. The other one does not wait there for ten seconds, which
    costs time of a core, but is stopped most of it."""
    words = run_unlike(["--device", "sim", "--seconds", "1"], [shutil.which("true")])
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
        time.sleep(1.5)
        others = children(p.pid)
        for signal_number in (signal.SIGSTOP, signal.SIGCONT):
            for other in others:
                os.kill(other, signal_number)
            time.sleep(9 if signal_number == signal.SIGSTOP else 0)
        text = p.communicate(timeout=40)[0]
    check(p.returncode == 1 and text.count("warpheap: MPI_Init waits for too long: ") == 1,
          f"a rank without MPI_Init: exit {p.returncode}, {text}")


def test_death():
    """A rank that is killed while the others work: they name it, and end."""
    words = ["--device", "sim", "--case", "comm", "--bytes", "4M", "--reps", "100", "--seconds",
             "3"]
    with subprocess.Popen([MPIRUN, "--enable-recovery", "-n", "2", PROGRAM, "bench", "--ranks",
                           *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as p:
        p.stdout.readline()  # all ranks are there
        begin = time.monotonic()
        os.kill(children(p.pid)[1], signal.SIGKILL)
        text = p.communicate(timeout=60)[0]
    check(time.monotonic() - begin < 30, "a rank that ends: in time")
    check("warpheap: it is over: rank 1 did not come" in text, f"a rank that ends: {text}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_rows(folder, None)
        test_seed(folder, test_rows(folder, 2))
        test_refused()
        test_failure(folder)
        test_alone(folder)
    test_unlike()
    if has_open_mpi():
        test_missing()
        test_no_init()
        test_death()
    print(json.dumps({"failures": len(failures)}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
