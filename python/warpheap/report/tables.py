"""tables.py: what the page's tables have in them: heat map, figures of a panel, loose rows, files.
A cell is (text, key to sort by, class, text that shows when pointed at).
"""
import collections
import math
from typing import NamedTuple

from . import panels as places
from . import words

NONE = "–"
HOTTEST = 100  # times the floor: the darkest of the heat map
HEADER = ("suite", "commit", "device", "driver", "compiler", "flags", "date", "target", "reps",
          "check", "limit", "seed", "error")
ALWAYS = ("alloc", "case", "phase", "op", "size", "threads", "us", "us_min", "us_max", "ratio_null",
          "failed", "bad")
UNSHOWN = ("ops", "reps", "mops", "us_null", "null_us")  # the CSV has them


class Cell(NamedTuple):
    text: str
    key: object = ""
    kind: str = ""
    hint: str = ""
    heat: int = -1  # 0 .. 100


def flaw_text(row):
    parts = [f"{row[name]:,.0f} {text}" for name, text in (("bad", "bad"), ("failed", "NULL"))
             if row.get(name)]
    return ", ".join(([str(row["error"])] if "error" in row else []) + parts)


def hint_of(row):
    parts = [f"{words.figures(row['us_min'])} to {words.figures(row['us_max'])} µs"
             if "us_min" in row and "us_max" in row else "",
             f"{row['threads']:,} threads" if row.get("threads") else "",
             words.times(row["ratio_null"]) + " the null kernel" if row.get("ratio_null") else "",
             flaw_text(row)]
    return "; ".join(filter(None, parts))


def value_cell(panel, row, best, usual):
    if row is None:
        return Cell(NONE, "")
    value, flaw = panel.value(row), flaw_text(row)
    sound = places.is_sound(row)
    if value is None:
        return Cell("limit" if places.is_fill(row) else flaw or NONE, "", "flaw",
                    "it ran into its limit" if places.is_fill(row) else "")
    text = f"{value:.3f}" if panel.member in places.SHARES else words.figures(value)
    text += "" if sound else f" ({flaw})"
    text += "" if usual in (None, words.work_of(row)) else "†"
    return Cell(text, value, "best" if sound and value == best else "" if sound else "flaw",
                hint_of(row))


def panel_table(panel, won):
    """(heads, rows of cells): a line a row, with the mean of its ratios to the first."""
    xs = panel.xs
    best = {win.x: win.value for win in won}
    usual = {x: words.usual_work(panel, x) for x in xs}
    heads = [Cell("allocator"), *(Cell(words.x_text(panel, x) if len(xs) > 1 else panel.unit)
                                  for x in xs)]
    heads += [Cell("÷ first")] if won else []
    rows = []
    for line in sorted(panel.lines, key=lambda line: (not places.is_default(line), line)):
        points = panel.lines[line]
        cells = [Cell(line, line, "ours" if places.is_default(line) else "")]
        cells += [value_cell(panel, points.get(x), best.get(x), usual[x]) for x in xs]
        behind = [b for b in (win.behind(line) for win in won) if b]
        mean = math.exp(sum(map(math.log, behind)) / len(behind)) if behind else None
        cells += [Cell(f"{mean:.2f}" if mean else NONE, mean or "")] if won else []
        rows.append(cells)
    return heads, rows


# --- heat map -------------------------------------------------------------------------------------


class Column(NamedTuple):
    case: str
    op: str
    floor: str
    ratios: dict  # of a line: the list of its ratios
    flawed: set

    @property
    def title(self):
        return f"{self.case} {self.op}{' ÷ fastest' if self.floor == 'fastest' else ''}"


def ratio_of(panel, row, best, by_floor):
    if by_floor:
        return row.get("ratio_null")
    return panel.value(row) / best if best else None


def column_of(case, op, group):
    rows = [row for panel in group for points in panel.lines.values() for row in points.values()]
    by_floor = sum(bool(row.get("ratio_null")) for row in rows) > 0.8 * len(rows) and \
        group[0].member == "us"
    ratios, flawed = collections.defaultdict(list), set()
    for panel in group:
        usual = {x: words.usual_work(panel, x) for x in panel.xs}
        best = {x: order[0][0] for x in panel.xs for order in [words.ranking(panel, x)] if order}
        for line, points in panel.lines.items():
            for x, row in points.items():
                if not places.is_sound(row):
                    flawed.add(line)
                elif panel.value(row) and (by_floor or usual[x] == words.work_of(row)):
                    ratio = ratio_of(panel, row, best.get(x), by_floor)
                    ratios[line] += [ratio] if ratio and ratio > 0 else []
    return Column(case, op, "null kernel" if by_floor else "fastest", ratios, flawed)


def columns_of(panels):
    groups = collections.defaultdict(list)
    for panel in panels:
        if panel.member in ("us", "steps_per_op", "ticks_p99") and \
                words.is_headline(panel, panels):
            op = panel.op + (" p99" if panel.member == "ticks_p99" else "")
            groups[(panel.case, op)].append(panel)
    columns = [column_of(*key, group) for key, group in groups.items()]
    return [c for c in columns if len([line for line in c.ratios if c.ratios[line]]) > 2]


def heat_cell(column, line, left_out):
    ratios, flawed = column.ratios.get(line, []), line in column.flawed
    if not ratios:
        out = any((line, column.case, op) in left_out for op in (column.op, None))
        text = "NULL" if flawed else "limit" if out else NONE
        return Cell(text, "", "flaw" if flawed or out else "none",
                    "no row is sound" if flawed else "left out; below it says why" if out else "")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    most = max(map(len, column.ratios.values()))
    part = len(ratios) < most
    heat = max(0.0, min(1.0, math.log(max(mean, 1)) / math.log(HOTTEST)))
    hint = f"{line}, {column.case} {column.op}: {words.times(mean)} the {column.floor}, mean of " \
           f"{len(ratios)} of {most}{', others with NULL or bad blocks' if flawed else ''}"
    return Cell(words.figures(mean) + ("*" if part or flawed else ""), mean,
                "hot" if heat > 0.55 else "warm", hint, round(100 * heat))


def heat_map(panels, left_out):
    """(columns, rows): rows of lines, those first that are near the floor. left_out: {(line,
    case, op)}, an op None: of the whole case."""
    columns = columns_of(panels)
    lines = {line for column in columns for line in (*column.ratios, *column.flawed)}
    lines = {line for line in lines if not line.startswith("floor ")}

    def near(line):
        logs = [math.log(sum(c.ratios[line]) / len(c.ratios[line]) /
                         min(sum(v) / len(v) for v in c.ratios.values() if v))
                for c in columns if c.ratios.get(line)]
        few = 2 * len(logs) < len(columns)
        mean = sum(logs) / len(logs) if logs else math.inf
        return not places.is_default(line), places.is_reference(line), few, mean, line

    rows = [[Cell(line, line, "ours" if places.is_default(line) else ""),
             *(heat_cell(column, line, left_out) for column in columns)]
            for line in sorted(lines, key=near)]
    return columns, rows


# --- loose rows, files ----------------------------------------------------------------------------


def plain_text(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else words.figures(value)


def loose_table(rows):
    """All members of rows that no figure shows."""
    names = [name for name in ALWAYS if any(name in row for row in rows)]
    names += [name for name in dict.fromkeys(name for row in rows for name in row)
              if name not in (*names, *UNSHOWN)]
    out = []
    for row in rows:
        flaw = "" if places.is_sound(row) else "flaw"
        cells = [Cell(plain_text(row[name]), row[name], flaw) if name in row else Cell("", "")
                 for name in names]
        out.append([Cell(row.line, row.line, flaw), *cells[1:]])  # each row has an allocator
    return [Cell(name) for name in names], out


def left_out_text(row):
    """What a line says that tells what was left out."""
    parts = [row.get("op", ""), row.get("input", "")]
    if row.get("size"):
        low = f"{row['size_min']:,}.." if "size_min" in row else ""
        parts.append(f"{low}{row['size']:,} B")
    parts += [f"{row['threads']:,} threads"] if row.get("threads") else []
    parts += [f"{name} {row[name]:g}" for name in ("round", "free_share", "fill", "iterations")
              if name in row]
    what = ", ".join(filter(None, parts))
    return f"{row.line}: {what or 'all'}{'' if 'error' in row else ' and what comes after it'}" + (
        f": {row['error']}" if "error" in row else "")


def file_table(sources):
    names = [name for name in HEADER if any(name in s.header for s in sources)]
    heads = [Cell(name) for name in ("file", *names, "rows", "left out")]
    rows = [[Cell(s.path, s.path), *(Cell(str(s.header.get(name, "")), str(s.header.get(name, "")))
                                     for name in names),
             Cell(str(len(s.rows)), len(s.rows)), Cell(str(len(s.left_out)), len(s.left_out))]
            for s in sources]
    return heads, rows
