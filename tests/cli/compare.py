"""tools/compare.py: a result file against the goals and against published figures.

Usage: compare.py PROGRAM SOURCE_FOLDER. Exit status 0 if everything held.
"""
import copy
import glob
import itertools
import os
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
SOURCE = os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(SOURCE, "tools"))
import rows as files  # noqa: E402 (of tools/)

GOALS = os.path.join(SOURCE, "results", "goals.jsonl")
OUROBOROS = os.path.join(SOURCE, "results", "goals_ouroboros.jsonl")

failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED:", what, flush=True)


def compare(*args):
    return subprocess.run([sys.executable, os.path.join(SOURCE, "tools", "compare.py"), *args],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)


def write(folder, rows):
    path = os.path.join(folder, "rows.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.write(files.text_of({}, rows))
    return path


def perfect(goals, alloc):
    """Rows that keep every bound, each just so; and pairs of the number of a row and a goal of it.
    Goals for the same row have different measures."""
    rows, pairs, numbers = [], [], {}
    for goal in goals:
        for phase, size, threads, name in itertools.product(
                *(goal.get(k, [None]) for k in ("phase", "size", "threads", "input"))):
            row = {"alloc": alloc, "case": goal["case"], "op": goal["op"], "bad": 0,
                   "failed": 7 if goal["case"] == "utilization" else 0,
                   goal["measure"]: goal.get("at_most", goal.get("at_least"))}
            if phase is not None:
                row.update(phase=phase, size=size or 0,
                           threads=threads or goal.get("threads_at_least", 1))
            if name is not None:
                row.update(input=name)
            key = (row["case"], row["op"], phase, size, threads, name)
            i = numbers.setdefault(key, len(rows))
            if i == len(rows):
                rows.append(row)
            check(i == len(rows) - 1 or goal["measure"] not in rows[i], f"twice: {goal}")
            rows[i].update(row)
            pairs.append((i, goal))
    return rows, pairs


def verdicts(folder, rows):
    r = compare("--goals", write(folder, rows), "--alloc", rows[0]["alloc"])
    last = r.stdout.splitlines()[-1] if r.stdout else r.stderr
    return r.returncode, last


def test_goals(folder, path, name):
    goals = [g for g in files.read(path, check=bool).rows if name in g.get("alloc", [name])]
    for goal in goals:
        check(("at_most" in goal) != ("at_least" in goal), f"one bound: {goal}")
    rows, pairs = perfect(goals, name)
    n = len(pairs)
    check(verdicts(folder, rows) == (0, f"{n} met, 0 missed, 0 missing"), "all goals are met")
    for k in [k for k in range(n) if pairs[k][1] != pairs[k - 1][1]]: # one of each goal
        i, goal = pairs[k]
        row, of_row = rows[i], sum(i == other for other, _ in pairs)
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
              == (1, f"{n - of_row} met, 0 missed, {of_row} missing"), f"missing: {row}")
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
    first = os.path.join(folder, "sim.jsonl")
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
    h200 = os.path.join(SOURCE, "results", "h200")
    all_cases = sorted(glob.glob(os.path.join(h200, "6aba34f", "all_*.jsonl")))
    rows = files.read(os.path.join(h200, "published.jsonl")).rows
    for name, results in (("gallatin", all_cases),
                          ("ouro-s-p", [os.path.join(h200, "8f5c15f", "ouroboros_pages.jsonl")]),
                          ("ouro-va-p", [os.path.join(h200, "8f5c15f", "ouroboros_pages.jsonl")]),
                          ("ouro-vl-c", [os.path.join(h200, "c489c4e", "ouroboros_chunks.jsonl")])):
        n = sum(row["alloc"] == name and "us" in row for row in rows)
        r = compare(*results, "--alloc", name)
        check(r.returncode in (0, 1) and len(r.stdout.splitlines()) == n + 2 > 2, name)
        check("× faster" in r.stdout, f"{name}: some are met")
        check("not measured" not in r.stdout, f"{name}: the rows of all published figures are kept")
    check(compare(*all_cases, "--alloc", "other").returncode == 2, "nothing is published of it")


def test_output():
    """A reader that goes away changes no verdict; what cannot be written is said."""
    tool = [sys.executable, os.path.join(SOURCE, "tools", "compare.py")]
    h200 = os.path.join(SOURCE, "results", "h200")
    pages = os.path.join(h200, "8f5c15f", "ouroboros_pages.jsonl")
    for args in ([pages, "--alloc", "ouro-s-p"], [pages, "--alloc", "ouro-s-p", "--goals"]):
        status = compare(*args).returncode
        reader, writer = os.pipe()
        os.close(reader)
        r = subprocess.run([*tool, *args], stdout=writer, stderr=subprocess.PIPE, text=True,
                           timeout=60, check=False)
        os.close(writer)
        check((r.returncode, r.stderr) == (status, ""),
              f"no reader: {r.returncode}, {r.stderr[-200:]!r}")
        with open("/dev/full", "w", encoding="utf-8") as full:
            r = subprocess.run([*tool, *args], stdout=full, stderr=subprocess.PIPE, text=True,
                               timeout=60, check=False)
        check(r.returncode == 2 and r.stderr.count("\n") == 1
              and r.stderr.startswith("compare.py: cannot write to standard output"),
              f"/dev/full: {r.returncode}, {r.stderr[-200:]!r}")


def test_faster(folder):
    """The factor is of ratios where these decide, else of microseconds."""
    row = {"case": "single", "phase": "warm", "op": "malloc", "size": 16, "threads": 64}
    for null_us, us, ratio_null, text in ((10, 120, 5.0, "2.0 × faster"),
                                          (None, 25, 50.0, "4.0 × faster"),
                                          (10, 50, 12.5, "**missed**")):
        published = os.path.join(folder, "published.jsonl")
        with open(published, "w", encoding="utf-8") as f:
            f.write(files.text_of({}, [{**row, "alloc": "mine", "us": 100, "null_us": null_us}]))
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


def refuses(what, args, text):
    """Status 2, no table, and one line with this text."""
    r = compare(*args)
    check(r.returncode == 2 and r.stdout == "" and r.stderr.count("\n") == 1
          and r.stderr.startswith("compare.py: ") and text in r.stderr,
          f"{what}: status {r.returncode}, {r.stderr[-300:]!r}")


def test_bad_rows(folder):
    """A row without a figure that is wanted, or with a word in its place."""
    row = {"alloc": "mine", "case": "single", "phase": "warm", "op": "malloc", "size": 16,
           "threads": 1 << 20, "us": 20.0, "ratio_null": 2.0}
    bent = os.path.join(folder, "published.jsonl")

    def publish(one):
        write_bytes(bent, files.text_of({}, [one]).encode())
        return bent

    def without(name, of):
        return {k: v for k, v in of.items() if k != name}

    published = {**without("ratio_null", row), "null_us": 10}
    for name in ("ratio_null", "size", "threads"):
        for what, bad in (("none", without(name, row)), ("null", {**row, name: None}),
                          ("a word", {**row, name: "many"})):
            refuses(f"{name}: {what}", (write(folder, [row, bad]), "--alloc", "mine",
                                        "--published", publish(published)), "line 3")
    check(compare(write(folder, [without("ratio_null", row)]), "--alloc", "mine", "--published",
                  publish({**published, "null_us": None})).returncode == 0,
          "microseconds are compared without a ratio")
    for name in ("phase", "size", "threads"):
        refuses(f"published: no {name}", (write(folder, [row]), "--alloc", "mine", "--published",
                                          publish(without(name, published))), f"'{name}'")
    for change in ({"ratio_null": "fast"}, {"threads": "many"}, {"bad": "x"}, {"failed": [1]},
                   {"us": True}, {"phase": ["warm"]}, {"alloc": 1}):
        refuses(f"--goals: {change}", ("--goals", write(folder, [{**row, **change}]), "--alloc",
                                       "tessera"), f"line 2: '{next(iter(change))}' is no ")
    refuses("--goals: share", ("--goals", write(folder, [
        {"alloc": "tessera", "case": "utilization", "op": "malloc", "phase": "cold", "size": 16,
         "threads": 1, "utilization": "all"}]), "--alloc", "tessera"), "'utilization'")


def test_bad_goals(folder):
    goal = {"case": "single", "op": "malloc", "phase": ["warm"], "size": [16],
            "measure": "ratio_null", "at_most": 5}
    path = write(folder, [])
    own = os.path.join(folder, "goals.jsonl")
    for change in ({"at_most": None}, {"at_most": "5"}, {"at_least": 1}, {"size": 16},
                   {"size": ["16"]}, {"phase": "warm"}, {"threads": 1}, {"alloc": "mine"},
                   {"threads_at_least": "1"}, {"input": "1-1"}, {"measure": 1},
                   {"case": ["single"]}):
        write_bytes(own, files.text_of({}, [goal, {**goal, **change}]).encode())
        refuses(f"goal with {change}", ("--goals", path, "--goals-file", own), f"{own}: line 3")
    for what, goals in (("no goals", []), ("those of others", [{**goal, "alloc": ["mine"]}])):
        write_bytes(own, files.text_of({}, goals).encode())
        refuses(what, ("--goals", path, "--goals-file", own, "--alloc", "other"),
                f"{own}: no goals of other")


def test_bad_files(folder):
    broken = os.path.join(folder, "broken.jsonl")
    unreadable(os.path.join(folder, "none.jsonl"))
    unreadable(folder)
    unreadable(GOALS)
    row = '{"alloc": "x", "case": "single", "op": "malloc"}\n'
    for text in ("", "\n", "[]\n", "1\n", '{"rows": [\n', "{}\n[1]\n", "{}\n\n" + row,
                 "{}\n" + row[:9], row, "[" * 100000, '{}\n{"case": "x"}\n',
                 '{}\n{"alloc": "x", "case": "single"}\n',
                 '{}\n{"alloc": "x", "op": "malloc"}\n', '{\n "meta": {},\n "rows": []\n}\n'):
        unreadable(broken, text.encode(), text[:100])
    unreadable(broken, bytes(range(256)) * 100, "bytes that are no text")
    r = compare("--goals", write(folder, []), "--goals-file", write_bytes(broken, b"[]"))
    check(r.returncode == 2 and r.stderr == f"compare.py: {broken}: line 1 is no JSON object; "
          "give a file of goals\n", f"goals: {r.stderr[-200:]!r}")


with tempfile.TemporaryDirectory() as tmp:
    test_goals(tmp, GOALS, "mine")
    test_goals(tmp, OUROBOROS, "ouro-s-p")
    test_goals(tmp, OUROBOROS, "ouro-vl-c")
    test_several_files(tmp)
    test_published()
    test_output()
    test_faster(tmp)
    test_bad_files(tmp)
    test_bad_rows(tmp)
    test_bad_goals(tmp)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
