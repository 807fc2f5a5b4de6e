#!/usr/bin/env python3
"""Draws results of `warpheap bench --json`: one figure per case and operation, the ratio
to the null kernel (or the time, where a row has no ratio) over size, over threads for the
case scaling, over the share that is live for full; for drift what becomes of the heap, over
the rounds; one line per allocator.

Usage: plot.py [-o FOLDER] [--case LIST] [--us] RESULTS.json...

Several files are joined; an allocator that occurs in more than one is marked with the
file's name. Needs matplotlib (Debian: python3-matplotlib).
"""
import argparse
import gzip
import json
import os
import sys
from collections import defaultdict

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit("plot.py needs matplotlib (Debian: python3-matplotlib)")


def size_text(n):
    for unit, power in (("G", 30), ("M", 20), ("K", 10)):
        if n >= 1 << power and n % (1 << power) == 0:
            return f"{n >> power}{unit}"
    return str(n)


def load(paths):
    """(rows, devices); each row gets "line", its legend entry."""
    rows, devices, seen = [], set(), defaultdict(set)
    for path in paths:
        read = gzip.open if str(path).endswith(".gz") else open
        with read(path, "rt", encoding="utf-8") as f:
            data = json.load(f)
        devices.add(f"{data['meta']['device']}, {data['meta']['commit']}")
        for row in data["rows"]:
            row["file"] = os.path.splitext(os.path.basename(path))[0]
            seen[row["alloc"]].add(row["file"])
            rows.append(row)
    for row in rows:
        several = len(seen[row["alloc"]]) > 1
        row["line"] = f"{row['alloc']} ({row['file']})" if several else row["alloc"]
    return rows, sorted(devices)


VALUES = ("utilization", "range_ratio", "ratio_alone", "waste_mean")
SHARES = ("utilization", "waste_mean", "filled")  # 0 .. 1


def value_of(row, use_us):
    """(what, value) that a figure shows of a row."""
    for name in VALUES:
        if name in row:
            return name, row[name]
    if use_us or row.get("ratio_null") is None:
        return "µs", row["us"]
    return "time / time of the null kernel", row["ratio_null"]


def figures(rows, use_us):
    """Groups rows into {(title, x label, y label): {line: [(x, y)]}}."""
    out = defaultdict(lambda: defaultdict(list))
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
        elif row["case"] in ("graph", "init"):
            title = " ".join(filter(None, (row["case"], row.get("input"))))
            x, label = row["op"], "operation"
        else:
            title = " ".join((row["case"], row["phase"], row["op"]))
            title += " mixed" if row["case"] == "full" and "size_min" in row else ""
            x, label = row["size"], "size in bytes"
        out[(title, label, what)][row["line"]].append((x, y))
    return out


def draw(path, key, lines, devices):
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
        if label in ("threads", "size in bytes"):
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


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", default=".", metavar="FOLDER")
    parser.add_argument("--case", metavar="LIST", help="only these cases")
    parser.add_argument("--us", action="store_true", help="times instead of ratios")
    parser.add_argument("results", nargs="+")
    options = parser.parse_args()
    rows, devices = load(options.results)
    if options.case:
        rows = [row for row in rows if row["case"] in options.case.split(",")]
    os.makedirs(options.out, exist_ok=True)
    drawn = figures(rows, options.us)
    for key, lines in sorted(drawn.items()):
        name = "-".join(c for c in key[0].replace(".", "-").split()) + ".png"
        draw(os.path.join(options.out, name), key, lines, devices)
        print(os.path.join(options.out, name))
    return 0 if drawn else 1


sys.exit(main())
