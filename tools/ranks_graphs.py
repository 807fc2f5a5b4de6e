"""ranks_graphs.py: graphs, keys, and who owns them, for tools/ranks_model.py.

Vertices belong to ranks by the hash or the ranges of workload/ranks/shard.c. Needs numpy.
"""
import gzip
import math
import pathlib

import numpy

RMAT_SECOND = 0.24  # how likely a bit of a number is 1: R-MAT with 0.57, 0.19, 0.19, 0.05
HEAVY = 1 << 18     # vertices, or keys, that are looked at one by one where there are too many


def mix32(k):
    """wh_mix32 of core/hash.h."""
    k = numpy.asarray(k, dtype=numpy.uint32)
    k = (k ^ (k >> numpy.uint32(16))) * numpy.uint32(0x7feb352d)
    k = (k ^ (k >> numpy.uint32(15))) * numpy.uint32(0x846ca68b)
    return k ^ (k >> numpy.uint32(16))


def owner_of(ids, ranks, split="hash", n=None):
    """The rank of each id, as make_maps of shard.c has it."""
    if split == "hash":
        return (mix32(ids).astype(numpy.uint64) * numpy.uint64(ranks) >> numpy.uint64(32)).astype(
            numpy.int64)
    return (numpy.asarray(ids, dtype=numpy.uint64) * numpy.uint64(ranks) // numpy.uint64(n)).astype(
        numpy.int64)


# --- arcs, one by one ------------------------------------------------------------------------


def rmat(scale, arcs, random):
    """As bench/cases/dgraph.c draws them; other random numbers."""
    source = numpy.zeros(arcs, dtype=numpy.uint32)
    to = numpy.zeros(arcs, dtype=numpy.uint32)
    for _ in range(scale):
        percent = random.integers(0, 100, arcs, dtype=numpy.uint8)
        source = source << numpy.uint32(1) | (percent >= 76)
        to = to << numpy.uint32(1) | (((percent >= 57) & (percent < 76)) | (percent >= 95))
    return source, to


def uniform(scale, arcs, random):
    return (random.integers(0, 1 << scale, arcs, dtype=numpy.uint32),
            random.integers(0, 1 << scale, arcs, dtype=numpy.uint32))


def power_weight(place, exponent):
    """How heavy the vertex at a place is (Chung and Lu, 2002), so that degrees fall by `exponent`.
    The first places are made alike, as no vertex can have more neighbours than there are."""
    return (place + 10.0) ** (-1.0 / (exponent - 1.0))


def chung_lu(scale, arcs, random, exponent):
    """Both ends by their weights; vertex 0 is the heaviest one."""
    summed = numpy.cumsum(power_weight(numpy.arange(1 << scale), exponent))
    ends = [numpy.searchsorted(summed, random.random(arcs) * summed[-1]).astype(numpy.uint32)
            for _ in range(2)]
    return ends[0], ends[1]


def draw(kind, scale, arcs, random, exponent=2.2):
    if kind == "rmat":
        return rmat(scale, arcs, random)
    if kind == "power":
        return chung_lu(scale, arcs, random, exponent)
    return uniform(scale, arcs, random)


def distinct(source, to):
    """Without repetitions, in order."""
    keys = numpy.unique(source.astype(numpy.uint64) << numpy.uint64(32) | to)
    return (keys >> numpy.uint64(32)).astype(numpy.uint32), keys.astype(numpy.uint32)


def both_ways(source, to):
    """The arcs of an undirected graph: each with its reverse, a loop once."""
    return distinct(numpy.concatenate([source, to]), numpy.concatenate([to, source]))


def read(path):
    """The arcs of a file: Matrix Market, METIS, or an edge list, plain or gzip, as
    workload/graph/graph_file.h reads them, but without its checks. (n, source, to)"""
    path = pathlib.Path(path)
    lines = (gzip.open if path.suffix == ".gz" else open)(path, "rt").read().splitlines()
    name = path.name.removesuffix(".gz")
    market = lines[0].startswith("%%MatrixMarket")
    symmetric = market and "general" not in lines[0]
    lines = [line for line in lines if not line.startswith(("#", "%"))]
    if not market and name.endswith((".graph", ".metis")):
        n = int(lines[0].split()[0])
        rows = [numpy.array(line.split(), dtype=numpy.int64) - 1 for line in lines[1:n + 1]]
        source = numpy.repeat(numpy.arange(n), [len(row) for row in rows])
        return n, source.astype(numpy.uint32), numpy.concatenate(rows).astype(numpy.uint32)
    if market:
        n = int(lines[0].split()[0])
        lines = lines[1:]
    pairs = numpy.array([line.replace(",", " ").split()[:2] for line in lines if line.strip()],
                        dtype=numpy.int64) - (1 if market else 0)
    source, to = pairs[:, 0].astype(numpy.uint32), pairs[:, 1].astype(numpy.uint32)
    if symmetric:
        source, to = both_ways(source, to)
    return n if market else int(pairs.max()) + 1, source, to


# --- shares: what of all arcs, or rows, belongs to each rank -----------------------------------
#
# For graphs that are too large to be drawn. The heaviest vertices are looked at one by one, with
# the owners that they have; the rest is even, as a hash makes it.


def heavy_rmat(scale):
    """Ids and shares of the heaviest vertices: those with few bits that are 1."""
    ids = numpy.zeros(1, dtype=numpy.uint32)
    layer, bits = ids, 0
    while bits < scale and len(ids) + math.comb(scale, bits + 1) <= HEAVY:
        bits += 1
        grown = [layer[layer < (1 << bit)] | numpy.uint32(1 << bit) for bit in range(scale)]
        layer = numpy.concatenate(grown)
        ids = numpy.concatenate([ids, layer])
    ones = numpy.zeros(len(ids), dtype=numpy.int64)
    for bit in range(scale):
        ones += (ids >> numpy.uint32(bit)) & numpy.uint32(1)
    return ids, RMAT_SECOND ** ones * (1 - RMAT_SECOND) ** (scale - ones)


def heavy_power(scale, exponent):
    n = 1 << scale
    ids = numpy.arange(min(n, HEAVY), dtype=numpy.uint32)
    weight = power_weight(ids, exponent)
    power = 1 - 1 / (exponent - 1)
    rest = ((n + 10.0) ** power - (len(ids) + 10.0) ** power) / power  # the sum, as an integral
    return ids, weight / (weight.sum() + rest)


def heavy(kind, scale, exponent=2.2):
    if kind == "rmat":
        return heavy_rmat(scale)
    if kind == "power":
        return heavy_power(scale, exponent)
    return numpy.zeros(0, dtype=numpy.uint32), numpy.zeros(0)


def zipf(keys):
    """Keys and shares of the most frequent ones, by Zipf with 1.0."""
    ids = numpy.arange(min(keys, HEAVY), dtype=numpy.uint32)
    whole = math.log(keys) + 0.5772156649 + 0.5 / keys
    return ids, 1.0 / (ids + 1.0) / whole


def shares(ids, weights, ranks):
    """The share of each rank by hash."""
    of_rank = numpy.bincount(owner_of(ids, ranks), weights=weights, minlength=ranks)
    return of_rank + max(0.0, 1.0 - weights.sum()) / ranks


def range_shares(kind, scale, ranks, exponent=2.2):
    """The share of each rank if ranks have ranges of ids, for ranks a power of two, at most
    2^scale. The first bits of an id are its rank's number."""
    numbers = numpy.arange(ranks)
    if kind == "uniform":
        return numpy.full(ranks, 1.0 / ranks)
    if kind == "power":
        power = 1 - 1 / (exponent - 1)
        ends = ((numpy.arange(ranks + 1) * ((1 << scale) / ranks)) + 10.0) ** power
        return numpy.diff(ends) / (ends[-1] - ends[0])
    bits = ranks.bit_length() - 1
    ones = numpy.array([int(r).bit_count() if hasattr(int, "bit_count") else bin(r).count("1")
                        for r in numbers.tolist()])
    return RMAT_SECOND ** ones * (1 - RMAT_SECOND) ** (bits - ones)
