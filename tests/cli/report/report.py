"""report.py: `warpheap report` over results that are made here: what it says in words, its page,
damaged files, two results side by side. With `browser` the page is looked at in Chromium, light and
dark, and sorted; without one that is skipped.

    report.py <warpheap> <source folder> <folder for Matplotlib and Jinja2> [browser]

The two are the machine's, or pip installs them into the folder; without them all is skipped.
"""
import contextlib
import csv
import gzip
import html
import importlib.util
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WARPHEAP, SOURCE, MODULES = (os.path.abspath(path) for path in sys.argv[1:4])
PACKAGE = Path(SOURCE, "python/warpheap/report")
WANTED = ["matplotlib>=3.6,<4", "jinja2>=3,<4"]
failures = 0
command = words = panels = None  # modules of the package; main sets them


def check(condition, what):
    global failures
    if not condition:
        failures += 1
        print(f"FAIL {what}")


def load():
    """The package under a name of its own, as python3 FOLDER has it. Whether all is there."""
    global command, words, panels
    sys.path.append(MODULES)
    names = ("matplotlib", "jinja2")
    if any(importlib.util.find_spec(name) is None for name in names):
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", MODULES,
                        "--disable-pip-version-check", *WANTED], check=False)
        importlib.invalidate_caches()
    if any(importlib.util.find_spec(name) is None for name in names):
        return False
    spec = importlib.util.spec_from_file_location("warpheap_report", PACKAGE / "__init__.py",
                                                  submodule_search_locations=[str(PACKAGE)])
    sys.modules["warpheap_report"] = importlib.util.module_from_spec(spec)
    command, words, panels = (importlib.import_module(f"warpheap_report.{name}")
                              for name in ("command", "words", "panels"))
    return True


def made(*args):
    """(exit status, standard error) of a call in this process, without the time of a new one."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            status = command.main([str(arg) for arg in args])
        except SystemExit as e:
            status = e.code
    return status, said.getvalue()


def run(*args, **env):
    done = subprocess.run([WARPHEAP, "report", *map(str, args)], capture_output=True, text=True,
                          timeout=100, check=False, env={**os.environ, "PYTHONPATH": MODULES,
                                                         "PYTHONDONTWRITEBYTECODE": "1",
                                                         "WARPHEAP_PYTHON": sys.executable, **env})
    return done.returncode, done.stdout, done.stderr


# --- results that are made here -------------------------------------------------------------------


def row(alloc, op, size, us, **more):
    return {"alloc": alloc, "case": "single", "phase": "warm", "op": op, "size": size,
            "threads": 1000000, "ops": 1000000, "reps": 3, "us": us, "us_min": us, "us_max": us,
            "us_null": 8, "ratio_null": us / 8, "failed": 0, "bad": 0} | more


def small():
    """Of three sizes tessera is first at two, even once; quick is first but NULL; null is none."""
    times = {"tessera": (17, 20, 60), "other": (36, 20.5, 30), "third": (400, 500, 600),
             "null": (8, 8, 8), "quick": (9, 9, 9)}
    rows = [row(name, "malloc", size, us, failed=4 if name == "quick" else 0)
            for name, all_us in times.items() for size, us in zip((16, 64, 4096), all_us)]
    rows += [row(name, "free", size, us) for name, us in (("tessera", 28), ("other", 20))
             for size in (16, 64)]
    rows += [row(name, "malloc", 16, 1, case="utilization", utilization=share, failed=9)
             for name, share in (("tessera", 0.97), ("other", 0.5))]
    rows += [row("few", "malloc", 16, 1, threads=10)]  # less work: not compared
    return rows


def put(name, rows, left_out=(), **header):
    head = {"commit": "0123456789ab", "device": "Made GPU", "driver": "D1", "flags": "-O3",
            "date": "2026-01-02", "target": "cuda"} | header
    lines = [head, *rows, *({**r, "left_out": True} for r in left_out)]
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return name


def panels_of(*names):
    with contextlib.redirect_stderr(io.StringIO()):
        data = command.load(names)
    return panels.build(data.rows)


# --- words ----------------------------------------------------------------------------------------


def plain(text):
    return text.replace("\u00a0", " ")


def test_words():
    built, rest = panels_of(put("a.jsonl", small()))
    by_title = {panel.title: panel for panel in built}
    malloc = by_title["single: malloc, warm"]
    first, texts = words.says(malloc, words.wins(malloc))
    check(first == "First at 3 sizes: tessera at 2, other at 1.", first)
    check([plain(text) for text in texts] == [
        "16 B: tessera 17.0 µs; next other, 36.0 µs (2.1 ×)",
        "64 B: tessera 20.0 µs; even with other, 20.5 µs",
        "4 KiB: other 30.0 µs; next tessera, 60.0 µs (2.0 ×)"], texts)
    free = by_title["single: free, warm"]
    first, _ = words.says(free, words.wins(free))
    check(first == "other is first at both sizes.", first)
    filled = by_title["utilization: malloc, warm"]
    _, texts = words.says(filled, words.wins(filled))
    check([plain(text) for text in texts] == ["tessera 0.970; next other, 0.500 (1.94 ×)"], texts)
    won = [win for panel in built for win in words.wins(panel)]
    lead = words.lead([(panel, words.wins(panel)) for panel in built], won)
    check("Of 3 operations" in lead and "Of 6 single comparisons first is: other in 3 (first or "
          "even: 4); tessera in 3" in lead, lead)
    losses, n = words.losses(won)
    check(n == 3 and [title for title, _ in losses] == ["single: malloc, warm",
                                                        "single: free, warm"], f"{n} {losses}")
    check(not rest, f"rows without a place: {rest}")
    for value, text in ((22, "22.0"), (1897.2, "1,897"), (0.5561, "0.556"), (8.5, "8.50")):
        check(words.figures(value) == text, f"{value}: {words.figures(value)}")


def test_places():
    """Every row of any case has a place, or is among the rest; none is lost."""
    cases = ("scaling", "drift", "full", "init", "graph-sets", "ops-join", "ops-group", "kdtree",
             "registers", "walk", "lists", "new-case", "server", "gauge")
    rows = [row(name, op, size, 5, case=case, threads=threads, input="uniform-1024", fill=0.5,
                round=threads, filled=0.5, kernel=op)
            for case in cases for name in ("tessera", "other") for op in ("malloc", "faim-x")
            for size in (16, 32) for threads in (1, 64)]
    rows += [{"alloc": "tessera", "case": "profile", "op": "x", "l2_hit_pct": 5}]
    built, rest = panels_of(put("b.jsonl", rows))
    shown = {id(r) for p in built for points in p.lines.values() for r in points.values()}
    check(len(shown | {id(r) for r in rest}) == len(rows),
          f"{len(rows)} rows, {len(shown)} shown, {len(rest)} beside")
    sim = put("sim.jsonl", [row("tessera", "malloc", 16, 5, steps_per_op=7)], target="sim")
    check(panels_of(sim)[1][0]["steps_per_op"] == 7, "one row of the simulated device")
    two = [put(f"{commit}.jsonl", [row("tessera", "malloc", size, us) for size in (16, 64)],
               commit=commit, date=date)
           for commit, us, date in (("aaaaaaaaaa", 5, "2026-01-01"),
                                    ("bbbbbbbbbb", 6, "2026-01-02"))]
    lines = set(panels_of(*two)[0][0].lines)
    check(lines == {"tessera @aaaaaaaa", "tessera @bbbbbbbb"}, f"two runs: {lines}")
    data = command.load(two)
    check(command.keep_newest(data) == 2 and {r["us"] for r in data.rows} == {6}, "the newest")


# --- the page -------------------------------------------------------------------------------------

EVIL = '<script>alert(1)</script>"$x_1$'


def test_page():
    put("a.jsonl", [*small(), row(EVIL, "malloc", 16, 50),
                    row("odd", "malloc", 16, 5, novel=1, us_compaction=2, compacted=64),
                    {"alloc": "dead", "case": "single", "phase": "warm", "op": "malloc",
                     "size": 16, "threads": 5, "error": "it hung"}],
        [{"alloc": "slow", "case": "single", "size": 64, "threads": 7}])
    code, out, err = run("a.jsonl", "--svg", "svg", "--png", "png", "--csv", "csv")
    check((code, out) == (0, "") and err.count("\n") == 1 and re.search(
        r"a\.jsonl: line \d+: member 'novel' is not known", err), f"report: {code} {out} {err}")
    text = Path("report.html").read_text()
    check(not re.search(r"(src|href)=\"(?!#)|url\((?!#)|@import", text.replace("xlink:href", "x")),
          "the page is not self-contained")
    check(text.count("<svg") == 3, f"{text.count('<svg')} figures, not 3")
    check("<script>alert" not in text and "&lt;script&gt;alert(1)" in text, "markup in a name")
    for what in ("9.00 (4 NULL)", "it hung", "slow: 64 B, 7 threads and what comes after it",
                 "0123456789ab", "Made GPU", "D1", "-O3", "2026-01-02", "1.00†"):
        check(what in text, f"the page has no {what!r}")
    check(sorted(p.name for p in Path("svg").iterdir()) == sorted(
        f"{name}.svg" for name in ("heat-map", "single-malloc-warm", "single-free-warm",
                                   "utilization-malloc-warm")), list(Path("svg").iterdir()))
    check(all(p.read_bytes().startswith(b"\x89PNG") for p in Path("png").iterdir()) and
          len(list(Path("png").iterdir())) == 4, "PNG files")
    with open("csv/single.csv", newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    check(len(rows) == 23 and rows[-2]["novel"] == "1" and rows[-1]["error"] == "it hung",
          f"CSV: {len(rows)} rows")
    status, err = made("a.jsonl", "-o", "a.jsonl")
    check(status == 2 and "is one of the results" in err, "a page over its results")


def test_compressed():
    """The same page, of compressed files, also below a folder."""
    put("plain.jsonl", small())
    Path("packed").mkdir()
    Path("packed/plain.jsonl.xz").write_bytes(lzma.compress(Path("plain.jsonl").read_bytes()))
    Path("packed/again.jsonl.gz").write_bytes(gzip.compress(Path("plain.jsonl").read_bytes()))
    check(made("plain.jsonl", "--csv", "of_plain")[0] == 0, "plain")
    check(made("packed/plain.jsonl.xz", "--csv", "of_xz")[0] == 0, "xz")
    rows = Path("of_xz/single.csv").read_text().replace("packed/plain.jsonl.xz", "plain.jsonl")
    check(rows == Path("of_plain/single.csv").read_text(), "the rows of a compressed file")
    check(made("packed", "-o", "packed.html")[0] == 0, "a folder of compressed files")
    text = html.unescape(Path("packed.html").read_text())
    for what in ("plain.jsonl.xz", "again.jsonl.gz"):
        check(what in text, f"the page does not name {what}")


def test_bad():
    good = json.dumps({"device": "d", "commit": "c"}) + "\n"
    one = json.dumps(row("x", "malloc", 16, 5)) + "\n"
    cases = {"": "its first line is not the header", good: "line 1: no row comes after it",
             good + one + one[:40]: "line 3 is no JSON object", "hello": "line 1 is no JSON",
             one: "its first line is not the header", "\xff\xfe": "no JSON",
             json.dumps({"device": "d", "version": 2}) + "\n" + one: "line 1: it is of form 2",
             good + '{"case":"single"}\n': "line 2 has no 'alloc'",
             good + one.replace('"us": 5', '"us": "5"'): "line 2: 'us' is no number",
             good + one.replace('"us": 5', '"us": NaN'): "line 2: 'us' is no number",
             good + one.replace('"malloc"', "[]"): "line 2: 'op' is no text",
             good + one.replace('"us": 5', '"us": 5, "q": [1]'): "line 2: 'q' is neither",
             good + '{"left_out":true,"case":"single"}\n': "line 2 has no 'alloc'",
             good + "[" * 100000: "line 2 is no JSON object"}
    paths = []
    for k, (text, reason) in enumerate(cases.items()):
        path = Path(f"bad{k}.jsonl")
        path.write_text(text)
        paths.append(path)
        status, err = made(path, "-o", "bad.html")
        lines = err.splitlines()
        check(status == 2 and len(lines) == 2 and "none of the files can be used" in lines[1] and
              lines[0].startswith(f"warpheap: {path}: ") and reason in lines[0] and
              lines[0].endswith("; skipped"), f"{text[:50]!r}: {status} {err!r}, not {reason}")
    check(not Path("bad.html").exists(), "a page of nothing")
    Path("bytes.jsonl").write_bytes(b"\xff\x00")
    put("a.jsonl", small())
    status, err = made("a.jsonl", "bytes.jsonl", "gone.jsonl", paths[2], "-o", "some.html")
    check(status == 0 and err.count("skipped\n") == 3 and "No such file" in err, f"some: {err}")
    text = html.unescape(Path("some.html").read_text())
    for what in ("bad2.jsonl: line 3 is no JSON object", "bytes.jsonl: is no text", "gone.jsonl"):
        check(what in text, f"the page does not name {what}")
    Path("cut.jsonl.xz").write_bytes(lzma.compress(b"{}\n" * 99)[:-9])
    Path("false.jsonl.gz").write_bytes(b"{}\n")
    for path in ("cut.jsonl.xz", "false.jsonl.gz"):
        status, err = made(path, "-o", "bad.html")
        check(status == 2 and f"{path}: its compression is broken; skipped" in err,
              f"{path}: {err}")
    for args, what in (([], "it wants files"), (["a.jsonl", "--frob"], "unrecognized"),
                       (["a.jsonl", "--case", "toast"], "the files have: single, utilization"),
                       (["a.jsonl", "-o", "no/such.html"], "no/such.html: cannot be written"),
                       (["--compare", "a.jsonl", "a.jsonl", "--threshold", "x"], "--threshold"),
                       (["a.jsonl", "--csv", "a.jsonl"], "cannot be written")):
        status, err = made(*args)
        check(status == 2 and err.count("\n") == 1 and what in err, f"{args}: {status} {err!r}")


def test_compare():
    old = [row("x", "malloc", size, 10, us_min=9, us_max=11)
           for size in (16, 32, 64, 128, 256, 512)]
    new = [row("x", "malloc", size, us, us_min=us - 1, us_max=us + far, failed=failed)
           for size, us, far, failed in ((16, 20, 1, 0), (32, 5, 1, 0), (64, 10.5, 1, 0),
                                         (128, 10, 1, 3), (1024, 7, 1, 0))]
    new.append(row("x", "malloc", 256, 10.9, us_min=9, us_max=30))
    code, out, err = run("--compare", put("old.jsonl", old), put("new.jsonl", new), "--threshold",
                         "6", "-o", "c.html")
    check((code, out, err) == (0, "", ""), f"compare: {code} {out} {err}")
    text = html.unescape(Path("c.html").read_text())
    cells = dict(re.findall(r'<td class="name"[^>]*>malloc, warm, ([\d,]+) B[^<]*</td>'
                            r'(?:<td[^>]*>[^<]*</td>){3}<td[^>]*>([^<]*)<', text))
    check(cells == {"16": "▲ +100.0 %", "32": "▼ -50.0 %", "64": "+5.0 %", "128": "✗ +0.0 %",
                    "256": "≈ +9.0 %", "512": "–", "1,024": "–"}, f"changes: {cells}")
    check("5 rows can be compared: 1 worse and 1 better by more than 6 %, 1 within 6 %, and 1 "
          "further apart" in text, "the summary of a comparison")
    check("1 row only in the old results, 1 only in the new ones" in text, "rows of one alone")
    made("--compare", "old.jsonl", put("else.jsonl", new, device="Another"), "-o", "d.html")
    check("different devices" in Path("d.html").read_text(), "two devices are not told")


def test_missing():
    """Without Python, without its libraries, without the program's part in Python; installed."""
    code, out, err = run("a.jsonl", WARPHEAP_PYTHON="/no/such/python")
    check(code == 2 and err.count("\n") == 1 and "apt-get install python3" in err, err)
    Path("lacking").mkdir()
    Path("lacking/matplotlib.py").write_text("raise ImportError\n")
    code, out, err = run("a.jsonl", PYTHONPATH="lacking")
    check(code == 2 and err.count("\n") == 1 and "python3 -m pip install matplotlib jinja2" in err,
          err)
    Path("prefix/bin").mkdir(parents=True)
    program = shutil.copy(WARPHEAP, "prefix/bin/warpheap")
    for installed in (False, True):
        if installed:
            shutil.copytree(PACKAGE, "prefix/share/warpheap/report")
        done = subprocess.run([program, "report", "--help"], capture_output=True, text=True,
                              check=False, env={**os.environ, "WARPHEAP_PYTHON": sys.executable})
        check(("--compare" in done.stdout) == installed and
              ("is not installed" in done.stderr) != installed, f"{installed}: {done}")


# --- in a browser ---------------------------------------------------------------------------------

LOOK = """<script>
const all = what => [...document.querySelectorAll(what)];
const box = e => { const r = e.getBoundingClientRect(); return [r.width, r.height]; };
const table = document.querySelector("figure table, .changes table");
const head = table.tHead.rows[0].cells[1], look = getComputedStyle;
for (const d of all("details")) d.open = true;
const column = () => [...table.tBodies[0].rows].map(r => r.cells[0].textContent);
head.click();
const up = column();
head.click();
const down = column();
const label = document.querySelector("svg text") ?? document.body;
document.body.setAttribute("data-seen", JSON.stringify({
  paper: look(document.body).backgroundColor, ink: look(document.body).color,
  label: look(label)[label === document.body ? "color" : "fill"],
  up, down, sorted: head.getAttribute("aria-sort"),
  wide: document.documentElement.scrollWidth - innerWidth,
  figures: all("figure svg").map(box),
  lines: all("svg .line path").filter(p => box(p)[0] > 50).length,
  heat: all(".heat td.warm, .heat td.hot").map(c => look(c).backgroundColor),
  hidden: all("h1,h2,h3,table,figcaption").filter(e => box(e)[1] < 5).length,
}));
</script>"""


def brightness(color):
    return sum(float(v) for v in re.findall(r"[\d.]+", color)[:3])


def look(browser, name, dark):
    Path("looked.html").write_text(Path(name).read_text().replace("</body>", LOOK + "</body>"))
    done = subprocess.run(
        [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=900,1200",
         "--user-data-dir=" + os.path.abspath("profile"), "--enable-logging=stderr",
         f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom",
         "file://" + os.path.abspath("looked.html")],
        capture_output=True, text=True, timeout=100, check=False)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    check(done.returncode == 0 and not said, f"the browser: {done.returncode} {said[:3]}")
    seen = re.search(r'data-seen="(.*?)"', done.stdout)
    check(seen, "nothing was seen")
    return json.loads(html.unescape(seen[1])) if seen else None


def test_browser(browser):
    made(put("a.jsonl", small()), "-o", "page.html")
    heats = []
    for dark in (False, True):
        seen = look(browser, "page.html", dark)
        if seen is None:
            return
        for ink in ("ink", "label"):
            contrast = brightness(seen["paper"]) - brightness(seen[ink])
            check((-contrast if dark else contrast) > 400,
                  f"dark {dark}: {seen['paper']}, {ink} {seen[ink]}")
        check(seen["wide"] <= 0, f"the page is {seen['wide']} px too wide")
        check(len(seen["figures"]) == 3 and all(w > 300 and h > 60 for w, h in seen["figures"]),
              f"figures: {seen['figures']}")
        check(seen["lines"] >= 7, f"{seen['lines']} lines are drawn")
        order = ["few", "null", "quick", "tessera", "other", "third"]
        check(seen["up"] == order and seen["down"] == order[::-1] and
              seen["sorted"] == "descending", f"sorted: {seen['up']} {seen['down']}")
        check(seen["hidden"] == 0, f"{seen['hidden']} parts have no height")
        heats.append(seen["heat"])
    check(heats[0] and heats[0] != heats[1], f"the heat map, light and dark: {heats}")
    made("--compare", "a.jsonl", put("b.jsonl", small()[:5]), "-o", "c.html")
    seen = look(browser, "c.html", False)
    check(seen and seen["wide"] <= 0 and seen["hidden"] == 0 and seen["sorted"] == "descending",
          f"the page of a comparison: {seen}")


def main():
    if not load():
        print("skipped: no Matplotlib and Jinja2, and pip has not installed", *WANTED)
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if "browser" in sys.argv[4:]:
            names = ("chromium", "chromium-browser", "google-chrome", "chrome")
            browser = next(filter(None, map(shutil.which, names)), None)
            if browser is None:
                print("skipped: no browser (scripts/setup browser installs Debian's chromium)")
                return 77
            test_browser(browser)
        else:
            for test in (test_words, test_places, test_page, test_compressed, test_bad,
                         test_compare, test_missing):
                test()
        os.chdir("/")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
