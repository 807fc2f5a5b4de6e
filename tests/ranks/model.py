#!/usr/bin/env python3
"""model.py MODULES: the parts of tools/ranks_model.py that no real call is held against.

Shares of ranks by law against those of drawn graphs; times of an exchange that can be told by hand;
rates from a file of the benchmark; what is refused; and a run with few ranks. Exit status 77:
there is no numpy.
"""
import contextlib
import importlib
import io
import json
import os
import pathlib
import sys
import tempfile

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"
sys.path[:0] = [str(TOOLS), str(pathlib.Path(__file__).resolve().parent)]
SCALE, ARCS, RANKS = 14, 400000, 8


def near(a, b, by):
    return abs(a - b) <= by * max(abs(a), abs(b))


def shares():
    """A rank's share is as in a drawn graph, but for chance."""
    for kind in ("rmat", "power", "uniform"):
        source, _ = graphs.draw(kind, SCALE, ARCS, numpy.random.default_rng(3))
        for split in ("hash", "range"):
            owner = graphs.owner_of(source, RANKS, split, 1 << SCALE)
            drawn = numpy.bincount(owner, minlength=RANKS) / ARCS
            law = graphs.range_shares(kind, SCALE, RANKS) if split == "range" else (
                graphs.shares(*graphs.heavy(kind, SCALE), RANKS))
            chance = 5 * numpy.sqrt(law / ARCS)
            if kind == "uniform" and split == "hash":
                chance = chance + 5 * numpy.sqrt(law / (1 << SCALE))  # a share of ids
            assert abs(law.sum() - 1) < 1e-9, (kind, split, law.sum())
            assert (abs(drawn - law) < chance).all(), (kind, split, drawn, law)


def heavy_alone():
    """Looking at fewer vertices one by one changes shares little."""
    whole = graphs.shares(*graphs.heavy("rmat", 20), RANKS)
    most, graphs.HEAVY = graphs.HEAVY, 5000
    few = graphs.shares(*graphs.heavy("rmat", 20), RANKS)
    graphs.HEAVY = most
    assert abs(whole - few).max() < 0.01, (whole, few)


def keys(p):
    """All rows go somewhere, or stay."""
    for split in (0, 1):
        share, stays, heavy = work.key_shares(p, 64, 1, split)
        assert near(share.sum() + stays, 1, 1e-9), (share.sum(), stays)
        assert (heavy > 0) == bool(split) and share.min() > 0, (heavy, share)


def exchanges(p):
    """16 ranks on 2 nodes: each sends 1 MB to each, and rank 3 sends 100 MB to rank 12."""
    clock = work.Clock(p, 16)
    cells = numpy.full((16, 16), 10 ** 6)
    cells[3, 12] += 10 ** 8
    clock.exchange(cells, False)
    m, parts = p["machine"], clock.parts
    assert near(parts["network"] + parts["imbalance"], 1.08e8 / m["nic"], 1e-9), parts
    assert near(parts["network"], (16 * 8e6 + 2e8) / 16 / m["nic"], 1e-9), parts
    messages = m["exchange"] + 7 * m["nvlink_message"] + 8 * m["network_message"]
    assert near(parts["messages"], messages, 1e-9), parts
    clock = work.Clock(p, 4)
    clock.exchange(numpy.full((4, 4), 10 ** 6), True)
    assert near(clock.parts["nvlink"], 3e6 / m["nvlink"], 1e-9), clock.parts
    assert near(clock.parts["pcie"], 6e6 / m["pcie"], 1e-9), clock.parts
    clock, cells = work.Clock(p, 4), numpy.zeros((4, 4))
    cells[1:, 0] = 10 ** 6
    clock.exchange(cells, False, to_one=True)
    assert near(clock.parts["nvlink"], 3e6 / m["nvlink"], 1e-9), clock.parts
    alone = work.Clock(p, 1)
    alone.exchange(numpy.full((1, 1), 10 ** 6), True)
    alone.lines(3)
    assert not alone.parts, alone.parts


def rates():
    """A run of the benchmark in which routing takes 10 us and 1 ns an arc."""
    rows = [{"commit": "x"}]
    for n in (1000, 1000000):
        rows.append({"case": "edges", "op": "insert", "input": "rmat", "ranks": 2, "n": 2 * n,
                     "n_rank": n, "us": 1, "us_route": 10 + n / 1000, "us_apply": 20 + n / 500})
        rows.append({"case": "comm", "op": "all-to-all", "ranks": 2, "sent": n, "n_rank": n,
                     "us": 30 + n / 1e5})
        for ranks in (1, 2):  # one alone routes nothing, though old files have a time
            rows.append({"case": "join", "op": "join", "input": "uniform", "ranks": ranks, "us": 1,
                         "n_rank": n, "us_partition": 40 if ranks == 1 else 50 + n / 1000})
    p = model.load(TOOLS / "ranks_model.json")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "ranks.jsonl")
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        model.put_measured(p, path, model.measured_rows(path))
    for (fixed, rate), wanted in ((p["device"]["route"], (10e-6, 1e9)),
                                  (p["device"]["insert"]["power"], (20e-6, 5e8)),
                                  (p["device"]["rows_route"], (50e-6, 2e9)),
                                  ((p["machine"]["exchange"], p["machine"]["nvlink"]),
                                   (30e-6, 1e11))):
        assert near(fixed, wanted[0], 1e-6) and near(rate, wanted[1], 1e-6), (fixed, rate, wanted)


def refusals():
    """What is of no use is named in one line."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"sim": '{"target":"sim"}\n{"case":"edges","us":1,"ranks":2,"n_rank":9}\n',
                 "text": "case,us\n", "list": "{}\n[3]\n", "other": '{"case":"single","us":1}\n',
                 "words": "a b\n", "empty": ""}
        for name, text in files.items():
            pathlib.Path(folder, name).write_text(text)
        for words, wanted in (
                ("--set problem.scale=-1", "problem.scale=-1: the value must be from 1"),
                ("--set problem.scale=abc", "problem.scale=abc: the value is no number"),
                ("--set problem.rows=1.5", "a whole number"), ("--set machine.nic=0", "more than"),
                ("--set machine.nic=NaN", "a number"), ("--set machine.nic=-1", "more than 0"),
                ("--set problem.graph=ring", "rmat, power or uniform"),
                ("--set device.route=[1]", "[seconds, "), ("--set a.b=1", "no such parameter"),
                ("--graph {}/none", "none: No such file"), ("--graph {}/words", "no edge list"),
                ("--graph {}/empty", "no edge list"), ("--measured {}/none", "No such file"),
                ("--measured {}/text", "text: line 1 is no row"),
                ("--parameters {}/text", "text: no parameters"),
                ("--measured {}/list", "list: line 2 is no row"),
                ("--measured {}/sim", "of the simulated device"),
                ("--measured {}/other", "no rows of `warpheap bench --ranks`"),
                ("--measured {}/empty", "no rows of `warpheap bench --ranks`")):
            sys.argv[1:] = words.format(folder).split()
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                code = model.main()
            lines = said.getvalue().splitlines()
            assert code == 2 and len(lines) == 1 and wanted in lines[0], (words, code, lines)
    p = model.load(TOOLS / "ranks_model.json")
    model.change(p, ["problem.rows=1e9", "machine.line=0", "problem.graph=power",
                     'device.insert={"uniform": [0, 1e9], "power": [0, 2e9]}'])
    assert p["problem"]["rows"] == 10 ** 9 and p["device"]["insert"]["power"] == [0, 2e9], p
    assert os.access(TOOLS / "ranks_model.py", os.X_OK)  # the page runs it by its name


def whole_run(p):
    model.RANKS[:] = [1, 2, 4, 16]
    model.change(p, ["problem.scale=18", "problem.sample_scale=10", "problem.scale_of_gpu=10"])
    result = model.simulated(p)
    for name, row in result["operations"].items():
        assert all(row[ranks]["seconds"] > 0 for ranks in model.RANKS), name
        if row["alone"]:  # one rank does at least what one GPU does by itself
            assert row[1]["speedup"] <= 1 + 1e-9, (name, row[1])
            assert row[16]["speedup"] <= 16, (name, row[16])
    skewed, stays = (result["operations"][f"join, Zipf{words} | device"][16]["seconds"]
                     for words in ("", ", heavy keys stay"))
    assert stays < skewed, (stays, skewed)
    ranges = result["operations"]["insert 10,000,000 arcs, ranges | device"][16]["seconds"]
    assert result["operations"]["insert 10,000,000 arcs | device"][16]["seconds"] < ranges
    json.dumps(model.rounded(result))
    model.report(result)


def main():
    p = model.load(TOOLS / "ranks_model.json")
    shares()
    heavy_alone()
    keys(p)
    exchanges(p)
    rates()
    refusals()
    whole_run(p)


if __name__ == "__main__":
    numpy = importlib.import_module("bytes").find_numpy(sys.argv[1])
    if numpy is None:
        print("left out: there is no numpy, and pip has not installed it")
        sys.exit(77)
    graphs, work, model = (importlib.import_module(name) for name in (
        "ranks_graphs", "ranks_work", "ranks_model"))
    main()
