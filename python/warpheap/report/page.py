"""page.py: the page: what stands where. page.html has its form."""
import collections
import pathlib
import re

import jinja2

from . import change, draw, tables, words
from . import panels as places

HERE = pathlib.Path(__file__).resolve().parent


def template():
    """With escapes: names in result files may hold anything."""
    loader = jinja2.FileSystemLoader(HERE)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True,
                                     lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    return environment.get_template("page.html")


def word_of(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


def printed(text):
    """A page without characters that HTML forbids."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", "\ufffd", text)


class Drawn:
    """A panel, with all that the page says of it."""

    def __init__(self, panel, name):
        self.panel, self.name = panel, name
        self.won = words.wins(panel)
        self.first, self.says = words.says(panel, self.won)
        self.shown = words.colored(panel, self.won)
        self.heads, self.rows = tables.panel_table(panel, self.won)
        notes = [words.condition(panel), "" if panel.better == "less" else "more is better"]
        self.note = "; ".join(filter(None, notes))
        # One line with one place is a number, not a figure.
        self.has_figure = len(panel.xs) > 1 or len(panel.lines) > 1
        self.svg = ""

    def figure(self, colors, titled=False):
        return draw.figure_of(self.panel, self.shown, colors, titled)


def told(drawn):
    """[(group, those the summary tells of)]: of each operation the one with the most places."""
    chosen = {}
    for d in drawn:
        if d.panel.member in ("us_max", "us_sd", "ticks_p50", "ticks_p999", "ticks_max"):
            continue
        key = (d.panel.case, d.panel.op, d.panel.member)
        if key not in chosen or len(d.won) > len(chosen[key].won):
            chosen[key] = d
    groups = collections.defaultdict(list)
    for d in chosen.values():
        groups[places.group_of(d.panel.case)].append(d)
    return list(groups.items())


class Device:
    """What is said of one device: times of two are not compared."""

    def __init__(self, name, data, number):
        rows = [row for row in data.rows if row.source.device == name]
        panels, rest = places.build(rows)
        order = list(places.GROUPS)
        cases = list(dict.fromkeys(row["case"] for row in rows))
        known = [case for group in places.GROUPS.values() for case in group]
        ranks = {case: (order.index(places.group_of(case)),
                        known.index(case) if case in known else len(known) + cases.index(case))
                 for case in cases}
        panels.sort(key=lambda panel: ranks[panel.case])
        self.name, self.rows, self.n_allocators = name, rows, len({row["alloc"] for row in rows})
        self.n_cases = len(cases)
        self.is_sim = any(row.source.header.get("target") == "sim" for row in rows)
        self.panels = self.drawn(panels, number)
        headline = [d for d in self.panels if words.is_headline(d.panel, panels)]
        of_allocators = [d for d in self.panels if d.panel.is_of_allocators()]
        won = [win for d in of_allocators for win in d.won]
        self.tally = words.tally(won)
        self.lead = words.lead([(d.panel, d.won) for d in headline if d in of_allocators], won)
        self.headlines = told(d for d in headline if d.won and len(d.panel.lines) > 2)
        self.losses, self.n_losses = words.losses(won)
        self.colors = draw.Colors(self.tally)
        left_out = [row for row in data.left_out if row.source.device == name]
        self.columns, self.heat = tables.heat_map(
            [d.panel for d in of_allocators], {(row["alloc"], row["case"], row.get("op"))
                                                  for row in left_out})
        self.flawed = [row for row in rows if not places.is_sound(row)]
        self.groups = self.grouped(rest, left_out, ranks)
        for each in self.panels:
            if each.has_figure:
                figure = each.figure(self.colors)
                each.svg = draw.inline(draw.svg_text(figure, each.name), each.panel.title)

    @staticmethod
    def drawn(panels, number):
        out, names = [], collections.Counter()
        for panel in panels:
            name = word_of(f"{f'd{number} ' if number else ''}{panel.title}")
            names[name] += 1
            out.append(Drawn(panel, name if names[name] == 1 else f"{name}-{names[name]}"))
        return out

    def grouped(self, rest, left_out, ranks):
        """[(group, [(case, panels, loose rows, left out)])]"""
        groups = collections.defaultdict(dict)
        cases = [d.panel.case for d in self.panels]
        cases += [row["case"] for row in (*rest, *left_out)]
        for case in sorted(dict.fromkeys(cases), key=lambda case: ranks.get(case, (99, 0))):
            loose = [row for row in rest if row["case"] == case]
            groups[places.group_of(case)][case] = (
                [d for d in self.panels if d.panel.case == case],
                tables.loose_table(loose) if loose else None,
                [tables.left_out_text(row) for row in left_out if row["case"] == case])
        return [(name, groups[name]) for name in places.GROUPS if name in groups]


class Page:
    def __init__(self, data, older=0):
        self.data, self.older = data, older
        names = list(dict.fromkeys(source.device for source in data.sources))
        self.devices = [Device(name, data, k) for k, name in enumerate(names)]

    def text(self):
        return printed(template().render(
            title="Allocators compared", about=places.ABOUT, devices=self.devices, changes=None,
            older=self.older, files=[("", tables.file_table(self.data.sources))], bad=self.data.bad,
            notes=self.data.notes))

    def pictures(self):
        """(name, figure) of each panel, and of the heat maps."""
        for k, device in enumerate(self.devices):
            if device.columns:
                yield f"heat-map{f'-{k}' if k else ''}", draw.heat_figure(
                    [column.title for column in device.columns], device.heat)
            for each in device.panels:
                if each.has_figure:
                    yield each.name, each.figure(device.colors, titled=True)


def compared(old, new, threshold):
    """The page of two sets of results side by side."""
    changes = change.compare(old.rows, new.rows, threshold)
    cases = dict.fromkeys(each.row["case"] for each in changes)
    parts = [(case, change.change_table([c for c in changes if c.row["case"] == case]))
             for case in cases]
    return printed(template().render(
        title="Old and new results", about={}, devices=[], older=0,
        changes={"summary": change.summary(changes, threshold), "parts": parts,
                 "devices": sorted({s.device for s in (*old.sources, *new.sources)})},
        files=[("Old", tables.file_table(old.sources)), ("New", tables.file_table(new.sources))],
        bad=[*old.bad, *new.bad], notes=[*old.notes, *new.notes]))
