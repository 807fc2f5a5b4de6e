"""words.py: what the rows say, in sentences: who is first where, and by how much."""
import collections
import math

from . import panels as places

EVEN = 1.05  # values within this factor are called even: repetitions differ by as much
NOUNS = {"size": "sizes", "threads": "counts of threads", "round": "rounds",
         "heap_bytes": "sizes of the heap", "rows": "counts of rows", "keys": "counts of groups",
         "triangles": "meshes", "batch": "sizes of a batch", "input": "inputs"}
FIXED = "\u00a0"  # between a number and its unit
SHOWN = 4  # lines that a figure shows in color, beside the default heap


def figures(value):
    """Three significant digits at least: 22.0, 1,897."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def times(ratio):
    number = f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}" if ratio < 100 else figures(ratio)
    return number + FIXED + "×"


def value_text(panel, value):
    if panel.member in places.SHARES:
        return f"{value:.3f}"
    if panel.unit.startswith(places.TIME):
        return f"{figures(value)}{FIXED}µs"
    return figures(value) + (" steps" if panel.unit == places.STEPS else "")


def count_text(n):
    return "a million" if n == 1_000_000 else f"{n:,}" if isinstance(n, int) else f"{n:g}"


def plural(n, one, many=None):
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def x_text(panel, x):
    if isinstance(x, str):
        return x
    if panel.x == "fill":
        return f"{100 * x:g} % full"
    if panel.x in ("round",):
        return f"round {x}"
    if panel.x in ("size", "heap_bytes"):
        text = places.size_text(x)
        return f"{text[:-1]}{FIXED}{text[-1]}iB" if text[-1] in "KMG" else f"{text}{FIXED}B"
    if not isinstance(x, int):
        return f"{x:g}"
    unit = "arcs" if panel.x == "batch" else panel.x_label
    return f"{x:,}{FIXED}{unit[:-1] if x == 1 else unit}"


def work_of(row):
    return row.get("threads"), row.get("size"), row.get("size_min")


def usual_work(panel, x):
    """What most rows at x do. A time of more or fewer threads is not compared with theirs."""
    if not panel.is_time:
        return None
    count = collections.Counter(
        work_of(points[x]) for line, points in panel.lines.items()
        if x in points and not places.is_reference(line))
    return max(count, key=lambda work: (count[work], str(work)), default=None)


def ranking(panel, x):
    """[(value, line)] at x, the best first: rows that are sound, but for references."""
    found, usual = [], usual_work(panel, x)
    for line, points in panel.lines.items():
        row = points.get(x)
        if row is None or places.is_reference(line) or not places.is_sound(row):
            continue
        value = panel.value(row)
        if value is not None and usual in (None, work_of(row)):
            found.append((value, line))
    return sorted(found, reverse=panel.better == "more")


def ratio(panel, best, other):
    """How far the other one is behind: 1 or more; None: no factor says it."""
    a, b = (best, other) if panel.better == "less" else (other, best)
    return b / a if a > 0 else None


class Win:
    """The first at one x of a panel."""

    def __init__(self, panel, x, order):
        self.panel, self.x, self.order = panel, x, order
        self.value, self.line = order[0]
        self.next, self.next_line = order[1]
        self.by = ratio(panel, self.value, self.next)

    @property
    def even(self):
        return self.next == self.value or self.by is not None and self.by < EVEN

    def behind(self, line):
        """How far a line is behind, or None."""
        value = next((value for value, name in self.order if name == line), None)
        return None if value is None else ratio(self.panel, self.value, value)


def wins(panel):
    """The first at each x where two or more can be compared."""
    orders = ((x, ranking(panel, x)) for x in panel.xs)
    return [Win(panel, x, order) for x, order in orders if len(order) > 1]


# --- of one panel ---------------------------------------------------------------------------------


def next_text(panel, win):
    if win.even:
        return f"even with {win.next_line}, {value_text(panel, win.next)}"
    how = f" ({times(win.by)})" if win.by is not None else ""
    return f"next {win.next_line}, {value_text(panel, win.next)}{how}"


def at_text(win):
    """ "4 KiB: rw 18.7 µs; next tessera, 22.0 µs (1.18 ×)"; and the default heap in any case."""
    panel = win.panel
    text = "" if panel.is_one_place() else f"{x_text(panel, win.x)}: "
    text += f"{win.line} {value_text(panel, win.value)}; {next_text(panel, win)}"
    for value, line in win.order[2:]:
        if places.is_default(line):
            behind = ratio(panel, win.value, value)
            text += f"; {line} {value_text(panel, value)}"
            text += f" ({times(behind)})" if behind is not None else ""
    return text


def says(panel, won):
    """(who is first how often, [by how much at the first, middle and last place]). Nothing to
    compare: ("", [])."""
    if not won:
        return "", []
    count = collections.Counter(win.line for win in won)
    told = [won[k] for k in sorted({0, (len(won) - 1) // 2, len(won) - 1})]
    texts = list(map(at_text, told))
    if len(won) == 1:
        return "", texts
    order = sorted(count.items(), key=lambda item: (-item[1], item[0]))
    nouns = NOUNS.get(panel.x, "places")
    if len(order) == 1:
        every = "both" if len(won) == 2 else f"all {len(won)}"
        return f"{order[0][0]} is first at {every} {nouns}.", texts
    names = [f"{line} at {n}" for line, n in order[:4]]
    others = sum(n for _, n in order[4:])
    names += [f"others at {others}"] if others else []
    return f"First at {len(won)} {nouns}: {', '.join(names)}.", texts


def condition(panel):
    """ "a million threads", if all rows have as many."""
    if panel.x in ("threads", "rows", "triangles", "batch", "heap") or \
            panel.case in (*places.NULL_IS_RIGHT, "waste"):
        return ""
    unit = "rows" if panel.case.startswith("ops-") else "threads"
    counts = {row.get("threads") for points in panel.lines.values() for row in points.values()}
    most = max((n for n in counts if isinstance(n, (int, float))), default=0)
    if most <= 1:
        return ""
    return f"{'' if len(counts) == 1 else 'up to '}{count_text(most)} {unit}"


# --- of all ---------------------------------------------------------------------------------------


def is_headline(panel, among):
    """Warm rather than cold, where there are both of about as many allocators."""
    if "cold" not in panel.note:
        return True
    warm = ["warm" if note == "cold" else note for note in panel.note]
    return not any(p.case == panel.case and p.op == panel.op and p.note == warm and
                   2 * len(p.lines) > len(panel.lines) for p in among)


def tally(all_wins):
    """[(line, times first, times first or even with the first)], the most often first."""
    first, near = collections.Counter(), collections.Counter()
    for win in all_wins:
        first[win.line] += 1
        for _, line in win.order:
            behind = win.behind(line)
            near[line] += line == win.line or behind is not None and behind < EVEN
    order = sorted(near, key=lambda line: (-first[line], -near[line], line))
    return [(line, first[line], near[line]) for line in order if near[line]]


def means(won):
    """{line: geometric mean of its ratios to the first}, of lines that have nearly all places."""
    logs = collections.defaultdict(list)
    for win in won:
        for _, line in win.order:
            behind = win.behind(line)
            if behind is not None:
                logs[line].append(math.log(behind))
    most = max(map(len, logs.values()), default=0)
    return {line: math.exp(sum(v) / len(v)) for line, v in logs.items() if 5 * len(v) >= 4 * most}


def by_operation(panels_won):
    """[(line, operations in which it is first, first or even)], by the mean of each operation."""
    first, near = collections.Counter(), collections.Counter()
    groups = collections.defaultdict(list)
    for panel, won in panels_won:
        groups[(panel.case, panel.op, panel.member)] += won
    n = 0
    for won in groups.values():
        mean = means(won)
        if len(mean) < 2:
            continue
        n += 1
        best = min(mean.values())
        first[min(mean, key=lambda line: (mean[line], line))] += 1
        near.update(line for line in mean if mean[line] < EVEN * best)
    order = sorted(near, key=lambda line: (-first[line], -near[line], line))
    return n, [(line, first[line], near[line]) for line in order]


def first_text(order, most=6):
    parts = [f"{line} in {first:,}{f' (first or even: {near:,})' if near > first else ''}"
             for line, first, near in order[:most] if first]
    rest = sum(first for _, first, _ in order[most:])
    return f"{'; '.join(parts)}{f'; others in {rest:,}' if rest else ''}"


def lead(panels_won, won):
    """The first sentences, of one device. panels_won: (panel, wins) of the headlines."""
    if not won:
        return "No two allocators that count have a row of the same: nothing can be compared."
    n, order = by_operation(panels_won)
    text = f"Of {plural(n, 'operation')}, by the mean over sizes or counts of threads, first is: " \
           f"{first_text(order)}. " if n else ""
    return (f"{text}Of {plural(len(won), 'single comparison')} first is: "
            f"{first_text(tally(won))}. Even is what differs by less than "
            f"{100 * (EVEN - 1):.0f} %.")


def losses(won, most=8):
    """(where the default heap is furthest behind: the worst place of each operation; how many
    places in all)."""
    found, n = {}, 0
    for win in won:
        name = next((line for _, line in win.order if places.is_default(line)), None)
        behind = win.behind(name) if name else None
        if behind is None or win.line == name or behind < EVEN:
            continue
        n += 1
        key = (win.panel.case, win.panel.op, win.panel.member)
        if key not in found or behind > found[key][0]:
            found[key] = (behind, win)
    order = sorted(found.values(), key=lambda item: -item[0])[:most]
    return [(win.panel.title, at_text(win)) for _, win in order], n


def colored(panel, won):
    """Lines to show in color: the default heap, and the best by the mean of their ratios to the
    first; all if they are few."""
    if len(panel.lines) <= SHOWN + 3:
        return list(panel.lines)
    whole = means(won)
    count = collections.Counter(win.line for win in won)
    best = sorted(whole, key=lambda line: (whole[line], line))
    most = [line for line, _ in count.most_common() if line not in best[:SHOWN - 1]]
    best = best[:SHOWN - 1] + (most + best[SHOWN - 1:])[:1]
    return best + [line for line in panel.lines if places.is_default(line) and line not in best]
