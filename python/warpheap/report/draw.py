"""draw.py: a panel as a picture, with Matplotlib: SVG with colors that the page sets, or files."""
import html
import io
import logging
import math
import re

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from . import panels as places
from . import words

# Each has one name in the page's style sheet, which has others for the dark.
INK, FAINT, REST, FLOOR = "#1d2127", "#d4d8dd", "#a9b0b8", "#7c838b"
SERIES = ("#0b62c4", "#c2410c", "#15803d", "#9333ea", "#b4860b", "#be185d", "#0e7490", "#64511f")
NAMES = {INK: "--ink", FAINT: "--faint", REST: "--rest", FLOOR: "--floor",
         **{color: f"--s{k}" for k, color in enumerate(SERIES)}}
MARKERS = "osD^vPX*"
SIZE = (5.0, 3.25)

matplotlib.rcParams.update({
    "svg.fonttype": "none", "text.parse_math": False,  # a $ in a name is a $
    "font.family": "sans-serif", "font.size": 8.5, "text.color": INK,
    "axes.edgecolor": FLOOR, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9})
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)


class Colors:
    """A color for each line, the same in all figures as far as there are enough."""

    def __init__(self, tally):
        lines = [line for line, *_ in tally if not places.is_reference(line)]
        lines.sort(key=lambda line: not places.is_default(line))
        self.known = {line: k for k, line in enumerate(lines[:len(SERIES)])}

    def pick(self, shown):
        """{line: number of its color}, each another one."""
        taken = {line: self.known[line] for line in shown if line in self.known}
        free = [k for k in range(len(SERIES)) if k not in taken.values()]
        for k, line in enumerate(line for line in shown if line not in taken):
            taken[line] = free[k % len(free)] if free else k % len(SERIES)
        return taken


def apart(wanted, least):
    """Places in order that are so far from each other, near those that are wanted."""
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    out = list(wanted)
    for before, k in zip(order, order[1:]):
        out[k] = max(out[k], out[before] + least)
    over = max(out, default=0) - 1
    if over > 0:  # from the top down again
        limit = 1.0
        for k in reversed(order):
            out[k] = min(out[k], limit)
            limit = out[k] - least
    return out


def points_of(panel, line, xs):
    rows = panel.lines[line]
    found = [(xs.index(x) if isinstance(x, str) else x, panel.value(row), row)
             for x, row in sorted(rows.items(), key=lambda item: xs.index(item[0]))]
    return [point for point in found if point[1] is not None]


def label_lines(axes, ends):
    """Names at the right end of their lines. ends: [(y of the end, name, color)]"""
    if not ends:
        return
    to_axes = axes.transAxes.inverted().transform
    heights = [to_axes(axes.transData.transform((1, y)))[1] for y, _, _ in ends]
    for at, (_, name, color) in zip(apart(heights, 0.075), ends):
        axes.annotate(name, (1.02, at), xycoords="axes fraction", color=color, va="center",
                      annotation_clip=False, fontsize=8.5,
                      weight="bold" if places.is_default(name) else "normal")


def floor_of(panel):
    """{x: the least time of the null kernel}, of rows that have one."""
    out = {}
    for points in panel.lines.values():
        for x, row in points.items():
            if panel.member == "us" and "us_null" in row:
                null = places.drawable(row["us_null"])
                out[x] = min(out.get(x, null), null)
    return out


def draw_lines(axes, panel, shown, colors):
    xs, ends = panel.xs, []
    picked = colors.pick([line for line in shown if not places.is_reference(line)])
    for line in sorted(panel.lines, key=lambda line: (line in shown, places.is_default(line))):
        points = points_of(panel, line, xs)
        if not points:
            continue
        reference = places.is_reference(line)
        lit = line in shown and not reference
        color = SERIES[picked[line]] if lit else FLOOR if reference and line in shown else REST
        axes.plot([x for x, *_ in points], [y for _, y, _ in points], color=color,
                  linewidth=2.4 if places.is_default(line) else 1.5 if lit else 0.9,
                  linestyle=(0, (4, 2)) if reference else "-", zorder=3 if lit else 2,
                  marker=MARKERS[picked[line]] if lit else None, markersize=3.6, gid=f"l:{line}")
        flawed = [(x, y) for x, y, row in points if not places.is_sound(row)]
        if flawed:
            axes.plot(*zip(*flawed), color=color, marker="x", markersize=7, linestyle="none",
                      markeredgewidth=1.6, zorder=4, gid=f"l:{line}: NULL or bad")
        if line in shown:
            ends.append((points[-1][1], line, color))
    floor = floor_of(panel)
    if len(floor) > 1:
        at = [(xs.index(x) if isinstance(x, str) else x, y) for x, y in
              sorted(floor.items(), key=lambda item: xs.index(item[0]))]
        axes.plot(*zip(*at), color=FLOOR, linewidth=1, linestyle=(0, (1, 2)), gid="l:null kernel")
        ends.append((at[-1][1], "null kernel", FLOOR))
    return ends


def log_ticks(axis, values, in_bytes=False):
    """At 1, 2 and 5 where few decades are shown; without powers."""
    few = max(values) < 60 * min(values)
    axis.set_major_locator(LogLocator(2 if in_bytes else 10, (1, 2, 5) if few and not in_bytes
                                     else (1,), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}" if v < 1 else
                                           places.size_text(v) if in_bytes else f"{v:,.0f}"))
    axis.set_minor_locator(NullLocator())


def set_axes(axes, panel):
    xs = panel.xs
    values = [panel.value(row) for points in panel.lines.values() for row in points.values()]
    values = [v for v in values if v is not None]
    floor = floor_of(panel)
    values += floor.values() if len(floor) > 1 else []
    if panel.member in places.SHARES:
        axes.set_ylim(0, max([1.02, *values]))
    elif values and min(values) > 0 and (panel.is_time or max(values) > 20 * min(values)):
        axes.set_yscale("log")
        if max(values) < 12 * min(values):
            axes.set_ylim(min(values) / 2, max(values) * 2)
        log_ticks(axes.yaxis, values, panel.unit == "bytes")
    if isinstance(xs[0], str):
        axes.set_xticks(range(len(xs)), xs, rotation=20)
        axes.margins(x=0.08)
    elif panel.x in places.LINEAR:
        axes.set_xticks(xs if len(xs) < 8 else xs[::4])
    else:
        axes.set_xscale("log", base=2)
        step = -(-len(xs) // 8)
        axes.set_xticks(xs[::step], [places.size_text(x) for x in xs[::step]])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(panel.x_label)
    axes.grid(True, color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def draw_bars(axes, panel, shown, colors):
    """One place alone: a bar for each line, the best at the top."""
    picked = colors.pick([line for line in shown if not places.is_reference(line)])
    bars = [(panel.value(row), line, row) for line, points in panel.lines.items()
            for row in points.values()]
    bars = sorted((bar for bar in bars if bar[0] is not None), key=lambda bar: bar[0],
                  reverse=panel.better == "less")
    for k, (value, line, row) in enumerate(bars):
        lit = line in shown and not places.is_reference(line)
        axes.barh(k, value, color=SERIES[picked[line]] if lit else REST, gid=f"l:{line}")
        axes.annotate(f" {words.figures(value)}{'' if places.is_sound(row) else ' ×'}", (value, k),
                      va="center", fontsize=7.5, annotation_clip=False)
    axes.set_yticks(range(len(bars)), [line for _, line, _ in bars], fontsize=8)
    values = [value for value, *_ in bars]
    if panel.is_time and values and max(values) > 20 * min(values) > 0:
        axes.set_xscale("log")
        axes.set_xlim(left=min(values) / 2)
        log_ticks(axes.xaxis, values)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(True, axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(panel.unit)


def figure_of(panel, shown, colors, titled=False):
    bars = panel.is_one_place()
    size = (SIZE[0], max(1.2, 0.19 * len(panel.lines) + 0.8)) if bars else SIZE
    figure = Figure(figsize=(size[0], size[1] + (0.25 if titled else 0)))
    if not titled:
        figure.patch.set_visible(False)  # the page shows through
    axes = figure.add_axes((0.24, 0.45 / size[1], 0.64, 1 - 0.62 / size[1]) if bars else
                           (0.15, 0.145, 0.63, 0.72 if titled else 0.77))
    axes.patch.set_visible(False)
    if bars:
        draw_bars(axes, panel, shown, colors)
    else:
        ends = draw_lines(axes, panel, shown, colors)
        set_axes(axes, panel)
        label_lines(axes, ends)
    if titled:
        figure.text(0.01, 0.99, f"{panel.title}  ({panel.unit})", va="top", fontsize=9)
    elif not bars:
        axes.annotate(panel.unit, (-0.2, 1.035), xycoords="axes fraction", fontsize=8.5,
                      va="bottom", annotation_clip=False)
    return figure


def heat_figure(heads, rows):
    """The page's heat map, as a picture. heads: names of columns; rows: cells of tables.py."""
    wide, high = 0.55 * len(heads) + 2.1, 0.21 * len(rows) + 2
    figure = Figure(figsize=(wide, high))
    axes = figure.add_axes((1.2 / wide, 0.1 / high, 1 - 2.1 / wide, 1 - 2 / high))
    shades = LinearSegmentedColormap.from_list("heat", ("#f6f7f9", "#b3341c"))
    heats = [[cell.heat if cell.heat >= 0 else math.nan for cell in row[1:]] for row in rows]
    axes.imshow(heats, cmap=shades, vmin=0, vmax=100, aspect="auto")
    for y, row in enumerate(rows):
        for x, cell in enumerate(row[1:]):
            axes.text(x, y, cell.text, ha="center", va="center", fontsize=7.5,
                      color="white" if cell.kind == "hot" else INK)
    axes.set_yticks(range(len(rows)), [row[0].text for row in rows])
    axes.set_xticks(range(len(heads)), heads, rotation=60, ha="left", rotation_mode="anchor")
    axes.tick_params(length=0, labelbottom=False, labeltop=True)
    axes.spines[:].set_visible(False)
    return figure


def svg_text(figure, salt):
    matplotlib.rcParams["svg.hashsalt"] = salt  # else two figures of a page share names
    out = io.StringIO()
    FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None, "Creator": None})
    return out.getvalue()


def inline(text, title):
    """For a page: without what a file of its own needs; colors by name; a name for each line."""
    text = text[text.index("<svg"):]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'<g id="l:([^"]*)">', r'<g class="line"><title>\1</title>', text)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)
    for color, name in NAMES.items():
        text = text.replace(color, f"var({name})")
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
    text = re.sub(r"\n\s*", "\n", text)
    begin = text.index(">")
    head = re.search(r'viewBox="[^"]*"', text[:begin])[0]
    return (f'<svg {head} role="img" aria-label="{html.escape(title)}" '
            f'xmlns:xlink="http://www.w3.org/1999/xlink">{text[begin + 1:]}')


def save(figure, path):
    if path.suffix == ".png":
        FigureCanvasAgg(figure).print_figure(str(path), dpi=150)
    else:
        path.write_text(svg_text(figure, path.stem), encoding="utf-8")
