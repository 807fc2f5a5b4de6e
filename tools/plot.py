#!/usr/bin/env python3
"""Draws results of `warpheap bench --json`: one figure per case and operation, the ratio
to the null kernel (or the time, where a row has no ratio) over size, over threads for the
cases scaling, walk and crossover, over rows for ops-*-paper and over groups for ops-group, over
the share that is live for full; for drift what becomes of the heap, over the rounds; one line per
allocator. Cases that are measured with several shares of the heap free have a figure for each, and
sizes of scenarios that are measured with several numbers of threads one over these.

Usage: plot.py [-o FOLDER] [--case LIST] [--us] RESULTS.jsonl...

Several files are joined; an allocator that occurs in more than one is marked with the
file's name. Rows of `warpheap registers` are passed over. Needs matplotlib (Debian:
python3-matplotlib). Exit status 2 if a file cannot be read or written, 1 if there is nothing to
draw.
"""
import argparse
import os
import sys
from collections import defaultdict

import rows as files


def pyplot():
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot
    except ImportError:
        sys.exit("plot.py needs matplotlib (Debian: python3-matplotlib)")
    return matplotlib.pyplot


def size_text(n):
    for unit, power in (("G", 30), ("M", 20), ("K", 10)):
        whole = round(n / (1 << power))
        if whole > 0 and abs(n - (whole << power)) <= n * 1e-6:  # heap_bytes has seven digits
            return f"{whole}{unit}"
    return f"{n:.0f}"


def fail(path, text):
    """Ends the program with one short line."""
    print(f"plot.py: {path}: {text}", file=sys.stderr)
    raise SystemExit(2)


def read(path):
    """(rows, device) of a file."""
    try:
        run = files.read(path)
    except files.Unreadable as e:
        fail(path, e)
    rows = [row for row in run.rows if row.get("case") != "registers"]
    for row in rows:
        for name in ("alloc", "case", "phase", "op", "size", "us"):
            if name not in row:
                fail(path, f"one of its rows has no {name}")
    for name in ("device", "commit"):
        if name not in run.header:
            fail(path, f"its header has no {name}")
    return rows, f"{run.header['device']}, {run.header['commit']}"


def load(paths):
    """(rows, devices); each row gets "line", its legend entry."""
    rows, devices, seen = [], set(), defaultdict(set)
    for path in paths:
        of_file, device = read(path)
        devices.add(device)
        for row in of_file:
            row["file"] = os.path.splitext(os.path.basename(path))[0]
            seen[row["alloc"]].add(row["file"])
            rows.append(row)
    for row in rows:
        several = len(seen[row["alloc"]]) > 1
        row["line"] = f"{row['alloc']} ({row['file']})" if several else row["alloc"]
    return rows, sorted(devices)


FRAGMENTS = ("internal", "external", "external-end")  # ops, and names of their values
VALUES = ("utilization", "range_ratio", "ratio_alone", "waste_mean", *FRAGMENTS)
SHARES = ("utilization", "waste_mean", "filled", *FRAGMENTS)  # 0 .. 1
RATIO = "time / time of the null kernel"


def value_of(row, use_us):
    """(what, value) that a figure shows of a row."""
    for name in VALUES:
        if name in row:
            return name, row[name]
    if use_us or row.get("ratio_null") is None:
        return "µs", row["us"]
    return RATIO, row["ratio_null"]


def scenario_of(row):
    return row["line"], row["phase"], row["op"], row["size"], row["free_share"]


def operator_of(row):
    """(title, x, x label) of a row of the cases ops-* and kdtree*."""
    name = f"{row['case']} {row['op']}"
    if row["case"].startswith("kdtree"):
        return name, row["input"], "mesh"
    if row["case"].endswith("-paper"):
        return f"{name} {row['input']}", row["threads"], "rows"
    if row["case"] == "ops-group":
        kind, keys = row["input"].rsplit("-", 1)
        return f"{name} {kind}", int(keys), "groups"
    return name, row["input"], "operation"


def figures(rows, use_us):
    """Groups rows into {(title, x label, y label): {line: [(x, y)]}}."""
    out = defaultdict(lambda: defaultdict(list))
    counts = defaultdict(set)  # of threads: of scenarios, of rows that differ in nothing else
    for row in rows:
        if row["case"] == "scenarios":
            counts[scenario_of(row)].add(row["threads"])
    for row in rows:
        what, y = value_of(row, use_us)
        if row["case"] == "drift":
            for name, of in (("filled", "half the heap"), ("range_ratio", "live bytes"),
                             ("largest", "bytes"), ("us", "µs")):
                if name not in row:  # time was over before it was known
                    continue
                key = (f"drift {name}", "round", name if name in SHARES else f"{name}, {of}")
                out[key][row["line"]].append((row["round"], row[name]))
            continue
        if row["case"] == "full" and row["op"] != "fill":
            mixed = "up to " if "size_min" in row else ""
            title = f"full {row['op']} {mixed}{size_text(row['size'])} B"
            x, label = row["fill"], "share of the heap that is live"
        elif row["case"] == "scaling":
            title = f"scaling {row['op']} {size_text(row['size'])} B"
            x, label = row["threads"], "threads"
        elif row["case"].startswith(("ops-", "kdtree")):
            title, x, label = operator_of(row)
        elif row["case"] in ("graph", "init"):
            title = " ".join(filter(None, (row["case"], row.get("input"))))
            x, label = row["op"], "operation"
        else:
            title = " ".join((row["case"], row["phase"], row["op"]))
            title += " mixed" if row["case"] == "full" and "size_min" in row else ""
            x, label = row["size"], "size in bytes"
            if row["case"] in ("walk", "crossover", "scenarios"):
                title += f" with {row['free_share']:g} free"
            if row["case"] == "scenarios" and len(counts[scenario_of(row)]) > 1:
                by_threads = (f"{title}, {size_text(x)} B", "threads", what)
                out[by_threads][row["line"]].append((row["threads"], y))
                if x in (seen for seen, _ in out[(title, label, what)][row["line"]]):
                    continue  # over the sizes the first of these counts is shown
            if row["case"] in ("walk", "crossover"):
                x, label = row["threads"], "threads"
            elif row["case"] == "lists" and row["op"] == "ACD-heap":
                x, label = row["heap_bytes"], "heap in bytes"
            elif row["case"] == "lists" and row["op"] == "ACD-iterations":
                x, label = row["iterations"], "iterations"
            elif row["case"] == "lists" and row["op"] == "P":
                x, label = row["threads"], "threads"
        out[(title, label, what)][row["line"]].append((x, y))
    return out


def file_name(key, keys):
    """By the title; where figures share one, times are told from values, and µs from ratios."""
    title, _, what = key
    name = "-".join(title.replace(".", "-").replace(",", "").split())
    shared = {k[2] for k in keys if k[0] == title and k != key}
    if shared and what not in VALUES:
        name += "-time-us" if what == "µs" and RATIO in shared else "-time"
    return name + ".png"


def draw(plt, path, key, lines, devices):
    title, label, what = key
    figure, axes = plt.subplots(figsize=(7, 4.5))
    if label == "operation":
        names = sorted({x for points in lines.values() for x, _ in points})
        width = 0.8 / len(lines)
        for i, (line, points) in enumerate(sorted(lines.items())):
            at = [names.index(x) + i * width for x, _ in points]
            axes.bar(at, [y for _, y in points], width, label=line)
        axes.set_xticks([k + 0.4 - width / 2 for k in range(len(names))], names, rotation=20)
    else:
        ticks = sorted({x for points in lines.values() for x, _ in points})
        for line, points in sorted(lines.items()):
            points.sort()
            axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=line)
        if label in ("threads", "size in bytes", "heap in bytes", "iterations", "rows", "groups"):
            axes.set_xscale("log", base=2)
            if len(ticks) <= 12:
                axes.set_xticks(ticks, [size_text(t) for t in ticks])
        axes.minorticks_off()
    if what in SHARES:
        axes.set_ylim(0, 1.02)
    elif what not in VALUES:
        axes.set_yscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel(what)
    axes.set_title(f"{title}\n{'; '.join(devices)}", fontsize=9)
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


# --- the picture of README ------------------------------------------------------------------------

GREY = "#808080"  # is read on white and on black


def points_text(lines):
    return "; ".join(f"{name}: " + " ".join(f"{x}:{y:.4g}" for x, y in points)
                     for name, points in lines.items())


def picture(path, title, lines):
    """An SVG of lines {name: [(bytes, µs)]}, the first of them the one that matters. The points
    are in its description, so that a test need not draw to know that they are those."""
    plt = pyplot()
    plt.rcParams.update({"svg.hashsalt": "warpheap", "svg.fonttype": "none", "text.color": GREY,
                         "axes.edgecolor": GREY, "axes.labelcolor": GREY, "xtick.color": GREY,
                         "ytick.color": GREY, "font.family": "sans-serif"})
    figure, axes = plt.subplots(figsize=(8, 4.8))
    for i, (name, points) in enumerate(lines.items()):
        axes.plot(*zip(*points), marker="o", markersize=4, label=name, color=f"C{i}",
                  linewidth=2.5 if i == 0 else 1.3)
    sizes = sorted({x for points in lines.values() for x, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(x) for x in sizes])
    axes.minorticks_off()
    axes.set_xlabel("bytes")
    axes.set_ylabel("µs")
    axes.set_title(title, fontsize=10)
    axes.grid(True, color=GREY, alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.tight_layout()
    figure.savefig(path, transparent=True,
                   metadata={"Date": None, "Description": points_text(lines)})
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", default=".", metavar="FOLDER")
    parser.add_argument("--case", metavar="LIST", help="only these cases")
    parser.add_argument("--us", action="store_true", help="times instead of ratios")
    parser.add_argument("results", nargs="+")
    options = parser.parse_args()
    plt = pyplot()
    rows, devices = load(options.results)
    if options.case:
        have = ", ".join(sorted({row["case"] for row in rows})) or "none"
        rows = [row for row in rows if row["case"] in options.case.split(",")]
        if not rows:
            print(f"plot.py: no rows of case {options.case}; the files have: {have}",
                  file=sys.stderr)
            return 1
    if not rows:
        print("plot.py: no rows to draw", file=sys.stderr)
        return 1
    drawn = figures(rows, options.us)
    path = options.out
    try:
        os.makedirs(path, exist_ok=True)
        for key, lines in sorted(drawn.items()):
            path = os.path.join(options.out, file_name(key, drawn))
            draw(plt, path, key, lines, devices)
            print(path)
    except OSError as e:
        fail(path, e.strerror)
    return 0


if __name__ == "__main__":
    sys.exit(main())
