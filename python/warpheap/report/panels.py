"""panels.py: which rows stand together: a panel is one figure and its table, of one operation of
one case on one device. It has a line for each allocator, and along a line a row for each x.
"""
import collections
import re

from . import rows as files

DEFAULT = "tessera"  # the default heap, which every figure shows
# No allocators, or none that a heap could be replaced with: what a kernel takes without one, one
# counter without free, blocks that overlap by design. They set no record.
REFERENCES = ("null", "floor", "floor-plain", "bump", "bump-plain", "awmalloc")
NULL_IS_RIGHT = ("utilization", "pressure", "drift", "fill-log", "fragments")
TIME = "µs"
STEPS = "steps per call"  # of the simulated device, where time says little

# What a row is about where it has more to say than a time: label, whether less or more is better.
VALUES = {
    "utilization": ("asked for ÷ heap", "more"),
    "range_ratio": ("address range ÷ asked for", "less"),
    "ratio_alone": ("time ÷ one after the other", "less"),
    "waste_mean": ("mean share that is wasted", "less"),
    "internal": ("internal fragmentation", "less"), "external": ("external fragmentation", "less"),
    "external-end": ("external fragmentation", "less"), "registers": ("registers a thread", "less"),
}
SHARES = ("utilization", "metadata_share", "waste_mean", "internal", "external", "external-end",
          "filled", "touched", "largest_of_free")
TICKS = "clock ticks of a call"
# More panels of the same rows: of an op of a case, or of all of them.
MORE = {
    ("repeat", None): {"us": (TIME, "less"), "us_sd": (TIME + ", standard deviation", "less"),
                       "range_ratio": ("address range ÷ asked for, the last round", "less")},
    ("latency", None): {"ticks_p50": (TICKS + ", p50", "less"),
                        "ticks_p99": (TICKS + ", p99", "less"),
                        "ticks_p999": (TICKS + ", p99.9", "less"),
                        "ticks_max": (TICKS + ", the longest", "less")},
    ("access", None): {"us": (TIME, "less"),
                       "ratio_packed": ("time ÷ that of packed memory", "less")},
    ("work", None): {"us": (TIME, "less"),
                     "ratio_scan": ("time ÷ that of a prefix sum", "less")},
    ("init", "create"): {"us": (TIME, "less"), "metadata_share": ("metadata ÷ heap", "less")},
    ("drift", "round"): {"filled": ("live ÷ half the heap", "more"),
                         "range_ratio": ("address range ÷ live bytes", "less"),
                         "largest": ("bytes", "more"), "us": (TIME, "less")},
    ("server", "round"): {"us": (TIME, "less"),
                          "touched": ("bytes of touched pages ÷ live", "less"),
                          "us_max": (TIME + ", the worst round", "less")},
    ("cells", "step"): {"us": (TIME, "less"),
                        "largest_of_free": ("largest block ÷ free bytes", "more")},
    ("fill-log", "fill"): {"utilization": VALUES["utilization"], "us": (TIME, "less")},
}
GROUPS = {
    "Malloc and free": ("single", "mixed", "warp", "scaling", "churn", "large", "first", "init",
                        "streams", "repeat", "latency", "access", "work"),
    "How much fits": ("utilization", "full", "range", "waste", "fragments", "pressure", "drift"),
    "In use for long": ("server", "slabhash", "cells", "fill-log"),
    "Parts of the library": ("arena", "reserve", "gauge", "checked", "registers"),
    "Dynamic graphs": (), "Joins and groups": (), "k-d trees": (),
    "Experiments of papers": ("walk", "crossover", "scenarios", "lists"),
    "Other cases": (),
}
ABOUT = {
    "single": "Each thread allocates one block, all of one size.",
    "mixed": "Each thread allocates one block of a random size, from 16 bytes up to that shown.",
    "warp": "One lane of each warp allocates.",
    "scaling": "1, 2, 4, ... threads allocate one block each.",
    "churn": "20 steps a thread in one kernel: a random slot is filled, or checked and freed.",
    "large": "Few large blocks: threads ask for six tenths of the heap together.",
    "init": "Host calls that create and reset a heap.",
    "first": "The first mallocs in a heap that was just created.",
    "repeat": "Rounds of malloc and free, with a reset before each (cold) and without (warm).",
    "latency": "How long single calls take, by the clock in the kernel.",
    "access": "Writes and reads of blocks, beside packed memory.",
    "work": "Each thread makes work of a random size: malloc, beside a prefix sum.",
    "streams": "Two kernels on two streams share one heap.",
    "utilization": "A heap is filled until malloc returns NULL.",
    "full": "Malloc and free in a heap of which 50, 90, 99 % are live.",
    "pressure": "Malloc and churn in a heap that has too little.",
    "range": "Distance from the lowest to the highest block, over the bytes asked for.",
    "waste": "Usable bytes beyond the request, over all sizes.",
    "drift": "24 rounds of filling and freeing, with sizes that grow from 16 B to 4 KiB.",
    "server": "Each thread keeps 16 blocks and replaces one a round.",
    "slabhash": "A hash table of slabs of 128 B.",
    "cells": "Lists of cells are replaced by others; the largest block that is left.",
    "fill-log": "Log-uniform sizes fill a heap; one half is freed; malloc beside the other half.",
    "arena": "Arenas of lanes, warps and blocks.",
    "gauge": "Malloc and free while a gauge of the heap is read.",
    "checked": "Malloc and free of a checked heap, and of a plain one.",
    "reserve": "A heap in reserved addresses: extend, trim, growth.",
    "kdtree": "Builds of k-d trees, whose arrays are blocks of the heap.",
    "kdtree-tight": "Builds of k-d trees in a small heap, and in the least that does.",
    "ops-join": "Joins of tables.", "ops-group": "Group-bys.",
    "walk": "Random walks: getPage and freePage.",
    "crossover": "getPage by 1 to 32 lanes of a warp.",
    "scenarios": "RW_malloc's seven kinds of request, in a heap of which a share is free.",
    "lists": "Alloc Dealloc, Alloc Cycle Dealloc, Probability.",
    "fragments": "Internal and external fragmentation.",
}
BEGINNINGS = {"graph": "Dynamic graphs", "ops-": "Joins and groups", "kdtree": "k-d trees"}
X_OF = {"scaling": "threads", "walk": "threads", "crossover": "threads", "full": "fill",
        "drift": "round", "work": "threads", "init": "heap", "waste": "size", "registers": "kernel"}
X_LABELS = {"size": "bytes", "threads": "threads", "fill": "share that is live", "round": "round",
            "heap_bytes": "bytes of the heap", "iterations": "iterations", "rows": "rows",
            "keys": "groups", "triangles": "triangles", "batch": "arcs or vertices of a batch",
            "input": "", "heap": "", "kernel": ""}
LINEAR = ("fill", "round", "input", "heap", "kernel")
CLASSES = ("faim-update", "faim", "ouro", "aim")  # of graphs, as they stand before an op
TELLS = ("alloc", *(name for name in files.KEY if name != "alloc"), "round", "heap_bytes",
         "iterations", "freed", "kernel")


def drawable(value):
    """Matplotlib takes whole numbers as long as they fit 64 bits."""
    return float(value) if isinstance(value, int) and abs(value) > 1 << 53 else value


class Panel:
    """lines: {name of a line: {x: row}}. what: member, unit, "less" or "more" is better, x."""

    def __init__(self, device, case, op, note, what):
        self.device, self.case, self.op, self.note = device, case, op, note
        self.member, self.unit, self.better, self.x = what
        self.lines = collections.defaultdict(dict)
        self.crowded = []  # (line, row) whose place another row has

    @property
    def title(self):
        return ", ".join(filter(None, (f"{self.case}: {self.op}", *self.note)))

    @property
    def xs(self):
        xs = {x for points in self.lines.values() for x in points}
        return sorted(xs, key=lambda x: (isinstance(x, str), x))

    @property
    def is_time(self):
        return self.member.startswith(("us", "ticks_", "steps_"))

    @property
    def x_label(self):
        return X_LABELS.get(self.x, self.x)

    def value(self, row):
        return drawable(row.number(self.member))

    def is_of_allocators(self):
        """Or else of classes or variants, which the library has."""
        return not self.op.startswith("floor") and all(
            row.line == line for line, points in self.lines.items() for row in points.values())

    def is_one_place(self):
        return len(self.xs) < 2


def group_of(case):
    for name, cases in GROUPS.items():
        if case in cases:
            return name
    return next((name for begin, name in BEGINNINGS.items() if case.startswith(begin)),
                "Other cases")


def is_reference(line):
    return line.split(" @")[0] in REFERENCES or line.startswith("floor")


def is_default(line):
    return line.split(" @")[0] == DEFAULT


def is_fill(row):
    return row["case"] == "utilization" or (row["case"], row["op"]) == ("full", "fill")


def is_sound(row):
    """Whether its blocks were all there and all good."""
    right = row["case"] in NULL_IS_RIGHT or is_fill(row)
    return not row.get("bad") and "error" not in row and (right or not row.get("failed"))


def size_text(n):
    for unit, power in (("G", 30), ("M", 20), ("K", 10)):
        whole = round(n / (1 << power))
        if whole > 0 and abs(n - (whole << power)) <= n * 1e-6:  # heap_bytes has seven digits
            return f"{whole}{unit}"
    return f"{n:,.0f}"


# --- names of lines -------------------------------------------------------------------------------


def key_of(row):
    return tuple(str(row.get(name)) for name in TELLS)


def edition(source):
    return source.header.get("commit", source.stem)[:8]


def name_lines(rows):
    """Gives each row a name for its line: the allocator; where files of several runs have the same
    rows of it, also the commit; where that is the same, the file's name."""
    by_case = collections.defaultdict(list)
    for row in rows:
        by_case[(row.source.device, row["case"], row["alloc"])].append(row)
    for (_, _, alloc), members in by_case.items():
        tags = (lambda row: "", lambda row: f" @{edition(row.source)}",
                lambda row: f" @{edition(row.source)} {row.source.stem}")
        for tag in tags:
            seen = collections.defaultdict(set)
            for row in members:
                seen[(key_of(row), tag(row))].add(row.source.path)
            if all(len(paths) == 1 for paths in seen.values()):
                break
        for row in members:
            row.line = alloc + tag(row)


# --- where a row stands ---------------------------------------------------------------------------


def is_of_sim(row):
    return row.source.header.get("target") == "sim"


def value_of(row):
    """(member, label, better) of what a row shows; None: nothing that a figure can show."""
    for name, (label, better) in VALUES.items():
        if name in row or is_fill(row):  # a fill without a value ran into its limit
            return name, label, better
    if is_of_sim(row) and row.get("steps_per_op"):
        return "steps_per_op", STEPS, "less"
    return ("us", TIME, "less") if "us" in row or "error" in row else None


def class_of(op):
    for name in CLASSES:
        if op.startswith(name + "-"):
            return name, op[len(name) + 1:]
    return "", op


def of_graph(row, several):
    kind, op = class_of(row["op"])
    x = "batch" if row["case"] not in ("graph", "graph-init") else "heap"
    line = " ".join(filter(None, (row.line, kind))) if several or kind else row.line
    floor = re.fullmatch(r"floor-(append|sort|rebuild)-(.*)", op)
    if floor and row["case"] == "graph-sets":
        return [(f"{verb}-{floor[2]}", [row.get("input")], f"floor {floor[1]}", x)
                for verb in ("insert", "erase")]
    return [(op, [row.get("input")], line, x)]


def of_operator(row, several):
    case, op, name = row["case"], row["op"], row.get("input", "")
    if case.endswith("-paper"):
        return [(op, [name], row.line, "rows")]
    line = f"{op} ({row.line})" if several else op
    kind, _, keys = name.rpartition("-")
    if case == "ops-group" and keys.isdecimal():
        return [("group-by", [kind], line, "keys")]
    what = "join" if "join" in case else "group-by"
    if op.endswith("-partition"):
        what = "partition"  # the first stage alone
    return [(what, [], line, "input")]


def of_plain_and_other(row):
    """Cases that measure tessera with something and without."""
    kind, _, op = row["op"].rpartition("-")
    return [(op, [row["phase"]] if row.get("phase") else [],
             " ".join(filter(None, (row.line, kind or row["case"]))), "size")]


def places(row, several):
    """[(op, notes, line, x)] of a row."""
    case, op = row["case"], row["op"]
    if case.startswith("graph"):
        return of_graph(row, several)
    if case.startswith("ops-"):
        return of_operator(row, several)
    if case.startswith("kdtree"):
        return [(op, [], row.line, "triangles")]
    if case in ("gauge", "checked", "reserve") and op.rpartition("-")[2] in ("malloc", "free"):
        return of_plain_and_other(row)
    x = X_OF.get(case, "size")
    x = {"ACD-heap": "heap_bytes", "ACD-iterations": "iterations", "P": "threads"}.get(op, x)
    x = "size" if (case, op) == ("full", "fill") else x
    notes = [row.get("phase"), row.get("form"), row.get("input")]
    notes += [f"{100 * row['free_share']:.4g} % free"] if "free_share" in row else []
    notes += [f"{100 * row['freed']:.4g} % freed"] if "freed" in row else []
    mixed = "size_min" in row and row["size_min"] != row.get("size")
    if x in ("threads", "fill") and row.get("size"):
        notes.append(f"{size_text(row['size_min']) + '..' if mixed else ''}"
                     f"{size_text(row['size'])} B")
    elif mixed and case in ("scenarios", "full", "fill-log", "pressure", "repeat", "latency",
                           "access"):
        notes.append("mixed sizes")
    return [(op, notes, row.line, x)]


def x_of(row, x):
    """None: it has no such member."""
    if x in ("rows", "triangles", "batch"):
        return drawable(row.get("threads"))
    if x == "keys":
        return drawable(int(row["input"].rpartition("-")[2]))
    if x in ("heap", "kernel"):
        return "all"
    return drawable(row.get(x))


def add(panels, row, several):
    """Puts a row to its places. Whether there was one."""
    shown = MORE.get((row["case"], row["op"])) or MORE.get((row["case"], None)) or {}
    whats = [(name, *more) for name, more in shown.items() if name in row]
    if is_of_sim(row):
        whats = [what for what in whats if not what[0].startswith("us")]
        whats += [("steps_per_op", STEPS, "less")] if whats and row.get("steps_per_op") else []
    whats = whats or list(filter(None, [value_of(row)]))
    placed = False
    for op, notes, line, x in places(row, several):
        for name, label, better in whats:
            plain = name in ("us", "steps_per_op")
            notes_of = [*notes, name if len(whats) > 1 and not plain else ""]
            key = (row.source.device, row["case"], op, *map(str, notes_of), name)
            panel = panels.setdefault(
                key, Panel(row.source.device, row["case"], op, notes_of, (name, label, better, x)))
            at = x_of(row, x)
            if at is None:
                continue
            if panel.lines[line].setdefault(at, row) is not row:
                panel.crowded.append((line, row))
            placed = True
    return placed


def over_threads(panel):
    """Panels of sizes that a line has with several counts of threads, which share a place."""
    made = {}
    for line, row in panel.crowded:
        size = row.get("size")
        first = panel.lines[line].get(x_of(row, panel.x))
        if panel.x != "size" or None in (first.get("threads"), row.get("threads")) or \
                first["threads"] == row["threads"]:
            yield None, row
            continue
        one = made.setdefault(size, Panel(
            panel.device, panel.case, panel.op, [*panel.note, f"{size_text(size)} B"],
            (panel.member, panel.unit, panel.better, "threads")))
        for each in (first, row):
            one.lines[line][drawable(each["threads"])] = each
    for one in made.values():
        yield one, None


def build(rows):
    """(panels in order, rows that no panel shows)."""
    name_lines(rows)
    several = collections.defaultdict(set)
    for row in rows:
        several[row["case"]].add(row.line)
    panels, rest = {}, []
    for row in rows:
        if not add(panels, row, len(several[row["case"]]) > 1):
            rest.append(row)
    out = []
    for panel in panels.values():
        out.append(panel)
        for more, row in over_threads(panel):
            (out.append(more) if row is None else rest.append(row))
    lone = [p for p in out if len(p.lines) == 1 and p.is_one_place()]  # no figure: one number
    for panel in lone:
        rest += [row for points in panel.lines.values() for row in points.values()]
    seen = set()
    rest = [row for row in rest if not (id(row) in seen or seen.add(id(row)))]
    return [p for p in out if p.lines and p not in lone], rest
