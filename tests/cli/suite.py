"""`warpheap bench --suite` from outside: rows, children that crash or hang, going on, parts, bad
requests.

Usage: suite.py PROGRAM SOURCE_FOLDER. Exit status 0 if everything held. Children strike when
WH_BENCH_FAULT says so, in builds with tests.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[2]), "tools"))
import rows as files  # noqa: E402 (of tools/)

PROGRAM = os.path.abspath(sys.argv[1])
SUITES = ["quick", "survey", "gallatin", "regeff", "random"]
CELLS = ["init", "single", "scaling"]
SMALL = ["--case", ",".join(CELLS), "--alloc", "bump,null"] # six cells, half a second
PAIRS = [(alloc, cell) for alloc in ("bump", "null") for cell in CELLS]
SLOW = 20 # seconds that a machine at work may take for what is done at once

failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED:", what, flush=True)


def command(path, *args, how="--json", suite="quick"):
    return [PROGRAM, "bench", "--suite", suite, "--device", "sim", how, path, *args]


def environment(fault):
    return {**os.environ, **({"WH_BENCH_FAULT": fault} if fault else {})}


def run(args, fault=None):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=300, env=environment(fault))


def read(path):
    return files.read(path)


def cells_of(data):
    """The cells of a file in its order, each of which must be whole."""
    seen = []
    every = sorted(data.rows + data.left_out, key=lambda row: int(row.where.split()[-1]))
    for row in every:
        pair = row["alloc"], row["cell"]
        if pair not in seen:
            seen.append(pair)
            same = [r for r in every if (r["alloc"], r["cell"]) == pair]
            check(all(r["cell_rows"] == len(same) for r in same), f"{pair}: whole")
    return seen


def complains(args, pattern, status=2):
    r = run(args)
    check(r.returncode == status, f"{args}: exit {r.returncode}, not {status}")
    check(re.search(pattern, r.stderr) is not None, f"{args}: stderr {r.stderr!r} lacks {pattern}")
    check(r.stderr.count("\n") == 1, f"{args}: {r.stderr!r} is not one line")


def test_lists():
    """Every option of every cell is understood, and every case is one."""
    names = subprocess.check_output([PROGRAM, "bench", "--list=suites"], text=True).split()
    check(names == SUITES, f"--list=suites: {names}")
    cases = subprocess.check_output([PROGRAM, "bench", "--list=cases"], text=True).split()
    for name in SUITES:
        text = subprocess.check_output([PROGRAM, "bench", "--suite", name, "--list"], text=True)
        lines = [line.split("\t") for line in text.splitlines()]
        check(lines and all(len(line) == 3 for line in lines), f"{name}: {text}")
        check(len({line[0] for line in lines}) == len(lines), f"{name}: names of cells")
        for options in {o for line in lines for o in line[1:] if o != "-"}:
            r = run([PROGRAM, "bench", *options.split(), "--list=cases"])
            check(r.returncode == 0, f"{name}: {options}: {r.stderr}")
            check(options.split()[1] in cases, f"{name}: {options}")


def test_rows(folder):
    path = os.path.join(folder, "all.jsonl")
    r = run(command(path, *SMALL, "--seed", "7"))
    data = read(path)
    check(r.returncode == 0 and r.stdout == "", f"a good run: {r.returncode}, {r.stderr}")
    check(cells_of(data) == PAIRS, f"cells: {cells_of(data)}")
    check(all(row["bad"] == 0 for row in data.rows), "no bad block")
    header = data.header
    check(header["suite"] == "quick" and header["seed"] == 7 and header["target"] == "sim" and
          header["allocs"] == ["bump", "null"] and header["reps"] == 1, f"header: {header}")
    check(header["cells"]["single"].startswith("--case single "), f"header: {header['cells']}")
    lines = r.stderr.splitlines()
    check(len(lines) == 7 and all(re.match(r"\[ *\d/6\] \w+/\w+: \d+ rows, .* left$", line)
                                  for line in lines[:-1]), f"progress: {lines}")
    # The rows are those of the command that the header tells.
    alone = os.path.join(folder, "alone.jsonl")
    run([PROGRAM, "bench", "--device", "sim", "--seed", "7", "--alloc", "bump", "--json", alone,
         *header["cells"]["single"].split()])
    strip = lambda row: {k: v for k, v in row.items()
                         if not re.match("us|ratio|mops|cell", k)}
    own = [strip(row) for row in data.rows if (row["alloc"], row["cell"]) == ("bump", "single")]
    check(own == [strip(row) for row in read(alone).rows] and own, f"as by hand: {own}")


def test_faults(folder):
    """Whatever a child does, its cell says so, and the other cells are there."""
    path = os.path.join(folder, "fault.jsonl")
    for kind, why in (("crash", r"signal 6 \(Aborted\)"), ("exit", "exit status 3"),
                      ("nonsense", "no row"), ("hang", r"given up after 0.5 s"),
                      ("late", "signal 6")):
        limit = ["--cell-limit", "0.5"] if kind == "hang" else []
        r = run(command(path, *SMALL, *limit), f"bump/single={kind}")
        data = read(path)
        errors = [row for row in data.left_out if "error" in row]
        check(r.returncode == 1, f"{kind}: exit {r.returncode}")
        struck = [(e["alloc"], e["case"]) for e in errors if re.search(why, e["error"])]
        # With so short a limit a machine at work may lose another cell, too.
        check(struck == [("bump", "single")] or kind == "hang" and ("bump", "single") in struck,
              f"{kind}: {errors}")
        check(cells_of(data) == PAIRS, f"{kind}: {cells_of(data)}")
        kept = sum((row["alloc"], row["cell"]) == ("bump", "single") for row in data.rows)
        check((kept != 0) == (kind == "late"), f"{kind}: rows before it: {kept}")
        check("FAILED" in r.stderr, f"{kind}: progress: {r.stderr}")


def await_cells(path, n):
    end = time.monotonic() + SLOW
    while time.monotonic() < end:
        if os.path.exists(path) and sum("cell_rows" in line for line in open(path)) >= n:
            return
        time.sleep(0.02)
    check(False, f"{path}: no cell in {SLOW} s")


def children_of(pid):
    r = run(["ps", "-o", "pid=", "--ppid", str(pid)])
    return [int(word) for word in r.stdout.split()]


def test_stop_and_go_on(folder):
    path = os.path.join(folder, "stop.jsonl")
    for number in (signal.SIGINT, signal.SIGTERM):
        if os.path.exists(path):
            os.remove(path) # its first cell is waited for
        with subprocess.Popen(command(path, *SMALL), stderr=subprocess.PIPE, text=True,
                              env=environment("bump/single=hang")) as p:
            await_cells(path, 1)
            children = children_of(p.pid)
            p.send_signal(number)
            error = p.communicate(timeout=SLOW)[1]
        check(p.returncode == 1, f"stopped: exit {p.returncode}")
        check(re.search(r"stopped: 1 of 6 cells are done; go on with --resume", error), error)
        check(len(children) == 1 and not os.path.exists(f"/proc/{children[0]}"), "no child is left")
        check(cells_of(read(path)) == PAIRS[:1], f"what a stop leaves: {cells_of(read(path))}")
    with open(path, encoding="utf-8") as f:
        done = f.read()
    r = run(command(path, *SMALL, how="--resume"))
    with open(path, encoding="utf-8") as f:
        text = f.read()
    check(r.returncode == 0 and text.startswith(done), "what was there stays")
    check(cells_of(read(path)) == PAIRS, f"resumed: {cells_of(read(path))}")
    # A cell that is not whole, and half a line, go; all that is whole is not run again.
    with open(path, "w", encoding="utf-8") as f:
        f.write("".join(text.splitlines(keepends=True)[:-1]) + text.splitlines()[-1][:20])
    r = run(command(path, *SMALL, how="--resume"))
    check(r.returncode == 0 and "1 cells" in r.stderr and "5 were there" in r.stderr, r.stderr)
    check(cells_of(read(path)) == PAIRS, f"mended: {cells_of(read(path))}")
    r = run(command(path, *SMALL, how="--resume"), "bump/single=crash")
    check(r.returncode == 0 and "0 cells" in r.stderr, f"nothing to do: {r.stderr}")
    complains(command(path, *SMALL, "--seed", "3", how="--resume"), "its seed is 0, now it is 3")
    complains(command(path, how="--resume", suite="survey"), "its suite is 'quick'")
    for text, why in (('{"commit":"x"}\n', "not of a suite"), ("no\n", "line 1 is no JSON object"),
                      ("one line without an end", "line 1 is no JSON object")):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        complains(command(path, how="--resume"), why)
        with open(path, encoding="utf-8") as f:
            check(f.read() == text, "what is not ours is left alone")


def test_parts(folder):
    """Each cell is in one part; parts go to one file, or to several."""
    path = os.path.join(folder, "parts.jsonl")
    seen = []
    for part in range(1, 4):
        own = os.path.join(folder, f"part{part}.jsonl")
        for file in (own, path):
            r = run(command(file, *SMALL, "--part", f"{part}/3", how="--resume"))
            check(r.returncode == 0, f"part {part}: {r.stderr}")
        seen += cells_of(read(own))
        check(cells_of(read(own)), f"part {part} has something to do")
    check(sorted(seen) == sorted(cells_of(read(path))) == sorted(PAIRS), f"parts: {seen}")


def test_bad_requests(folder):
    path = os.path.join(folder, "none.jsonl")
    bench = [PROGRAM, "bench"]
    complains([*bench, "--suite", "frob"], "unknown 'frob'; known: quick, survey")
    complains([*bench, "--suite", "quick"], "wants a file for the results")
    complains(command(path, "--sizes", "16"), "--sizes does not go with --suite")
    complains(command(path, "--limit", "1"), "--limit does not go with --suite")
    complains(command(path, "--case", "frob"), "has no case 'frob'; it has: init, single")
    complains(command(path, "--alloc", "frob"), "unknown allocator 'frob'")
    complains(command(path, "--device", "frob"), "unknown device 'frob'")
    for part in ("0/2", "3/2", "2", "a/b", "1/"):
        complains(command(path, "--part", part), f"--part: '{part}' is not K/N")
    complains(command(path, "--cell-limit", "0"), "not a number of seconds above 0")
    complains(command(path, how="--resume") + ["--json", path], "give one")
    complains(command("/dev/null", how="--resume"), "it is no regular file")
    complains([*bench, "--part", "1/2"], "--part is for suites")
    complains(command("/nonexistent/x"), "cannot write '/nonexistent/x'")
    check(not os.path.exists(path), "a bad request writes nothing")


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_lists()
        test_rows(folder)
        test_faults(folder)
        test_stop_and_go_on(folder)
        test_parts(folder)
        test_bad_requests(folder)
    if failures:
        print(f"{len(failures)} checks failed")
        return 1
    print("all checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
