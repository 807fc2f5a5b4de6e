"""command.py: the command line of `warpheap report`."""
import argparse
import csv
import os
import pathlib
import re
import sys
from typing import NamedTuple

from . import rows as files

FORM = 1  # of result files, as results/README.md has it
NEEDED = ("alloc", "case", "op")
MISSING = ("report needs Matplotlib 3.6 or newer and Jinja2: python3 -m pip install matplotlib "
           "jinja2 (Debian: apt-get install python3-matplotlib python3-jinja2)")
KNOWN = frozenset((*files.TEXTS, *files.NUMBERS, *"""
    mops us_early us_late us_first us_last us_frame us_e2e us_drop us_compact us_of_others
    steps_per_op atomics_per_op waste_max waste_max_size utilization_end last_served range_ratio
    filled largest largest_of_free largest_fresh live live_of live_bytes touched round rounds
    reserved least least_share freed given kept best of_best requests ratio_bump ratio_two_pass
    ratio_pages ratio_power ratio_cub_32 out_rows verified stops looks look_us look_bytes slabs
    applied arcs max_degree block_bytes graph_bytes bytes_per_arc of_plain bytes_before bytes_after
    bytes_most of_before full heap_before heap_after window erased iterations triangles components
    reached pool references request_mean request_deviation nodes cost cut_leaves tas was
    tas_expected was_expected tas_drained tas_bound equation_11 internal external external-end
    mallocs heap_bytes kernel kernels launches error us_mean us_sd range_first range_most ticks_p50
    ticks_p99 ticks_p999 ticks_max ticks_mean ticks_null us_packed ratio_packed us_scan ratio_scan
    metadata_bytes metadata_share rounds_ideal cell cell_rows us_compaction compacted
    """.split()))


NUMERIC = KNOWN.difference(files.TEXTS, ("error", "kernel", "kernels", "launches", "cell"))


class Source:
    """A file that was read. device: what its rows are compared within."""

    def __init__(self, path, run):
        self.path, self.header, self.rows, self.left_out = str(path), *run
        self.stem = pathlib.Path(path).name.split(".jsonl")[0]
        self.device = str(self.header.get("device", "unknown device"))
        for row in (*self.rows, *self.left_out):
            row.source, row.line = self, row["alloc"]


class Bad(NamedTuple):
    path: str
    reason: str


class Data(NamedTuple):
    sources: list
    bad: list
    notes: list  # what was odd about files that are used

    @property
    def rows(self):
        return [row for source in self.sources for row in source.rows]

    @property
    def left_out(self):
        return [row for source in self.sources for row in source.left_out]


def complain(text):
    print(f"warpheap: {text}", file=sys.stderr)


def fail(text):
    complain(text)
    raise SystemExit(2)


def printable(text):
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda m: f"\\x{ord(m[0]):02x}", str(text))


# --- reading --------------------------------------------------------------------------------------


def listed(paths):
    """Files as they are, and of folders all files *.jsonl below, also compressed ones."""
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            ends = ("", *files.COMPRESSED)
            found = sorted(f for end in ends for f in path.rglob("*.jsonl" + end))
            yield from found or [path / "*.jsonl"]
        else:
            yield path


def read(path):
    run = files.read(path, NEEDED)
    version = run.header.get("version", FORM)
    if version != FORM:
        raise files.Unreadable(f"line 1: it is of form {version}, and this program knows {FORM}")
    for row in run.left_out:
        row.where = f"{path}: {row.where}"
        for name in ("alloc", "case"):
            row[name]  # raises Unreadable
        files.check_row(row)
    for row in (*run.rows, *run.left_out):
        for name in row:
            if name in NUMERIC:
                row.number(name)
            elif isinstance(row[name], (list, dict)):
                raise files.Unreadable(f"{row.where}: '{name}' is neither text nor number")
    if not run.rows and not run.left_out:
        raise files.Unreadable("line 1: no row comes after it")
    return Source(path, run)


def load(paths):
    """What is readable; each other file costs one line of complaint."""
    data = Data([], [], [])
    seen = {}
    for path in listed(paths):
        try:
            real = os.path.realpath(path)
            if real in seen:
                continue
            seen[real] = True
            source = read(path)
        except files.Unreadable as e:
            reason = str(e).removeprefix(f"{path}: ")
            data.bad.append(Bad(str(path), reason))
            complain(f"{printable(path)}: {printable(reason)}; skipped")
            continue
        data.sources.append(source)
        odd = {name: row.where for row in reversed(source.rows) for name in row
               if name not in KNOWN}
        if odd:
            name = min(odd, key=lambda name: (int(odd[name].rpartition(" ")[2]), name))
            line = odd[name].removeprefix(f"{path}: ")
            others = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
            data.notes.append(Bad(str(path), f"{line}: member '{name}'{others} is not known here: "
                                             "the CSV has it"))
            complain(f"{printable(path)}: {printable(data.notes[-1].reason)}")
    return data


def keep_newest(data):
    """Of rows of the same, those of the newest file. How many others there were."""
    from . import panels
    newest = {}
    for row in data.rows:
        key = (row.source.device, row["case"], panels.key_of(row))
        newest[key] = max(newest.get(key, ""), str(row.source.header.get("date", "")))
    gone = 0
    for source in data.sources:
        kept = [row for row in source.rows if str(source.header.get("date", "")) ==
                newest[(source.device, row["case"], panels.key_of(row))]]
        gone += len(source.rows) - len(kept)
        source.rows[:] = kept
    return gone


def pick(data, options):
    """Leaves what --case and --alloc name."""
    for what, names in (("case", options.case), ("alloc", options.alloc)):
        if not names:
            continue
        wanted = names.split(",")
        have = sorted({row[what] for row in (*data.rows, *data.left_out)})
        for name in wanted:
            if name not in have:
                fail(f"report: no row has {what} '{printable(name)}'; the files have: "
                     f"{printable(', '.join(have)) or 'none'}")
        for source in data.sources:
            for rows in (source.rows, source.left_out):
                rows[:] = [row for row in rows if row[what] in wanted]
    data.sources[:] = [source for source in data.sources if source.rows or source.left_out]


# --- writing --------------------------------------------------------------------------------------


def write(path, text):
    try:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    except OSError as e:
        fail(f"{printable(path)}: cannot be written: {e.strerror}")


def write_csv(folder, data):
    """A file for each case, with all members of its rows, and one of what was left out."""
    tables = {}
    for row in data.rows:
        tables.setdefault(row["case"], []).append(row)
    tables["left_out"] = data.left_out
    written = []
    for case, rows in tables.items():
        if not rows:
            continue
        names = list(dict.fromkeys(name for row in rows for name in row))
        path = folder / (re.sub(r"[^\w.-]", "_", case) + ".csv")
        with open(path, "w", newline="", encoding="utf-8") as f:
            out = csv.writer(f)
            out.writerow(["file", "commit", "device", *names])
            for row in rows:
                out.writerow([row.source.path, row.source.header.get("commit", ""),
                              row.source.device, *(row.get(name, "") for name in names)])
        written.append(path)
    return written


def export(options, data, built):
    """--csv, --svg, --png. built: the page's parts, or None: without pictures."""
    from . import draw
    try:
        for folder in filter(None, (options.csv, options.svg, options.png)):
            pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        if options.csv:
            write_csv(pathlib.Path(options.csv), data)
        for folder, ending in ((options.svg, ".svg"), (options.png, ".png")):
            for name, figure in built.pictures() if folder and built else ():
                draw.save(figure, pathlib.Path(folder) / (name + ending))
    except OSError as e:
        fail(f"{printable(e.filename)}: cannot be written: {e.strerror}")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(f"report: {message} (--help shows the options)")


def parse(words):
    parser = Parser(prog="warpheap report", description="Makes a page to read of files that "
                    "`warpheap bench --json` has written: a summary in words, figures, tables. A "
                    "folder stands for all files *.jsonl below it, and *.jsonl.xz or .gz. A file "
                    "that is not one of results is named on a line of standard error, and "
                    "skipped.",
                    epilog="Exit status: 0, or 2 if nothing usable remains or something else is "
                    "wrong. docs/REPORT.md has more.")
    parser.add_argument("results", nargs="*", metavar="RESULTS", help="files, or folders of them")
    parser.add_argument("-o", "--output", default="report.html", metavar="FILE",
                        help="the page; default: report.html")
    parser.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"),
                        help="set two files or folders side by side, row by row")
    parser.add_argument("--threshold", type=float, default=10, metavar="PERCENT",
                        help="with --compare: mark changes above this; default 10")
    parser.add_argument("--case", metavar="LIST", help="only these cases")
    parser.add_argument("--alloc", metavar="LIST", help="only these allocators")
    parser.add_argument("--newest", action="store_true",
                        help="of rows of the same, from several runs, show the newest alone")
    parser.add_argument("--svg", metavar="FOLDER", help="write the figures there, too, as SVG")
    parser.add_argument("--png", metavar="FOLDER", help="the same as PNG")
    parser.add_argument("--csv", metavar="FOLDER", help="write all rows there, a file a case")
    options = parser.parse_args(words)
    if options.compare and (options.results or options.svg or options.png):
        parser.error("--compare OLD NEW goes without other files, --svg and --png")
    if not options.compare and not options.results:
        parser.error("it wants files of `warpheap bench --json`, or folders of them")
    if not options.threshold >= 0:
        parser.error("--threshold: a percentage of 0 or more is wanted")
    return options


def usable(paths, options):
    data = load(paths)
    if not data.sources:
        fail("report: none of the files can be used; nothing is written")
    pick(data, options)
    used = {os.path.realpath(source.path) for source in data.sources}
    if os.path.realpath(options.output) in used:
        fail(f"--output {printable(options.output)} is one of the results: name another file")
    return data


def main(arguments=None):
    options = parse(arguments)
    try:
        from . import page  # here, so that --help and complaints need no library
    except ImportError:
        fail(MISSING)
    if options.compare:
        old, new = (usable([path], options) for path in options.compare)
        write(options.output, page.compared(old, new, options.threshold / 100))
        if options.csv:
            fail("report: --csv is of one set of results")
        return 0
    data = usable(options.results, options)
    gone = keep_newest(data) if options.newest else 0
    built = page.Page(data, gone)
    write(options.output, built.text())
    export(options, data, built)
    return 0
