#!/usr/bin/env python3
"""networkx.py: what dgraph/networkx.c says of graphs, against what NetworkX says of them.

    networkx.py MODULES PROGRAM [FOLDER]

NetworkX is the machine's, or pip installs it into the folder MODULES.
Graphs that NetworkX makes from seeds, and those of the folder, or of WH_TEST_GRAPHS: *.mtx, Matrix
Market coordinates, and *.graph, METIS without weights; up to 50,000 vertices. Exit status: 1 if
something differs, 77 (skipped) without NetworkX.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

PACKAGE = "networkx>=2.8,<4"

if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
    sys.path.pop(0)  # this file has the name of the package
sys.path.append(sys.argv[1])
if importlib.util.find_spec("networkx") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", sys.argv[1],
                    "--disable-pip-version-check", PACKAGE])
    importlib.invalidate_caches()
try:
    import networkx as nx
    from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python as pagerank
except ImportError:
    print("skipped: no NetworkX, and pip has not installed", PACKAGE)
    sys.exit(77)

MOST_VERTICES = 50000
NOT_REACHED = 2**32 - 1


def read_mtx(path):
    rows = [line.split() for line in path.read_text().splitlines() if line[:1] != "%"]
    graph = nx.Graph()
    graph.add_nodes_from(range(int(rows[0][0])))
    graph.add_edges_from((int(row[0]) - 1, int(row[1]) - 1) for row in rows[1:])
    return graph


def read_metis(path):
    rows = [line.split() for line in path.read_text().splitlines() if line[:1] != "%"]
    graph = nx.Graph()
    graph.add_nodes_from(range(int(rows[0][0])))
    graph.add_edges_from((v, int(to) - 1) for v, row in enumerate(rows[1:]) for to in row)
    return graph


def made():
    yield "karate club", nx.convert_node_labels_to_integers(nx.karate_club_graph())
    yield "star", nx.star_graph(300)
    yield "path", nx.path_graph(150)
    yield "complete", nx.complete_graph(60)
    yield "no arcs", nx.empty_graph(20)
    for seed in range(3):
        yield f"barabasi-albert {seed}", nx.barabasi_albert_graph(400, 4, seed=seed)
        yield f"gnm {seed}", nx.gnm_random_graph(300, 280, seed=seed)
        yield f"directed {seed}", nx.gnm_random_graph(200, 500, seed=seed, directed=True)
        graph = nx.gnm_random_graph(100, 600, seed=seed)
        graph.add_edges_from((v, v) for v in range(0, 100, 7))
        yield f"self loops {seed}", graph


def of_folder(folder):
    for path in sorted(folder.glob("*")) if folder else []:
        reader = {".mtx": read_mtx, ".graph": read_metis}.get(path.suffix)
        if reader:
            graph = reader(path)
            if graph.number_of_nodes() <= MOST_VERTICES:
                yield path.name, graph


def arcs_of(graph):
    return list(graph.to_directed().edges())


def run(program, graph, naive):
    arcs = arcs_of(graph)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(f"{graph.number_of_nodes()} {len(arcs)}\n")
        file.writelines(f"{v} {w}\n" for v, w in arcs)
        file.flush()
        text = subprocess.run([program, file.name] + ["naive"] * naive, check=True, text=True,
                              capture_output=True).stdout
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()}


def expected(graph):
    n = graph.number_of_nodes()
    plain = nx.Graph(graph)
    plain.remove_edges_from(list(nx.selfloop_edges(plain)))
    result = {"pagerank": pagerank(graph, tol=1e-10 / n, max_iter=1000, weight=None)}
    if not graph.is_directed():
        triangles = nx.triangles(plain)
        total = sum(triangles.values()) // 3
        result["triangles"] = [total] + [triangles[v] for v in range(n)]
        rest = plain.copy()
        rest.remove_edges_from(arcs_of(graph)[::3])
        result["of_third"] = [total - sum(nx.triangles(rest).values()) // 3]
    label = {v: min(part) for part in nx.connected_components(plain) for v in part}
    result["components"] = [label[v] for v in range(n)]
    level = nx.single_source_shortest_path_length(graph, 0)
    result["bfs"] = [level.get(v, NOT_REACHED) for v in range(n)]
    return result


def differ(wanted, found):
    rank = wanted["pagerank"]
    if any(abs(float(x) - rank[v]) > 2e-6 * rank[v] for v, x in enumerate(found["pagerank"])):
        yield "pagerank"
    for name, numbers in wanted.items():
        if name != "pagerank" and list(map(int, found[name])) != numbers:
            yield name


def main():
    program = sys.argv[2]
    folder = sys.argv[3] if len(sys.argv) > 3 else os.environ.get("WH_TEST_GRAPHS")
    failed = n = 0
    for name, graph in [*made(), *of_folder(folder and pathlib.Path(folder))]:
        wanted = expected(graph)
        for naive in (False, True):
            wrong = list(differ(wanted, run(program, graph, naive)))
            n += 1
            failed += bool(wrong)
            if wrong:
                print(f"FAIL {name}{' (naive)' if naive else ''}: {', '.join(wrong)}")
    print(f"{n - failed} of {n} as NetworkX says")
    return failed != 0


sys.exit(main())
