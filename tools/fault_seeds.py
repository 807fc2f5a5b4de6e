#!/usr/bin/env python3
"""fault_seeds.py: how many schedules each policy of the simulated device needs to find the planted
faults of tests/fault.

    tools/fault_seeds.py FAULT_PROGRAM [--suite NAME] [--trials 5] [--most 1000] [--out FILE]

A trial plants a fault and runs its workload with one seed after the other until something is found,
from another first seed in each trial. The table has the median of the trials, for each fault and
policy, as Markdown; --out gets a line of JSON for each, and what it has already is not measured
again. `mixed` is what the suite does: random, sticky, stall and pct in turns. A dash: the median is
above --most. Exit status 2: the program cannot be run.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

POLICIES = ("mixed", "random", "stall", "pct:2", "pct:3", "pct:4")


def settings(policy):
    name, _, arg = policy.partition(":")
    return "" if name == "mixed" else f"policy={name}" + (f",arg={arg}" if arg else "")


def trial(args, fault, policy, first):
    """Seeds until the fault is found; None: more than --most, or --seconds have passed."""
    _, tag, workload = fault
    env = dict(os.environ, WH_FAULT=tag, WH_TEST_SEEDS=str(args.most),
               WH_TEST_FIRST_SEED=str(first))
    env.pop("WH_SIM", None)
    if settings(policy):
        env["WH_SIM"] = settings(policy)
    try:
        done = subprocess.run([args.program, "child", workload], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=args.seconds, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode == 0:
        return None
    n = int(done.stdout.split()[-1]) - first + 1
    return n if n <= args.most else None


def median(args, fault, policy):
    counts = []
    for k in range(args.trials):
        if counts.count(None) * 2 > args.trials or \
                (len(counts) == 2 and counts.count(None) == 2 and args.hasty):
            break
        counts.append(trial(args, fault, policy, 1 + k * args.most))
    return counts, statistics.median(args.most + 1 if c is None else c for c in counts)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("program")
    p.add_argument("--suite")
    p.add_argument("--trials", type=int, default=5)
    p.add_argument("--most", type=int, default=1000)
    p.add_argument("--seconds", type=float, default=60, help="of a trial (60)")
    p.add_argument("--hasty", action="store_true", help="two trials in vain are enough")
    p.add_argument("--out", type=pathlib.Path)
    args = p.parse_args()
    try:
        text = subprocess.run([args.program, "list"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
    except (OSError, subprocess.CalledProcessError) as e:
        print(f"fault_seeds.py: {args.program} list: {e}", file=sys.stderr)
        return 2
    faults = [tuple(line.split()) for line in text.splitlines()]
    faults = [f for f in faults if args.suite in (None, f[0])]
    known = {}
    if args.out and args.out.is_file():
        for line in args.out.read_text().splitlines():
            row = json.loads(line)
            known[row["fault"], row["workload"], row["policy"]] = row["median"]
    print("| fault | workload |" + "".join(f" {q} |" for q in POLICIES))
    print("|---|---|" + "---:|" * len(POLICIES))
    for fault in faults:
        cells = []
        for policy in POLICIES:
            key = fault[1], fault[2], policy
            if key not in known:
                counts, known[key] = median(args, fault, policy)
                if args.out:
                    with args.out.open("a") as f:
                        f.write(json.dumps({"fault": fault[1], "workload": fault[2],
                                            "policy": policy, "median": known[key],
                                            "trials": counts}) + "\n")
            cells.append("-" if known[key] > args.most else f"{known[key]:g}")
        print(f"| `{fault[1]}` | {fault[2]} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
