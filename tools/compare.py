#!/usr/bin/env python3
"""compare.py: holds result files of `warpheap bench --json` (and `warpheap registers
--json`) of one allocator against other figures, row by row, as Markdown.

    tools/compare.py results/h200/6aba34f/all_*.jsonl [--alloc gallatin]
        against the published implementation (results/h200/published.jsonl). A row is met if
        its ratio to the null kernel of its own run is at most the published one's; where
        no null time was kept, microseconds are compared.

    tools/compare.py --goals RESULTS.jsonl... [--alloc NAME]
        against the goals of the default heap (results/goals.jsonl), or, for an allocator whose
        name begins with ouro-, against those of Ouroboros (results/goals_ouroboros.jsonl).

A row with a bad block is never met, nor is one with a failed malloc where the case does
not end with one. Exit status 1 if a row is missed or missing, 2 if a file cannot be read
or the table not be written.
"""
import argparse
import itertools
import os
import pathlib
import sys

import rows as files

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "results"
PUBLISHED = RESULTS / "h200" / "published.jsonl"
ENDS_WITH_NULL = ("utilization",)
ROW = ("alloc", "case", "op")  # what each row has, and each goal
GOAL = ("case", "op", "measure")
WANTED = {ROW: "warpheap --json", GOAL: "goals"}


def key(row):
    return (row["case"], row["phase"], row["op"], row["size"], row["threads"], row.get("input"))


def load(path, needed, check=files.check_row):
    try:
        return files.read(path, needed, check).rows
    except files.Unreadable as e:
        print(f"compare.py: {path}: {e}; give a file of {WANTED[needed]}", file=sys.stderr)
        raise SystemExit(2) from None


def sound(row):
    """Whether a row's blocks were all there and all good."""
    return not row.get("bad") and (not row.get("failed") or row["case"] in ENDS_WITH_NULL)


def flaws(row):
    parts = [f"{row[k]:,} {text}" for k, text in (("bad", "bad"), ("failed", "NULL"))
             if row.get(k) and not (k == "failed" and row["case"] in ENDS_WITH_NULL)]
    return " (" + ", ".join(parts) + ")" if parts else ""


# --- published figures ---------------------------------------------------------------------


def against_published(rows, published_rows):
    """The lines of a table, and how many are missed."""
    cases = {r["case"] for r in published_rows}
    ours = {key(r): r for r in rows if "phase" in r and r["case"] in cases}
    lines = ["| case | phase, operation | size | threads | published µs (× null) "
             "| here µs (× null) | |", "|---|---|---|---|---|---|---|"]
    missed = 0
    for published in published_rows:
        row = ours.get(key(published))
        name = (f"| {published['case']} | {published['phase']} {published['op']} "
                f"| {published['size']:,} | {published['threads']:,} ")
        null_us = published.get("null_us")
        ratio = published["us"] / null_us if null_us else None
        shown = f"{published['us']:g}" + (f" ({ratio:.2f})" if ratio else "")
        if row is None:
            lines.append(name + f"| {shown} | not measured | missing |")
            missed += 1
            continue
        here = row["ratio_null"] if ratio else row.get("ratio_null")
        # By that of the two by which a row is met.
        faster = ratio / here if ratio else published["us"] / row["us"]
        met = (here <= ratio if ratio else row["us"] <= published["us"]) and sound(row)
        missed += not met
        measured = f"{row['us']:.1f}" + (f" ({here:.2f})" if here is not None else "")
        lines.append(name + f"| {shown} | {measured} "
                     f"| {f'{faster:.1f} × faster' if met else '**missed**'} |")
    return lines, missed


# --- goals ---------------------------------------------------------------------------------


def check_goal(goal):
    """Raises Unreadable if a goal has not the form of one."""
    def needs(holds, text):
        if not holds:
            raise files.Unreadable(f"{goal.where}: {text}")

    for name in GOAL:
        needs(isinstance(goal[name], str), f"'{name}' is no text")
    for names, kind, what in ((("alloc", "phase", "input"), str, "texts"),
                              (("size", "threads"), int, "numbers")):
        for name in names:
            value = goal.get(name, [])
            needs(isinstance(value, list) and all(isinstance(v, kind) for v in value),
                  f"'{name}' is no list of {what}")
    goal.number("threads_at_least")
    bounds = [goal.number(name) for name in ("at_most", "at_least")]
    needs(bounds.count(None) == 1, "it has not one of 'at_most' and 'at_least'")


def wanted_rows(goal):
    """The (phase, size, threads, input) that a goal stands for; None: any."""
    return itertools.product(*(goal.get(k, [None]) for k in ("phase", "size", "threads", "input")))


def matches(row, goal, phase, size, threads, name):
    return (row["case"] == goal["case"] and row["op"] == goal["op"]
            and (phase is None or row.get("phase") == phase)
            and (name is None or row.get("input") == name)
            and (size is None or row.get("size") == size)
            and (threads is None or row.get("threads") == threads)
            and row.get("threads", 0) >= goal.get("threads_at_least", 0))


def number(value):
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def verdict(row, goal):
    """(value, verdict). A row that lacks its figure (a fill that ran out of time) is missed."""
    if row is None:
        return None, "missing"
    value = row.number(goal["measure"])
    if value is None or not sound(row):
        return value, "**missed**"
    kept = value <= goal["at_most"] if "at_most" in goal else value >= goal["at_least"]
    return value, "met" if kept else "**missed**"


def bound_text(goal):
    sign = "≤" if "at_most" in goal else "≥"
    return f"{goal['measure']} {sign} {goal.get('at_most', goal.get('at_least')):g}"


def judged(rows, goal):
    """(phase, size, threads, input, row or None, value, verdict) of all that a goal stands for."""
    for wanted in wanted_rows(goal):
        for row in [r for r in rows if matches(r, goal, *wanted)] or [None]:
            yield *wanted, row, *verdict(row, goal)


def against_goals(rows, goals):
    """The lines of a table and of a summary, and how many are missed or missing."""
    lines = ["| case | operation | size | threads | goal | measured | |",
             "|---|---|---|---|---|---|---|"]
    count = {"met": 0, "**missed**": 0, "missing": 0}
    for goal in goals:
        for phase, size, threads, name, row, value, outcome in judged(rows, goal):
            count[outcome] += 1
            n = row.get("threads") if row else threads
            measured = "no figure" if value is None else number(value)
            lines.append("| {} | {} | {} | {} | {} | {} | {} |".format(
                goal["case"], " ".join(filter(None, (phase, goal["op"], name))),
                "" if size is None else f"{size:,}", f"{n:,}" if n else "", bound_text(goal),
                measured + flaws(row) if row else "not measured", outcome))
    lines += ["", "{} met, {} missed, {} missing".format(*count.values())]
    return lines, count["**missed**"] + count["missing"]


def goals_of(alloc, path=None):
    own = "goals_ouroboros.jsonl" if alloc.startswith("ouro-") else "goals.jsonl"
    path = path or RESULTS / own
    goals = [g for g in load(path, GOAL, check_goal) if alloc in g.get("alloc", [alloc])]
    if not goals:
        raise files.Unreadable(f"{path}: no goals of {alloc}")
    return goals


def published_of(alloc, path=PUBLISHED):
    """The rows with a time: of a heap that was filled the share alone is published."""
    return [r for r in load(path, ROW) if r["alloc"] == alloc and "us" in r]


def judge(args):
    """The lines to show, and how many are missed."""
    rows = [r for path in args.results for r in load(path, ROW) if r["alloc"] == args.alloc]
    if args.goals:
        return against_goals(rows, goals_of(args.alloc, args.goals_file))
    published = published_of(args.alloc, args.published)
    if not published:
        raise files.Unreadable(f"{args.published}: no rows of {args.alloc}")
    return against_published(rows, published)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="RESULTS.jsonl")
    parser.add_argument("--alloc", default="gallatin")
    parser.add_argument("--published", default=PUBLISHED, metavar="FILE")
    parser.add_argument("--goals", action="store_true", help="check goals instead")
    parser.add_argument("--goals-file", metavar="FILE")
    args = parser.parse_args()
    try:
        lines, missed = judge(args)
    except files.Unreadable as e:
        print(f"compare.py: {e}", file=sys.stderr)
        return 2
    try:
        print("\n".join(lines), flush=True)
    except OSError as e:
        # What is left in the buffer would fail once more when the program ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(e, BrokenPipeError):
            print(f"compare.py: cannot write to standard output: {e.strerror}", file=sys.stderr)
            return 2
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
