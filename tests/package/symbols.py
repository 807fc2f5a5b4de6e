#!/usr/bin/env python3
"""symbols.py: a shared library exports what its headers declare, what symbols.c adds for other
languages, and nothing else.

    symbols.py <C compiler> <source folder> <libwarpheap.so | libwarpheap_graph.so | ...>

The public functions have the version that the library had when they came (WARPHEAP_0.2). What
the inline functions of simt/ call, and extensions, has the version WARPHEAP_PRIVATE.
Exit status 77: no nm here.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path


class Library:
    """What a library is made of: its map, functions that are inline in the headers, its headers
    (those of a folder whose names match), and what it lends to other libraries of ours."""

    EXTENSIONS = {
        "graph": (["graph.h", "graph_algorithms.h", "graph_device.h", "graph_vertices.h"],
                  {"wh_graph_create", "wh_graph_bfs", "wh_graph_copy_handle"}),
        "ops": (["ops.h"], {"wh_join_create", "wh_join_pages", "wh_group_get_lists_for"}),
        "kdtree": (["kdtree.h", "kdtree_device.h"], {"wh_kdtree_create", "wh_kdtree_check"}),
        "checkpoint": (["checkpoint.h"], {"wh_heap_save", "wh_heap_load"}),
    }

    def __init__(self, name):
        match = re.match(r"libwarpheap_(\w+)\.so", name)
        self.extension = match[1] if match else ""
        self.map = f"cmake/{Path(name).stem.removeprefix('lib')}.map"
        self.inline = f"src/{self.extension or 'host'}/symbols.c"
        self.lent = [] if self.extension else [
            f"src/host/{name}.h" for name in ("image", "last_error", "nvtx_internal", "structs")]
        self.headers, self.known = self.EXTENSIONS.get(self.extension, (
            ["warpheap.h", "warpheap_abi.h", "options.h", "gauge.h", "snapshot.h", "nvtx.h",
             "heap_calls.h"],
            {"wh_heap_create", "wh_device_close", "wh_status_name", "wh_sim_launch",
             "whi_sim_self", "whi_refuse"}))

    def has(self, header):
        """Whether functions of a header are this library's."""
        _, ours, name = header.partition("/include/warpheap/")
        of = next((e for e in self.EXTENSIONS if re.match(rf"(detail/)?{e}[./_]", name)), "")
        return ours != "" and of == self.extension


def declared(compiler, source, library):
    """Names of functions and variables with external linkage, and the file of each."""
    public = "".join(f"#include <warpheap/{header}>\n" for header in library.headers)
    text = subprocess.run([compiler, "-E", "-std=c11", "-I", source / "include", "-x", "c", "-"],
                          input=public, check=True,
                          capture_output=True, text=True).stdout
    names = {}
    depth = 0
    header = statement = ""
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            header = marker[1]
            continue
        for token in re.findall(r"[{};]|[^{};]+", line + " "):
            depth += (token == "{") - (token == "}")
            if depth > 0:
                continue
            if token not in "};":
                statement += token
                continue
            if library.has(header) and not re.match(r"\s*(static|typedef)\b", statement):
                name = re.search(r"\b(whi?_\w+)\s*(\(|__attribute__|$)", statement.strip())
                if name and ("(" in statement or statement.strip().startswith("extern")):
                    names[name[1]] = header[header.index("/include/warpheap/") + 1:]
            statement = ""
    for name in re.findall(r"^SYMBOL\((\w+)", (source / library.inline).read_text(), re.M):
        names[name] = library.inline
    for lent in library.lent:
        for name in re.findall(r"^\w+ (whi_\w+)\(", (source / lent).read_text(), re.M):
            names[name] = lent
    return names


def exported(library):
    """Names that the library exports, and the version of each."""
    text = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                          capture_output=True, text=True).stdout
    names = {}
    for line in text.splitlines():
        kind, symbol = line.split()[-2:]
        name, _, version = symbol.partition("@")
        if kind != "A":  # the version itself
            names[name] = version.lstrip("@")
    return names


def main():
    compiler, source = sys.argv[1], Path(sys.argv[2]).resolve()
    library = Library(Path(sys.argv[3]).name)
    if shutil.which("nm") is None:
        print("skipped: there is no nm")
        return 77
    headers, symbols = declared(compiler, source, library), exported(sys.argv[3])
    if not library.known <= headers.keys():
        print(f"the headers could not be read: found {sorted(headers)}")
        return 1
    listed = (source / library.map).read_text()
    wrong = []
    for name, header in sorted(headers.items()):
        private = "/simt/" in header or header in library.lent
        node = "WARPHEAP_PRIVATE" if private else "the newest WARPHEAP_<version>"
        if name not in symbols and not re.search(rf"\b{name};", listed):
            wrong.append(f"{name} of {header} is not exported: add it to {node} in {library.map}")
        elif name not in symbols:
            wrong.append(f"{name} of {header} is in {library.map} but in no source file of the "
                         "library")
        elif not re.fullmatch(r"WARPHEAP_PRIVATE" if private else r"WARPHEAP_\d.*", symbols[name]):
            wrong.append(f"{name} of {header} has the version '{symbols[name]}': "
                         f"move it to {node} in {library.map}")
    known = symbols.keys() | set(re.findall(r"^ +(\w+);", listed, re.M))
    for name in sorted(known - headers.keys()):
        wrong.append(f"no public header declares {name} (nor {library.inline}): take it "
                     f"out of {library.map}, or declare it")
    print("\n".join(wrong) or f"{len(symbols)} symbols")
    return 1 if wrong else 0


sys.exit(main())
