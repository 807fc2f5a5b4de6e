"""The program `warpheap` from outside: good runs, results, determinism, bad requests.

Usage: bench.py PROGRAM SOURCE_FOLDER [brief]. Exit status 0 if everything held. brief: most cases
run with an allocator of each kind instead of all, and each is repeated under one policy.
"""
import gzip
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[2]), "tools"))
import rows as files  # noqa: E402 (of tools/)

PROGRAM = os.path.abspath(sys.argv[1])
BRIEF = sys.argv[3:] == ["brief"]
# An allocator for each thing that differs for the driver: those that free or not, reserve
# addresses, walk, have pages, may overlap.
KINDS_OF_ALLOCATORS = ["tessera", "null", "floor", "floor-plain", "bump", "gallatin", "ouro-s-p",
                       "rw", "corw", "page-queue", "rw-malloc", "cmalloc", "cfmmalloc"]
with open(os.path.join(sys.argv[2], "bench/cases/list.h"), encoding="utf-8") as LIST:
    CASES = re.findall(r'X\("([\w-]+)",', LIST.read())
STATE_CASES = ["full", "pressure", "drift", "streams", "waste"] # test_state_cases runs them
AGED_CASES = ["first", "server", "slabhash", "cells", "fill-log"] # test_aged_cases does
GRAPH_CASES = [c for c in CASES if c.startswith("graph-")] # test_graph_cases does
OPS_CASES = [c for c in CASES if c.startswith("ops-")] # test_ops_cases does
KDTREE_CASES = [c for c in CASES if c.startswith("kdtree")] # test_kdtree_cases does
SURVEY_CASES = ["repeat", "latency", "access", "work"] # test_survey_cases does
OWN_TESTS = SURVEY_CASES + STATE_CASES + AGED_CASES + GRAPH_CASES + OPS_CASES + KDTREE_CASES
KINDS = ["aim", "faim-update", "faim", "ouro"] # classes of graphs that stand in front of an op
HEADER = {"commit": str, "device": str, "driver": str, "compiler": str, "flags": str, "seed": int,
          "date": str, "limit": (int, float, type(None))}
ROW = {"alloc": str, "case": str, "phase": str, "op": str, "size": int, "threads": int,
       "reps": int, "us": (int, float), "us_min": (int, float), "us_max": (int, float),
       "ratio_null": (int, float, type(None)), "failed": int, "bad": int,
       "steps_per_op": (int, float), "atomics_per_op": (int, float)}
TIMES = re.compile(r'"(us|us_\w+|ratio_\w+|mops|date)":[^,}]*')

failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED:", what, flush=True)


def run(*args, folder=None, environment=None):
    return subprocess.run([PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=560, cwd=folder,
                          env={**os.environ, **(environment or {})})


def bench(*args):
    return run("bench", "--device", "sim", *args)


def of_each_kind():
    return ["--alloc", ",".join(KINDS_OF_ALLOCATORS)] if BRIEF else []


def results(folder, name, *args):
    path = os.path.join(folder, name)
    r = bench("--json", path, *args)
    check(r.returncode == 0, f"bench {args}: exit {r.returncode}, {r.stderr!r}")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    return text, files.parse(text), r


def complains(args, status, pattern, lines=1, environment=None):
    """The request is refused with this status and this text on stderr, and nothing runs."""
    r = run(*args, environment=environment)
    check(r.returncode == status, f"{args}: exit {r.returncode}, not {status}")
    check(re.search(pattern, r.stderr) is not None, f"{args}: stderr {r.stderr!r} lacks {pattern}")
    if lines:
        check(r.stderr.count("\n") == lines, f"{args}: {r.stderr!r} is not {lines} line(s)")
    check("Mops" not in r.stdout, f"{args}: a table was started")
    return r.stderr


def test_commands():
    for args in (["help"], ["--help"], ["bench", "--help"], ["info", "--help"],
                 ["registers", "--help"], ["--version"]):
        r = run(*args)
        check(r.returncode == 0 and r.stdout and not r.stderr, f"{args} prints its text")
    text = run("bench", "--help").stdout
    for word in ["--device", "--alloc", "--case", "--sizes", "--threads", "--heap", "--reps",
                 "--limit", "--seed", "--input", "--json", "--list"] + CASES:
        check(word in text, f"bench --help names {word}")
    complains([], 2, "no command.*bench, report, info, registers, top, view, diff, help")
    complains(["frob"], 2, "unknown command 'frob'; known: bench, report, info, registers, top")
    complains(["bench", "frob"], 2, "takes no argument 'frob'")
    complains(["info", "frob"], 2, "takes no argument 'frob'")
    complains(["bench", "--frob"], 2, "unrecognized option", lines=0)
    complains(["registers", "frob"], 2, "takes no argument 'frob'")
    complains(["registers", "--alloc", "bump,,null"], 2, "--alloc: .* empty entry")


def test_list():
    names = run("bench", "--list").stdout.splitlines()
    check({"null", "bump", "gallatin", "cuda"} <= set(names), f"--list: {names}")
    check(all(re.fullmatch(r"[a-z0-9_-]+", n) for n in names), "--list: one name a line")
    check(run("bench", "--list=allocs").stdout.splitlines() == names, "--list=allocs")
    check(set(STATE_CASES + AGED_CASES) < set(CASES), f"list.h: {CASES}")
    check(len(set(CASES)) == len(CASES), f"list.h: {CASES}")
    check(run("bench", "--list=cases").stdout.splitlines() == CASES, "--list=cases")
    check(run("bench", "--list", "cases").stdout.splitlines() == CASES, "--list cases")
    complains(["bench", "--list=frob"], 2, "unknown 'frob'; known: allocs, cases, suites")
    info = run("info")
    check(info.returncode == 0 and "simulated device" in info.stdout, "info lists the simulator")
    for n in names:
        check(re.search(rf"^ +{n} ", info.stdout, re.M) is not None, f"info lists {n}")
    check("gallatin" in info.stdout and "PPoPP" in info.stdout, "info names sources")
    return names


def check_rows(rows, r):
    """What holds of every row, and of the table beside them."""
    for row in rows:
        for key, kind in ROW.items():
            check(isinstance(row.get(key), kind), f"row {row['case']}: {key}")
        check(row["phase"] in ("cold", "warm"), "phase")
        check(row["us_min"] <= row["us"] <= row["us_max"], f"{row['case']}: min, median, max")
        check(row["bad"] == 0, f"{row['case']} {row['alloc']} {row['op']}: bad blocks")
    lines = r.stdout.splitlines()
    check(len(lines) == len(rows) + 1, "the table has one line a row and a header")
    check(all(w in lines[0] for w in ("x null", "Mops/s", "failed", "bad")), "table header")


def test_check(folder):
    for when in ("last", "every", "ends"):
        text, data, r = results(folder, f"check_{when}.jsonl", "--case", "single", "--sizes", "256",
                                "--threads", "64", "--reps", "3", "--heap", "8M", "--check", when)
        check(data.header["check"] == when, f"header: check is {when}")
        check_rows(data.rows, r)
        # Pages of 2048 bytes for 1050: some get NULL, and are counted in every round.
        rows = results(folder, f"nulls_{when}.jsonl", "--case", "single", "--alloc", "ouro-s-p",
                       "--sizes", "1050", "--threads", "4000", "--reps", "3", "--heap", "4M",
                       "--check", when)[1].rows
        for row in rows:
            least = 3 * (row["threads"] - 2048) # the heap has fewer than 2048 pages
            check(row["op"] == "free" or 0 < least <= row["failed"],
                  f"--check {when}: NULLs of three rounds: {row}")


def test_results(folder):
    text, data, r = results(folder, "all.jsonl", "--sizes", "256,1K", "--threads", "200",
                            "--reps", "2", "--seed", "7", "--heap", "8M", "--case",
                            ",".join(c for c in CASES if c not in OWN_TESTS),
                            *of_each_kind())
    for key, kind in HEADER.items():
        check(isinstance(data.header.get(key), kind), f"header: {key}")
    check(data.header["seed"] == 7, "header: seed")
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", data.header["date"]), "header: date")
    check("error" not in data.header, "a good run records no error")
    rows = data.rows
    check_rows(rows, r)
    check({row["case"] for row in rows} == set(CASES) - set(OWN_TESTS),
          "every case has rows")
    for row in rows:
        if row["case"] == "utilization":
            # small blocks in pages of 256 bytes waste most of them
            check(0.04 < row["utilization"] <= 1, f"utilization {row}")
        if row["case"] == "range":
            check(row["range_ratio"] >= 0.999, f"range {row}")
    def has(**want):
        return any(all(row[k] == v for k, v in want.items()) for row in rows)
    for phase in ("cold", "warm"):
        for op in ("malloc", "free"):
            for case in ("single", "mixed", "warp", "large"):
                check(has(alloc="gallatin", case=case, phase=phase, op=op, size=1024),
                      f"gallatin {case} {phase} {op}")
    for scope in ("lane", "warp", "block"):
        for op in (f"{scope}-malloc", f"{scope}-close"):
            check(has(alloc="tessera", case="arena", phase="warm", op=op, size=256, threads=4096,
                      failed=0), f"arena {op}")
    check(all("ratio_bump" in row for row in rows
              if row["case"] == "arena" and row["op"].endswith("malloc") and row["failed"] == 0),
          "arena: beside bump")
    check(has(alloc="null", case="single", op="malloc"), "null single")
    for op in ("malloc", "free"):
        for way in ("plain-", "", "nonstop-"):
            check(has(alloc="tessera", case="gauge", op=way + op, size=256, threads=200, failed=0),
                  f"gauge: {way}{op}")
        for way in ("plain-", ""):
            check(has(alloc="tessera", case="checked", op=way + op, size=256, threads=200,
                      failed=0), f"checked: {way}{op}")
    check(all(("ratio_plain" in row) == ("plain-" not in row["op"]) and row["alloc"] == "tessera"
              for row in rows if row["case"] in ("gauge", "checked")), "beside plain ones")
    check(not has(alloc="bump", op="free"), "bump has no free")
    check(has(alloc="gallatin", case="churn", op="churn"), "gallatin churn")
    for name in ("floor", "floor-plain"):
        for case in ("single", "mixed", "warp", "scaling", "large"):
            check(has(alloc=name, case=case, phase="warm", op="malloc", failed=0) and
                  has(alloc=name, case=case, phase="warm", op="free"), f"{name} {case}")
        check(has(alloc=name, case="churn", op="churn", failed=0), f"{name} churn")
        check(has(alloc=name, case="init", op="reset"), f"{name} reset")
        check(not has(alloc=name, case="utilization"), f"{name} never fills up")
    check(has(case="init", op="create") and has(case="init", op="reset"), "init rows")
    check(has(alloc="bump", case="single", op="malloc", threads=200, reps=2), "threads, reps")
    check(r.stderr == "", "no progress line without a terminal")


def share_of(row):
    """What has a time of its own: an allocator in a case, in those of graphs each class and graph,
    in those of operators each kind of tables, or heap, in those of k-d trees each mesh."""
    if row["case"] in KDTREE_CASES:
        return row["case"], row["alloc"], row["input"]
    if row["case"] in OPS_CASES:
        paper = row["case"].endswith("-paper")
        kind = re.sub(r"-\d+$", "", row["input"]) if row["case"] == "ops-group" else row["input"]
        return row["case"], row["alloc"], kind, row["size"] if paper else None
    if row["case"] not in GRAPH_CASES:
        return row["case"], row["alloc"]
    kind = next((k for k in KINDS if row["op"].startswith(k + "-")), "lattice")
    return row["case"], row["alloc"], row["input"], kind


def test_limit(folder):
    """A limit that is over once a series has ended: of each case the first thing is made, and the
    table and the JSON tell for each allocator from where on the rest is not."""
    # With --heap kdtree-tight has one series; test_kdtree_cases gives it a limit.
    cases = [c for c in CASES if c not in ("init", "reserve", "gauge", "checked", "graph",
                                            "kdtree-tight")]
    allocs = "bump,gallatin,tessera,corw,cfmmalloc"
    _, data, r = results(folder, "tiny.jsonl", "--case", ",".join(cases), "--sizes", "256,1K",
                         "--threads", "100,200", "--reps", "5", "--heap", "8M", "--alloc", allocs,
                         "--limit", "0.000001")
    rows, left_out = data.rows, data.left_out
    check(data.header["limit"] == 0.000001, "header: limit")
    told = [share_of(e) for e in left_out]
    check(len(set(told)) == len(told), "each case and allocator is told once")
    made = {share_of(row) for row in rows}
    whole = {("fragments", "corw")} # has blocks of one of the sizes
    unfilled = {share_of(e) for e in left_out if e["case"] in OPS_CASES and e["op"] == "fill"}
    check(set(told) - unfilled == made - whole, f"all are told: {set(told) ^ made}")
    check({share[0] for share in told} == set(cases), f"every case has a limit: {told}")
    first = {"single": {"size": 256, "threads": 200},
             "mixed": {"size_min": 16, "size": 256, "threads": 200},
             "scaling": {"size": 256, "threads": 200},
             "churn": {"size_min": 16, "size": 256, "threads": 200},
             "utilization": {"size": 256}, "range": {"size": 256, "threads": 200},
             "full": {"op": "malloc", "size": 256}, "pressure": {"op": "refuse", "size": 256},
             "drift": {"size_min": 12, "size": 20, "round": 1},
             "streams": {"size_min": 16, "size": 256, "threads": 400},
             "waste": {"size_min": 16, "size": 1024},
             "first": {"size": 256, "threads": 200},
             "server": {"size_min": 16, "size": 256, "threads": 200},
             "slabhash": {"size": 128, "threads": 200},
             "fill-log": {"op": "free", "size_min": 16, "size": 256},
             "lists": {"op": "AD", "size": 512, "threads": 96},
             "fragments": {"size": 512, "threads": 96}}
    for entry in left_out:
        case, alloc = entry["case"], entry["alloc"]
        mine = [row for row in rows if share_of(row) == share_of(entry)]
        if share_of(entry) in unfilled:
            check(mine == [], f"no row in a heap that is not full: {mine}")
            continue
        check(case in GRAPH_CASES or
              all((row["size"], row["threads"]) == (mine[0]["size"], mine[0]["threads"])
                  for row in mine), f"only the first series: {mine}")
        check((case in GRAPH_CASES + OPS_CASES + KDTREE_CASES) == ("input" in entry),
              f"input: {entry}")
        check(case in ("walk", "crossover", "scenarios", "graph-stream") or
              max(row["reps"] for row in mine) < 5, f"a series ends early: {mine}")
        end = rf", {entry['threads']} threads, {entry['input']}" if "input" in entry else ""
        begin = rf"{entry['op']}, " if "input" in entry else r".*\b"
        line = re.compile(rf"^{case} +{alloc} +left out from {begin}{entry['size']} B.*{end} on: "
                          r"[0-9.e-]+ s are over \(--limit\)$", re.M)
        check(len(line.findall(r.stdout)) == 1, f"a line of the table: {entry}")
        where = {k: v for k, v in entry.items() if k not in ("case", "alloc")}
        check(alloc == "corw" or where == first.get(case, where), f"from where on: {entry}")
    check(len(r.stdout.splitlines()) == len(rows) + len(left_out) + 1, "and no other line")
    for row in rows:
        check("utilization" not in row and "largest" not in row, f"not known in time: {row}")

    # The order is that of the request, and one series alone leaves nothing out.
    few = ["--case", "single", "--alloc", "bump", "--heap", "8M", "--threads", "100"]
    data = results(folder, "order.jsonl", *few, "--sizes", "1K,256", "--limit", ".000001")[1]
    check([e["size"] for e in data.left_out] == [256], f"left out: {data.left_out}")
    data = results(folder, "one.jsonl", *few, "--sizes", "1K", "--limit", "0.000001")[1]
    check(data.left_out == [] and data.rows, "one series is whole")
    data = results(folder, "ample.jsonl", *few, "--sizes", "256,1K", "--limit", "5000")[1]
    check(data.left_out == [] and data.header["limit"] == 5000, "an ample limit")
    check({row["size"] for row in data.rows} == {256, 1024}, "an ample limit: all sizes")
    data = results(folder, "none.jsonl", *few, "--sizes", "256,1K")[1]
    check(data.left_out == [] and data.header.get("limit") is None, "none on the simulated device")


def test_state_cases(folder):
    """The cases that look at what a heap becomes."""
    heap = 4 << 20
    # One of the lists: they drift slowly, half of the time that all take.
    lists = set() if BRIEF else {"cfmmalloc"}
    _, data, r = results(folder, "state.jsonl", "--case", ",".join(STATE_CASES), "--sizes",
                         "256,1K", "--threads", "200", "--reps", "2", "--heap", str(heap),
                         "--alloc", ",".join(["null,floor,bump,gallatin,tessera,rw,page-queue",
                                              "rw-malloc", *lists]))
    rows = data.rows
    check_rows(rows, r)
    allocs = {c: {row["alloc"] for row in rows if row["case"] == c} for c in STATE_CASES}
    check({"gallatin"} <= allocs["full"] & allocs["drift"] & allocs["waste"], "gallatin runs all")
    check({"null", "bump", "gallatin"} <= allocs["streams"], "streams runs without free, too")
    check("floor" in allocs["streams"], "streams runs where blocks overlap")
    for case in ("full", "pressure", "drift"):
        check(not {"null", "bump", "floor"} & allocs[case], f"{case} needs free, disjoint blocks")

    for lo, hi in ((None, 256), (None, 1024), (16, 256), (16, 1024)):
        mine = [row for row in rows if row["case"] == "full" and row["alloc"] == "gallatin"
                and (row.get("size_min"), row["size"]) == (lo, hi)]
        ops = [(row["op"], row.get("fill")) for row in mine]
        check(ops == [("fill", None)] + [(op, f) for f in (0.99, 0.9, 0.5)
                                         for op in ("malloc", "free")], f"full {lo} {hi}: {ops}")
        check(0.2 < mine[0]["utilization"] <= 1 and mine[0]["failed"] > 0, "full to a NULL")
        for row in mine[1:]:
            share = row["live"] / row["live_of"]
            check(abs(share - row["fill"]) < 0.05, f"full: {share} of the blocks are live: {row}")
            check(0 < row["threads"] <= min(200, (row["live_of"] - row["live"]) / 2),
                  f"full: what is free fits the threads: {row}")

    check({"gallatin", "tessera", "rw-malloc", "rw"} | lists <= allocs["pressure"],
          "pressure: who runs")
    for name in allocs["pressure"]:
        mine = [row for row in rows if row["case"] == "pressure" and row["alloc"] == name]
        sizes = [256] if name in ("rw", "page-queue") else [256, 1024]
        ops = [(row["op"], row.get("size_min"), row["size"]) for row in mine]
        check(ops == [("refuse", None, n) for n in sizes] + [("churn", 16, n) for n in sizes],
              f"pressure of {name}: {ops}")
        for row in mine:
            calls = 200 if row["op"] == "refuse" else 200 * 20
            check((row["threads"], row["ops"], row["reps"]) == (200, calls, 2), f"pressure: {row}")
            if row["op"] == "churn":
                check(row["failed"] == 0, f"pressure: NULLs with room: {row}")
            elif name in ("gallatin", "tessera"):
                check(row["failed"] == row["ops"] * row["reps"], f"a full heap refuses: {row}")
    own = results(folder, "pressure.jsonl", "--case", "pressure", "--alloc",
                   "gallatin,tessera,bump")[1].rows
    check({row["alloc"] for row in own} == {"gallatin", "tessera"}, "pressure needs free")
    for row in own:
        if row["op"] == "refuse":
            check(row["failed"] == row["ops"] * row["reps"] > 0, f"a full heap refuses: {row}")
        else:
            check(row["threads"] % 256 == 0 and row["reps"] == 1, f"pressure's own work: {row}")
            check(0 < row["failed"] < row["ops"], f"pressure: too little for all: {row}")

    mine = [row for row in rows if row["case"] == "drift" and row["alloc"] == "gallatin"]
    check([row["round"] for row in mine] == list(range(1, 25)), "drift: 24 rounds")
    check((mine[0]["size_min"], mine[0]["size"]) == (12, 20), "drift starts around 16 B")
    check((mine[-1]["size_min"], mine[-1]["size"]) == (3072, 5120), "drift ends around 4 KiB")
    check(mine[0]["failed"] == 0 and mine[0]["filled"] > 0.99, "drift: an empty heap fills")
    for row in mine:
        check(abs(row["filled"] - row["live_bytes"] / (heap / 2)) < 0.01, f"drift: filled: {row}")
        check(row["filled"] > 0.98 or row["failed"] > 0, f"drift: a short round has a NULL: {row}")
        check(row["range_ratio"] >= 0.999 and row["largest"] < heap, f"drift: {row}")

    for name in allocs["streams"]:
        mine = [row for row in rows if row["case"] == "streams" and row["alloc"] == name]
        pairs = 1 if name in ("rw", "page-queue") else 2 # these have no block of 1 KiB
        check([row["op"] for row in mine] == ["alone", "together"] * pairs, f"streams of {name}")
        for row in mine:
            check(row["threads"] == 400 and row["ops"] == 8000, f"streams: two kernels: {row}")
            check(row["failed"] == 0, f"streams: NULLs with room: {row}")
        for alone, both in zip(mine[::2], mine[1::2]):
            check(abs(both["ratio_alone"] - both["us"] / alone["us"]) < 0.01, "streams: ratio")

    # The heap is larger here: blocks of twice the request must fit.
    rows = results(folder, "waste.jsonl", "--case", "waste", "--sizes", "512,1K", "--alloc",
                   "gallatin", "--heap", "64M")[1].rows
    for row in rows: # Gallatin's slices are powers of two
        waste = {n: 1 - n / (1 << (n - 1).bit_length()) for n in range(16, row["size"] + 1)}
        worst = max(waste, key=waste.get)
        check(row["threads"] == len(waste) and row["failed"] == 0, f"waste: every size: {row}")
        check(abs(row["waste_mean"] - sum(waste.values()) / len(waste)) < 1e-4, f"mean: {row}")
        check(abs(row["waste_max"] - waste[worst]) < 1e-4, f"waste: largest: {row}")
        check(row["waste_max_size"] == worst, f"waste: where it is largest: {row}")
    check([row["size"] for row in rows] == [512, 1024], "waste up to each size")


def test_aged_cases(folder):
    """Heaps that are worked in for a while, by all allocators; and the same with plain kernels."""
    cases = ["--case", ",".join(AGED_CASES), "--rounds", "12", *of_each_kind()]
    _, data, r = results(folder, "aged.jsonl", *cases)
    check_rows(data.rows, r)
    def of(case, op, **want):
        return {row["alloc"]: row for row in data.rows if row["case"] == case and row["op"] == op
                and all(row.get(k) == v for k, v in want.items())}
    names = set(KINDS_OF_ALLOCATORS if BRIEF else run("bench", "--list").stdout.splitlines())
    names -= {"cuda"}
    small = {"rw", "rw-bm", "corw", "crw", "page-queue"} # blocks up to 256 B
    no_free = {"null", "bump", "bump-plain", "awmalloc", "fdgmalloc"}
    shared = {"null", "awmalloc", "floor", "floor-plain"} # blocks overlap
    check(set(of("first", "malloc", size=16)) == names, "first: all")
    check(set(of("first", "free", size=16)) == names - no_free, "first: free")
    check(set(of("server", "fill")) == set(of("server", "round")) == names - small, "server: all")
    for name, row in of("server", "round").items():
        check((row["threads"], row["ops"], row["reps"]) == (128, 128, 12), f"server: {row}")
        for key in ("us_early", "us_late", "touched"):
            check(isinstance(row.get(key), (int, float)), f"server: {key}: {row}")
        check(row["us_min"] <= row["us_early"] <= row["us_max"], f"server: {row}")
        check(row["live_bytes"] > 0 and (name in shared or row["touched"] >= 1), f"server: {row}")
    for op in ("insert", "find", "sweep", "pool-insert", "pool-sweep"):
        check(set(of("slabhash", op)) == names - shared - (no_free if "sweep" in op else set()),
              f"slabhash {op}: {set(of('slabhash', op))}")
    for name, row in [*of("slabhash", "insert").items(), *of("slabhash", "pool-insert").items()]:
        check((row["threads"], row["reps"], row["failed"]) == (1024, 12, 0), f"slabhash: {row}")
        check(103 <= row["slabs"] <= 206, f"slabhash: a slab or two for each bucket: {row}")
        check(row["us_first"] <= row["us_max"] >= row["us_last"], f"slabhash: {row}")
    check(set(of("cells", "step")) == names - small - {"kma"}, "cells: all") # kma: up to 16 KiB
    for name, row in of("cells", "step").items():
        check((row["threads"], row["reps"]) == (96, 12), f"cells: {row}")
        check(("largest" in row) == (name not in shared | no_free), f"cells: largest: {row}")
        if "largest" in row:
            check(0 < row["largest_of_free"] <= 1 and row["largest_fresh"] > 0, f"cells: {row}")
    check(set(of("fill-log", "fill")) == names - small - shared, "fill-log: who fills")
    for name, row in of("fill-log", "fill").items():
        check(0.1 < row["utilization"] <= row["utilization_end"] <= 1, f"fill-log: {row}")
        check(row["failed"] > 0 and row["last_served"] < 512, f"fill-log: ends by NULLs: {row}")
    for op, want in (("free", {}), ("half", {"size_min": 16}), ("half", {"size": 256})):
        rows = of("fill-log", op, **want)
        check(set(rows) == names - small - shared - no_free, f"fill-log: {op}: {set(rows)}")
    check(not any("form" in row for row in data.rows), "launch bounds are no form")

    text, data, r = results(folder, "plain.jsonl", "--plain", "--alloc", "tessera,rw-malloc,bump",
                            "--case", "single,mixed,warp,churn,server,slabhash", "--sizes", "256",
                            "--threads", "64", "--heap", "8M", "--rounds", "3")
    check_rows(data.rows, r)
    check(all(row["form"] == "plain" for row in data.rows), "plain rows say so")
    check({row["case"] for row in data.rows} ==
          {"single", "mixed", "warp", "churn", "server", "slabhash"}, "plain cases")
    bounded = results(folder, "bounded.jsonl", "--alloc", "tessera,rw-malloc,bump", "--case",
                      "single,mixed,warp,churn,server,slabhash", "--sizes", "256", "--threads",
                      "64", "--heap", "8M", "--rounds", "3")[0]
    strip = lambda text: TIMES.sub("", text.replace('"form":"plain",', "")).splitlines()[1:]
    check(strip(text) == strip(bounded), "on the simulated device plain kernels are the same")
    complains(["bench", "--plain", "--case", "single,cells"], 2, "'cells' has no plain kernels")
    complains(["bench", "--rounds", "0"], 2, "--rounds: '0' is not a number in 1..1000")


GRAPH_OPS = {
    "graph-sets": ["floor-append-uniform", "floor-append-focus", "floor-append-hub", "init",
                   "erase-present", "insert-back", "insert-uniform", "erase-uniform",
                   "insert-focus", "erase-focus", "insert-hub", "erase-hub", "has", "check"],
    "graph-mixed": ["mixed", "apart", "check"] +
                   [f"{op}-{mode}" for mode in ("values", "sorted", "both")
                    for op in ("insert", "erase", "mixed", "check")],
    "graph-vertices": ["floor-copy", "add", "remove", "add-names", "remove-names"],
    "graph-init": ["floor-copy", "create", "init", "to-csr", "degrees", "sweep"],
    "graph-memory": ["uniform", "random", "sweep", "grow", "rebuild"],
    "graph-stream": ["fill", "slide"],
    "graph-algorithms": ["floor-pull-lane", "floor-pull-warp", "floor-copy", "pagerank",
                         "pagerank-naive", "triangles", "triangles-naive", "components", "bfs",
                         "triangles-of-new", "triangles-after-new", "triangles-of-old",
                         "triangles-after-old", "pagerank-cold", "pagerank-warm"],
    "graph-expand": ["expand", "shrink"],
}


def test_survey_cases(folder):
    """Rounds, single calls, accesses and work, by one allocator of each kind."""
    allocs = "default,gallatin,ouro-s-p,corw,cfmmalloc,scatteralloc,fdgmalloc,bump,null"
    names = set(allocs.replace("default", "tessera").split(","))
    no_free = {"null", "bump", "fdgmalloc"}
    _, data, r = results(folder, "survey.jsonl", "--case", ",".join(SURVEY_CASES), "--alloc",
                         allocs, "--sizes", "64", "--threads", "256", "--rounds", "4", "--heap",
                         "8M")
    check_rows(data.rows, r)
    def of(case, op, **want):
        return {row["alloc"]: row for row in data.rows if row["case"] == case and row["op"] == op
                and all(row.get(k) == v for k, v in want.items())}
    for want in ({"size_min": None}, {"size_min": 16}):
        check(set(of("repeat", "malloc", phase="cold", **want)) == names, "repeat: cold")
        for op in ("malloc", "free"):
            warm = of("repeat", op, phase="warm", **want)
            check(set(warm) == names - no_free, f"repeat: {op}: {set(warm)}")
            for row in warm.values():
                check(row["reps"] == 4 and row["us_min"] <= row["us_mean"] <= row["us_max"] and
                      row["us_sd"] >= 0 and row["us_first"] > 0, f"repeat: {row}")
                check(op == "free" or 0.99 <= row["range_first"] <= row["range_most"] and
                      row["range_ratio"] <= row["range_most"], f"repeat: {row}")
        for op, who in (("malloc", names), ("free", names - no_free)):
            rows = of("latency", op, **want)
            check(set(rows) == who, f"latency: {op}: {set(rows)}")
            for row in rows.values():
                check(0 < row["ticks_null"] and 0 < row["ticks_p50"] <= row["ticks_p99"] <=
                      row["ticks_p999"] <= row["ticks_max"], f"latency: {row}")
                check(row["ticks_mean"] <= row["ticks_max"], f"latency: {row}")
        for op in ("write", "read"):
            rows = of("access", op, **want)
            check(set(rows) == names and all(row["us_packed"] > 0 and row["ratio_null"] > 0
                                             for row in rows.values()), f"access: {op}")
    rows = of("work", "work", size_min=4)
    check(set(rows) == names and all(row["us_scan"] > 0 and row["failed"] == 0
                                     for row in rows.values()), f"work: {set(rows)}")
    rows = results(folder, "metadata.jsonl", "--case", "init,utilization", "--alloc",
                   "default,gallatin", "--sizes", "48", "--heap", "2M")[1].rows
    for row in rows:
        if row["op"] == "create":
            check(0 < row["metadata_bytes"] < 1 << 21 and 0 < row["metadata_share"] < 1,
                  f"metadata: {row}")
        if row["case"] == "utilization":
            check(0 < row["rounds"] <= row["rounds_ideal"] == 21, f"rounds: {row}")


def check_graph_row(row, op):
    case = row["case"]
    if case == "graph-sets" and op.split("-")[0] in ("insert", "erase"):
        check(row["us_e2e"] > 0 and 0 < row["applied"] <= row["threads"], f"{case}: {row}")
        check(op != "erase-present" or row["applied"] > row["threads"] / 2, f"present: {row}")
    if case == "graph-mixed" and not op.startswith("check"):
        check(row["us_e2e"] > 0 and 0 < row["applied"] <= row["threads"], f"{case}: {row}")
    if case == "graph-vertices" and op != "floor-copy":
        check(row["us_e2e"] > 0 and row["applied"] == row["threads"], f"{case}: {row}")
        check(op.startswith("remove") == (row.get("arcs", 0) > 0), f"{case}: {row}")
    if case == "graph-init" and op == "init":
        plain = 4 * row["arcs"] + 32 * row["threads"]
        check(abs(row["of_plain"] - row["graph_bytes"] / plain) < 0.01, f"{case}: {row}")
        check(abs(row["bytes_per_arc"] - row["graph_bytes"] / row["arcs"]) < 0.01, f"{case}: {row}")
    if case == "graph-init" and op == "sweep":
        check(abs(row["of_before"] - row["bytes_after"] / row["bytes_before"]) < 0.001,
              f"{case}: {row}")
        check(row["failed"] == 0 and row["reps"] == 16, f"{case}: {row}")
    if case == "graph-memory" and op in ("uniform", "random", "sweep"):
        check(row["rounds"] == row["reps"] == 2 and row["full"] == 0, f"{case}: {row}")
        check(row["bytes_most"] >= max(row["bytes_before"], row["bytes_after"]), f"{case}: {row}")
    if op in ("grow", "rebuild"):
        check((op == "grow") == row["alloc"].startswith("ouro"), f"who can grow: {row}")
        check(row["heap_after"] >= row["heap_before"] * 1.05 ** row["reps"], f"{case}: {row}")
    if case == "graph-stream":
        check(row["window"] % row["threads"] == 0 and row["graph_bytes"] > 0, f"{case}: {row}")
    if case == "graph-expand":
        check(row["rounds"] == 2 and row["applied"] > 0 and row["us_first"] > 0, f"{case}: {row}")


def test_graph_cases(folder):
    """Each class of graphs, on generated graphs, on files and with little memory."""
    def of(name, *args):
        rows = results(folder, name, "--case", ",".join(GRAPH_CASES), "--rounds", "2", "--reps",
                       "2", *args)[1].rows
        check(all(row["bad"] == 0 for row in rows), f"graphs are sound: {args}")
        return rows
    rows = of("graphs.jsonl", "--alloc", "default,ouro-s-p", "--threads", "100")
    check({row["case"] for row in rows} == set(GRAPH_OPS), "each case is known here")
    kinds = {share_of(row)[3] for row in rows}
    check({"lattice", "faim"} <= kinds, f"classes: {kinds}")
    for row in rows:
        kind = share_of(row)[3]
        op = row["op"][len(kind) + 1:] if kind != "lattice" else row["op"]
        check(op in GRAPH_OPS[row["case"]], f"operation: {row}")
        check_graph_row(row, op)
    for case, ops in GRAPH_OPS.items():
        made = {row["op"] for row in rows if row["case"] == case}
        check(set(ops) <= made, f"{case}: {set(ops) - made} are missing")
    check("aim-add" in {row["op"] for row in rows} >= {"faim-remove"}, "whose vertices can go")
    check("aim-remove" not in {row["op"] for row in rows}, "none of aim")
    inputs = {case: {row["input"] for row in rows if row["case"] == case} for case in GRAPH_OPS}
    check(all(names == {"uniform", "rmat"} for names in inputs.values()), f"graphs: {inputs}")

    # Two triangles and a tail, with times: figures that are known.
    path = os.path.join(folder, "times.txt")
    arcs = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (5, 6), (0, 1)]
    with open(path, "w", encoding="ascii") as f:
        f.write("".join(f"{u} {v} {99 - t}\n" for t, (u, v) in enumerate(arcs)))
    rows = of("few.jsonl", "--alloc", "tessera", "--kinds", "lattice", "--threads", "2", "--input",
              path)
    def value(case, op, name):
        return [row[name] for row in rows if (row["case"], row["op"]) == (case, op)]
    check(value("graph-init", "init", "arcs") == [7], "an arc that is twice there counts once")
    check(value("graph-algorithms", "triangles", "triangles") == [2], f"triangles: {rows}")
    check(value("graph-algorithms", "components", "components") == [2], f"components: {rows}")
    check(value("graph-algorithms", "bfs", "reached") == [4], f"bfs: {rows}")
    old, rest = (value("graph-algorithms", f"triangles-{what}-old", "triangles")
                 for what in ("of", "after"))
    left = [some + others for some, others in zip(old, rest)]
    check(left == [2], f"those of a batch, and those without it: {rows}")
    check(value("graph-vertices", "add-names", "applied") == [2], f"vertices: {rows}")
    check(value("graph-stream", "slide", "window") == [2], f"stream: {rows}")
    check(value("graph-stream", "slide", "reps") == [3], f"stream: {rows}")
    check(all(share_of(row)[3] == "lattice" for row in rows), "--kinds")

    # A heap that some round fills: arcs are refused, and counted, and that is all.
    rows = results(folder, "full.jsonl", "--case", "graph-expand", "--alloc", "tessera", "--kinds",
                   "lattice", "--heap", "192K", "--threads", "2K", "--rounds", "12")[1].rows
    full = [row for row in rows if row["op"] == "expand" and row["failed"] > 0]
    check(full and all(row["rounds"] < 12 and row["bad"] == 0 for row in full), f"full: {rows}")
    r = bench("--case", "graph-expand", "--alloc", "tessera", "--heap", "112K")
    check(r.returncode == 1 and "is too small for 'uniform'" in r.stderr, f"too small: {r.stderr}")


OPS_INPUTS = {
    "ops-join": ["1-1", "out-10", "dup-100", "zipf-0.5", "zipf-1.0"],
    "ops-group": ["uniform-8", "uniform-500", "zipf-1.0-8", "zipf-1.0-500"] +
                 [f"sweep-{(1 << k) + more}" for k in range(9) for more in (0, k > 0)],
    "ops-join-paper": ["free-5", "free-50"], "ops-group-paper": ["free-5", "free-50"],
}
OPS_STAGES = ["pages-partition", "paged-partition"]
OPS_NAMES = {"ops-join": ["two-pass", "paged", "pages", "paper"] + OPS_STAGES,
             "ops-group": ["adaptive", "two-pass"],
             "ops-join-paper": ["two-pass", "paper", "pages", "paged"],
             "ops-group-paper": ["paper"]}


def check_ops_row(row):
    case, op, n = row["case"], row["op"], row["threads"]
    what = f"{case} {op} {row['input']}: {row}"
    check(row["ops"] == (2 * n if "join" in case and op not in OPS_STAGES else n), what)
    if op in OPS_STAGES:
        check("out_rows" not in row and ("ratio_pages" in row) == (op == "paged-partition"), what)
        return
    check((row["verified"], row["failed"], row["stops"]) == (1, 0, 0), what)
    check(("free_share" in row) == case.endswith("-paper"), what)
    check(("us_compact" in row) == (op != "two-pass" and case != "ops-group-paper"), what)
    check(("ratio_two_pass" in row) == ("join" in case and op != "two-pass"), what)
    if "join" in case:
        copies = {"out-10": 10, "dup-100": 100}.get(row["input"], 1)
        check(row["out_rows"] == n * copies, what)
    elif case == "ops-group":
        keys = int(row["input"].rsplit("-", 1)[1])
        check(keys / 3 < row["out_rows"] <= keys, what)
        check("ratio_power" not in row or row["input"].startswith("sweep"), what)


def test_ops_cases(folder):
    """Joins and group-bys, whose every row is verified; and with too little memory."""
    cases = ["--case", ",".join(OPS_CASES)]
    rows = results(folder, "ops.jsonl", *cases, "--alloc", "default,bump,corw,ouro-s-p")[1].rows
    check({row["case"] for row in rows} == set(OPS_INPUTS), "each case is known here")
    check("bump" not in {row["alloc"] for row in rows}, "operators free")
    for row in rows:
        check_ops_row(row)
        check(row["bad"] == 0 and row["us"] > 0, f"sound: {row}")
    for case, inputs in OPS_INPUTS.items():
        of_default = [row for row in rows if (row["case"], row["alloc"]) == (case, "tessera")]
        check({row["input"] for row in of_default} == set(inputs), f"{case}: tables, heaps")
        check({row["op"] for row in of_default} == set(OPS_NAMES[case]), f"{case}: variants")

    # Where no allocator is named, others than the default one have one row for each table.
    rows = results(folder, "of_all.jsonl", "--case", "ops-join,ops-join-paper", "--threads",
                   "64")[1].rows
    check({"tessera", "gallatin"} <= {row["alloc"] for row in rows}, "all allocators that free")
    for case, op in (("ops-join", "paged"), ("ops-join-paper", "paper")):
        mine = [row for row in rows if row["case"] == case and row["alloc"] != "tessera"]
        check({row["op"] for row in mine} == {op} and all(row["verified"] for row in mine),
              f"{case} of all: {mine}")

    # A join that pauses for want of memory is verified as a whole; one that cannot go on is told.
    rows = results(folder, "pauses.jsonl", "--case", "ops-join", "--alloc", "tessera", "--heap",
                   "160K")[1].rows
    paused = [row for row in rows if row.get("stops")]
    check(paused and all(row["verified"] for row in paused), f"pauses: {rows}")
    rows = results(folder, "cut.jsonl", "--case", "ops-group-paper", "--alloc", "tessera",
                   "--heap", "256K", "--threads", "512")[1].rows
    check([(row["verified"], row["failed"], row["reps"]) for row in rows] ==
          [(0, 1, 1), (1, 0, 1)], f"too little for the rows under way: {rows}")
    rows = results(folder, "pages.jsonl", "--case", "ops-join,ops-group", "--alloc", "tessera",
                   "--sizes", "256,512,2K", "--threads", "128")[1].rows
    check({(row["case"], row["size"]) for row in rows} ==
          {("ops-join", 512), ("ops-join", 2048), ("ops-group", 2048)}, "pages hold 32 rows")


KDTREE_OPS = {"build", "build-boxes", "build-points", "trace", "frames"}


def check_kdtree_row(row):
    """A row of a tree that has all its nodes."""
    op, n, what = row["op"], row["threads"], f"{row['case']} {row['op']}: {row}"
    check((row["verified"], row["bad"], row["failed"], row["cut_leaves"]) == (1, 0, 0, 0), what)
    check(row["size"] == 4 * n and row["nodes"] % 2 == 1 and row["us"] > 0, what)
    check(row["requests"] >= row["nodes"] / 4 and row["request_mean"] >= 16, what)
    check(row["references"] == 1 if op == "build-points" else row["references"] > 1, what)
    check(("ratio_bump" in row) == op.startswith("build"), what)
    check(("us_frame" in row) == (op == "frames"), what)
    check(row["ops"] == {"trace": 256, "frames": 2 * n}.get(op, n), what)


def test_kdtree_cases(folder):
    """Trees of made meshes and of files; heaps that are too small; what has no row says why."""
    allocs = "default,bump,corw,cfmmalloc,awmalloc,floor,null"
    _, data, r = results(folder, "kdtree.jsonl", "--case", ",".join(KDTREE_CASES), "--alloc",
                         allocs, "--threads", "72", "--seed", "3")
    ample = [row for row in data.rows if row["case"] == "kdtree"]
    for row in ample:
        check_kdtree_row(row)
    for alloc in ("tessera", "bump", "corw", "cfmmalloc"):
        ops = {row["op"] for row in ample if row["alloc"] == alloc}
        check(ops == KDTREE_OPS - ({"frames"} if alloc == "bump" else set()), f"{alloc}: {ops}")
    same = ("references", "nodes", "cost", "requests", "request_mean", "request_deviation")
    check(len({tuple(row[k] for k in same) for row in ample if row["op"] == "build"}) == 1,
          "the same tree with each allocator")
    told = {(e["case"], e["alloc"]) for e in data.left_out if "overlap" in e["error"]}
    check(told == {(c, a) for c in KDTREE_CASES for a in ("awmalloc", "floor", "null")},
          f"no trees: {data.left_out}")
    check(len(re.findall(r"left out: its blocks may overlap", r.stdout)) == 6, "the table tells")

    # 20 times the root's array is too little for what does not free, and is told all the same;
    # trees are right, and there is a least heap.
    tight = {(row["alloc"], row["op"]): row for row in data.rows if row["case"] == "kdtree-tight"}
    check(len(tight) == 8, f"two rows for each: {tight.keys()}")
    cut = tight["bump", "build"]
    check(cut["verified"] == 1 and cut["failed"] > 0 and cut["cut_leaves"] > 0 and
          "ratio_bump" not in cut and cut["pool"] == 20, f"bump frees nothing: {cut}")
    for alloc in ("tessera", "bump", "corw", "cfmmalloc"):
        check_kdtree_row(tight[alloc, "build-least"])
    pools = {alloc: tight[alloc, "build-least"]["pool"] for alloc in ("bump", "cfmmalloc")}
    check(pools["cfmmalloc"] < pools["bump"], f"what is freed is used again: {pools}")
    rows = results(folder, "heap.jsonl", "--case", "kdtree-tight", "--alloc", "bump", "--heap",
                   "64K", "--threads", "72")[1].rows
    check([(row["op"], row["failed"]) for row in rows] == [("build", 0)], f"--heap: {rows}")
    data = results(folder, "over.jsonl", "--case", "kdtree-tight", "--alloc", "bump", "--threads",
                   "32,72", "--limit", "0.000001")[1]
    check([row["op"] for row in data.rows] == ["build"] * 2, f"first series: {data.rows}")
    check([(e["op"], e["size"], e["input"]) for e in data.left_out] ==
          [("build-least", 128, "made-32"), ("build-least", 288, "made-72")], f"{data.left_out}")
    rows = results(folder, "none.jsonl", "--case", "kdtree", "--threads", "72")[1].rows
    check({row["op"] for row in rows if row["alloc"] == "gallatin"} == {"build"},
          "where no allocator is named, others than the default one have one row")


def test_kdtree_files(folder):
    def write(name, text, opener=open):
        path = os.path.join(folder, name)
        with opener(path, "wt", encoding="ascii") as f:
            f.write(text)
        return path
    corners = "".join(f"v {x} {y} {z}\n" for x in (0, 1) for y in (0, 1) for z in (0, 1))
    cube = write("cube.obj", corners + "f 1 2 4 3\nf 5 6 8 7\n")
    packed = write("cube.obj.gz", corners + "f 1 3 7 5\n", gzip.open)
    few = ["--case", "kdtree", "--alloc", "tessera", "--reps", "1"]
    r = bench(*few, "--input", cube)
    if r.returncode == 2 and "assimp" in r.stderr:
        return # this build reads no meshes
    arcs = write("arcs.txt", "0 1\n1 2\n2 0\n")
    data = results(folder, "files.jsonl", *few, "--case", "graph", "--input", cube, "--input", arcs,
                   "--input", packed)[1]
    names = [(row["input"], row["threads"]) for row in data.rows if row["op"] == "build"]
    check(names == [(name + copies, n * k) for name, n in (("cube.obj", 4), ("cube.obj.gz", 2))
                    for copies, k in (("", 1), ("-x8", 8), ("-x64", 64)) if n * k <= 200],
          f"files: {names}")
    check(all(row.get("verified", 1) == 1 and row["bad"] == 0 for row in data.rows), "verified")
    check({row["input"] for row in data.rows if row["case"] == "graph"} == {"arcs.txt"},
          "graphs and meshes are told apart")
    data = results(folder, "graph_only.jsonl", "--case", "graph", "--alloc", "tessera")[1]
    check({row["input"] for row in data.rows} == {"generated"}, "no graph file")
    start = ["bench", "--device", "sim"]
    complains([*start, "--case", "single", "--input", cube], 2,
              "cases kdtree and kdtree-\\*, which")
    complains([*start, "--case", "graph", "--input", cube], 2, "cases kdtree and kdtree-\\*, which")
    complains([*start, "--case", "kdtree", "--input", arcs], 2, "cases graph and graph-\\*, which")
    complains([*start, "--case", "kdtree", "--input", os.path.join(folder, "none.obj")], 2,
              "none.obj")
    complains([*start, "--case", "kdtree", "--input", write("wrong.ply", "ply\nformat\n")], 2,
              "wrong.ply")
    complains([*start, "--case", "kdtree", "--input", cube, "--json", cube], 2,
              "is an input, which the results would overwrite")


def test_registers():
    """Here without a GPU: one line that says what it takes."""
    if "cuda:0" not in run("info").stdout:
        complains(["registers"], 2, "(need a CUDA build|only where there is a CUDA GPU).*"
                  "tools/compile_cost.py")
        return
    r = run("registers", "--alloc", "bump,gallatin")
    check(r.returncode == 0 and not r.stderr, f"registers: {r.stderr!r}")
    lines = [line.split() for line in r.stdout.splitlines()[1:]]
    check([line[:2] for line in lines] == [[a, k] for a in ("bump", "gallatin")
                                           for k in ("malloc_free", "malloc_free_alone", "malloc",
                                                     "free", "malloc_plain")],
          f"registers: five kernels each: {lines}")
    check(all(1 <= int(line[2]) <= 255 for line in lines), f"registers: {lines}")


def test_compile_cost(folder):
    """The figures that tools/compile_cost.py wrote, with a GPU or without."""
    path = os.path.join(folder, "cost.json")
    cost = {"allocator": "default", "arch": "sm_90", "nvcc": "13.0", "cpu_seconds": 9.5,
            "registers": 250, "stack_bytes": 144, "code_bytes": 651136, "max_threads": 256}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(cost, f)
    r = run("registers", "--compile-cost", path)
    check(r.returncode == 0 and not r.stderr, f"--compile-cost: {r.returncode} {r.stderr!r}")
    shown = [line.split()[0] for line in r.stdout.splitlines()[1:]]
    check(shown == ["250", "256", "144", "651136", "9.5"], f"--compile-cost: {r.stdout}")
    check("sm_90, nvcc 13.0" in r.stdout, f"--compile-cost: for what: {r.stdout}")
    complains(["registers", "--compile-cost", path + "x"], 2, "cost.jsonx")
    for key in cost.keys() - {"allocator"}:
        with open(path, "w", encoding="utf-8") as f:
            json.dump({k: v for k, v in cost.items() if k != key}, f)
        complains(["registers", "--compile-cost", path], 2, "is not a file of")


def test_determinism(folder):
    # The others do the same things.
    graphs = ["graph-sets", "graph-mixed", "graph-stream", "graph-algorithms", "ops-join",
              "ops-group"]
    args = ["--case", ",".join(c for c in CASES if c not in OWN_TESTS or c in graphs), "--alloc",
            "default,bump,corw", "--sizes", "64,1K", "--threads", "300", "--reps", "2", "--heap",
            "8M", "--kinds", "lattice"]
    state = ["--case", ",".join(STATE_CASES), "--alloc", "default", "--sizes", "256",
             "--threads", "100", "--reps", "2", "--heap", "2M"]
    aged = ["--case", ",".join(AGED_CASES), "--alloc", "default", "--rounds", "3"]
    trees = ["--case", ",".join(KDTREE_CASES), "--alloc", "default", "--threads", "32"]
    runs = itertools.product(("round-robin", "random"), (args, state, aged, trees))
    if BRIEF:
        runs = (("random", args), ("round-robin", state), ("random", aged), ("round-robin", trees))
    for policy, what in runs:
        texts = [results(folder, f"{policy}{i}.jsonl", *what, "--seed", s, "--policy", policy)[0]
                 for i, s in enumerate(("5", "5", "6"))]
        bare = [TIMES.sub("", t) for t in texts]
        check(bare[0] == bare[1], f"{policy}: the same seed gives the same results")
        check(bare[0] != bare[2], f"{policy}: another seed gives other results")
    for policy in ("sticky", "pct", "stall"):
        results(folder, "policy.jsonl", "--case", "single", "--alloc", "bump", "--sizes", "16",
                "--threads", "64", "--policy", policy)


def test_alias(folder):
    rows = results(folder, "alias.jsonl", "--case", "single", "--alloc", "default,tessera",
                   "--sizes", "16", "--threads", "32")[1].rows
    check({row["alloc"] for row in rows} == {"tessera"}, "default is tessera")
    check(len(rows) == 4, "the same allocator twice runs once")


def test_graph(folder):
    plain = os.path.join(folder, "g.mtx")
    with open(plain, "w", encoding="ascii") as f:
        f.write("%%MatrixMarket matrix coordinate pattern general\n% two rings\n6 6 6\n"
                "1 2\n2 3\n3 1\n4 5\n5 6\n6 4\n")
    packed = os.path.join(folder, "e.txt.gz")
    with gzip.open(packed, "wt", encoding="ascii") as f:
        f.write("# an edge list\n" + "".join(f"{i % 9}\t{i * 7 % 9}\n" for i in range(60)))
    rows = results(folder, "graph.jsonl", "--case", "graph", "--alloc", "gallatin", "--input",
                   plain, "--input", packed)[1].rows
    check({row["input"] for row in rows} == {"g.mtx", "e.txt.gz"}, "a row names its file")
    check({"init", "insert", "delete"} <= {row["op"] for row in rows}, "graph operations")
    check(all(row["bad"] == 0 and row["failed"] == 0 for row in rows), "graph verified")

    wrong = os.path.join(folder, "wrong.mtx")
    with open(wrong, "w", encoding="ascii") as f:
        f.write("%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n1 x\n")
    complains(["bench", "--device", "sim", "--case", "graph", "--input", wrong], 2,
              re.escape(wrong) + ":4: ")
    complains(["bench", "--device", "sim", "--input", os.path.join(folder, "none.mtx")], 2,
              "none.mtx")
    complains(["bench", "--device", "sim", "--case", "single", "--input", plain], 2,
              "cases graph and graph-\\*, which are not to run")


def test_options(folder):
    """Options reach the heaps of their family, and the header says which they were."""
    rows = []
    for options in (), ("tessera.chunk_bytes=1K", "tessera.shards=2"):
        _, data, _ = results(folder, "options.jsonl", "--case", "utilization", "--alloc", "tessera",
                             "--sizes", "1600", "--heap", "1M", "--reps", "1",
                             *(word for option in options for word in ("--option", option)))
        rows.append([row["utilization"] for row in data.rows])
        numbers = dict(option.replace("1K", "1024").split("=")
                       for option in options)
        check(data.header["options"] == {name: int(n) for name, n in numbers.items()},
              f"options: header {data.header['options']}")
    for alloc, option, size in (("rw", "random_walk.page_bytes", 8192),
                                ("page-queue", "page_queue.page_bytes", 8192),
                                ("rw-malloc", "rwmalloc.unit_bytes", 4096)):
        for case in ("walk", "scenarios") if alloc == "rw-malloc" else ("walk",):
            _, data, _ = results(folder, "pages.jsonl", "--case", case, "--alloc", alloc,
                                 "--heap", "8M", "--reps", "1", "--option", f"{option}={size}")
            check(any(row["size"] == size for row in data.rows) and
                  all(row["bad"] == 0 for row in data.rows) and
                  (case != "walk" or all(row["failed"] == 0 for row in data.rows)),
                  f"{case} of {alloc} with {option}={size}: {data.rows}")
    check(rows[0] != rows[1], f"options: chunks of 1 KiB change what fits: {rows}")


def test_bad_requests(folder, names):
    known = ", ".join(names)
    sim = ["bench", "--device", "sim"]
    complains(sim + ["--alloc", "nosuch"], 2,
              f"unknown allocator 'nosuch'; known: {re.escape(known)}, default$")
    complains(sim + ["--alloc", "bump,ouro-s-q"], 2, "unknown allocator 'ouro-s-q'")
    complains(sim + ["--case", "frob"], 2, f"unknown case 'frob'; known: {', '.join(CASES)}$")
    complains(sim + ["--alloc", "bump,,null"], 2, "--alloc: .* empty entry")
    complains(sim + ["--alloc", "cuda"], 2, "'cuda' does not run on simulated device")
    for option in ("--sizes", "--threads", "--heap"):
        for text in ("12x", "", "-4", "0", "4KB", "99999999999999999999", "17179869184G"):
            complains(sim + [f"{option}={text}"], 2,
                      f"{option}: '{text}' is not a number above 0")
    complains(sim + ["--sizes", "16,,32"], 2, "--sizes: '' is not a number")
    complains(sim + ["--sizes", "8G"], 2, "size 8589934592 is not in")
    for text in ("0", "x", "1001", "-1"):
        complains(sim + [f"--reps={text}"], 2, f"--reps: '{text}' is not a number in 1..1000")
    for text in ("0", "0.0", "", ".", "x", "-1", "1.2.3", "1e3", "0,5", "inf", "nan", "1 ", "2s",
                 "9" * 400):
        complains(sim + [f"--limit={text}"], 2,
                  re.escape(f"--limit: '{text}' is not a number of seconds above 0"))
    complains(sim + ["--seed", "abc"], 2, "--seed: 'abc'")
    for text in ("tessera.shards", "shards=4", "tessera.shards=x", "frob.shards=4"):
        complains(sim + ["--option", text], 2, "--option: ")
    complains(sim + ["--alloc", "tessera", "--option", "rwmalloc.unit_bytes=64"], 2,
              "an option of the family 'rwmalloc', of which .*; measured families: tessera$")
    complains(sim + ["--option", "tessera.shards=2", "--option", "tessera.shards=2"], 2,
              "--option: 'tessera.shards' is given twice")
    complains(sim + ["--alloc", "tessera", "--option", "tessera.chunk_bytes=3"], 2,
              "'tessera': an option is out of its range")
    complains(sim + ["--kinds", "lattice,frob"], 2,
              "unknown class of graphs 'frob'; known: lattice, ")
    complains(sim + ["--kinds", "lattice,,faim"], 2, "--kinds: .* empty entry")
    complains(sim + ["--policy", "frob"], 2, "--policy: unknown 'frob'; known: round-robin, ")
    complains(sim + ["--check", "frob"], 2, "--check: unknown 'frob'; known: last, every, ends")
    complains(["bench", "--device", "frob"], 2, "unknown device 'frob'; known: auto, sim, cuda")
    for text in ("sms", "sms=x", "frob=1", "policy=frob"):
        complains(sim, 2, f"WH_SIM={text} is not KEY=VALUE,... with keys seed, policy",
                  environment={"WH_SIM": text})
    complains(["bench", "--device", "cuda:x"], 2, "device 'cuda:x'")
    complains(["bench", "--device", "cuda:99"], 2, "device 'cuda:99': there (is|are)")
    if "cuda:0" not in run("info").stdout:
        complains(["bench", "--device", "cuda"], 2, "no usable CUDA GPU here .*; --device sim")
    complains(sim + ["--json", os.path.join(folder, "no", "such.json")], 2, "cannot write")
    complains(sim + ["--heap", "4096G"], 2, "a heap of .* is more than")


def test_nothing_to_measure():
    """A request of which nothing can be measured is refused, and one with nothing to do is not."""
    complains(["bench", "--device", "sim", "--case", "single", "--alloc", "bump", "--sizes", "1G",
               "--heap", "8M"], 2, "nothing was measured")
    complains(["bench", "--device", "sim", "--case", "walk", "--alloc", "rw", "--threads",
               "2000000000"], 2, "nothing was measured")
    r = bench("--case", "drift", "--alloc", "cmalloc", "--heap", "4K", "--seed", "2")
    check(r.returncode == 0, f"a round of drift that neither mallocs nor frees: {r.stderr!r}")
    check("nan" not in r.stdout, "a round of drift without operations has figures")
    r = bench("--case", "scenarios", "--alloc", "rw-malloc", "--reps", "1", "--threads", "64")
    steps = [float(line.split()[11]) for line in r.stdout.splitlines() if "malloc+free" in line]
    check(len(steps) > 0 and min(steps) > 0, f"malloc+free passes scheduling points: {steps}")


def test_output(folder):
    """What cannot be written is said; an input is not overwritten."""
    few = [PROGRAM, "bench", "--device", "sim", "--case", "single", "--alloc", "bump", "--sizes",
           "16", "--threads", "32"]
    commands = [["info"], ["help"], ["--help"], ["--version"], ["bench", "--list"],
                ["bench", "--list=cases"], ["bench", "--help"], ["bench", "--usage"],
                ["info", "--help"], ["registers", "--help"]]
    for command in [few, *([PROGRAM, *words] for words in commands)]:
        with open("/dev/full", "w", encoding="utf-8") as full:
            r = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True,
                               timeout=60, check=False)
        check((r.returncode, r.stderr) == (1, "warpheap: cannot write to standard output\n"),
              f"/dev/full: {command[1:]}: {r.returncode} {r.stderr!r}")
    graph = os.path.join(folder, "same.txt")
    with open(graph, "w", encoding="utf-8") as f:
        f.write("0 1\n1 2\n")
    same = os.path.join(folder, ".", "same.txt")
    complains(["bench", "--device", "sim", "--case", "graph", "--alloc", "bump", "--input", graph,
               "--json", same], 2, "is an input, which the results would overwrite")
    with open(graph, encoding="utf-8") as f:
        check(f.read() == "0 1\n1 2\n", "the input is as it was")


def test_ended_early(folder):
    """Rows are in the file before the run is over; the header says that it is not."""
    path = os.path.join(folder, "early.jsonl")
    command = [PROGRAM, "bench", "--device", "sim", "--case", "kdtree", "--alloc", "bump",
               "--threads", "3000,3001,3002,3003,3004,3005", "--json", path]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        text = ""
        for _ in range(600):
            time.sleep(0.1)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as f:
                    text = f.read()
            if text.count("\n") >= 2 or child.poll() is not None:
                break
        child.kill()
    data = files.parse(text[:text.rfind("\n") + 1]) # the last line may be under way
    check(len(data.rows) >= 1 and "error" in data.header, f"ended early: {text[:300]!r}")


def test_schedule(folder):
    """What WH_SIM says of the schedule is in the results; a file of schedules that is not there."""
    path = os.path.join(folder, "schedule.jsonl")
    few = ["bench", "--device", "sim", "--case", "single", "--alloc", "bump", "--sizes", "16",
           "--threads", "64", "--reps", "1"]
    r = run(*few, "--json", path, environment={"WH_SIM": "policy=random,seed=7"})
    check(r.returncode == 0, f"WH_SIM: {r.stderr!r}")
    header = files.read(path).header
    check(header["policy"] == "random" and "seed 7" in header["driver"], f"WH_SIM: {header}")
    complains(few, 2, "the file of schedules in .*WH_SIM=replay=/none: .*; correct its path",
              environment={"WH_SIM": "replay=/none"})


def test_small_heap():
    text = complains(["bench", "--device", "sim", "--alloc", "gallatin", "--heap", "256"], 2,
                     r"a heap of 256 bytes is too small for 'gallatin', .* at least \d+")
    least = int(re.search(r"at least (\d+)", text).group(1))
    args = ["--alloc", "gallatin", "--case", "single", "--sizes", "16", "--threads", "32"]
    r = bench(*args, "--heap", str(least))
    check(r.returncode == 0, f"the least heap that was named suffices: {r.stderr!r}")
    complains(["bench", "--device", "sim", *args, "--heap", str(least - 1)], 2, "too small")


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_commands()
        names = test_list()
        test_check(folder)
        test_results(folder)
        test_limit(folder)
        test_state_cases(folder)
        test_aged_cases(folder)
        test_survey_cases(folder)
        test_registers()
        test_compile_cost(folder)
        test_determinism(folder)
        test_alias(folder)
        test_graph(folder)
        test_graph_cases(folder)
        test_ops_cases(folder)
        test_kdtree_cases(folder)
        test_kdtree_files(folder)
        test_bad_requests(folder, names)
        test_nothing_to_measure()
        test_output(folder)
        test_ended_early(folder)
        test_schedule(folder)
        test_small_heap()
        test_options(folder)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
