"""ranks_count.py: what the calls of workload/ranks send, counted from arcs, owners and batches.

The rules are those of shard_route.c, shard_pagerank.c, shard_query.c, shard_triangles.c,
shard_vertices.c and shard_move.c. tests/ranks/bytes.py holds them against what the communicator
says that it has sent. Needs numpy.

Each function returns a Call: `cells[s, d]`, the bytes of data from rank s to rank d (what stays on
a rank is not 0 here, but is not sent); `calls`, how many calls of the communicator there are, each
of which begins with a line from each rank to each other one; `reduced`, bytes of numbers that are
added up, which go in lines where they are few; and what ranks do besides, an entry a rank.
"""
import dataclasses
import heapq

import numpy

LINE = 184          # bytes of a line: sizeof(whi_comm_header)
HEAD = 16           # bytes before the arcs of a message
ARCS = 16           # arcs of a message are filled up to a multiple of so many
IDS = 4             # and in PageRank, and of triangles, ids of a rank
FILL = 4            # and words of a message with lists
PIECE = 16 << 20    # triangles: bytes of lists at a time


@dataclasses.dataclass
class Call:
    cells: numpy.ndarray
    calls: int
    reduced: int = 0
    work: dict = dataclasses.field(default_factory=dict)

    def sent(self):
        """Bytes that leave each rank."""
        return self.cells.sum(axis=1) - self.cells.diagonal()

    def got(self):
        return self.cells.sum(axis=0) - self.cells.diagonal()

    def lines(self):
        """Bytes of lines that leave a rank."""
        return self.calls * LINE * (len(self.cells) - 1)

    def __add__(self, other):
        return Call(self.cells + other.cells, self.calls + other.calls,
                    self.reduced + other.reduced, {**self.work, **other.work})


def to_all(bytes_of_rank):
    """An all-gather."""
    ranks = len(bytes_of_rank)
    return numpy.repeat(numpy.asarray(bytes_of_rank, dtype=numpy.int64)[:, None], ranks, axis=1)


def cells_of(brought_by, owner, ranks):
    """How many from each rank to each one."""
    return numpy.bincount(brought_by * ranks + owner, minlength=ranks * ranks).reshape(
        ranks, ranks).astype(numpy.int64)


def filled(n, multiple):
    return (n + multiple - 1) // multiple * multiple


def routed(arcs, calls, asks=True, reduced=0):
    """Arcs to their owners, and, if a rank asks, a byte for each back. arcs: how many from each
    rank to each one."""
    arcs = filled(arcs, ARCS)
    there = (HEAD + 8 * arcs) if len(arcs) > 1 else 0 * arcs
    back = arcs.T if len(arcs) > 1 and asks else 0 * arcs
    return Call(there + back, calls, reduced if len(arcs) > 1 else 0,
                work={"there": there, "back": back})


class Ranks:
    """Who owns what. owner: of each id."""

    def __init__(self, ranks, owner, undirected=False):
        self.ranks = ranks
        self.owner = numpy.asarray(owner, dtype=numpy.int64)
        self.undirected = undirected
        self.n = len(self.owner)
        self.may = numpy.zeros((ranks, ranks), dtype=numpy.int64)  # arcs that there is room for

    def ids_of(self):
        return numpy.bincount(self.owner, minlength=self.ranks)

    # --- batches -----------------------------------------------------------------------------

    def ways(self, source, to, brought_by):
        """Of each arc that is routed, the rank that brings it and the one that gets it."""
        if not self.undirected:
            return brought_by, self.owner[source]
        twice = source != to
        return (numpy.concatenate([brought_by, brought_by[twice]]),
                numpy.concatenate([self.owner[source], self.owner[to[twice]]]))

    # asks: a rank wants to know what became of each arc. Whether one does, and three counts, are
    # added up in lines.

    def insert(self, source, to, brought_by, asks=False):
        return self.batch(self.ways(source, to, brought_by), 2, asks, 8 + 24)

    def update(self, source, to, brought_by, asks=False):
        """Erases, or both."""
        return self.batch(self.ways(source, to, brought_by), 3, asks, 8 + 24)

    def has(self, source, brought_by):
        """One way: the owner of the source knows."""
        return self.batch((brought_by, self.owner[source]), 2, True, 0)

    def batch(self, ways, calls, asks, reduced):
        """The first batches, and larger ones, come where there is no room yet: then ranks that have
        too much send nothing, all say what they have, and all send (swap of shard_route.c)."""
        arcs = cells_of(*ways, self.ranks)
        call = routed(arcs, calls, asks, reduced)
        arcs = filled(arcs, ARCS)
        fits = (arcs <= self.may).all(axis=1)
        if fits.all() or self.ranks == 1:
            return call
        self.may = numpy.where(arcs > self.may, arcs + arcs // 4 + 32, self.may)
        return (call + Call(call.work["there"] * fits[:, None], 1) +
                Call(to_all(numpy.full(self.ranks, 8 * self.ranks)), 1))

    # --- queries -----------------------------------------------------------------------------

    def spread(self, bytes_of_entry):
        return Call(to_all(self.ids_of() * bytes_of_entry), 1)

    def degrees(self):
        return self.spread(4)

    def arcs_of(self, source):
        return numpy.bincount(self.owner[source], minlength=self.ranks)

    def to_csr(self, source, root=None):
        """root: None, all ranks get it."""
        rows = 4 * self.arcs_of(source)
        cells = to_all(rows)
        if root is not None:
            cells = numpy.zeros_like(cells)
            cells[:, root] = rows
        return self.degrees() + Call(cells, 1, work={"rows": cells})

    # --- vertices ----------------------------------------------------------------------------

    def remove(self, listed):
        """listed: entries of each rank's list."""
        return Call(to_all(4 * numpy.asarray(listed)), 2, 8)

    def moved_rows(self, source, goes_to):
        """Of each id that moves its rank, else -1: the rows of those."""
        degree = numpy.bincount(source, minlength=self.n)
        moves = (goes_to >= 0) & (goes_to != self.owner)
        cells = numpy.bincount(self.owner[moves] * self.ranks + goes_to[moves],
                               weights=8 + 4 * degree[moves], minlength=self.ranks ** 2)
        return Call(cells.reshape(self.ranks, self.ranks).astype(numpy.int64), 2)

    def move(self, source, listed, goes_to):
        return Call(to_all(8 * numpy.asarray(listed)), 1) + self.moved_rows(source, goes_to)

    def plan(self, source, most):
        """plan of shard_move.c: where each id goes that is to move."""
        degree = numpy.bincount(source, minlength=self.n)
        load = numpy.bincount(self.owner, weights=degree, minlength=self.ranks)
        limit = most * len(source) / self.ranks
        goes_to = numpy.full(self.n, -1)
        heap = [(int(load[r]), r) for r in range(self.ranks)]
        heapq.heapify(heap)
        load = [int(each) for each in load]
        arcs, owner = degree.tolist(), self.owner.tolist()
        for v in numpy.flatnonzero(degree).tolist():
            d, mine = arcs[v], owner[v]
            if load[mine] <= limit:
                continue
            while heap[0][0] != load[heap[0][1]]:
                heapq.heappop(heap)
            least = heap[0][1]
            if load[least] + d < load[mine]:
                goes_to[v] = least
                load[mine] -= d
                load[least] += d
                heapq.heappush(heap, (load[mine], mine))
                heapq.heappush(heap, (load[least], least))
        return goes_to

    def rebalance(self, source, most):
        return self.degrees() + self.moved_rows(source, self.plan(source, most))

    # --- algorithms --------------------------------------------------------------------------

    def pagerank_iteration(self):
        """Sums go to the owners of ids, or, of an undirected graph, shares to all."""
        cells = to_all(8 * filled(self.ids_of(), IDS))
        cells = cells if self.undirected else cells.T
        return Call(cells, 2, 16 if self.ranks > 1 else 0)

    def pagerank(self, iterations):
        first = Call(numpy.zeros((self.ranks, self.ranks), dtype=numpy.int64), 2,
                     16 if self.ranks > 1 else 0)
        each = self.pagerank_iteration()
        return first + Call(iterations * each.cells, iterations * each.calls,
                            iterations * each.reduced) + Call(
                                to_all(4 * filled(self.ids_of(), IDS)), 1)

    def triangles(self, source, to, piece=PIECE):
        """source, to: both ways, without repetitions, and without loops if there are to be any."""
        degree = numpy.bincount(source, minlength=self.n)
        place = numpy.empty(self.n, dtype=numpy.int64)  # ids by owners
        place[numpy.lexsort((numpy.arange(self.n), self.owner))] = numpy.arange(self.n)
        after = (degree[to] > degree[source]) | (
            (degree[to] == degree[source]) & (place[to] > place[source]))
        v, w = source[after].astype(numpy.int64), to[after].astype(numpy.int64)
        length = numpy.bincount(v, minlength=self.n)
        work = {"looked_up": numpy.bincount(self.owner[w], weights=length[v] + length[w],
                                            minlength=self.ranks)}
        if self.ranks == 1:  # the graph's own call, and an agreement
            zero = numpy.zeros((1, 1), dtype=numpy.int64)
            return Call(zero, 1, 0, {**work, "pieces": 0, "lists": zero})
        pairs = numpy.unique(v * self.ranks + self.owner[w])  # a list goes to a rank once
        of, there = pairs // self.ranks, pairs % self.ranks
        leaves = there != self.owner[of]
        of, there = of[leaves], there[leaves]
        window = self.windows(of, length, place, piece)
        pieces = int(window.max(initial=-1)) + 1
        message = (window * self.ranks + self.owner[of]) * self.ranks + there
        each, which = numpy.unique(message, return_inverse=True)
        words = numpy.bincount(which, weights=length[of] + 1, minlength=len(each))
        lists, cells = (numpy.bincount(each % self.ranks ** 2, weights=4 * w,
                                       minlength=self.ranks ** 2).astype(numpy.int64).reshape(
                                           self.ranks, self.ranks)
                        for w in (words, filled(1 + words, FILL)))
        # the plan, rounds, and the sum at last
        return Call(to_all(4 * filled(self.ids_of(), IDS)), 1) + Call(
            cells, 2 + pieces, 16 + 8 * pieces + 8, {**work, "pieces": pieces, "lists": lists})

    def windows(self, of, length, place, piece):
        """Of each list that goes to a rank, in which round: by the words of lists of its rank that
        go before it, in the order of places."""
        words = numpy.bincount(of, weights=length[of] + 1, minlength=self.n).astype(numpy.int64)
        order = numpy.argsort(place)
        before = numpy.empty(self.n, dtype=numpy.int64)
        before[order] = numpy.cumsum(words[order]) - words[order]
        ids = self.ids_of()
        first = order[numpy.minimum(numpy.cumsum(ids) - ids, self.n - 1)]  # of each rank
        return (before[of] - before[first][self.owner[of]]) // max(piece // 4, 1)
