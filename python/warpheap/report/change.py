"""change.py: two sets of results side by side: what became slower, what faster."""
import collections
from typing import NamedTuple

from . import panels as places
from . import words
from .tables import Cell, NONE, flaw_text


class Change(NamedTuple):
    row: dict  # the old one, or the new one where there is no old one
    old: object
    new: object
    member: str
    better: str
    kind: str  # worse, better, same, spread, flaw, mended, gone, come


def index_of(rows):
    """{what a row is of: row}. Of two rows of the same the later file's one counts."""
    return {(row["case"], *places.key_of(row)): row for row in rows}


def spreads_meet(a, b):
    """Whether the median of each is among the repetitions of the other."""
    if not all(name in row for row in (a, b) for name in ("us_min", "us_max")):
        return False
    return a["us_min"] <= b["us"] <= a["us_max"] and b["us_min"] <= a["us"] <= b["us_max"]


def kind_of(old, new, what, threshold):
    if places.is_sound(old) != places.is_sound(new):
        return "mended" if places.is_sound(new) else "flaw"
    a, b = old.number(what[0]), new.number(what[0])
    if a is None or b is None or a == b:
        return "same" if a == b else "gone" if b is None else "come"
    share = abs(b - a) / abs(a) if a else float("inf")
    if share <= threshold:
        return "same"
    if what[0] == "us" and spreads_meet(old, new):
        return "spread"
    return "worse" if (b > a) == (what[2] == "less") else "better"


def compare(old_rows, new_rows, threshold):
    """A change for each row of either."""
    old, new = index_of(old_rows), index_of(new_rows)
    out = []
    for key in dict.fromkeys((*old, *new)):
        a, b = old.get(key), new.get(key)
        row = b if a is None else a
        what = places.value_of(row)
        if what is None:
            continue
        kind = "come" if a is None else "gone" if b is None else kind_of(a, b, what, threshold)
        out.append(Change(row, a, b, what[0], what[2], kind))
    return out


# Sign and word of a kind, so that color is not all that tells it.
SIGNS = {"worse": ("▲", "worse"), "better": ("▼", "better"), "same": ("", ""),
         "spread": ("≈", "within the spread"), "flaw": ("✗", "now NULL or bad"),
         "mended": ("✓", "no more NULL or bad"), "gone": ("−", "only old"),
         "come": ("+", "only new")}


def share_of(change):
    if change.old is None or change.new is None:
        return None
    a, b = change.old.number(change.member), change.new.number(change.member)
    return (b - a) / a if a and b is not None else None


def name_text(row):
    parts = [row["op"], row.get("phase", ""), row.get("input", "")]
    if row.get("size"):
        parts.append(f"{row['size_min']:,}..{row['size']:,} B" if "size_min" in row
                     else f"{row['size']:,} B")
    parts += [f"{row['threads']:,} threads"] if row.get("threads") else []
    parts += [f"{name} {row[name]:g}" for name in ("fill", "free_share", "freed", "round",
                                                   "iterations", "heap_bytes") if name in row]
    return ", ".join(filter(None, (*parts, row.get("form", ""))))


def value_cell(row, member):
    if row is None or row.number(member) is None:
        return Cell(flaw_text(row) or NONE if row is not None else NONE, "")
    text = words.figures(row[member])
    sound = places.is_sound(row)
    return Cell(text, row[member]) if sound else Cell(f"{text} ({flaw_text(row)})", row[member],
                                                      "flaw")


def change_table(changes):
    heads = [Cell(name) for name in ("allocator", "row", "member", "old", "new", "change", "")]
    rows = []
    for change in changes:
        share = share_of(change)
        sign, word = SIGNS[change.kind]
        text = NONE if share is None else f"{sign} {100 * share:+.1f} %".strip()
        alloc, name = change.row["alloc"], name_text(change.row)
        rows.append([Cell(alloc, alloc), Cell(name, name, "name"), Cell(change.member),
                     value_cell(change.old, change.member), value_cell(change.new, change.member),
                     Cell(text, "" if share is None else share, change.kind),
                     Cell(word, word, change.kind)])
    return heads, rows


def worst(changes, kind, most=5):
    found = [c for c in changes if c.kind == kind and share_of(c) is not None]
    found.sort(key=lambda c: -abs(share_of(c)))
    return [f"{c.row['alloc']}, {c.row['case']} {name_text(c.row)}: "
            f"{words.figures(c.old[c.member])} → {words.figures(c.new[c.member])} "
            f"({SIGNS[kind][0]} {100 * share_of(c):+.1f} %)" for c in found[:most]]


def summary(changes, threshold):
    """[(sentence, examples)]"""
    count = collections.Counter(change.kind for change in changes)
    both = sum(n for kind, n in count.items() if kind not in ("gone", "come"))
    limit = f"{100 * threshold:g} %"
    out = [(f"{words.plural(both, 'row')} can be compared: {count['worse']:,} worse and "
            f"{count['better']:,} better by more than {limit}, {count['same']:,} within {limit}, "
            f"and {count['spread']:,} further apart, but within the spread of their "
            f"repetitions.", [])]
    for kind, text in (("flaw", "now with NULL or bad blocks"), ("worse", "worse"),
                       ("better", "better"), ("mended", "no more with NULL or bad blocks")):
        if count[kind]:
            named = worst(changes, kind) or [f"{c.row['alloc']}, {c.row['case']} {name_text(c.row)}"
                                             for c in changes if c.kind == kind][:5]
            more = "the most: " if count[kind] > len(named) else ""
            out.append((f"{words.plural(count[kind], 'row')} {text}; {more}".strip("; ").strip()
                        .rstrip(":") + ":", named))
    if count["gone"] or count["come"]:
        out.append((f"{words.plural(count['gone'], 'row')} only in the old results, "
                    f"{count['come']:,} only in the new ones.", []))
    return out
