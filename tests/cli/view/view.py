#!/usr/bin/env python3
"""view.py: `warpheap view` and `warpheap diff`: over snapshots that an example saves, and over made
ones: of a million blocks, with names that look like HTML, damaged in every way. With `browser` the
pages are looked at in Chromium, light and dark; without one the test is skipped.

    view.py <warpheap> <example 15_leaks> [browser]
"""
import html.parser
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WARPHEAP, EXAMPLE = (os.path.abspath(path) for path in sys.argv[1:3])
CHUNK = 16384
failures = 0


def check(condition, what):
    global failures
    if not condition:
        failures += 1
        print(f"FAIL {what}")


def run(*words):
    """(exit status, standard output, standard error)"""
    done = subprocess.run([WARPHEAP, *map(str, words)], capture_output=True, text=True,
                          timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def refuses(words, pattern):
    code, out, err = run(*words)
    check(code == 2, f"{words}: exit status {code}, not 2")
    check(out == "", f"{words}: prints {out!r}")
    check(re.search(pattern, err) and err.count("\n") == 1 and len(err) < 500,
          f"{words}: says {err!r}, not {pattern}")


# --- snapshots that are made here -----------------------------------------------------------------


def made(blocks=(), sites=(), checked=True, chunks=64, **head):
    """Slabs of 64 slots of 256 bytes that cover the heap's first chunks, as far as blocks lie."""
    per, slabs = 64, {}
    rows = []
    for k, (slot, size, site, mark) in enumerate(blocks):
        slabs.setdefault(slot // per, 0)
        slabs[slot // per] += 1
        row = [slot * 256 + (64 if checked else 0), 256]
        rows.append(row + [size, site, k // 32, k, mark] if checked else row)
    pieces, at = [], 0
    for slab in sorted(slabs):
        if slab > at:
            pieces.append([at, slab - at, "free"])
        pieces.append([slab, 1, "slab", 256, per, slabs[slab], 0, per - slabs[slab]])
        at = slab + 1
    if at < chunks:
        pieces.append([at, chunks - at, "free"])
    first = {"format": "warpheap snapshot", "version": 1, "allocator": "tessera", "device": "made",
             "pid": 7, "created_ns": 1, "time_ns": 2_000_000_000, "base": 1 << 40,
             "chunk_bytes": CHUNK, "chunks": chunks, "heap_bytes": chunks * CHUNK + 4096,
             "metadata_bytes": 4096, "used_bytes": sum(b[1] for b in blocks),
             "live_blocks": len(blocks), "largest_free": 0, "failed": 0, "bad_frees": 0,
             "checked": checked} | ({"mark": 1} if checked else {}) | head
    sites = [list(site) for site in sites] if checked else []
    return {"snapshot": first, "pieces": pieces, "blocks": rows, "sites": sites,
            "end": {"pieces": len(pieces), "blocks": len(rows), "sites": len(sites)}}


def put(name, snapshot):
    Path(name).write_text(snapshot if isinstance(snapshot, str) else json.dumps(snapshot))
    return name


SMALL = [(slot, 100 + slot % 2, slot % 3, slot % 2) for slot in range(0, 600, 2)]
PLACES = [("a/b.cu", 10), ("", 7), ("", 0)]


def damaged():
    """(text, what is said of it)"""
    good = json.dumps(made(SMALL, PLACES))

    def with_(path, value):
        snapshot = json.loads(good)
        at = snapshot
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        return json.dumps(snapshot)

    yield "", "cut short"
    yield "{", "cut short"
    yield "hello", "is no snapshot"
    yield "[1, 2]", "is no snapshot"
    yield '{"a": 1}', "'snapshot' is expected"
    yield '{"snapshot": 1}', "is no snapshot|expected|'\\[' or '\\{'"
    yield '{"snapshot": []}', "expected"
    yield "\x00\x01\x02", "is no snapshot"
    yield "[" * 100_000, "is no snapshot"
    yield '{"snapshot":' + "[" * 100_000, "depth"
    yield good + " x", "behind the end"
    yield good[:-1], "cut short"
    yield with_(["snapshot", "format"], "other"), "is no snapshot"
    yield with_(["snapshot", "version"], 2), "version 2 .*as new as"
    yield with_(["snapshot", "version"], "1"), "version is no number"
    for name in ("chunks", "chunk_bytes", "base", "time_ns", "mark", "heap_bytes"):
        for value in (-1, 1e300, None, "x", 1 << 62 if name.startswith("chunk") else 1.5):
            yield with_(["snapshot", name], value), f"{name} is no number"
    yield with_(["snapshot", "chunks"], 0), "without chunks"
    yield with_(["snapshot", "chunk_bytes"], 0), "without chunks"
    yield with_(["snapshot", "chunks"], 1 << 32), "rows are missing"
    yield with_(["snapshot", "device"], 3), "device is no text"
    yield with_(["pieces", 0, 0], 1), "each chunk once"
    yield with_(["pieces", 0, 1], 0), "each chunk once"
    yield with_(["pieces", 0, 1], 1 << 60), "count of chunks"
    yield with_(["pieces", 0, 2], "tree"), "no kind"
    yield with_(["pieces", 0, 2], 4), "no kind"
    yield with_(["pieces", 0, 3], 1 << 40), "size of a slot"
    yield with_(["pieces", 0, 4], 65), "more slots"
    yield with_(["pieces", 0, 5], 65), "count of blocks"
    yield with_(["pieces", 0, 6], 60), "count of blocks"
    yield with_(["pieces", 0], {}), "pieces: a list is expected"
    yield with_(["pieces", 0], []), "no kind"
    yield with_(["pieces", 0], 3), "expected"
    yield with_(["pieces"], []), "rows are missing"
    yield with_(["blocks", 1, 0], 0), "order of their addresses"
    yield with_(["blocks", 1, 0], -5), "block's offset"
    yield with_(["blocks", 0, 0], 1 << 62), "block's offset"
    yield with_(["blocks", 0, 1], 1 << 62), "block's size"
    yield with_(["blocks", 0, 2], 257), "block's size"
    yield with_(["blocks", -1, 0], 64 * CHUNK - 1), "behind the heap"
    yield with_(["blocks", 0, 3], 3), "site that is not listed"
    yield with_(["blocks", 0, 3], 0xffffffff), "a site is no number"
    yield with_(["blocks", 0, 5], "x"), "a thread is no number"
    yield with_(["blocks"], []), "rows are missing"
    yield with_(["sites", 0], [3, 4]), "no file"
    yield with_(["sites", 0], ["x", -4]), "a line is no number"
    yield with_(["end", "blocks"], 1), "rows are missing"
    yield with_(["end"], {}), "pieces is no number"
    yield good.replace("]]", "],]", 1), "missing behind a comma"
    yield good.replace("], [", "] [", 1), "',' is expected|'\\]' is expected"
    yield good.replace('"blocks": [', '"blocks": 5, "x": [', 1), "expected"


def test_damaged():
    for k, (text, pattern) in enumerate(damaged()):
        put("bad.json", text)
        refuses(["view", "bad.json", "-o", "bad.html"], rf"bad\.json:\d+: .*({pattern})")
        if k % 7 == 0:
            put("good.json", made(SMALL, PLACES))
            refuses(["diff", "good.json", "bad.json"], pattern)
            refuses(["diff", "bad.json", "good.json"], pattern)
    check(not Path("bad.html").exists(), "a bad snapshot leaves a page")
    good = json.dumps(made(SMALL, PLACES), indent=1)  # in another form, but the same
    check(run("view", put("good.json", good), "-o", "good.html")[0] == 0, "white space is refused")
    line = good[:good.index('"pieces"')].count("\n") + 1
    put("bad.json", good.replace('"slab"', '"slob"', 1))
    found = re.search(r"bad\.json:(\d+)", run("view", "bad.json")[2])
    check(found and line < int(found[1]) < line + 15, f"the line of the mistake: {found}")
    # Cut anywhere, or a byte changed: refused in one line, or read; it never dies.
    state = random.Random(4)
    for k in range(150):
        at = state.randrange(len(good))
        text = good[:at] if k % 3 == 0 else good[:at] + chr(state.randrange(32, 127)) + good[at+1:]
        code, _, err = run("view", put("bad.json", text), "-o", "bad.html")
        check(code in (0, 2) and err.count("\n") <= 1, f"byte {at}: {code}, {err!r}")
        check(k % 3 != 0 or code == 2, f"cut at {at}: accepted")


def test_requests():
    refuses(["view"], "wants a snapshot")
    refuses(["view", "a", "b"], "takes one file")
    refuses(["view", "no-such-file"], "no-such-file: cannot be opened: No such file")
    refuses(["view", "."], "Is a directory")
    refuses(["diff", "a"], "two snapshots")
    refuses(["diff", "a", "b", "c"], "takes two files")
    refuses(["diff", "--top", "x", "a", "b"], "--top: 'x' is not a number")
    put("good.json", made(SMALL, PLACES))
    refuses(["view", "good.json", "-o", "no/such/folder.html"], "no/such/folder.html: cannot")
    if os.path.exists("/dev/full"):
        refuses(["view", "good.json", "-o", "/dev/full"], "/dev/full: cannot be written: No space")
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([WARPHEAP, "diff", "good.json", "good.json"], stdout=full,
                                  stderr=subprocess.PIPE, timeout=120, check=False)
        check(done.returncode == 2, f"diff to a full disk: exit status {done.returncode}, not 2")
    os.link("good.json", "same.json")
    put("before.json", made(SMALL, PLACES))
    for output in ("good.json", "./same.json", "before.json"):
        refuses(["view", "good.json", "--since", "before.json", "-o", output], "the snapshot itsel")
    check(run("diff", "before.json", "good.json")[0] == 0, "a page is written over a snapshot")
    for other in ({"pid": 8}, {"created_ns": 3}):
        put("other.json", made(SMALL, PLACES, **other))
        refuses(["diff", "good.json", "other.json"], "not of one heap")
        refuses(["view", "good.json", "--since", "other.json"], "not of one heap")
    put("later.json", made(SMALL, PLACES, time_ns=3_000_000_000, mark=2))
    refuses(["diff", "later.json", "good.json"], "later.json is later than good.json")


# --- what is listed -------------------------------------------------------------------------------


def rows_of(text):
    return [(int(r[1]), int(r[2]), int(r[3]), r[4])
            for r in re.finditer(r"^ +(\d+) +(\d+) +(\d+)  (.*?)(?:  \(block.*)?$", text, re.M)]


def test_diff():
    put("a.json", made(SMALL, PLACES))
    code, out, _ = run("diff", "a.json", "a.json")
    check(code == 0 and out.startswith("0 new blocks"), out)
    more = [(slot, size, site, 0) for slot, size, site, _ in SMALL]
    more += [(1 + 2 * k, 50, 0, 1) for k in range(3)] + [(101 + 2 * k, 200, 1, 1) for k in range(2)]
    more += [(201, 50, 2, 2)]
    more.sort()
    put("b.json", made(more, PLACES, time_ns=2_500_000_000, mark=3))
    code, out, _ = run("diff", "a.json", "b.json")
    check(code == 1, f"exit status {code} with new blocks")
    check(out.startswith("6 new blocks are live, 600 bytes (600 B), 0.500 s later; 306 live in "
                         "all, 300 before\n"), out)
    check(rows_of(out) == [(400, 2, 200, "tag 7"), (150, 3, 50, "a/b.cu:10"),
                           (50, 1, 50, "unknown place")], out)
    _, out, _ = run("diff", "--top", "1", "a.json", "b.json")
    check("2 more" in out and re.search(r"^ +200 +4 ", out, re.M), out)
    # Plain heaps: by address and size.
    put("a.json", made([(k, 256, 0, 0) for k in range(0, 100, 2)], checked=False))
    put("b.json", made([(k, 256, 0, 0) for k in range(0, 110)], checked=False))
    code, out, _ = run("diff", "a.json", "b.json")
    check(code == 1 and "60 new blocks" in out and "is not checked" in out, out)
    code, out, _ = run("diff", "b.json", "a.json")
    check(code == 0 and out.startswith("0 new blocks"), out)


def example():
    """Saves before.json and after.json."""
    done = subprocess.run([EXAMPLE, "sim", "before.json", "after.json"], capture_output=True,
                          text=True, timeout=120, check=False)
    check(done.returncode == 0, f"the example: {done.returncode} {done.stderr}")
    source = re.match(r"(\S+15_leaks\.c):(\d+): 5120 bytes in 128 blocks of 40", done.stdout)
    check(source, f"the example says {done.stdout!r}")
    return f"{source[1]}:{source[2]}" if source else "?"


def test_example():
    place = example()
    after = json.loads(Path("after.json").read_text())
    check(after["snapshot"]["live_blocks"] == len(after["blocks"]) == 384, "blocks of the example")
    check(sum(row[2] for row in after["blocks"]) == after["snapshot"]["used_bytes"], "used bytes")
    lines = Path(__file__).resolve().parents[3] / "examples/15_leaks.c"
    text = lines.read_text().splitlines()[int(place.rpartition(":")[2]) - 1]
    check("wh_malloc" in text, f"{place} is {text!r}")
    code, out, _ = run("diff", "before.json", "after.json")
    check(code == 1 and [row[3] for row in rows_of(out)] == [place], out)
    code, out, _ = run("diff", "after.json", "after.json")
    check(code == 0 and rows_of(out) == [], out)


# --- pages ----------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """Elements by tag, ids, and what is wrong with their nesting."""

    OPEN = {"meta", "link", "rect", "p", "html"}  # what need not be closed

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.stack, self.wrong, self.text = [], {}, [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids[dict(attrs).get("id")] = len(self.tags) - 1
        if tag not in self.OPEN:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.OPEN and (not self.stack or self.stack.pop() != tag):
            self.wrong.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def page_of(*words):
    code, out, err = run("view", *words, "-o", "page.html")
    check((code, out, err) == (0, "", ""), f"view {words}: {code} {out} {err}")
    text = Path("page.html").read_text()
    page = Page(text)
    check(not page.wrong and not page.stack, f"{words}: nesting of {page.wrong} {page.stack}")
    alone = not re.search(r"https?:|//\w|url\(|@import|<script", text)
    check(alone, f"{words}: not self-contained")
    check(len(text) < 1_500_000, f"{words}: a page of {len(text)} bytes")
    return page, text


EVIL = [("<script>alert(1)</script>", 1), ('"><img src=x onerror=alert(1)>', 2),
        ("a&b'\x1b[2J\u00e9", 3)]


def make_million():
    """A million blocks of 1,000 places and 50 sizes."""
    blocks = [(slot, 1 + slot % 50, slot * 7 % 1000, slot % 3) for slot in range(1_000_000)]
    sites = [(f"file_{k % 10}.cu", k) for k in range(1000)]
    put("million.json", made(blocks, sites, chunks=20000))


def test_pages():
    example()
    page, text = page_of("after.json", "--since", "before.json")
    for name in ("tiles", "new", "map", "places", "classes", "runs", "largest"):
        check(name in page.ids, f"the page has no {name}")
    check("15_leaks.c" in text and "New since then" in text, "the page names the leak")
    page, text = page_of("after.json")
    check("new" not in page.ids and "New since" not in text, "news without --since")
    chunks = json.loads(Path("after.json").read_text())["snapshot"]["chunks"]
    check(sum(tag == "g" for tag, _ in page.tags) == chunks, "a cell for each chunk")
    put("evil.json", made([(k, 9, k, 1) for k in range(3)], EVIL, allocator="<b>", device="'&"))
    page, text = page_of("evil.json")
    check(not any(tag in ("script", "img", "b") and attrs for tag, attrs in page.tags), "markup")
    check(sum(tag == "b" for tag, _ in page.tags) == 4, "markup in the allocator's name")
    check("<script>alert(1)</script>:1" in page.text or
          "<script>alert(1)</script>:1" in "".join(page.text), "a name is not as it was")
    check("\x1b" not in text and "é" in text, "control characters")
    _, out, _ = run("diff", "evil.json", "evil.json")
    check("\x1b" not in out and "<script>" in out, "control characters on a terminal")
    page, _ = page_of(put("plain.json", made([(k, 256, 0, 0) for k in range(9)], checked=False)))
    check("plain" in page.ids, "the page of a plain heap does not say so")
    page_of(put("empty.json", made()))
    make_million()
    page, text = page_of("million.json")
    check("960 more rows" in text and "999980 more blocks" in text, "what is left out is told")


# --- in a browser ---------------------------------------------------------------------------------

LOOK = """<script>
const box = e => { const r = e.getBoundingClientRect(); return [r.width, r.height]; };
const all = what => [...document.querySelectorAll(what)];
const color = (e, what) => getComputedStyle(e)[what];
document.body.setAttribute("data-seen", JSON.stringify({
  paper: color(document.body, "backgroundColor"), ink: color(document.body, "color"),
  wide: document.documentElement.scrollWidth - innerWidth,
  map: box(document.getElementById("map")),
  cells: all("#map g").filter(g => box(g)[0] > 1).length,
  fresh: all("#map .fresh").filter(r => box(r)[1] > 2).length,
  freshFill: all("#map .fresh").map(r => color(r, "fill"))[0] || "",
  rows: Object.fromEntries(all("table").map(t => [t.id, t.rows.length])),
  hidden: all("h1,h2,table,#tiles div").filter(e => box(e)[1] < 5).length,
}));
</script>"""


def look(browser, name, dark):
    """What a script sees that is put behind the page; and what the browser complains of."""
    Path("looked.html").write_text(Path(name).read_text().replace("</html>", LOOK))
    words = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=900,1200",
             "--user-data-dir=" + os.path.abspath("profile"), "--enable-logging=stderr",
             f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom",
             "file://" + os.path.abspath("looked.html")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    check(done.returncode == 0, f"{name}: the browser ends with {done.returncode}")
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    check(not said, f"{name}: console: {said[:3]}")
    seen = re.search(r'data-seen="(.*?)"', done.stdout)
    check(seen, f"{name}: nothing was seen")
    return json.loads(html.unescape(seen[1])) if seen else None


def brightness(color):
    return sum(int(v) for v in re.findall(r"\d+", color)[:3])


def test_browser(browser):
    example()
    run("view", "after.json", "--since", "before.json", "-o", "page.html")
    chunks = json.loads(Path("after.json").read_text())["snapshot"]["chunks"]
    fills = set()
    for dark in (False, True):
        seen = look(browser, "page.html", dark)
        if seen is None:
            return
        bright = brightness(seen["paper"]) > brightness(seen["ink"])
        check(bright != dark, f"dark {dark}: {seen['paper']} on {seen['ink']}")
        check(seen["wide"] <= 0, f"the page is {seen['wide']} px too wide")
        check(seen["map"][0] > 500 and seen["map"][1] > 100, f"the map has {seen['map']} px")
        check(seen["cells"] == chunks and seen["fresh"] > 0, f"cells: {seen}")
        check(seen["rows"]["new"] == 2 and seen["rows"]["places"] == 3, f"rows: {seen['rows']}")
        check(seen["hidden"] == 0, f"{seen['hidden']} parts have no height")
        fills.add(seen["freshFill"])
    check(len(fills) == 2, f"new blocks have one color, light and dark: {fills}")
    make_million()
    run("view", "million.json", "-o", "million.html")
    seen = look(browser, "million.html", False)
    check(seen and seen["cells"] > 1000 and seen["rows"]["places"] == 41, f"a million: {seen}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if "browser" in sys.argv[3:]:
            names = ("chromium", "chromium-browser", "google-chrome", "chrome")
            browser = next(filter(None, map(shutil.which, names)), None)
            if browser is None:
                print("skipped: no browser (scripts/setup browser installs Debian's chromium)")
                return 77
            test_browser(browser)
        else:
            for test in (test_requests, test_damaged, test_diff, test_example, test_pages):
                test()
        os.chdir("/")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
