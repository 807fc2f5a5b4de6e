"""ranks_work.py: what operations of workload/ranks do on each rank, step by step, and how long each
step takes: for tools/ranks_model.py. Needs numpy.

A step is as long as the rank, or the link, that has most to do. What it would take if all had the
same goes to a part; the rest is the part `imbalance`. Steps follow one another, as the library's
do. Parts: device, what a GPU does that works alone, too; routing, what GPUs do besides; launches,
what these take with nothing to do; host; pcie; nvlink and network, by bytes; messages, what
exchanges take without bytes; lines, of the communicator.
"""
import functools
import math

import numpy

import ranks_count as count
import ranks_graphs as graphs


class Clock:
    """Adds up steps for one number of ranks."""

    def __init__(self, p, ranks):
        self.p, self.ranks = p, ranks
        self.parts = {}
        self.sent_most = 0
        self.random = numpy.random.default_rng(p["problem"]["seed"] + ranks)

    def add(self, part, seconds):
        self.parts[part] = self.parts.get(part, 0.0) + float(seconds)

    def uneven(self, part, seconds):
        """seconds: of each rank."""
        self.add(part, numpy.mean(seconds))
        self.add("imbalance", numpy.max(seconds) - numpy.mean(seconds))

    def device(self, rate, amounts, times=1, part="device"):
        fixed, a_second = rate
        self.add("launches", times * fixed)
        self.uneven(part, times * numpy.asarray(amounts) / a_second)

    def host(self, name, amounts):
        self.uneven("host", numpy.asarray(amounts) / self.p["host"][name])

    def pcie(self, amounts):
        self.uneven("pcie", numpy.asarray(amounts) / self.p["machine"]["pcie"])

    def lines(self, calls):
        m = self.p["machine"]
        latency = m["line_latency" if self.ranks <= m["gpus_per_node"] else "line_latency_network"]
        if self.ranks > 1:
            self.add("lines", calls * (latency + (self.ranks - 1) * m["line"]))

    def exchange(self, cells, staged, times=1, to_one=False):
        """cells: bytes. staged: they lie in host memory. times: in so many exchanges. to_one: that
        one rank gets all is no imbalance."""
        if self.ranks == 1:
            return
        m = self.p["machine"]
        cells = cells - numpy.diag(numpy.diag(cells))
        sent, got = cells.sum(axis=1), cells.sum(axis=0)
        self.sent_most += int(sent.max())
        near = min(self.ranks, m["gpus_per_node"])
        nodes = self.ranks // near
        blocks = cells.reshape(nodes, near, nodes, near)
        at = numpy.arange(nodes)
        inside = blocks[at, :, at, :]
        near_out, near_in = (inside.sum(axis=axis).ravel() for axis in (2, 1))
        nic = m["nic"] * m["nics_per_node"] / m["gpus_per_node"]
        by_nvlink = numpy.maximum(near_out, near_in) / m["nvlink"]
        by_network = numpy.maximum(sent - near_out, got - near_in) / nic
        link = "network" if by_network.max() >= by_nvlink.max() else "nvlink"
        slowest = numpy.maximum(by_nvlink, by_network)  # both links work at once
        if to_one:
            self.add(link, slowest.max())
        else:
            self.uneven(link, slowest)
        near_count = (inside > 0).sum(axis=2).ravel()
        messages = (near_count * m["nvlink_message"] +
                    ((cells > 0).sum(axis=1) - near_count) * m["network_message"])
        self.add("messages", times * (m["exchange"] + messages.max()))
        if staged:
            self.pcie(numpy.maximum(sent, got) if to_one else sent + got)


class Shares(count.Ranks):
    """A graph by shares: what each rank has of ids and arcs, without the arcs."""

    def __init__(self, ranks, ids, arcs):
        super().__init__(ranks, numpy.zeros(0))
        self.ids, self.arcs = ids, arcs

    def ids_of(self):
        return self.ids

    def arcs_of(self, source):
        return self.arcs


class Problem:
    """The graph, and what is drawn of it. of_file: (n, source, to), or None."""

    def __init__(self, p, of_file):
        self.p, self.of_file = p, of_file
        self.kind = "power" if of_file or p["graph"] != "uniform" else "uniform"
        self.random = numpy.random.default_rng(p["seed"])
        if of_file:
            self.n, source, _ = of_file
            self.arcs = len(source)
            degree = numpy.bincount(source, minlength=self.n)
            self.heavy = numpy.arange(self.n), degree / self.arcs
        else:
            self.n = 1 << p["scale"]
            self.arcs = self.n * p["arcs_of_id"]
            self.heavy = graphs.heavy(p["graph"], p["scale"], p["exponent"])

    @functools.lru_cache(maxsize=None)
    def shares(self, ranks):
        return graphs.shares(*self.heavy, ranks)

    @functools.lru_cache(maxsize=None)
    def range_shares(self, ranks):
        if self.of_file:
            owner = graphs.owner_of(self.heavy[0], ranks, "range", self.n)
            return numpy.bincount(owner, weights=self.heavy[1], minlength=ranks)
        return graphs.range_shares(self.p["graph"], self.p["scale"], ranks, self.p["exponent"])

    def whole(self, ranks):
        """All of the graph, on ranks by hash."""
        random = numpy.random.default_rng(self.p["seed"])
        ids = random.multinomial(self.n, numpy.full(ranks, 1 / ranks))
        return Shares(ranks, ids, (self.shares(ranks) * self.arcs).astype(numpy.int64))

    # --- triangles ---------------------------------------------------------------------------

    @functools.lru_cache(maxsize=None)
    def drawn(self, scale, arcs_of_id):
        """An undirected graph without loops, both ways."""
        if self.of_file:
            n, source, to = self.of_file
        else:
            n = 1 << scale
            source, to = graphs.draw(self.p["graph"], scale, n * arcs_of_id // 2, self.random,
                                     self.p["exponent"])
        source, to = graphs.both_ways(source[source != to], to[source != to])
        return n, source, to

    @functools.lru_cache(maxsize=None)
    def sampled(self, ranks, scale, arcs_of_id):
        n, source, to = self.drawn(scale, arcs_of_id)
        owner = graphs.owner_of(numpy.arange(n), ranks)
        return count.Ranks(ranks, owner, True).triangles(source, to).work

    def triangles(self, ranks):
        """Lists (cells of bytes), and entries that are looked up, by rank."""
        scale, each = self.p["sample_scale"], self.p["arcs_of_id"]
        now = self.sampled(ranks, scale, each)
        if self.of_file:
            return now["lists"], now["looked_up"]
        before = self.sampled(ranks, scale - 2, each)
        steps = (self.p["scale"] - scale) / 2
        grown = [(now[name].sum() / max(before[name].sum(), 1)) ** steps
                 for name in ("lists", "looked_up")]
        return now["lists"] * grown[0], now["looked_up"] * grown[1]

    def triangles_alone(self, measured):
        """Seconds on one GPU, from those of 2^20 ids with 32 arcs each."""
        looked_up = self.triangles(1)[1].sum()
        if self.of_file:
            return measured * looked_up / 4.6e9
        scale = self.p["sample_scale"]
        now, before = (self.sampled(1, s, 32)["looked_up"].sum() for s in (scale, scale - 2))
        return measured * looked_up / (now * (now / before) ** ((20 - scale) / 2))


# --- batches --------------------------------------------------------------------------------------


def brought(clock, n, share):
    """How many of n that come to random ranks go from each rank to each one."""
    return clock.random.multinomial(int(n // clock.ranks), share / share.sum(),
                                    size=clock.ranks).astype(numpy.int64)


def route(clock, arcs):
    """Kernels put arcs in order by rank: the more ranks, the more counters for each tile."""
    p = clock.p["device"]
    counters = numpy.ceil(arcs / p["tile"]) * 2 * clock.ranks
    clock.device(p["route"], arcs + counters, part="routing")


def batch(problem, p, path, n, call="insert", split="hash"):
    """Arcs to their owners, which work on them; of questions a byte of each comes back. There is
    room for all. path host: the batch lies in host memory."""
    asks = call == "has"
    apply = p["device"][call][problem.kind]

    def steps(clock):
        share = (problem.shares if split == "hash" else problem.range_shares)(clock.ranks)
        arcs = brought(clock, n, share)
        sent, got = arcs.sum(axis=1), arcs.sum(axis=0)
        moved = count.routed(arcs, 2, asks)
        if path == "host":
            clock.pcie((9 if asks else 8) * sent)
        if clock.ranks > 1 or asks:  # one rank alone gives its graph the batch as it is
            route(clock, sent)
        clock.exchange(moved.work["there"], False)
        clock.device(apply, got)
        if asks:
            clock.exchange(moved.work["back"], False)
            clock.device(p["device"]["answer"], sent, part="routing")
        clock.lines(moved.calls)

    alone = apply[0] + n / apply[1]
    brings = (9 if asks else 8) * n / p["machine"]["pcie"]
    return alone + (brings if path == "host" else 0), steps


# --- the whole graph ------------------------------------------------------------------------------


def spread(clock, problem, entry):
    """An array of all ids, of which each rank has a part at first, on the host."""
    clock.host("spread", problem.n)
    clock.exchange(problem.whole(clock.ranks).spread(entry).cells, True)
    clock.lines(1)


def degrees(problem, p):
    def steps(clock):
        clock.device(p["device"]["degrees"], problem.n)
        clock.pcie(4 * problem.n)
        spread(clock, problem, 4)

    fixed, rate = p["device"]["degrees"]
    return fixed + problem.n / rate + 4 * problem.n / p["machine"]["pcie"], steps


def rows_to_host(clock, problem):
    arcs = problem.whole(clock.ranks).arcs
    clock.device(clock.p["device"]["arrays"][problem.kind], arcs)
    clock.pcie(4 * arcs + 8 * problem.n)
    return arcs


def to_csr(problem, p):
    def steps(clock):
        degrees(problem, p)[1](clock)
        rows_to_host(clock, problem)
        cells = problem.whole(clock.ranks).to_csr(None, 0).work["rows"]
        clock.exchange(cells, True, to_one=True)
        clock.add("host", 4 * problem.arcs / p["host"]["copy"])
        clock.lines(1)

    fixed, rate = p["device"]["arrays"][problem.kind]
    return (fixed + problem.arcs / rate +
            (4 * problem.arcs + 8 * problem.n) / p["machine"]["pcie"]), steps


def pagerank(problem, p):
    """An iteration."""
    def steps(clock):
        whole = problem.whole(clock.ranks)
        clock.device(p["device"]["push"], whole.arcs)
        clock.device(p["device"]["ids"], problem.n, 2 if clock.ranks > 1 else 1, "routing")
        call = whole.pagerank_iteration()
        clock.exchange(call.cells, False)
        clock.lines(call.calls)

    fixed, rate = p["device"]["push"]
    return fixed + problem.arcs / rate, steps


def triangles(problem, p):
    """Lists to each rank that owns one of their vertices, and it looks up what one GPU would look
    up for these. One rank alone makes the graph's own call."""
    alone = problem.triangles_alone(p["device"]["triangles"][problem.kind])

    def steps(clock):
        lists, looked_up = problem.triangles(clock.ranks)
        clock.device([0.0, looked_up.sum() / alone], looked_up)
        if clock.ranks == 1:
            clock.lines(1)
            return
        clock.device(p["device"]["ids"], problem.n, part="routing")
        clock.exchange(problem.whole(clock.ranks).spread(4).cells, False)
        words = (lists.sum(axis=0) + lists.sum(axis=1)) / 4
        pieces = max(1, math.ceil(lists.sum(axis=1).max() / count.PIECE))
        clock.device(p["device"]["lists"], words, part="routing")
        clock.exchange(lists, False, times=pieces)
        clock.lines(3 + pieces)

    return alone, steps


# --- vertices -------------------------------------------------------------------------------------


def remove(problem, p, n):
    def steps(clock):
        whole = problem.whole(clock.ranks)
        call = whole.remove(numpy.full(clock.ranks, n // clock.ranks))
        clock.exchange(call.cells, True)
        clock.device(p["device"]["read_rows"], whole.arcs, 2)
        clock.lines(call.calls)

    fixed, rate = p["device"]["read_rows"]
    return 2 * (fixed + problem.arcs / rate), steps


def move(problem, p, n):
    """Of n random vertices to one rank. On one GPU there is no such thing."""
    def steps(clock):
        rows_to_host(clock, problem)
        clock.exchange(count.to_all(numpy.full(clock.ranks, 8 * n // clock.ranks)), True)
        clock.host("spread", 4 * problem.n)  # passes over all ids
        each = n / clock.ranks * (8 + 4 * problem.arcs / problem.n)
        cells = numpy.zeros((clock.ranks, clock.ranks))
        cells[:, 0] = each
        clock.exchange(cells, True, to_one=True)
        clock.device(p["device"]["insert"][problem.kind], n * problem.arcs / problem.n)
        clock.lines(3)

    return None, steps


def rebalance(problem, p):
    """From ranks with more than 1.1 times the mean, to those with the least."""
    def steps(clock):
        degrees(problem, p)[1](clock)
        load = problem.shares(clock.ranks) * problem.arcs
        over = numpy.maximum(0, load - 1.1 * load.mean())
        moved = over.sum() * problem.n / problem.arcs  # vertices, each of which looks at all ranks
        clock.add("host", (problem.n + moved * clock.ranks) / p["host"]["plan"])
        rows_to_host(clock, problem)
        clock.host("spread", 3 * problem.n)
        into = numpy.maximum(0, load.mean() - load)
        into = into / max(into.sum(), 1e-9)
        clock.exchange(4.0 * over[:, None] * into[None, :], True)
        clock.device(p["device"]["insert"][problem.kind], over.sum() * into)
        clock.lines(3)

    return None, steps


# --- tables ---------------------------------------------------------------------------------------


def key_shares(p, ranks, skew, split):
    """Of rows to each rank by key; what of all rows is of heavy keys, which stay; how many keys."""
    if not skew:
        return numpy.full(ranks, 1.0 / ranks), 0.0, 0
    ids, weights = graphs.zipf(p["problem"]["keys"])
    heavy = weights > p["problem"]["heavy"] / ranks if split else numpy.zeros(len(ids), dtype=bool)
    of_rank = graphs.shares(ids, numpy.where(heavy, 0.0, weights), ranks)
    even = weights[heavy].sum() / ranks  # which `shares` takes for a part of the rest
    return of_rank - even, weights[heavy].sum(), int(heavy.sum())


def route_rows(clock, p, rows):
    if clock.ranks > 1:  # one rank alone gives its operator the tables as they are
        clock.device(p["device"]["rows_route"], rows, part="routing")


def send_rows(clock, p, cells, columns):
    for _ in range(columns):
        clock.exchange(cells * (p["problem"]["row_bytes"] // columns), False)


def join(p, skew, split):
    """Build rows have each key once; probe rows are the same, or by Zipf 1.0. split: probe rows of
    heavy keys stay, and their build rows go to all."""
    rows = p["problem"]["rows"]

    def steps(clock):
        ranks = clock.ranks
        share, stays, heavy = key_shares(p, ranks, skew, split)
        build = brought(clock, rows, numpy.full(ranks, 1.0 / ranks))
        build = build + (count.to_all(numpy.full(ranks, heavy / ranks)) if heavy else 0)
        probe = brought(clock, rows * (1 - stays), share)
        route_rows(clock, p, 2 * rows / ranks)
        send_rows(clock, p, build, 2)
        send_rows(clock, p, probe, 2)
        clock.device(p["device"]["join"],
                     build.sum(axis=0) + probe.sum(axis=0) + stays * rows / ranks)
        clock.lines(7)

    fixed, rate = p["device"]["join"]
    return fixed + 2 * rows / rate, steps


def small_join(p, times):
    """Build rows are fewer, by so many times: they go to all ranks, and probe rows stay."""
    rows = p["problem"]["rows"]

    def steps(clock):
        ranks = clock.ranks
        if ranks > 1:
            clock.exchange(count.to_all(numpy.full(ranks, rows / times / ranks))
                           * p["problem"]["row_bytes"], False)
        clock.device(p["device"]["join"], numpy.full(ranks, rows / times + rows / ranks))
        clock.lines(4)

    fixed, rate = p["device"]["join"]
    return fixed + (rows + rows / times) / rate, steps


def group(p, skew, split):
    """split: each rank adds up its rows of heavy keys, and the sums meet."""
    rows = p["problem"]["rows"]

    def steps(clock):
        ranks = clock.ranks
        share, stays, heavy = key_shares(p, ranks, skew, split)
        light = brought(clock, rows * (1 - stays), share)
        route_rows(clock, p, rows / ranks)
        send_rows(clock, p, light, 2)
        clock.device(p["device"]["group"], light.sum(axis=0) + stays * rows / ranks)
        if heavy:
            sums = numpy.full((ranks, ranks), heavy / ranks * p["problem"]["sums_bytes"])
            clock.exchange(sums, False)
        clock.lines(6)

    fixed, rate = p["device"]["group"]
    return fixed + rows / rate, steps


def operations(p, problem):
    """(name, path, seconds on one GPU alone or None, steps)"""
    for n in (10 ** 5, 10 ** 6, 10 ** 7, 10 ** 8):
        yield (f"insert {n:,} arcs", "device", *batch(problem, p, "device", n))
    yield ("insert 10,000,000 arcs", "host", *batch(problem, p, "host", 10 ** 7))
    yield ("insert 10,000,000 arcs, ranges", "device", *batch(problem, p, "device", 10 ** 7,
                                                              split="range"))
    yield ("has, 10,000,000 arcs", "device", *batch(problem, p, "device", 10 ** 7, "has"))
    yield ("PageRank, an iteration", "device", *pagerank(problem, p))
    yield ("remove 10,000 vertices", "device", *remove(problem, p, 10 ** 4))
    yield ("degrees", "host", *degrees(problem, p))
    yield ("to_csr, to one rank", "host", *to_csr(problem, p))
    yield ("triangles", "device", *triangles(problem, p))
    yield ("move 100,000 vertices", "host", *move(problem, p, 10 ** 5))
    yield ("rebalance", "host", *rebalance(problem, p))
    for name, skew, split in (("each key once", 0, 0), ("Zipf", 1, 0),
                              ("Zipf, heavy keys stay", 1, 1)):
        yield (f"join, {name}", "device", *join(p, skew, split))
        yield (f"group-by, {name}", "device", *group(p, skew, split))
    yield ("join, 64 times fewer build rows", "device", *small_join(p, 64))


def grown(p, ranks):
    """The problem of so many GPUs if each brings as much."""
    problem = {**p["problem"], "rows": p["problem"]["rows"] * ranks,
               "scale": p["problem"]["scale_of_gpu"] + ranks.bit_length() - 1}
    return {**p, "problem": problem}


def grown_operations(p, problem, ranks):
    """Those that are tried with more data for more GPUs."""
    yield ("insert 1,000,000 arcs", "device", *batch(problem, p, "device", 10 ** 6 * ranks))
    yield ("insert 10,000,000 arcs", "device", *batch(problem, p, "device", 10 ** 7 * ranks))
    yield ("PageRank, an iteration", "device", *pagerank(problem, p))
    yield ("join, Zipf", "device", *join(p, 1, 0))
    yield ("join, Zipf, heavy keys stay", "device", *join(p, 1, 1))
