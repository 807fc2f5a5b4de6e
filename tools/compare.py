#!/usr/bin/env python3
"""compare.py: holds a result file of `warpheap bench --json` against the figures of the
published implementations (results/published_h200.json), cell by cell, as Markdown.

    tools/compare.py results/h200/bench.json [--alloc gallatin]

A cell is met if its ratio to the null kernel of its own run is at most the published
one's; where no null time was kept, microseconds are compared. Exit status 1 if a cell
is missed or missing.
"""
import argparse
import json
import pathlib
import sys


def key(row):
    return (row["case"], row["phase"], row["op"], row["size"], row["threads"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results")
    parser.add_argument("--alloc", default="gallatin")
    parser.add_argument(
        "--published",
        default=pathlib.Path(__file__).resolve().parent.parent / "results/published_h200.json",
    )
    args = parser.parse_args()
    with open(args.results) as f:
        ours = {key(r): r for r in json.load(f)["rows"] if r["alloc"] == args.alloc}
    with open(args.published) as f:
        theirs = [r for r in json.load(f)["rows"] if r["alloc"] == args.alloc]
    print("| case | phase, operation | size | threads | published µs (× null) | here µs (× null) | |")
    print("|---|---|---|---|---|---|---|")
    missed = 0
    for published in theirs:
        row = ours.get(key(published))
        name = "| {} | {} {} | {} | {:,} ".format(
            published["case"], published["phase"], published["op"], published["size"], published["threads"]
        )
        null_us = published["null_us"]
        ratio = published["us"] / null_us if null_us else None
        shown = "{:g}".format(published["us"]) + (" ({:.2f})".format(ratio) if ratio else "")
        if row is None:
            print(name + "| {} | not measured | missing |".format(shown))
            missed += 1
            continue
        here = row["ratio_null"]
        met = here <= ratio if ratio else row["us"] <= published["us"]
        met = met and not row["bad"] and not row["failed"]
        missed += not met
        print(
            name
            + "| {} | {:.1f} ({:.2f}) | {} |".format(
                shown, row["us"], here, "{:.1f} × faster".format(published["us"] / row["us"]) if met else "**missed**"
            )
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
