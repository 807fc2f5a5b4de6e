#!/usr/bin/env python3
"""symbols.py: the shared library exports what the headers declare, what src/host/symbols.c adds
for other languages, and nothing else.

    symbols.py <C compiler> <source folder> <libwarpheap.so>

The public functions have the version that the library had when they came (WARPHEAP_0.2). What
the inline functions of simt/ call has the version WARPHEAP_PRIVATE. Exit status 77: no nm here.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

MAP = "cmake/warpheap.map"
INLINE = "src/host/symbols.c"  # functions that are inline in the headers


PUBLIC = ("#include <warpheap/warpheap.h>\n"
          "#include <warpheap/options.h>\n")


def declared(compiler, source):
    """Names of functions and variables with external linkage, and the file of each."""
    text = subprocess.run([compiler, "-E", "-std=c11", "-I", source / "include", "-x", "c", "-"],
                          input=PUBLIC, check=True,
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
            if "/include/warpheap/" in header and not re.match(r"\s*(static|typedef)\b", statement):
                name = re.search(r"\b(whi?_\w+)\s*(\(|__attribute__|$)", statement.strip())
                if name and ("(" in statement or statement.strip().startswith("extern")):
                    names[name[1]] = header[header.index("/include/warpheap/") + 1:]
            statement = ""
    for name in re.findall(r"^SYMBOL\((\w+)", (source / INLINE).read_text(), re.M):
        names[name] = INLINE
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
    compiler, source, library = sys.argv[1], Path(sys.argv[2]).resolve(), sys.argv[3]
    if shutil.which("nm") is None:
        print("skipped: there is no nm")
        return 77
    headers, symbols = declared(compiler, source), exported(library)
    if not {"wh_heap_create", "wh_device_close", "wh_status_name", "wh_sim_launch",
            "whi_sim_self"} <= headers.keys():
        print(f"the headers could not be read: found {sorted(headers)}")
        return 1
    listed = (source / MAP).read_text()
    wrong = []
    for name, header in sorted(headers.items()):
        private = "/simt/" in header
        node = "WARPHEAP_PRIVATE" if private else "the newest WARPHEAP_<version>"
        if name not in symbols and not re.search(rf"\b{name};", listed):
            wrong.append(f"{name} of {header} is not exported: add it to {node} in {MAP}")
        elif name not in symbols:
            wrong.append(f"{name} of {header} is in {MAP} but in no source file of the library")
        elif not re.fullmatch(r"WARPHEAP_PRIVATE" if private else r"WARPHEAP_\d.*", symbols[name]):
            wrong.append(f"{name} of {header} has the version '{symbols[name]}': "
                         f"move it to {node} in {MAP}")
    known = symbols.keys() | set(re.findall(r"^ +(\w+);", listed, re.M))
    for name in sorted(known - headers.keys()):
        wrong.append(f"no public header declares {name} (nor {INLINE}): take it "
                     f"out of {MAP}, or declare it")
    print("\n".join(wrong) or f"{len(symbols)} symbols")
    return 1 if wrong else 0


sys.exit(main())
