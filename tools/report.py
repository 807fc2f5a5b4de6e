#!/usr/bin/env python3
"""report.py: makes docs/results and the table in README.md from the files in results.

    tools/report.py            writes what has changed
    tools/report.py --check    writes nothing; exit status 1 if anything would change

The text of the pages is in tools/report: a line @NAME@ there becomes the table NAME. The picture
needs matplotlib, and is left as it is without.
"""
import argparse
import difflib
import functools
import html
import pathlib
import sys
import textwrap

import compare
import rows as files

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
PAGES = ROOT / "docs" / "results"
PICTURE = PAGES / "malloc.svg"
README_MARKS = ("<!-- made by tools/report.py -->\n", "<!-- end of what it made -->\n")
RUN = "h200/6aba34f/"  # the run of all allocators; where tessera's rows are of its first edition
OLDER = (RUN, "h200/aad64a8/pressure")
HEAP = "h200/d5824a4/"  # tessera as it is: its rows take the place of those
AGED = "h100/d671d9f/aged"  # cases server, slabhash, cells, fill-log, first; with launch bounds
PLAIN_CASES = "h100/d671d9f/plain"  # the same and single, mixed, warp, churn, with --plain
# Of three processes; and two lists of sizes, which are cut alike for an allocator of small blocks.
REPEATED = ("h100/bef2537/create", RUN + "all_waste")
NONE = "–"
SIZES = (16, 64, 256, 1024, 4096, 8192)


# --- files ----------------------------------------------------------------------------------------


def check_twice(rows, names):
    """Raises Unreadable if two rows are of the same. names: what tells rows apart; (): all."""
    first = {}
    for row in rows:
        key = str([row.get(name) for name in names] or sorted(row.items()))
        if key in first:
            line = first[key].where.rpartition(": ")[2]
            raise files.Unreadable(f"{row.where} is of the same as {line}")
        first[key] = row


@functools.cache
def file_of(topic):
    try:
        run = files.read(RESULTS / f"{topic}.jsonl")
    except files.Unreadable as e:
        raise files.Unreadable(f"results/{topic}.jsonl: {e}") from None
    check_twice(run.rows, () if topic in REPEATED else files.KEY)
    return run


def newer(topic):
    """The file that has tessera's rows for a file of RUN, or None; a case of it, or None: all."""
    name = topic.rpartition("/")[2]
    if not topic.startswith(OLDER):
        return None, None
    if name.startswith("all_"):
        return HEAP + "tessera", name.removeprefix("all_")
    return (HEAP + name if (RESULTS / HEAP / f"{name}.jsonl").exists() else None), None


@functools.cache
def run_of(topic):
    """A file, but for rows of the first edition of tessera, which is gone."""
    run = file_of(topic)
    if not topic.startswith((*OLDER, AGED, PLAIN_CASES)):
        return run
    rest = [row for row in run.rows if row.get("alloc") != "tessera"]
    file, case = newer(topic)
    if file is not None:
        rest = [row for row in file_of(file).rows
                if row["alloc"] == "tessera" and case in (None, row["case"])] + rest
    return run._replace(rows=rest)


def rows_of(topic, **wanted):
    return [row for row in run_of(topic).rows
            if all(row.get(k) == v for k, v in wanted.items())]


def allocators(*topics):
    return list(dict.fromkeys(row["alloc"] for topic in topics for row in run_of(topic).rows))


def one(topic, **wanted):
    """The row, or None; where only the number of threads tells rows apart, the first."""
    found = rows_of(topic, **wanted)
    return found[0] if found else None


def the(topic, **wanted):
    """The row that must be there."""
    row = one(topic, **wanted)
    if row is None:
        what = ", ".join(f"{name} {text}" for name, text in wanted.items())
        raise files.Unreadable(f"results/{topic}.jsonl: it has no row of {what}")
    return row


def origin(topic):
    header = run_of(topic).header
    return ", ".join(str(header[k])[:10 if k == "date" else None]
                     for k in ("commit", "device", "driver", "date") if k in header)


def wrapped(text):
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)


def source(*topics):
    """A line that says where the figures of a table come from."""
    links = {}
    also = [newer(topic)[0] for topic in topics]
    for topic in dict.fromkeys([*topics, *filter(None, also)]):
        name = topic.rpartition("/")[2]
        links.setdefault(origin(topic), []).append(f"[{name}](../../results/{topic}.jsonl)")
    return wrapped("From " + "; ".join(f"{', '.join(some)}: {what}"
                                       for what, some in links.items()) + ".")


# --- cells ----------------------------------------------------------------------------------------


def time_text(us):
    """What is published has no more digits than it has."""
    return f"{us:.1f}" if us < 100 and isinstance(us, float) else f"{us:,.0f}"


def share_text(share):
    return f"{100 * share:.2g} %" if share > 1e-4 else "< 0.01 %"


def us(row):
    """The time of a row, and the share of NULLs."""
    if row is None:
        return NONE
    share = row.get("failed", 0) / (row["ops"] * row["reps"]) if row.get("failed") else 0
    if row.get("bad"):
        return "bad"
    if share == 1:
        return "all NULL"
    return time_text(row["us"]) + (f" ({share_text(share)} NULL)" if share else "")


def us_ratio(row):
    return NONE if row is None else f"{us(row)} ({row['ratio_null']:.1f})"


def value(name, digits=2):
    def text(row):
        return f"{row[name]:.{digits}f}" if row is not None and name in row else NONE
    return text


def pair(topic, cell=us, **wanted):
    """The malloc and the free."""
    both = [one(topic, op=op, **wanted) for op in ("malloc", "free")]
    return NONE if both == [None, None] else " / ".join(map(cell, both))


# --- tables ---------------------------------------------------------------------------------------


def table(heads, rows):
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads),
            *("| " + " | ".join(row) + " |" for row in rows)]


def side_by_side(topics, columns):
    """A row for each allocator that has a figure. columns: {head: text of an allocator}."""
    rows = [(name, [text(name) for text in columns.values()]) for name in allocators(*topics)]
    return [*table(["", *columns], [[f"`{name}`", *cells] for name, cells in rows
                                    if set(cells) != {NONE}]), "", *source(*topics)]


def all_table(case, cell, heads, **wanted):
    """heads: {head: what the rows of its column have}."""
    topic = RUN + f"all_{case}"
    return side_by_side([topic], {
        head: lambda name, more=more: cell(topic, alloc=name, case=case, **{**wanted, **more})
        for head, more in heads.items()})


def cell_of(text=us):
    return lambda topic, **wanted: text(one(topic, **wanted))


def sizes_table():
    single, published = RUN + "all_single", "h200/published"

    def three(topic, alloc, size):
        parts = [one(topic, alloc=alloc, case="single", phase=phase, op=op, size=size)
                 for phase, op in (("cold", "malloc"), ("warm", "malloc"), ("warm", "free"))]
        return " / ".join(NONE if row is None else time_text(row["us"]) for row in parts)

    rows = []
    for size in SIZES:
        own = [us_ratio(one(single, alloc="tessera", phase=phase, op=op, size=size))
               for phase, op in (("cold", "malloc"), ("warm", "malloc"), ("warm", "free"))]
        rows.append([str(size), *own, three(single, "gallatin", size),
                     three(published, "gallatin", size),
                     us_ratio(one(single, alloc="bump", op="malloc", size=size))])
    return [*table(["bytes", "`tessera` malloc cold", "warm", "free",
                    "`gallatin` cold / warm / free", "published cold / warm / free",
                    "`bump` malloc"], rows), "", *source(single, published)]


# (what, file, the rows' members, what a cell shows, whether README shows the row)
COMPARED = (
    ("16 B, malloc / free", "all_single", {"phase": "warm", "size": 16}, None, True),
    ("256 B", "all_single", {"phase": "warm", "size": 256}, None, True),
    ("4096 B", "all_single", {"phase": "warm", "size": 4096}, None, True),
    ("mixed sizes to 64 B", "all_mixed", {"phase": "warm", "size": 64}, None, False),
    ("mixed sizes to 1024 B", "all_mixed", {"phase": "warm", "size": 1024}, None, False),
    ("mixed sizes to 4096 B", "all_mixed", {"phase": "warm", "size": 4096}, None, True),
    ("one lane of a warp, 512 B × 100,000", "all_warp", {"phase": "warm", "size": 512}, None,
     False),
    ("churn to 256 B, 200,000 threads × 20 steps", "all_churn", {"size": 256}, us, False),
    ("churn to 4096 B, 200,000 threads × 20 steps", "all_churn", {"size": 4096}, us, True),
    ("1 MiB × 4,915", "all_large", {"phase": "warm", "size": 1 << 20}, None, True),
    ("16 MiB × 307", "all_large", {"phase": "warm", "size": 1 << 24}, None, False),
    ("8 GiB, 10 % of it free: 256 B × 100,000, malloc", "all_scenarios",
     {"op": "malloc", "size": 256, "threads": 100000, "free_share": 0.1}, us, False),
    ("2 GiB, full, then half of it freed at random: 256 B × 100,000, malloc", "all_full",
     {"op": "malloc", "size": 256, "fill": 0.5}, us, True),
    ("fill 2 GiB with 48 B until NULL, share of the heap", "all_utilization", {"size": 48},
     value("utilization"), False),
    ("fill 2 GiB with 1050 B until NULL, share of the heap", "all_utilization", {"size": 1050},
     value("utilization"), True),
)


def compared_rows(readme):
    for what, topic, wanted, text, in_readme in COMPARED:
        if readme and not in_readme:
            continue
        case = topic.removeprefix("all_")
        cells = []
        for file, name in ((RUN + topic, "tessera"), (RUN + topic, "gallatin"),
                           ("h200/published", "gallatin")):
            wanted_of = {"alloc": name, "case": case, **wanted}
            if text is None:
                cells.append(pair(file, **wanted_of))
            elif file == "h200/published" and "threads" in wanted_of:
                cells.append(NONE)
            else:
                cells.append(text(one(file, **wanted_of)))
        yield [what, *cells]


def compared_table(readme=False):
    topics = dict.fromkeys(RUN + topic for _, topic, _, _, in_readme in COMPARED
                           if in_readme or not readme)
    heads = ["µs", "`tessera`", "`gallatin`", "published Gallatin"]
    if readme:
        return table(heads, compared_rows(True))
    return [*table(heads, compared_rows(False)), "", *source(*topics, "h200/published")]


def heads_by(name, values, unit=""):
    return {f"{v:,}{unit}": {name: v} for v in values}


def utilization_table():
    fill, spread, waste = RUN + "all_utilization", RUN + "all_range", RUN + "all_waste"
    columns = {f"{size:,} B": lambda name, size=size: value("utilization")(
        one(fill, alloc=name, size=size)) for size in (16, 48, 256, 1050, 4096, 8192)}
    columns["waste"] = lambda name: value("waste_mean", 3)(one(waste, alloc=name, size=8192))
    columns["range, 16 / 4096 B"] = lambda name: " / ".join(
        value("range_ratio")(one(spread, alloc=name, size=size)) for size in (16, 4096))
    return side_by_side([fill, spread, waste], columns)


def full_table():
    topic = RUN + "all_full"
    heads = [(f"{what}, {round(100 * fill)} % live", more, fill)
             for what, more in (("256 B", {"size": 256}), ("16 to 4096 B", {"size": 4096}))
             for fill in (0.99, 0.9, 0.5)]
    return side_by_side([topic], {
        head: lambda name, more=more, fill=fill: us(
            one(topic, alloc=name, op="malloc", fill=fill, **more))
        for head, more, fill in heads})


def scenarios_table():
    topic = RUN + "all_scenarios"
    heads = [(f"{what}, {round(100 * share)} % free", more, share)
             for what, more in (("256 B", {"size": 256, "threads": 100000}),
                                ("4096 B", {"size": 4096}), ("4 to 8,196 B", {"size": 8196}))
             for share in (1.0, 0.5, 0.1, 0.01)]
    return side_by_side([topic], {
        head: lambda name, more=more, share=share: us(
            max(rows_of(topic, alloc=name, op="malloc", free_share=share, **more),
                key=lambda row: row["threads"], default=None))
        for head, more, share in heads})


def heap_table():
    init, streams = RUN + "all_init", RUN + "all_streams"
    columns = {head: lambda name, op=op: us(one(init, alloc=name, op=op, size=8 << 30))
               for head, op in (("create", "create"), ("create in", "create-in"),
                                ("reset", "reset"))}
    columns["streams"] = lambda name: " / ".join(
        value("ratio_alone")(one(streams, alloc=name, op="together", size=size))
        for size in (256, 4096))
    return side_by_side([init, streams], columns)


def between_table():
    topics = [RUN + "between"]
    rows = []
    for topic in topics:
        for size in sorted({row["size"] for row in rows_of(topic, alloc="tessera")}):
            n = the(topic, alloc="tessera", size=size)["threads"]
            rows.append([f"{size:,}", f"{n:,}", *(pair(topic, alloc=name, phase="warm", size=size)
                                                  for name in ("tessera", "gallatin"))])
    return [*table(["bytes", "threads", "`tessera`", "`gallatin`"], rows), "", *source(*topics)]


def pressure_table():
    heaps = (("2 GiB", "h200/aad64a8/pressure"), ("64 MiB", RUN + "pressure_64M"),
             ("of the case", RUN + "pressure_small"))
    rows = []
    for heap, topic in heaps:
        for op, size in (("refuse", 256), ("refuse", 4096), ("churn", 256), ("churn", 4096)):
            own = one(topic, alloc="tessera", op=op, size=size)
            if own is None:  # its time was over
                continue
            both = [own, one(topic, alloc="gallatin", op=op, size=size)]
            cells = [time_text(row["us"]) if row and op == "refuse" else us(row) for row in both]
            rows.append([heap, op, f"{size:,}", f"{own['threads']:,}", *cells])
    return [*table(["heap", "", "bytes, at most", "threads", "`tessera`", "`gallatin`"], rows),
            "", *source(*(topic for _, topic in heaps))]


def full_sizes_table():
    topic = RUN + "full_sizes"
    rows = []
    for least, size in dict.fromkeys((row.get("size_min"), row["size"])
                                     for row in rows_of(topic, alloc="tessera", op="fill")):
        more = {"op": "malloc", "size": size, "size_min": least}
        rows.append([f"{size:,}" if least is None else f"{least} to {size:,}",
                     *(us(one(topic, alloc=name, fill=fill, **more))
                       for name in ("tessera", "gallatin") for fill in (0.99, 0.9, 0.5))])
    heads = [f"`{name}`, {share} % live" for name in ("tessera", "gallatin")
             for share in (99, 90, 50)]
    return [*table(["bytes", *heads], rows), "", *source(topic)]


def churn_table():
    def cells(topic, size):
        threads = the(topic, alloc="tessera", case="churn", size=size)["threads"]
        return f"{threads:,}", *(us(one(topic, alloc=name, case="churn", size=size,
                                        threads=threads))
                                 for name in ("null", "tessera", "gallatin"))

    rows = [[what, f"{size:,}", *cells(topic, size)]
            for what, topic, sizes in (
                ("8 GiB", RUN + "churn", (256, 4096)),
                ("8 GiB", RUN + "tessera_full", (8192,)),
                ("8 GiB, blocks without contents", RUN + "churn_ends", (256, 4096)),
                ("96 MiB, just enough", RUN + "churn_96M", (256,)),
                ("1,100 MiB, just enough", RUN + "churn_1100M", (4096,))) for size in sizes]
    topics = [RUN + name for name in ("churn", "tessera_full", "churn_ends", "churn_96M",
                                      "churn_1100M")]
    return [*table(["heap", "bytes, at most", "threads", "`null`", "`tessera`", "`gallatin`"],
                   rows), "", *source(*topics)]


def more_table():
    def cells(topic, **more):
        picked = [the(topic, alloc="tessera", phase=phase, op=op, **more)
                  for phase, op in (("cold", "malloc"), ("warm", "malloc"), ("warm", "free"))]
        return [f"{us(row)} (to {time_text(row['us_max'])})" for row in picked]

    parts = [(f"16 to {size:,} B", name, {"case": "mixed", "size": size})
             for name, sizes in (("mixed_more", (512, 2048)), ("tessera_rounds", (4096, 8192)))
             for size in sizes]
    parts += [("16 to 4,096 B, 128 GiB", "tessera_128G", {"case": "mixed"}),
              ("4,096 B, 128 GiB", "tessera_128G", {"case": "single"})]
    rows = [[what, str(run_of(RUN + name).header["reps"]), *cells(RUN + name, **more)]
            for what, name, more in parts]
    return [*table(["", "repetitions", "malloc cold", "malloc warm", "free warm"], rows), "",
            *source(*dict.fromkeys(RUN + name for _, name, _ in parts))]


def floor_table():
    topic = RUN + "floor"
    parts = [*(("one size", {"case": "single", "size": size}) for size in SIZES),
             *(("mixed, to", {"case": "mixed", "size": size}) for size in (64, 1024, 4096, 8192)),
             *(("one lane of a warp", {"case": "warp", "size": size})
               for size in (16, 512, 4096, 8192))]
    rows = [[what, f"{more['size']:,}",
             *(pair(topic, us_ratio, alloc=name, phase="warm", **more)
               for name in ("floor", "floor-plain", "tessera"))] for what, more in parts]
    rows += [["churn, to", f"{size:,}", *(us_ratio(one(topic, alloc=name, case="churn", size=size))
                                          for name in ("floor", "floor-plain", "tessera"))]
             for size in (256, 4096)]
    return [*table(["warm malloc / free", "bytes", "`floor`", "`floor-plain`", "`tessera`"], rows),
            "", *source(topic)]


def goal_rows(rows, goals):
    def words(goal, name):
        numbers = goal.get(name, [])
        few = numbers if len(numbers) < 8 else [numbers[0], "…", numbers[-1]]
        return ", ".join(f"{n:,}" if isinstance(n, int) else n for n in few)

    for goal in goals:
        outcomes = list(compare.judged(rows, goal))
        values = [value for *_, value, _ in outcomes if value is not None]
        met = sum(outcome == "met" for *_, outcome in outcomes)
        least, most = map(compare.number, (min(values), max(values))) if values else (NONE, NONE)
        yield [goal["case"], f"{', '.join(goal.get('phase', []))} {goal['op']}".strip(),
               words(goal, "size"), words(goal, "threads"), compare.bound_text(goal),
               least if least == most else f"{least} to {most}",
               f"{met} of {len(outcomes)}" + ("" if met == len(outcomes) else ", **missed**")]


GOAL_HEADS = ["case", "operation", "bytes", "threads", "goal", "measured", "met"]


def goals_table():
    topics = [RUN + name for name in ("tessera", "registers", "tessera_waste")]
    rows = [row for topic in topics for row in rows_of(topic, alloc="tessera")]
    goals = [goal for goal in compare.goals_of("tessera")
             if not goal["case"].startswith(("arena", "gauge", "ops-", "kdtree", "reserve"))]
    return [*table(GOAL_HEADS, goal_rows(rows, goals)), "", *source(*topics)]


def goals_ouroboros_table():
    pages, chunks = "h200/8f5c15f/ouroboros_pages", "h200/c489c4e/ouroboros_chunks"
    rows = []
    for topic in (pages, chunks):
        for name in allocators(topic):
            if name.startswith("ouro-"):
                rows += [[f"`{name}`", *row] for row in
                         goal_rows(rows_of(topic, alloc=name), compare.goals_of(name))]
    return [*table(["", *GOAL_HEADS], rows), "", *source(pages, chunks)]


def published_table():
    published = compare.published_of("gallatin")
    cases = dict.fromkeys(row["case"] for row in published)
    topics = [RUN + f"all_{case}" for case in cases]
    rows = [row for topic in topics for row in rows_of(topic, alloc="gallatin")]
    return [*compare.against_published(rows, published)[0], "",
            *source(*topics, "h200/published")]


def registers_table():
    newer, older = RUN + "registers", "h200/3317897/registers"
    names = ("malloc_free", "malloc_free_alone", "malloc", "free")
    rows = []
    for name in allocators(newer, older):
        topic = newer if rows_of(newer, alloc=name) else older
        cells = [one(topic, alloc=name, op=op) for op in names]
        rows.append([f"`{name}`", *(f"{r['registers']} / {r['local_bytes']:,}" if r else NONE
                                    for r in cells)])
    return [*table(["", "malloc and free", "the same, one lane of a warp", "malloc", "free"], rows),
            "", *source(newer, older)]


PLAIN = HEAP + "plain_forms"
FORM_NAMES = {"linked": "`warpheap::device`",
              "plain": "plain, header-only", "launch bounds 1024": "`__launch_bounds__(1024)`",
              "capped at 40 registers": "`-rdc=true -Xptxas --device-function-maxrregcount=40`",
              "fast compile": "`-Ofc max`"}


def forms_table():
    rows = [[FORM_NAMES.get(row["form"], row["form"]), str(row["registers"]),
             f"{row['local_bytes']:,} B", str(row["max_threads"]),
             f"{int(row['reserved_bytes']) >> 20:,} MiB",
             f"{row['compile_cpu_seconds']:.0f} s"] for row in rows_of(PLAIN, op="kernel")]
    return [*table(["form", "registers", "stack", "threads of a block, at most",
                    "reserved for stacks", "compile"], rows), "", *source(PLAIN)]


def times_table():
    def cell(form, op, least, size):
        both = [one(PLAIN, form=form, op=op, block=block, size_min=least, size=size)
                for block in (256, 1024)]
        return " / ".join(time_text(row["us"]) if row and "us" in row else NONE for row in both)

    parts = [*((f"{size:,} B", size, size) for size in SIZES[:-1]), ("16 to 4096 B", 16, 4096)]
    rows = [[f"{op}, {what}", *(cell(form, op, least, size) for form in FORM_NAMES)]
            for op in ("malloc", "free") for what, least, size in parts]
    return [*table(["", *FORM_NAMES.values()], rows), "", *source(PLAIN)]


def create_table():
    topic = "h100/bef2537/create"
    keys = dict.fromkeys((row["build"], row["alloc"]) for row in run_of(topic).rows)
    rows = []
    for build, name in keys:
        cells = []
        for op in ("create", "create-in", "reset"):
            times = [row["us"] for row in rows_of(topic, build=build, alloc=name, op=op)]
            if not times:
                raise files.Unreadable(f"results/{topic}.jsonl: no {op} of {name}, {build}")
            cells.append(f"{time_text(min(times))} to {time_text(max(times))}")
        rows.append([build, f"`{name}`", *cells])
    return [*table(["memory from", "", "create", "create in", "reset"], rows), "", *source(topic)]


def aged_rows(name, **wanted):
    """The rows of an allocator in both forms: (what the table calls it, row)."""
    both = [(f"`{name}`{text}", one(topic, alloc=name, form=form, **wanted))
            for text, topic, form in (("", AGED, None), (", plain", PLAIN_CASES, "plain"))]
    return [(text, row) for text, row in both if row is not None]


def aged_table(columns, **wanted):
    """A row for each allocator and form. columns: {head: text of a row, or of rows of an op}."""
    rows = [[text, *(cell(row) for cell in columns.values())]
            for name in allocators(AGED, PLAIN_CASES) for text, row in aged_rows(name, **wanted)]
    return [*table(["", *columns], rows), "", *source(AGED, PLAIN_CASES)]


def beside(row, cell=us, **wanted):
    """The cell of the row of the same allocator and form that is wanted."""
    form = row.get("form")
    return cell(one(PLAIN_CASES if form else AGED, alloc=row["alloc"], form=form,
                    case=row["case"], **wanted))


def time_of(name):
    return lambda row: time_text(row[name]) if row is not None and name in row else NONE


def server_table():
    return aged_table({
        "fill": lambda row: beside(row, op="fill", size=4096), "round, median": us,
        "first ten": time_of("us_early"), "last ten": time_of("us_late"),
        "worst": time_of("us_max"), "floor": time_of("us_null"), "rounds": lambda row:
        str(row["reps"]), "touched ÷ live": value("touched")}, case="server", op="round", size=4096)


def slabhash_table():
    return aged_table({
        "insert, first": time_of("us_first"), "last": time_of("us_last"), "median": us,
        "find": lambda row: beside(row, op="find"), "sweep": lambda row: beside(row, op="sweep"),
        "slabs": lambda row: f"{row['slabs']:,}"}, case="slabhash", op="insert")


def cells_table():
    return aged_table({
        "step": us, "worst": time_of("us_max"), "largest ÷ free": value("largest_of_free"),
        "largest, MiB": lambda row: f"{row['largest'] / 2 ** 20:.1f}" if "largest" in row else NONE,
        "at first": lambda row: f"{row['largest_fresh'] / 2 ** 20:.1f}"
        if "largest_fresh" in row else NONE}, case="cells", op="step")


def fill_log_table():
    return aged_table({
        "first NULL at": value("utilization"), "in the end": value("utilization_end"),
        "free of one half": lambda row: beside(row, op="free"),
        "then log-uniform": lambda row: beside(row, op="half", size=4096),
        "its first": lambda row: beside(row, time_of("us_first"), op="half", size=4096),
        "then 256 B": lambda row: beside(row, op="half", size=256),
        "its first ": lambda row: beside(row, time_of("us_first"), op="half", size=256)},
        case="fill-log", op="fill", size=4096)


def first_table():
    sizes = (16, 256, 1024, 4096, 8192)
    return side_by_side([AGED], {
        f"{size:,} B": lambda name, size=size: us(
            one(AGED, alloc=name, case="first", op="malloc", size=size)) for size in sizes})


def default_table():
    """The default heap: single sizes, mixed ones, one lane a warp, large ones."""
    topic, plain = HEAP + "tessera", HEAP + "plain"
    parts = [(case, text, size) for case, text, sizes in (
        ("single", "{:,} B", SIZES), ("mixed", "16 to {:,} B", (64, 1024, 4096, 8192)),
        ("warp", "a lane a warp, {:,} B", (16, 512, 4096, 8192)),
        ("large", "{:,} B", (1 << 14, 1 << 16, 1 << 20, 1 << 24))) for size in sizes]
    rows = [[text.format(size),
             *(us_ratio(one(file, alloc="tessera", case=case, phase=phase, op=op, size=size))
               for file, op, phase in ((topic, "malloc", "cold"), (topic, "malloc", "warm"),
                                       (plain, "malloc", "warm"), (topic, "free", "cold"),
                                       (topic, "free", "warm")))]
            for case, text, size in parts]
    rows += [[f"churn, 16 to {size:,} B", NONE,
              *(us(one(file, alloc="tessera", case="churn", size=size)) for file in (topic, plain)),
              NONE, NONE] for size in (256, 4096)]
    return [*table(["", "malloc, cold", "warm", "warm, plain kernel", "free, cold", "warm"], rows),
            "", *source(topic, plain)]


def default_aged_table():
    topic = HEAP + "aged"
    server = the(topic, alloc="tessera", case="server", op="round")
    null = the(topic, alloc="null", case="server", op="round")
    cells = the(topic, alloc="tessera", case="cells", op="step")
    fill = the(topic, alloc="tessera", case="fill-log", op="fill", size=4096)
    halves = [the(topic, alloc="tessera", case="fill-log", op="half", size=size)
              for size in (4096, 256)]
    rows = [["server, a round", us(server), f"first ten {time_text(server['us_early'])}, last ten "
             f"{time_text(server['us_late'])}, worst {time_text(server['us_max'])}; touched ÷ live "
             f"{server['touched']:.2f}; `null` {us(null)}"],
            ["slab hash, insert", us(the(topic, alloc="tessera", case="slabhash", op="insert")),
             f"by a pool {us(the(topic, alloc='tessera', case='slabhash', op='pool-insert'))}"],
            ["cells, a step", us(cells), f"largest ÷ free {cells['largest_of_free']:.2f}"],
            ["sizes log-uniform until NULL", us(fill), f"first NULL at {fill['utilization']:.3f}"],
            *([f"half freed, then {what}", us(row), f"first {time_text(row['us_first'])}, worst "
               f"{time_text(row['us_max'])}"] for what, row in zip(("log-uniform", "256 B"), halves))]
    return [*table(["", "µs", ""], rows), "", *source(topic)]


def plain_table():
    """With launch bounds / without. A case that only one of the files has is left out."""
    def cell(name, **wanted):
        both = [us(one(topic, alloc=name, form=form, **wanted))
                for topic, form in ((AGED, None), (PLAIN_CASES, "plain"))]
        return NONE if NONE in both else " / ".join(both)

    parts = {**{f"{op}, {size:,} B": {"case": "single", "phase": "warm", "op": op, "size": size}
                for op in ("malloc", "free") for size in SIZES[:-1]},
             **{f"malloc, 16 to {size:,} B": {"case": "mixed", "phase": "warm", "op": "malloc",
                                              "size": size} for size in (1024, 4096)},
             **{f"malloc, a lane a warp, {size:,} B": {
                 "case": "warp", "phase": "warm", "op": "malloc", "size": size}
                 for size in (16, 4096)},
             **{f"churn, 16 to {size:,} B": {"case": "churn", "size": size}
                for size in (256, 4096)},
             "server, a round": {"case": "server", "op": "round", "size": 4096},
             "slab hash, insert": {"case": "slabhash", "op": "insert"}}
    names = allocators(PLAIN_CASES)
    rows = [[what, *(cell(name, **wanted) for name in names)] for what, wanted in parts.items()]
    rows = [row for row in rows if set(row[1:]) != {NONE}]
    return [*table(["", *(f"`{name}`" for name in names)], rows), "",
            *source(AGED, PLAIN_CASES)]


TABLES = {
    "server": server_table,
    "slabhash": slabhash_table,
    "cells": cells_table,
    "fill_log": fill_log_table,
    "first": first_table,
    "plain": plain_table,
    "default": default_table,
    "default_aged": default_aged_table,
    "sizes": sizes_table,
    "compared": compared_table,
    "all_single": lambda: all_table("single", pair, heads_by("size", SIZES, " B"), phase="warm"),
    "all_mixed": lambda: side_by_side(
        [RUN + "all_mixed", RUN + "all_churn"],
        {**{f"to {size:,} B": lambda name, size=size: pair(
            RUN + "all_mixed", alloc=name, phase="warm", size=size)
            for size in (64, 1024, 4096, 8192)},
         **{f"churn to {size:,} B": lambda name, size=size: us(
             one(RUN + "all_churn", alloc=name, size=size)) for size in (256, 4096)}}),
    "all_warp": lambda: all_table("warp", pair, heads_by("size", (16, 512, 4096, 8192), " B"),
                                  phase="warm"),
    "all_large": lambda: all_table(
        "large", pair, {"16 KiB": {"size": 1 << 14}, "64 KiB": {"size": 1 << 16},
                        "1 MiB": {"size": 1 << 20}, "16 MiB": {"size": 1 << 24}}, phase="warm"),
    "all_scaling": lambda: all_table(
        "scaling", cell_of(), heads_by("threads", (1, 4096, 65536, 1048576)),
        op="malloc", phase="warm", size=512),
    "all_utilization": utilization_table,
    "all_full": full_table,
    "all_scenarios": scenarios_table,
    "all_heap": heap_table,
    "between": between_table,
    "pressure": pressure_table,
    "full_sizes": full_sizes_table,
    "churn": churn_table,
    "more": more_table,
    "floor": floor_table,
    "goals": goals_table,
    "goals_ouroboros": goals_ouroboros_table,
    "published": published_table,
    "registers": registers_table,
    "forms": forms_table,
    "times": times_table,
    "create": create_table,
}


# --- pages ----------------------------------------------------------------------------------------


def page(template):
    out = []
    for line in template.read_text(encoding="utf-8").splitlines():
        is_table = len(line) > 2 and line[0] == line[-1] == "@"
        out += TABLES[line[1:-1]]() if is_table else [line]
    return "\n".join(out) + "\n"


def readme(text):
    """README.md with its table made anew; None: it has no place for one."""
    begin, end = (text.find(mark) for mark in README_MARKS)
    if begin < 0 or end < begin:
        return None
    made = [*compared_table(readme=True), "",
            *wrapped(f"`tessera` from {origin(HEAP + 'tessera')}, in [results/{HEAP}](results/{HEAP}); "
                     f"`gallatin` from {origin(RUN + 'all_single')}, in "
                     f"[results/{RUN}](results/{RUN}). "
                     "[docs/results](docs/results/README.md) has all tables, each with its files.")]
    begin += len(README_MARKS[0])
    return text[:begin] + "\n" + "\n".join(made) + "\n\n" + text[end:]


# --- the picture ----------------------------------------------------------------------------------

GREY = "#808080"  # is read on white and on black


def pyplot():
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot
    except ImportError:
        sys.exit("report.py needs matplotlib for the picture (Debian: python3-matplotlib)")
    return matplotlib.pyplot


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


def picture_lines():
    single = RUN + "all_single"
    lines = {}
    for label, topic, name in (("tessera", single, "tessera"), ("gallatin", single, "gallatin"),
                               ("Gallatin, published", "h200/published", "gallatin"),
                               ("ouro-s-p", single, "ouro-s-p"), ("ouro-vl-c", single, "ouro-vl-c"),
                               ("rw-malloc", single, "rw-malloc"),
                               ("cmmalloc", single, "cmmalloc")):
        parts = [(size, [one(topic, alloc=name, case="single", phase="warm", op=op, size=size)
                         for op in ("malloc", "free")]) for size in SIZES]
        lines[label] = [(size, sum(row["us"] for row in both)) for size, both in parts
                        if None not in both]
    nulls = [(size, [row["us_null"] for row in rows_of(single, alloc="tessera", phase="warm",
                                                       size=size)]) for size in SIZES]
    lines["two empty kernels"] = [(size, sum(both)) for size, both in nulls]
    return lines


def made():
    """{path: text} of all pages."""
    pages = {PAGES / path.name: page(path) for path in sorted((ROOT / "tools/report").glob("*.md"))}
    path = ROOT / "README.md"
    text = readme(path.read_text(encoding="utf-8"))
    if text is None:
        raise SystemExit(f"report.py: {path} has no line {README_MARKS[0]!r} before its end")
    return {**pages, path: text}


def old(path):
    return path.read_text(encoding="utf-8") if path.exists() else ""


def check(pages, lines):
    wrong = 0
    for path, text in pages.items():
        name = str(path.relative_to(ROOT))
        diff = list(difflib.unified_diff(old(path).splitlines(), text.splitlines(), name,
                                         "what tools/report.py makes", n=0, lineterm=""))
        print("\n".join(diff[:20]), end="\n" if diff else "", file=sys.stderr)
        wrong += bool(diff)
    if points_text(lines) not in html.unescape(old(PICTURE)):
        print(f"{PICTURE.relative_to(ROOT)} does not show the figures of the files",
              file=sys.stderr)
        wrong += 1
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    try:
        pages, lines = made(), picture_lines()
    except files.Unreadable as e:
        print(f"report.py: {e}", file=sys.stderr)
        return 2
    if options.check:
        return check(pages, lines)
    for path, text in pages.items():
        if old(path) != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))
    if points_text(lines) not in html.unescape(old(PICTURE)):
        device = run_of(RUN + "all_single").header["device"]
        picture(PICTURE, f"malloc and free of a million blocks, {device}", lines)
        print(PICTURE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
