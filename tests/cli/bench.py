"""The program `warpheap` from outside: good runs, results, determinism, bad requests.

Usage: bench.py PROGRAM [SOURCE_FOLDER]. Exit status 0 if everything held.
"""
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
CASES = ["single", "mixed", "warp", "scaling", "churn", "large", "init", "utilization", "range",
         "graph", "walk", "crossover", "scenarios", "lists", "fragments"]
META = {"commit": str, "device": str, "driver": str, "compiler": str, "flags": str, "seed": int,
        "date": str}
ROW = {"alloc": str, "case": str, "phase": str, "op": str, "size": int, "threads": int,
       "reps": int, "us": (int, float), "us_min": (int, float), "us_max": (int, float),
       "ratio_null": (int, float, type(None)), "failed": int, "bad": int,
       "steps_per_op": (int, float), "atomics_per_op": (int, float)}
TIMES = re.compile(r'^ *"(us|us_min|us_max|us_null|ratio_null|mops|date)": .*$', re.M)

failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED:", what, flush=True)


def run(*args, folder=None):
    return subprocess.run([PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=280, cwd=folder)


def bench(*args):
    return run("bench", "--device", "sim", *args)


def results(folder, name, *args):
    path = os.path.join(folder, name)
    r = bench("--json", path, *args)
    check(r.returncode == 0, f"bench {args}: exit {r.returncode}, {r.stderr!r}")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    return text, json.loads(text), r


def complains(args, status, pattern, lines=1):
    """The request is refused with this status and this text on stderr, and nothing runs."""
    r = run(*args)
    check(r.returncode == status, f"{args}: exit {r.returncode}, not {status}")
    check(re.search(pattern, r.stderr) is not None, f"{args}: stderr {r.stderr!r} lacks {pattern}")
    if lines:
        check(r.stderr.count("\n") == lines, f"{args}: {r.stderr!r} is not {lines} line(s)")
    check("Mops" not in r.stdout, f"{args}: a table was started")
    return r.stderr


def test_commands():
    for args in (["help"], ["--help"], ["bench", "--help"], ["info", "--help"], ["--version"]):
        r = run(*args)
        check(r.returncode == 0 and r.stdout and not r.stderr, f"{args} prints its text")
    text = run("bench", "--help").stdout
    for word in ["--device", "--alloc", "--case", "--sizes", "--threads", "--heap", "--reps",
                 "--seed", "--input", "--json", "--list"] + CASES:
        check(word in text, f"bench --help names {word}")
    complains([], 2, "no command.*bench, info, help")
    complains(["frob"], 2, "unknown command 'frob'; known: bench, info, help")
    complains(["bench", "frob"], 2, "takes no argument 'frob'")
    complains(["info", "frob"], 2, "takes no argument 'frob'")
    complains(["bench", "--frob"], 2, "unrecognized option", lines=0)


def test_list():
    names = run("bench", "--list").stdout.splitlines()
    check({"null", "bump", "gallatin", "cuda"} <= set(names), f"--list: {names}")
    check(all(re.fullmatch(r"[a-z0-9_-]+", n) for n in names), "--list: one name a line")
    check(run("bench", "--list=allocs").stdout.splitlines() == names, "--list=allocs")
    check(run("bench", "--list=cases").stdout.splitlines() == CASES, "--list=cases")
    check(run("bench", "--list", "cases").stdout.splitlines() == CASES, "--list cases")
    complains(["bench", "--list=frob"], 2, "unknown 'frob'; known: allocs, cases")
    info = run("info")
    check(info.returncode == 0 and "simulated device" in info.stdout, "info lists the simulator")
    for n in names:
        check(re.search(rf"^ +{n} ", info.stdout, re.M) is not None, f"info lists {n}")
    check("gallatin" in info.stdout and "PPoPP" in info.stdout, "info names sources")
    return names


def test_results(folder):
    text, data, r = results(folder, "all.json", "--sizes", "256,1K", "--threads", "200",
                            "--reps", "2", "--seed", "7", "--heap", "24M")
    for key, kind in META.items():
        check(isinstance(data["meta"].get(key), kind), f"meta.{key}")
    check(data["meta"]["seed"] == 7, "meta.seed")
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", data["meta"]["date"]), "meta.date")
    check("error" not in data, "a good run records no error")
    rows = data["rows"]
    check({row["case"] for row in rows} == set(CASES), "every case has rows")
    for row in rows:
        for key, kind in ROW.items():
            check(isinstance(row.get(key), kind), f"row {row['case']}: {key}")
        check(row["phase"] in ("cold", "warm"), "phase")
        check(row["us_min"] <= row["us"] <= row["us_max"], f"{row['case']}: min, median, max")
        check(row["bad"] == 0, f"{row['case']} {row['alloc']} {row['op']}: bad blocks")
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
    check(has(alloc="null", case="single", op="malloc"), "null single")
    check(not has(alloc="bump", op="free"), "bump has no free")
    check(has(alloc="gallatin", case="churn", op="churn"), "gallatin churn")
    check(has(case="init", op="create") and has(case="init", op="reset"), "init rows")
    check(has(alloc="bump", case="single", op="malloc", threads=200, reps=2), "threads, reps")
    lines = r.stdout.splitlines()
    check(len(lines) == len(rows) + 1, "the table has one line a row and a header")
    check(all(w in lines[0] for w in ("x null", "Mops/s", "failed", "bad")), "table header")
    check(r.stderr == "", "no progress line without a terminal")


def test_determinism(folder):
    args = ["--case", "single,mixed,churn,utilization,graph", "--alloc", "default,bump",
            "--sizes", "64,1K", "--threads", "300", "--reps", "2", "--heap", "64M"]
    for policy in ("round-robin", "random"):
        texts = [results(folder, f"{policy}{i}.json", *args, "--seed", s, "--policy", policy)[0]
                 for i, s in enumerate(("5", "5", "6"))]
        bare = [TIMES.sub("", t) for t in texts]
        check(bare[0] == bare[1], f"{policy}: the same seed gives the same results")
        check(bare[0] != bare[2], f"{policy}: another seed gives other results")
    for policy in ("sticky", "pct", "starve"):
        results(folder, "policy.json", "--case", "single", "--alloc", "bump", "--sizes", "16",
                "--threads", "64", "--policy", policy)


def test_alias(folder):
    rows = results(folder, "alias.json", "--case", "single", "--alloc", "default,gallatin",
                   "--sizes", "16", "--threads", "32")[1]["rows"]
    check({row["alloc"] for row in rows} == {"gallatin"}, "default is gallatin")
    check(len(rows) == 4, "the same allocator twice runs once")


def test_graph(folder):
    plain = os.path.join(folder, "g.mtx")
    with open(plain, "w", encoding="ascii") as f:
        f.write("%%MatrixMarket matrix coordinate pattern general\n% two rings\n6 6 6\n"
                "1 2\n2 3\n3 1\n4 5\n5 6\n6 4\n")
    packed = os.path.join(folder, "e.txt.gz")
    with gzip.open(packed, "wt", encoding="ascii") as f:
        f.write("# an edge list\n" + "".join(f"{i % 9}\t{i * 7 % 9}\n" for i in range(60)))
    rows = results(folder, "graph.json", "--case", "graph", "--alloc", "gallatin", "--input",
                   plain, "--input", packed)[1]["rows"]
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
              "case graph, which is not to run")


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
    complains(sim + ["--seed", "abc"], 2, "--seed: 'abc'")
    complains(sim + ["--policy", "frob"], 2, "--policy: unknown 'frob'; known: round-robin, ")
    complains(sim + ["--check", "frob"], 2, "--check: unknown 'frob'; known: last, every")
    complains(["bench", "--device", "frob"], 2, "unknown device 'frob'; known: auto, sim, cuda")
    complains(["bench", "--device", "cuda:x"], 2, "device 'cuda:x'")
    complains(["bench", "--device", "cuda:99"], 2, "device 'cuda:99': there (is|are)")
    if "cuda:0" not in run("info").stdout:
        complains(["bench", "--device", "cuda"], 2, "no usable CUDA GPU here; --device sim")
    complains(sim + ["--json", os.path.join(folder, "no", "such.json")], 2, "cannot write")
    complains(sim + ["--heap", "4096G"], 2, "a heap of .* is more than")


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
        test_results(folder)
        test_determinism(folder)
        test_alias(folder)
        test_graph(folder)
        test_bad_requests(folder, names)
        test_small_heap()
    print(f"{len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
