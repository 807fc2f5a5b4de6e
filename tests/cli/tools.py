"""tools/kernel_time.py, report.py, sass_votes.py and compile_cost.py, without a GPU, a disassembler
or nvcc: programs of the same names stand in for them, and tell what they were asked for.

Usage: tools.py PROGRAM SOURCE_FOLDER. Exit status 0 if everything held.
"""
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile

SOURCE = os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(SOURCE, "tools"))
import rows as files  # noqa: E402 (of tools/)


failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED:", what, flush=True)


def tool(name, *args, **env):
    return subprocess.run([sys.executable, os.path.join(SOURCE, "tools", name), *args],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                          env={**os.environ, **env})


def one_line(r):
    return r.stderr.count("\n") == 1 and "Traceback" not in r.stderr


# --- kernel_time.py -------------------------------------------------------------------------------

# A benchmark that says what it measured: no cold rows, as of an allocator that cannot be reset.
BENCH = '''#!{python}
import json, os, sys
words = sys.argv[1:]
case = words[words.index("--case") + 1]
rows = [{{"case": case, "op": op, "phase": "warm"}} for op in ("malloc", "free")]
with open(words[words.index("--json") + 1], "w") as f:
    for line in [{{"device": "d", "commit": "c"}}] + ([] if case == "init" else rows):
        print(json.dumps(line), file=f)
sys.exit(3 if os.environ.get("BENCH_FAILS") else 0)
'''
# A profiler that runs it and prints three launches of each kernel, after a line of the program's.
NCU = '''#!{python}
import os, re, subprocess, sys
at = sys.argv.index("--metrics") + 2
status = subprocess.run(sys.argv[at:]).returncode
print("==PROF== connected")
print('"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"')
launches = int(os.environ.get("NCU_LAUNCHES", "3"))
wanted = sys.argv[sys.argv.index("-k") + 1].removeprefix("regex:")
kernels = (["prepare", "null_kernel", "prepare", "free_blocks"] if at + 1 == len(sys.argv) else
           ["k_malloc_single_kernel", "k_check_kernel", "k_free_all_kernel"])
kernels = [x for x in kernels if re.search(wanted, x)]
for k in range(launches):
    for i, kernel in enumerate(kernels):
        for name, unit, value in (("gpu__time_duration.sum", "ns", f"{{1000 * (k + 1) + i}}"),
                                  ("smsp__inst_executed.sum", "inst", f"{{k + 1}},500")):
            print(f'"{{len(kernels) * k + i}}","{{kernel}}","{{name}}","{{unit}}","{{value}}"')
sys.exit(status)
'''


# A probe with two rows.
PROBE = '''#!{python}
print('{{"device": "d"}}\\n{{"name": "null"}}\\n{{"name": "free_16"}}')
'''


def program(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.format(python=sys.executable))
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def test_kernel_time(folder):
    bench = program(os.path.join(folder, "bench"), BENCH)
    program(os.path.join(folder, "ncu"), NCU)
    path = folder + os.pathsep + os.environ["PATH"]
    out = os.path.join(folder, "out.jsonl")
    r = tool("kernel_time.py", bench, out, "--alloc", "toast", PATH=path)
    check(r.returncode == 0, f"kernel_time: ends well: {r.stderr}")
    data = files.read(out)
    mallocs = [x for x in data.rows if x["op"] == "malloc"]
    check(len(data.rows) == 28 and len(mallocs) == 14,
          "kernel_time: a row for each size and operation")
    check(all(x["phase"] == "warm" and x["alloc"] == "toast" and x["launches"] == 3
              for x in data.rows), "kernel_time: the phases that were measured, and no others")
    check(all((x["us"], x["us_min"], x["us_max"], x["instructions"]) == (2.0, 1.0, 3.0, 2500.0)
              for x in mallocs), "kernel_time: medians, in microseconds")
    check("ncu" in data.header["tool"] and data.header["commit"] == "c", "kernel_time: its header")
    probe = program(os.path.join(folder, "probe"), PROBE)
    both = os.path.join(folder, "both.jsonl")
    r = tool("kernel_time.py", bench, both, "--accesses", probe, PATH=path)
    check(r.returncode == 0, f"kernel_time: a probe, too: {r.stderr}")
    mine = [x for x in files.read(both).rows if x["case"] == "accesses"]
    check([(x["op"], x["us"], x["us_max"], x["launches"]) for x in mine]
          == [("null", 2.0, 3.0, 3), ("free_16", 2.001, 3.001, 3)],
          f"kernel_time: the probe's rows in turn: {mine}")
    r = tool("kernel_time.py", bench, both, "--accesses", "/bin/false", PATH=path)
    check(r.returncode == 1 and one_line(r), f"kernel_time: a probe that fails: {r.stderr}")
    for what, env in (("a benchmark that fails", {"BENCH_FAILS": "1"}),
                      ("no launches", {"NCU_LAUNCHES": "0"})):
        other = os.path.join(folder, "other.jsonl")
        r = tool("kernel_time.py", bench, other, PATH=path, **env)
        check(r.returncode == 1 and one_line(r) and not os.path.exists(other),
              f"kernel_time, {what}: {r.returncode} {r.stderr}")
    r = tool("kernel_time.py", bench, os.path.join(folder, "no", "out.jsonl"), PATH=path)
    check(r.returncode == 1 and one_line(r), f"kernel_time: nowhere to write: {r.stderr}")
    r = tool("kernel_time.py", os.path.join(folder, "toast"), out, PATH=path)
    check(r.returncode == 1 and one_line(r), f"kernel_time: no such program: {r.stderr}")
    check(files.read(out) == data, "kernel_time: what was there stays after a failure")


# --- report.py ------------------------------------------------------------------------------------


def test_report(folder):
    """Without matplotlib: what is made of changed files differs from the pages."""
    root = os.path.join(folder, "root")
    for name in ("tools", "results", os.path.join("docs", "results")):
        shutil.copytree(os.path.join(SOURCE, name), os.path.join(root, name))
    shutil.copy(os.path.join(SOURCE, "README.md"), root)
    report = os.path.join(root, "tools", "report.py")

    def run(*args):
        return subprocess.run([sys.executable, report, *args], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)

    def change(path, old, new):
        path = os.path.join(root, *path.split("/"))
        with open(path, encoding="utf-8") as f:
            text = f.read()
        check(old in text, f"report: {path} has {old}")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace(old, new, 1))

    check(run("--check").returncode == 0, "report: the pages are those of the files")
    row = '{"alloc":"tessera","case":"single","phase":"warm","op":"malloc","size":16,'
    single = "results/h200/d5824a4/tessera.jsonl"
    us = one_of(os.path.join(root, single), row)["us"]
    for path, old, new, names in (
            (single, f'"us":{us}', '"us":77.25',
             ("docs/results/H200.md", "README.md", "malloc.svg")),
            ("docs/results/H200.md", "plain, header-only | 164 |", "plain, header-only | 16 |",
             ("H200.md",)),
            ("README.md", "| 256 B |", "| 257 B |", ("README.md",))):
        change(path, old, new)
        r = run("--check")
        check(r.returncode == 1 and all(name in r.stderr for name in names),
              f"report: {path} was changed: {r.returncode} {r.stderr[-300:]}")
        change(path, new, old)
    create = "results/h100/bef2537/create.jsonl"
    first = line_of(os.path.join(root, create), 2)
    warm = line_of(os.path.join(root, single), line_number(os.path.join(root, single), row))
    for path, line, names in (
            (single, warm, ("us", "alloc", "us_null")), (create, first, ("us", "build")),
            ("results/h200/published.jsonl", None, ("alloc", "case", "op")),
            ("results/h200/d5824a4/registers.jsonl", None, ("registers", "alloc")),
            ("results/h200/d5824a4/plain_forms.jsonl", None, ("registers", "form"))):
        line = line or line_of(os.path.join(root, path), 2)
        number = line_number(os.path.join(root, path), line.rstrip("\n"))
        for name in names:
            members = json.loads(line)
            without = {k: v for k, v in members.items() if k != name}
            for what, bad in (("no", without), ("null as", {**without, name: None}),
                              ("a list as", {**members, name: [1]})):
                bad = json.dumps(bad) + "\n"
                change(path, line, bad)
                r = run("--check")
                check(r.returncode == 2 and one_line(r) and f"{path}: line {number}" in r.stderr,
                      f"report: {path}: {what} {name}: {r.returncode} {r.stderr[-300:]}")
                change(path, bad, line)
    us_of = json.loads(warm)["us"]
    for path, line, number in ((single, warm, line_number(os.path.join(root, single), row)),
                               (create, first, 2)):
        for what, more in (("once more", line),
                           ("with another time", line.replace(f'"us":{us_of}', '"us":77.25'))):
            change(path, line, line + more)
            r = run("--check")
            check(r.returncode == 2 and one_line(r)
                  and f"{path}: line {number + 1} is of the same as line {number}" in r.stderr,
                  f"report: {path}: a row {what}: {r.returncode} {r.stderr[-300:]}")
            change(path, line + more, line)
    graphs = [json.dumps({**json.loads(warm), "case": "graph-sets", "input": name}) + "\n"
              for name in ("uniform", "rmat")]
    for more, status in ((graphs, 0), (graphs[:1] * 2, 2)):
        change(single, warm, warm + "".join(more))
        r = run("--check")
        check(r.returncode == status and ("of the same" in r.stderr) == (status == 2),
              f"report: rows of {more}: {r.returncode} {r.stderr[-300:]}")
        change(single, warm + "".join(more), warm)
    for topic, status in (("between", 1), ("churn", 2), ("pressure_small", 1),
                          ("tessera_rounds", 2), ("registers", 1)):
        path = os.path.join(root, "results", "h200", "d5824a4", topic + ".jsonl")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        with open(path, "w", encoding="utf-8") as f:
            f.write(text[:text.index("\n") + 1])
        r = run("--check")
        check(r.returncode == status and "Traceback" not in r.stderr
              and (status == 1 or one_line(r) and f"{topic}.jsonl: " in r.stderr),
              f"report: {topic} has no rows: {r.returncode} {r.stderr[-300:]}")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    change("README.md", "<!-- made by tools/report.py -->", "")
    r = run("--check")
    check(r.returncode == 1 and "README.md" in r.stderr and one_line(r),
          f"report: README without a place for the table: {r.stderr}")
    change(single, "{", "")
    r = run()
    check(r.returncode == 2 and "tessera.jsonl" in r.stderr and one_line(r),
          f"report: a file that cannot be read: {r.returncode} {r.stderr}")


def line_of(path, number):
    with open(path, encoding="utf-8") as f:
        return f.readlines()[number - 1]


def line_number(path, begin):
    with open(path, encoding="utf-8") as f:
        return next(i for i, line in enumerate(f, 1) if line.startswith(begin))


def one_of(path, begin):
    with open(path, encoding="utf-8") as f:
        return next(json.loads(line) for line in f if line.startswith(begin))


# --- sass_votes.py --------------------------------------------------------------------------------

NVDISASM = """#!/bin/sh
cat "$2"
"""
FUNCTION = "$_Z1k$_ZN3_A_08wh_walk_E"
WALK, DIVIDE = f"CALL.REL.NOINC `({FUNCTION})", "CALL.REL.NOINC `($__internal_0_$__cuda_div)"
CHECK, VOTE = "BRA.DIV UR4, `(.L_x_9)", "VOTE.ANY R6, PT, P0"
HERE, AGAIN = "VOTE.ANY R2, PT, PT", ["WARPSYNC.COLLECTIVE R2, `(.L_x_8)", VOTE, "ENDCOLLECTIVE"]
# What the compiler writes, and how many votes of it are wrong.
LISTINGS = (
    ("a vote behind a call", [CHECK, VOTE, WALK, VOTE], 1),
    ("a shuffle behind a call", [CHECK, VOTE, WALK, "SHFL.IDX PT, R6, R5, R4, 0x1f"], 1),
    ("a check between", [CHECK, VOTE, WALK, CHECK, VOTE, VOTE], 0),
    ("lanes that wait for each other", [CHECK, VOTE, WALK, *AGAIN], 0),
    ("who is here", [WALK, HERE], 0),
    ("a division", [CHECK, DIVIDE, VOTE], 0),
    ("no call", [CHECK, VOTE, VOTE], 0),
    ("a call that does not return here", [WALK, "EXIT", "LABEL .L_x_1", VOTE], 0),
    ("a branch around the check",
     [WALK, "@P0 BRA `(.L_x_1)", CHECK, "LABEL .L_x_1", VOTE], 1),
    ("a loop", ["LABEL .L_x_1", VOTE, WALK, "@P1 BRA `(.L_x_1)"], 1),
    ("an atomic that the compiler makes for all who are here",
     [WALK, "VOTEU.ANY UR5, UPT, PT", "SHFL.IDX PT, R2, R4, R0, 0x1f"], 0),
)


def test_sass_votes(folder):
    path = os.pathsep.join([folder, os.environ["PATH"]])
    for name in ("nvdisasm", "cuobjdump"):
        program(os.path.join(folder, name), NVDISASM)
    cubin = os.path.join(folder, "k.cubin")
    for what, code, wrong in LISTINGS:
        with open(cubin, "w", encoding="utf-8") as f:
            f.write(f"_Z1k:\n        /*0000*/ {CHECK} ;\n{FUNCTION}:\n")
            for k, line in enumerate([*code, "RET.REL.NODEC R2"]):
                label = line.startswith("LABEL ")
                f.write(line[6:] + ":\n" if label else f"        /*{16 * k:04x}*/   {line} ;\n")
        r = tool("sass_votes.py", cubin, PATH=path)
        check(r.returncode == (wrong != 0) and f"2 functions, {wrong} votes" in r.stdout,
              f"sass_votes: {what}: {r.returncode} {r.stdout}{r.stderr}")
        check((": wh_walk_: " in r.stdout) == (wrong != 0),
              f"sass_votes: {what}: where: {r.stdout}")
    r = tool("sass_votes.py", os.path.join(folder, "none.cubin"), PATH=path)
    check(r.returncode == 2 and one_line(r), f"sass_votes: no such file: {r.returncode} {r.stderr}")
    program(os.path.join(folder, "nvdisasm"), "#!/bin/sh\nexit 3\n")
    r = tool("sass_votes.py", cubin, PATH=path)
    check(r.returncode == 2 and one_line(r),
          f"sass_votes: nvdisasm fails: {r.returncode} {r.stderr}")


# --- compile_cost.py ------------------------------------------------------------------------------

# Says what ptxas and nvlink say, and writes an object with 48 bytes of code in two sections of
# three.
NVCC = """#!/bin/sh
if [ "$1" = --version ]; then echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0; fi
[ -z "$FAKE_FAILS" ] || {{ echo "error: no"; exit 1; }}
if [ "$1" = -dlink ]; then
    echo "nvlink info    : used 40 registers, used 0 barriers, 1464 stack, 0 bytes smem"
    exit
fi
while [ "$1" != -o ]; do shift; done
echo "    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" >&2
echo "ptxas info    : Used 97 registers, used 0 barriers, 144 bytes cumulative stack size" >&2
cp "$0.o" "$2"
"""


def elf(sections):
    """An ELF file of 64 bits with sections of these names and sizes."""
    names = b"\0" + b"".join(n.encode() + b"\0" for n, _ in [*sections, (".shstrtab", 0)])
    at = [names.index(b"\0" + n.encode() + b"\0") + 1 for n, _ in [*sections, (".shstrtab", 0)]]
    heads = b"".join(struct.pack("<IIQQQQ24x", name, 1, 0, 0, 64, size) for name, size
                     in zip(at, [*(size for _, size in sections), len(names)]))
    n = len(sections) + 1
    head = struct.pack("<5s35xQ10xHHH", b"\x7fELF\x02", 64 + len(names), 64, n, n - 1)
    return head + names + heads


def test_compile_cost(folder):
    nvcc = os.path.join(folder, "nvcc")
    program(nvcc, NVCC)
    with open(nvcc + ".o", "wb") as f:
        f.write(elf([(".text.plain", 32), (".nv.info", 999), (".text.slow", 16)]))
    out = os.path.join(folder, "out.json")
    ceilings = {"nvcc": "13.0", "registers": 97, "stack_bytes": 144, "code_bytes": 48,
                "cpu_seconds": 60}

    def cost(change, *words, **env):
        path = os.path.join(folder, "ceilings.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({**ceilings, **change}, f)
        return tool("compile_cost.py", "--nvcc", nvcc, "--json", out, "--check", path, *words,
                    **env)

    r = cost({})
    check(r.returncode == 0, f"compile_cost: at the ceilings: {r.returncode} {r.stderr}")
    with open(out, encoding="utf-8") as f:
        figures = json.load(f)
    check([figures[k] for k in ("registers", "stack_bytes", "code_bytes", "max_threads")]
          == [97, 144, 48, 512], f"compile_cost: {figures}")
    for key in ("registers", "stack_bytes", "code_bytes"):
        r = cost({key: ceilings[key] - 1})
        check(r.returncode == 1 and key in r.stderr and one_line(r),
              f"compile_cost: {key} above its ceiling: {r.returncode} {r.stderr}")
    r = cost({"cpu_seconds": -1})
    check(r.returncode == 1, f"compile_cost: seconds above their ceiling: {r.returncode}")
    check(cost({"nvcc": "12.9"}).returncode == 77, "compile_cost: another nvcc")
    r = cost({}, FAKE_FAILS="1")
    check(r.returncode == 2 and "error: no" in r.stderr, f"compile_cost: nvcc fails: {r.stderr}")
    limits = {"registers": 40, "stack_bytes": 1464, "code_bytes": 48, "cpu_seconds": 60,
              "more_cpu_seconds": 60}
    r = cost({"linked": limits}, "--linked")
    check(r.returncode == 0, f"compile_cost --linked: at the ceilings: {r.returncode} {r.stderr}")
    for key in ("registers", "stack_bytes", "code_bytes"):
        r = cost({"linked": {**limits, key: limits[key] - 1}}, "--linked")
        check(r.returncode == 1 and key in r.stderr and one_line(r),
              f"compile_cost --linked: {key} above its ceiling: {r.returncode} {r.stderr}")
    r = tool("compile_cost.py", "--nvcc", nvcc + "x")
    check(r.returncode == 77, f"compile_cost: no nvcc: {r.returncode}")


with tempfile.TemporaryDirectory() as folder:
    test_compile_cost(folder)
with tempfile.TemporaryDirectory() as folder:
    test_report(folder)
with tempfile.TemporaryDirectory() as folder:
    test_sass_votes(folder)
with tempfile.TemporaryDirectory() as folder:
    test_kernel_time(folder)
if not failures:
    print("all held")
sys.exit(1 if failures else 0)
