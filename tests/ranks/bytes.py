#!/usr/bin/env python3
"""bytes.py MPIRUN PROGRAM MODULES: what the calls of workload/ranks send is what
tools/ranks_count.py says, to the byte.

Graphs by R-MAT, directed and undirected, by hash and by ranges, on 2 and on 4 ranks with simulated
devices. Then the laws by which tools/ranks_model.py goes on from there, against counts. It needs
numpy; where that is missing, pip installs it into the folder MODULES. Exit status 77: there is
none.
"""
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
SCALE, ARCS, PIECE = 9, 6000, 3000


def find_numpy(folder):
    sys.path.append(folder)
    try:
        return importlib.import_module("numpy")
    except ImportError:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", folder,
                        "--disable-pip-version-check", "numpy>=1.24"], check=False)
        importlib.invalidate_caches()
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


class Case:
    """A graph, what happens to it, and what each call sends then."""

    def __init__(self, ranks, split, undirected, seed):
        self.ranks, self.split, self.undirected = ranks, split, undirected
        self.random = numpy.random.default_rng(seed)
        self.name = f"{ranks}-{split}-{undirected}"
        self.n = (1 << SCALE) - 13  # no power of two
        self.lists = []

    def arcs(self, n):
        source, to = graphs.rmat(SCALE, n, self.random)
        keep = (source < self.n) & (to < self.n)
        return source[keep], to[keep]

    def brings(self, source, to=None, erases=None, by=None):
        """A list of entries for the program; (source, to, the rank that brings each)."""
        rank = self.random.integers(0, self.ranks, len(source))
        rank[: len(rank) // 3] = 0  # one rank brings more than others
        if by is not None:
            rank[:] = by
        entries = numpy.stack([rank, source, source if to is None else to,
                               numpy.zeros(len(rank)) if erases is None else erases], axis=1)
        self.lists.append(entries.astype(numpy.uint32))
        return source, source if to is None else to, rank

    def listed(self, rank):
        return numpy.bincount(rank, minlength=self.ranks)

    def expect(self):
        """The calls that bytes.c makes, and their counts."""
        owner = graphs.owner_of(numpy.arange(self.n), self.ranks, self.split, self.n)
        r = count.Ranks(self.ranks, owner, self.undirected)
        zero = numpy.zeros((self.ranks, self.ranks), dtype=numpy.int64)
        calls = {"open": count.Call(zero, 1)}
        come = self.brings(*self.arcs(ARCS))
        calls["insert"] = r.insert(*come)
        more = self.brings(*self.arcs(700))
        calls["insert_asked"] = r.insert(*more, asks=True)
        calls["erase"] = r.update(*self.brings(*more[:2]))
        come = self.without(come, more)
        new = self.arcs(500)
        source = numpy.concatenate([come[0][:900], new[0]])
        to = numpy.concatenate([come[1][:900], new[1]])
        erases = numpy.arange(len(source)) < 900
        calls["update"] = r.update(*self.brings(source, to, erases), asks=True)
        asked = self.brings(*come[:2], by=1)  # more than there is room for yet
        calls["has"] = r.has(asked[0], asked[2])
        source, to = self.changed(come, source, to, erases)
        calls["degrees"] = r.degrees()
        calls["to_csr"] = r.to_csr(source, 1)
        calls["to_csr_all"] = r.to_csr(source)
        calls["pagerank"] = r.pagerank(3)
        if self.undirected:
            calls["triangles"] = r.triangles(source, to, PIECE)
        gone, _, rank = self.brings(self.random.integers(0, self.n, 40))
        calls["remove"] = r.remove(self.listed(rank))
        stays = ~(numpy.isin(source, gone) | numpy.isin(to, gone))
        source, to = source[stays], to[stays]
        moved, _, rank = self.brings(self.random.integers(0, self.n, 60))
        goes_to = numpy.full(self.n, -1)
        goes_to[moved] = 1
        calls["move"] = r.move(source, self.listed(rank), goes_to)
        r.owner[moved] = 1
        calls["rebalance"] = r.rebalance(source, 1.02)
        return calls

    def key(self, source, to):
        if self.undirected:
            source, to = numpy.minimum(source, to), numpy.maximum(source, to)
        return source.astype(numpy.uint64) << numpy.uint64(32) | to.astype(numpy.uint64)

    def without(self, come, gone):
        """Those of the arcs that are not among others that went."""
        stays = ~numpy.isin(self.key(*come[:2]), self.key(*gone[:2]))
        return tuple(each[stays] for each in come)

    def changed(self, come, source, to, erases):
        """The arcs after both batches: of one that goes and comes it stays."""
        first, gone, new = ((a, b) for a, b in (come[:2], (source[erases], to[erases]),
                                                (source[~erases], to[~erases])))
        if self.undirected:
            first, gone, new = (graphs.both_ways(*each) for each in (first, gone, new))
        key = [a.astype(numpy.uint64) << numpy.uint64(32) | b for a, b in (first, gone, new)]
        keys = numpy.union1d(numpy.setdiff1d(key[0], key[1]), key[2])
        return (keys >> numpy.uint64(32)).astype(numpy.uint32), keys.astype(numpy.uint32)

    def write(self, folder):
        words = [numpy.array([self.n, self.split == "range", self.undirected, PIECE])]
        for entries in self.lists:
            words += [numpy.array([len(entries)]), entries.ravel()]
        path = pathlib.Path(folder, self.name)
        path.write_bytes(numpy.concatenate(words).astype(numpy.uint32).tobytes())
        return str(path)


def run(mpirun, ranks, program, paths):
    done = subprocess.run([mpirun, "-n", str(ranks), program, *paths], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def check(mpirun, program, ranks):
    cases = [Case(ranks, split, undirected, seed) for seed, (split, undirected) in enumerate(
        (split, undirected) for split in ("hash", "range") for undirected in (0, 1))]
    expected = {case.name: case.expect() for case in cases}
    wrong, seen = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        said = run(mpirun, ranks, program, [case.write(folder) for case in cases])
    for row in said:
        call = expected[row["file"]][row["call"]]
        r = row["rank"]
        model = {"calls": call.calls, "lines": call.lines(), "sent": int(call.sent()[r]),
                 "got": int(call.got()[r]), "reduced": call.reduced}
        real = {name: row[name] for name in model}
        seen += 1
        if model != real:
            wrong += 1
            print(f"{row['file']}, rank {r}, {row['call']}: sent {real}, the model says {model}")
    if seen != ranks * sum(len(calls) for calls in expected.values()):
        print(f"{ranks} ranks: {seen} lines have come")
        wrong += 1
    print(f"{ranks} ranks: {seen} calls of ranks, {wrong} wrong; "
          f"{sum(row['sent'] for row in said)} bytes sent in all")
    return wrong


def main():
    mpirun, program = sys.argv[1:3]
    wrong = sum(check(mpirun, program, ranks) for ranks in (2, 4))
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    numpy = find_numpy(sys.argv[3])
    if numpy is None:
        print("left out: there is no numpy, and pip has not installed it")
        sys.exit(77)
    graphs = importlib.import_module("ranks_graphs")
    count = importlib.import_module("ranks_count")
    sys.exit(main())
