"""tools/compare.py: a result file against the goals and against published figures.

Usage: compare.py PROGRAM SOURCE_FOLDER. Exit status 0 if everything held.
"""
import copy
import gzip
import itertools
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
SOURCE = os.path.abspath(sys.argv[2])
GOALS = os.path.join(SOURCE, "results", "goals.json")
OUROBOROS = os.path.join(SOURCE, "results", "goals_ouroboros.json")

failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED:", what, flush=True)


def compare(*args):
    return subprocess.run([sys.executable, os.path.join(SOURCE, "tools", "compare.py"), *args],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)


def write(folder, rows):
    path = os.path.join(folder, "rows.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"meta": {}, "rows": rows}, f)
    return path


def perfect(goals, name):
    """Rows that keep every bound, each just so; and the goal that each belongs to."""
    rows = []
    for goal in goals:
        for phase, size, threads in itertools.product(
                *(goal.get(k, [None]) for k in ("phase", "size", "threads"))):
            row = {"alloc": name, "case": goal["case"], "op": goal["op"], "bad": 0,
                   "failed": 7 if goal["case"] == "utilization" else 0,
                   goal["measure"]: goal.get("at_most", goal.get("at_least"))}
            if phase is not None:
                row.update(phase=phase, size=size or 0,
                           threads=threads or goal.get("threads_at_least", 1))
            rows.append((row, goal))
    return rows


def verdicts(folder, rows):
    r = compare("--goals", write(folder, rows), "--alloc", rows[0]["alloc"])
    last = r.stdout.splitlines()[-1] if r.stdout else r.stderr
    return r.returncode, last


def test_goals(folder, path, name):
    with open(path, encoding="utf-8") as f:
        goals = [g for g in json.load(f)["goals"] if name in g.get("alloc", [name])]
    for goal in goals:
        check(("at_most" in goal) != ("at_least" in goal), f"one bound: {goal}")
    pairs = perfect(goals, name)
    rows = [row for row, _ in pairs]
    n = len(rows)
    check(verdicts(folder, rows) == (0, f"{n} met, 0 missed, 0 missing"), "all goals are met")
    for i in [k for k in range(n) if pairs[k][1] != pairs[k - 1][1]]: # one of each goal
        row, goal = pairs[i]
        worse = 1.01 if "at_most" in goal else 0.99
        changes = [{goal["measure"]: row[goal["measure"]] * worse or 1}]
        if goal["case"] in ("single", "utilization", "registers"):
            changes += [{"bad": 1}, {goal["measure"]: None}]
        if goal["case"] in ("single", "churn"):
            changes += [{"failed": 1}]
        for change in changes:
            bent = copy.deepcopy(rows)
            bent[i].update(change)
            check(verdicts(folder, bent) == (1, f"{n - 1} met, 1 missed, 0 missing"),
                  f"missed: {row} with {change}")
        check(verdicts(folder, rows[:i] + rows[i + 1:])
              == (1, f"{n - 1} met, 0 missed, 1 missing"), f"missing: {row}")
    few = copy.deepcopy(rows)
    for row in few:
        if row["case"] == "single":
            row["threads"] = 200
    missing = sum(row["case"] == "single" for row in rows)
    check(verdicts(folder, few)[1] == f"{n - missing} met, 0 missed, {missing} missing",
          "a small run is no proof")
    check(compare("--goals", write(folder, rows), "--alloc", "other").returncode == 1,
          "another allocator's rows do not count")


def test_several_files(folder):
    """Rows of `bench` and of `registers` come from two files."""
    first = os.path.join(folder, "sim.json")
    r = subprocess.run([PROGRAM, "bench", "--device", "sim", "--alloc", "gallatin", "--case",
                        "single,waste", "--sizes", "16", "--threads", "64", "--json", first],
                       stdout=subprocess.DEVNULL, timeout=60, check=False)
    check(r.returncode == 0, "bench runs")
    second = write(folder, [{"alloc": "gallatin", "case": "registers", "op": "malloc_free",
                             "registers": 40, "local_bytes": 0, "max_threads": 256}])
    r = compare("--goals", first, second)
    check(r.returncode == 1 and "1 met, 0 missed" in r.stdout, f"two files: {r.stdout[-200:]!r}")
    check("| registers | malloc_free |" in r.stdout, "registers are in the table")


def test_published():
    results = os.path.join(SOURCE, "results", "h200", "bench.json")
    r = compare(results)
    with open(os.path.join(SOURCE, "results", "published_h200.json"), encoding="utf-8") as f:
        rows = json.load(f)["rows"]
    n = sum(row["alloc"] == "gallatin" for row in rows)
    check(r.returncode in (0, 1) and len(r.stdout.splitlines()) == n + 2, "published figures")
    check("× faster" in r.stdout, "some are met")
    for name in ("ouro-s-p", "ouro-va-p", "ouro-vl-c"):
        n = sum(row["alloc"] == name for row in rows)
        file = "ouroboros_pages.json" if name.endswith("p") else "ouroboros_chunks.json"
        r = compare(os.path.join(SOURCE, "results", "h200", file), "--alloc", name)
        check(r.returncode in (0, 1) and len(r.stdout.splitlines()) == n + 2 > 2, name)
        check("× faster" in r.stdout, f"{name}: some are met")
    check(compare(results, "--alloc", "other").returncode == 2, "nothing is published of it")


def test_faster(folder):
    """The factor is of ratios where these decide, else of microseconds."""
    row = {"case": "single", "phase": "warm", "op": "malloc", "size": 16, "threads": 64}
    for null_us, us, ratio_null, text in ((10, 120, 5.0, "2.0 × faster"),
                                          (None, 25, 50.0, "4.0 × faster"),
                                          (10, 50, 12.5, "**missed**")):
        published = os.path.join(folder, "published.json")
        with open(published, "w", encoding="utf-8") as f:
            json.dump({"rows": [{**row, "alloc": "mine", "us": 100, "null_us": null_us}]}, f)
        path = write(folder, [{**row, "alloc": "mine", "us": us, "ratio_null": ratio_null}])
        r = compare(path, "--alloc", "mine", "--published", published)
        check(f" {text} |" in r.stdout, f"{text}: {r.stdout[-200:]!r} {r.stderr[-200:]!r}")


def write_bytes(path, content):
    with open(path, "wb") as f:
        f.write(content)
    return path


def unreadable(path, content=None, what=None):
    """Status 2 and one short line that names the file and says what is wanted."""
    if content is not None:
        write_bytes(path, content)
    r = compare("--goals", path)
    begin, end = f"compare.py: {path}: ", "; give a file of warpheap --json\n"
    length = len(r.stderr) - len(begin) - len(end)
    check(r.returncode == 2 and r.stdout == "" and r.stderr.count("\n") == 1
          and r.stderr.startswith(begin) and r.stderr.endswith(end) and 0 < length <= 100,
          f"{what or path}: status {r.returncode}, {r.stderr[-200:]!r}")


def test_bad_files(folder):
    broken = os.path.join(folder, "broken.json")
    with open(broken, "w", encoding="utf-8") as f:
        f.write('{"rows": [')
    unreadable(broken)
    unreadable(os.path.join(folder, "none.json"))
    unreadable(folder)
    unreadable(GOALS)
    for text in ("[]", "1", '{"rows": null}', '{"rows": {}}', '{"rows": [1]}',
                 '{"rows": [{"case": "x"}]}', '{"rows": [{"alloc": "x", "case": "single"}]}',
                 '{"rows": [{"alloc": "x", "op": "malloc"}]}'):
        unreadable(broken, text.encode(), text)
    unreadable(broken, bytes(range(256)) * 100, "bytes that are no text")
    unreadable(broken + ".gz", b"{}", "not compressed")
    packed = gzip.compress(json.dumps({"rows": [], "noise": os.urandom(4096).hex()}).encode())
    unreadable(broken + ".gz", packed[:len(packed) // 2], "cut short")
    unreadable(broken + ".gz", packed[:10] + b"\xff" * (len(packed) - 10), "damaged")
    r = compare("--goals", write(folder, []), "--goals-file", write_bytes(broken, b"[]"))
    check(r.returncode == 2 and r.stderr == f"compare.py: {broken}: no list of goals; "
          "give a file of goals\n", f"goals: {r.stderr[-200:]!r}")


with tempfile.TemporaryDirectory() as tmp:
    test_goals(tmp, GOALS, "mine")
    test_goals(tmp, OUROBOROS, "ouro-s-p")
    test_goals(tmp, OUROBOROS, "ouro-vl-c")
    test_several_files(tmp)
    test_published()
    test_faster(tmp)
    test_bad_files(tmp)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
