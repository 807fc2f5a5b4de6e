#!/usr/bin/env python3
"""ranks_model.py: how long work of workload/ranks takes on 1 to 1,024 GPUs, and what breaks first.

    tools/ranks_model.py [--set machine.nic=25e9]... [--measured FILE] [--graph FILE]
                         [--json FILE] [--most RANKS]

--measured: a file of `warpheap bench --ranks --json`, whose times take the place of estimates.
--graph: a file of a graph in place of a drawn one.

It is a simulation: a power-law graph, or one of a file, is given to ranks by the project's own
hash; batches come to random ranks; what crosses from each rank to each other one is counted, as
tools/ranks_count.py does, which a test holds against the real calls. A step takes as long as the
rank, or the link, that has most to do. Rates and the machine are parameters,
tools/ranks_model.json, each with its source.

Graphs that are too large to be drawn go by shares: the heaviest 2^18 vertices are looked at one
by one, the rest is even (tools/ranks_graphs.py). For triangles a smaller graph is drawn, and goes
on as it has grown from a quarter of its size. docs/SEVERAL_GPUS.md has the results. Needs numpy.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import zlib

import numpy

import ranks_graphs as graphs
import ranks_work as work

RANKS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
COLUMNS = [1, 2, 4, 8, 16, 64, 256, 1024]
HALF = 0.5  # of what as many GPUs could do: then something has broken


class Refused(Exception):
    """What the caller gave is of no use; its text says what, in a line."""


def load(path):
    """Parameters without their sources: section, name, value."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        return {section: {name: entry.get("value", entry) for name, entry in entries.items()}
                for section, entries in data.items() if section != "about"}
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    except (ValueError, AttributeError) as error:
        raise Refused(f"{path}: no parameters as in ranks_model.json") from error


# From and to, where more than the sign matters. Ids have 32 bits, and 1,024 GPUs have 2^10 times as
# many as one; what is drawn must fit into this machine.
LIMITS = {"scale": (10, 32), "scale_of_gpu": (8, 22), "sample_scale": (8, 24), "exponent": (1.1, 9),
          "seed": (0, 2 ** 63), "gpu_share": (0.01, 1)}


def checked(value, was, limits):
    """A value in place of another one: of the same form, with numbers that can be worked with."""
    if isinstance(was, str):
        if value not in ("rmat", "power", "uniform"):
            raise ValueError("rmat, power or uniform")
        return value
    if isinstance(was, dict):
        if not isinstance(value, dict) or set(value) - {"from"} != set(was) - {"from"}:
            raise ValueError("an object with " + ", ".join(sorted(set(was) - {"from"})))
        return {name: checked(value[name], was[name], limits) for name in was if name != "from"}
    if isinstance(was, list):
        if not isinstance(value, list) or len(value) != len(was):
            raise ValueError("[seconds, how many a second]")
        return [checked(*both, limits) for both in zip(value, was)]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError("a number")
    if isinstance(was, int) and value != int(value):
        raise ValueError("a whole number")
    if limits and not limits[0] <= value <= limits[1]:
        raise ValueError(f"from {limits[0]} to {limits[1]}")
    if value < 0 or (value == 0 and was >= 1):  # a time, or a part, may be 0; no rate, and no count
        raise ValueError("more than 0" if was >= 1 else "0 or more")
    return int(value) if isinstance(was, int) else value


def change(p, changes):
    for text in changes:
        name, _, value = text.partition("=")
        section, _, name = name.partition(".")
        if name not in p.get(section, {}):
            raise Refused(f"--set {text}: there is no such parameter")
        was = p[section][name]
        try:
            p[section][name] = checked(value if isinstance(was, str) else json.loads(value), was,
                                       LIMITS.get(name))
        except json.JSONDecodeError as error:
            raise Refused(f"--set {text}: the value is no number, nor a list of them") from error
        except ValueError as error:
            raise Refused(f"--set {text}: the value must be {error}") from error


# What phases of which case tell a rate of the device: case, op, members, name, how many calls are
# in one, and what a call does of n. A walk of PageRank is waited for as ranks settle; a join has
# two tables.
PHASES = (("edges", "insert", ("us_route",), "route", 1, 1),
          ("edges", "insert", ("us_apply",), "insert", 1, 1),
          ("pagerank", "pagerank", ("us_walk", "us_settle"), "push", 20, 1),
          ("join", "join", ("us_partition",), "rows_route", 1, 2),
          ("join", "join", ("us_operate",), "join", 1, 2),
          ("group", "group", ("us_operate",), "group", 1, 1))


def line_through(points):
    """Fixed seconds, and how many a second, from (n, seconds): the smallest and the largest n."""
    (n, least), (m, most) = min(points), max(points)
    if m == n or most <= least:
        return [0.0, m / most]
    rate = (m - n) / (most - least)
    return [max(0.0, least - n / rate), rate]


def measured_rows(path):
    """The rows with a time of `warpheap bench --ranks --json`."""
    rows = []
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    rows.append(json.loads(line))
                    if not isinstance(rows[-1], dict):
                        raise ValueError
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Refused(f"{path}: line {number} is no row of `warpheap bench --json`") from error
    if any(row.get("target") == "sim" for row in rows):
        raise Refused(f"{path}: times of the simulated device say nothing of GPUs")
    rows = [row for row in rows if row.get("us")]
    if not rows or not all(isinstance(row.get(name), (int, float)) for row in rows
                           for name in ("us", "ranks", "n_rank")):
        raise Refused(f"{path}: these are no rows of `warpheap bench --ranks`")
    return rows


def read_graph(path):
    try:
        return graphs.read(path)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from error
    except (ValueError, IndexError, EOFError, zlib.error) as error:
        raise Refused(f"{path}: no edge list, Matrix Market or METIS") from error


def put_measured(p, path, rows):
    """Takes rates from the rows of a run of the benchmark; says which."""
    for case, op, members, name, calls, times in PHASES:
        found = {}
        for row in rows:
            if "route" in name and row.get("ranks") == 1:  # one alone routes nothing
                continue
            if (row.get("case"), row.get("op")) == (case, op) and row.get(members[0]):
                kind = "power" if row.get("input") == "rmat" else row.get("input")
                seconds = sum(row[member] for member in members) * 1e-6
                point = (row["n_rank"] * times, seconds / calls)
                found.setdefault(kind, []).append(point)
        for kind, points in sorted(found.items(), reverse=True):  # of one rate for all, power's
            fit = line_through(points)
            if not isinstance(p["device"][name], dict):
                p["device"][name] = fit
            elif kind in p["device"][name]:
                p["device"][name][kind] = fit
            print(f"{path}: device.{name}, {kind}: {fit}", file=sys.stderr)
    several = [row for row in rows if row.get("case") == "comm" and row["ranks"] > 1]
    for row in several:
        others = (row["ranks"] - 1) * p["machine"]["line"]
        if row["op"] == "agree":
            p["machine"]["line_latency"] = max(0.0, row["us"] * 1e-6 - others)
    data = sorted((row["sent"], row["us"] * 1e-6) for row in several if row["op"] == "all-to-all")
    if len(data) > 1:
        p["machine"]["exchange"], p["machine"]["nvlink"] = line_through(data)


def run(p, ranks, steps):
    """One operation on so many ranks: seconds, and what they went to."""
    clock = work.Clock(p, ranks)
    steps(clock)
    parts = {part: seconds for part, seconds in clock.parts.items() if seconds > 0}
    return {"seconds": sum(parts.values()), "parts": parts, "sent_most": clock.sent_most}


def lost(cell, ideal):
    """The part that takes longest beside an even share of what one GPU needs by itself."""
    parts = dict(cell["parts"])
    parts["device"] = max(0.0, parts.get("device", 0.0) - ideal)
    return max(parts, key=parts.get)


def first_break(row):
    """Where fewer than half of the GPUs are of use, from two on, and what costs most there."""
    for ranks in RANKS[1:]:
        if row[ranks]["speedup"] < HALF * ranks:
            return {"breaks": ranks, "by": lost(row[ranks], row["alone"] / ranks)}
    return {"breaks": None, "by": None}


def simulate(p, problem):
    """The same work for more GPUs: of each operation and path, for each number of ranks."""
    out = {}
    for name, path, alone, steps in work.operations(p, problem):
        row = {"operation": name, "path": path, "alone": alone}
        for ranks in RANKS:
            row[ranks] = run(p, ranks, steps)
            if alone:
                row[ranks]["speedup"] = alone / row[ranks]["seconds"]
        out[f"{name} | {path}"] = {**row, **(first_break(row) if alone else {})}
    return out


def simulate_grown(p):
    """More work for more GPUs: what part of each GPU is of use."""
    out = {}
    for ranks in RANKS:
        more = work.grown(p, ranks)
        problem = work.Problem(more["problem"], None)
        for name, path, alone, steps in work.grown_operations(more, problem, ranks):
            row = out.setdefault(f"{name} | {path}", {"operation": name, "path": path})
            cell = run(more, ranks, steps)
            if ranks == 1:
                row["alone"] = alone
            row[ranks] = {**cell, "useful": row["alone"] / cell["seconds"]}
    for row in out.values():
        low = [ranks for ranks in RANKS[1:] if row[ranks]["useful"] < HALF]
        row["breaks"] = low[0] if low else None
        row["by"] = lost(row[low[0]], row["alone"]) if low else None
    return out


def largest(p, ranks):
    """Ids of the largest graph that fits, and what it is that is full."""
    m, memory = p["machine"], p["memory"]
    of_all = memory["record"] + memory["pagerank_id"]
    of_own = memory["arc"] * p["problem"]["arcs_of_id"] + memory["pagerank_own"]
    of_host = (memory["host_id"] + memory["host_array"]) * min(ranks, m["gpus_per_node"])
    limits = {"device memory": m["gpu_bytes"] * m["gpu_share"] / (of_all + of_own / ranks),
              "host memory": m["host_bytes"] / of_host, "32-bit ids": 2.0 ** 32}
    full = min(limits, key=limits.get)
    return {"ids": limits[full], "full": full, "replicated": of_all / (of_all + of_own / ranks)}


def balance(problem):
    """What the rank with most has, to the mean: of arcs, by hash and by ranges."""
    return {ranks: {"hash": float(problem.shares(ranks).max() * ranks),
                    "range": float(problem.range_shares(ranks).max() * ranks)} for ranks in RANKS}


def first(rule):
    return next((ranks for ranks in RANKS if rule(ranks)), None)


def events(result):
    """From how many GPUs on something is so."""
    most, even, operations = (result[name] for name in ("largest", "balance", "operations"))

    def half(name, *parts):
        row = operations[name]
        return first(lambda n: sum(row[n]["parts"].get(part, 0) for part in parts) >
                     HALF * row[n]["seconds"])

    out = {"records of all ids are half of what a rank has": first(
               lambda n: most[n]["replicated"] > HALF),
           "the largest graph has less than half of what the GPUs have": first(
               lambda n: most[n]["ids"] < HALF * n * most[1]["ids"]),
           "ranges: a rank has twice the mean of arcs": first(lambda n: even[n]["range"] > 2),
           "hash: a rank has 1.1 times the mean of arcs": first(lambda n: even[n]["hash"] > 1.1),
           "hash: a rank has twice the mean of arcs": first(lambda n: even[n]["hash"] > 2)}
    for n in ("100,000", "1,000,000", "10,000,000", "100,000,000"):
        out[f"insert {n} arcs: messages and lines are half"] = half(
            f"insert {n} arcs | device", "messages", "lines")
    out["PageRank: the network is half"] = half("PageRank, an iteration | device", "network")
    out["join, Zipf: imbalance is half"] = half("join, Zipf | device", "imbalance")
    return out


# --- what is printed ----------------------------------------------------------------------------


def figure(x):
    return f"{x:.2g}" if x < 10 else f"{x:,.0f}"


def time_text(seconds):
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{figure(seconds / unit)} {name}"
    return "0"


def table(heads, rows):
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def report(result):
    columns = [ranks for ranks in COLUMNS if ranks in RANKS]
    named = [[row["operation"], row["path"]] for row in result["operations"].values()]
    rows = list(zip(named, result["operations"].values()))
    print("Speed-up over one GPU that works alone:\n")
    table(["", "path", "alone"] + [str(c) for c in columns] + ["below a half from", "by"],
          [name + [time_text(row["alone"])] + [figure(row[c]["speedup"]) for c in columns] +
           [str(row["breaks"] or "-"), row["by"] or "-"] for name, row in rows if row["alone"]])
    print("Seconds:\n")
    table(["", "path"] + [str(c) for c in columns],
          [name + [time_text(row[c]["seconds"]) for c in columns] for name, row in rows])
    print("What takes longest, of all:\n")
    table(["", "path"] + [str(c) for c in columns],
          [name + [longest(row[c]) for c in columns] for name, row in rows])
    print("More data for more GPUs: what part of each is of use:\n")
    table(["of each GPU", "path"] + [str(c) for c in columns] + ["below a half from", "by"],
          [[row["operation"], row["path"]] + [figure(row[c]["useful"]) for c in columns] +
           [str(row["breaks"] or "-"), row["by"] or "-"] for row in result["grown"].values()])
    print("The largest graph that fits, and how uneven arcs are (most to mean):\n")
    table(["GPUs"] + [str(c) for c in columns],
          [["ids, 10^9"] + [f"{result['largest'][c]['ids'] / 1e9:.2f}" for c in columns],
           ["full"] + [result["largest"][c]["full"] for c in columns],
           ["of it records"] + [f"{result['largest'][c]['replicated']:.0%}" for c in columns],
           ["by hash"] + [f"{result['balance'][c]['hash']:.2f}" for c in columns],
           ["by ranges"] + [figure(result["balance"][c]["range"]) for c in columns]])
    print("What breaks, and from how many GPUs on:\n")
    table(["", "GPUs"], [[what, str(ranks or "never")] for what, ranks in
                         result["events"].items()])


def longest(cell):
    part = max(cell["parts"], key=cell["parts"].get)
    return f"{part} {cell['parts'][part] / cell['seconds']:.0%}"


def rounded(value):
    """For JSON: four digits."""
    if isinstance(value, dict):
        return {str(k): rounded(v) for k, v in value.items()}
    if isinstance(value, (float, numpy.floating)):
        return float(f"{value:.4g}")
    return int(value) if isinstance(value, numpy.integer) else value


def commit():
    git = subprocess.run(["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always",
                          "--dirty"], capture_output=True, text=True, check=False)
    return git.stdout.strip() or None


def simulated(p, graph=None):
    """All of it."""
    problem = work.Problem(p["problem"], read_graph(graph) if graph else None)
    result = {"commit": commit(), "parameters": p, "graph": graph or p["problem"]["graph"],
              "ids": problem.n, "arcs": problem.arcs, "operations": simulate(p, problem),
              "largest": {ranks: largest(p, ranks) for ranks in RANKS},
              "balance": balance(problem), "grown": simulate_grown(p)}
    result["events"] = events(result)
    return result


def main():
    here = pathlib.Path(__file__).resolve().parent
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--parameters", type=pathlib.Path, default=here / "ranks_model.json")
    a.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    a.add_argument("--measured", help="times of `warpheap bench --ranks --json`")
    a.add_argument("--graph", help="a file of a graph, in place of one that is drawn")
    a.add_argument("--most", type=int, default=RANKS[-1], help="ranks")
    a.add_argument("--json", type=pathlib.Path, help="where to write all of it")
    chosen = a.parse_args()
    if chosen.most < 1:
        a.error("--most: at least one rank")
    try:
        p = load(chosen.parameters)
        if chosen.measured:
            put_measured(p, chosen.measured, measured_rows(chosen.measured))
        change(p, chosen.set)
        RANKS[:] = [ranks for ranks in RANKS if ranks <= chosen.most]
        result = simulated(p, chosen.graph)
    except Refused as refused:
        print(f"ranks_model: {refused}", file=sys.stderr)
        return 2
    report(result)
    if chosen.json:
        chosen.json.write_text(json.dumps(rounded(result), separators=(",", ":")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
