#!/usr/bin/env python3
"""sass_same.py: proves that the kernels of two source trees are the same machine code.

    tools/sass_same.py TREE_A TREE_B [--allocator tessera] [--arch sm_90] [--only REGEX]

It compiles each tree's kernel files (*_kernels.c and alloc_ops.c) for one allocator as the release
build does, disassembles them and compares function by function. What may differ: names, labels,
the order of functions and the file that a function is in. A kernel is the same if its own
instructions and those of all functions that it calls are.

A cubin is kept under a key made of the preprocessed source, so a second run compiles only what has
changed. Needs nvcc, and nvdisasm: on PATH, beside nvcc, or of pip's nvidia-cuda-nvdisasm, which
it installs into its cache folder. --only compiles the files whose names match.

Exit status: 0 if all are the same, 1 if not, 2 if something failed.
"""
import argparse
import collections
import concurrent.futures
import difflib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

KERNELS = re.compile(r"(_kernels|/alloc_ops)\.c$")
SECTION = re.compile(r"^\s*\.section\s+([^,\s]+)")
LABEL = re.compile(r"^(\S+):\s*$")
TEXT = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(\S.*?)\s*;?\s*$")
TARGET = re.compile(r"`\(([^)]*)\)")
IMMEDIATE = re.compile(r"\b0x[0-9a-f]+\b")
DATA = re.compile(r"\.nv\.(constant[1-9]|global)")


def run(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, **more).stdout


def nvdisasm(nvcc, cache):
    """Path of the disassembler."""
    def look():
        found = shutil.which("nvdisasm") or str(pathlib.Path(nvcc).parent / "nvdisasm")
        return next((str(p) for p in [pathlib.Path(found), *cache.glob("pip/nvidia/*/bin/nvdisasm")]
                     if p.is_file()), None)
    if not look():
        run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--root-user-action", "ignore", "--target", str(cache / "pip"), "nvidia-cuda-nvdisasm")
    return look()


def kernel_files(tree, only):
    """Paths in the tree of the files that nvcc compiles for each allocator."""
    names = run("git", "-C", str(tree), "ls-files", "-co", "--exclude-standard", text=True)
    return sorted(name for name in names.splitlines() if KERNELS.search("/" + name)
                  and re.search(only, name) and "fault" not in name and (tree / name).is_file())


def family(tree, allocator):
    """The family of an allocator, from the list of them: what WH_FAMILY_OF_ says or, in older
    trees, the second word of the entry."""
    text = next((tree / "include").rglob("alloc/list.h")).read_text()
    found = re.search(rf"X\({allocator},\s*(\w+)|WH_FAMILY_OF_{allocator} (\w+)", text)
    return found[1] or found[2]


def preprocess(tree, name, arguments):
    """Where the cubin of a file of a tree is kept, and the command that makes it."""
    command = [arguments.nvcc, "-x", "cu", "-O3", "-DNDEBUG", "-std=c++17",
               f"-arch={arguments.arch}", "-DWH_HAVE_CUDA=1",
               f"-DWH_ALLOCATOR={arguments.allocator}",
               f"-DWH_ALLOCATOR_FAMILY={family(tree, arguments.allocator)}", "-Iinclude", "-I.",
               "-Isrc", "-Itests", "-Itests/common"]
    text = run(*command, "-E", name, cwd=tree, text=True)
    text = re.sub(r"\s+", " ", re.sub(r"(?m)^#.*$", "", text))
    version = run(arguments.nvcc, "--version", text=True)
    key = hashlib.sha256("\n".join([version, *command[1:], text]).encode()).hexdigest()[:24]
    return arguments.cache / f"{key}.cubin", (tree, name, command)


def compile_missing(path, tree, name, command):
    if not path.is_file():
        print(f"sass_same: compiling {tree / name}", file=sys.stderr, flush=True)
        fresh = path.with_suffix(f".{os.getpid()}.tmp")
        run("nice", "-n", "5", *command, "-cubin", "-o", str(fresh), name, cwd=tree)
        fresh.rename(path)


def functions(text):
    """{(section, name): [(address, instruction)]} and {(section, label): address}; the words of
    a section of data are the instructions of a function."""
    code, labels, section, name = collections.defaultdict(list), {}, "", ""
    for line in text.splitlines():
        if found := SECTION.match(line):
            section = name = found[1]
        elif not section.startswith(".text.") and not DATA.match(section):
            continue
        elif found := LABEL.match(line):
            labels[section, found[1]] = (name, len(code[section, name]))
            if not found[1].startswith(".L_"):
                name = found[1]
        elif found := TEXT.match(line):
            code[section, name].append((int(found[1], 16), found[2]))
    return {key: body for key, body in code.items() if body}, labels


def normal(key, code, labels):
    """The instructions of a function without addresses: a place in the function is its distance,
    a called function is (section, name), to be replaced by what it is."""
    section, name = key
    body = list(code[key])
    while body and body[-1][1] == "NOP":
        body.pop()
    base = body[0][0] if body else 0
    returns = {address + 16 for address, text in body if "CALL" in text}

    def immediate(found):
        value = int(found[0], 16)
        return f"return+{value - base:#x}" if value in returns else found[0]

    lines = []
    for k, (_, text) in enumerate(body):
        calls = None
        if target := TARGET.search(text):
            owner, index = labels.get((section, target[1]), ("", 0))
            if target[1].startswith(".L_"):
                place = f"{index - k:+d}" if owner == name else "elsewhere"
            elif "CALL" in text:
                place, calls = "callee", (section, target[1])
            else:
                place = "kernel"
            text = TARGET.sub(place, text)
        elif "MOV" in text:
            text = IMMEDIATE.sub(immediate, text)
        lines.append((text, calls))
    return lines


def digests(path, disassembler):
    """[(digest, name, lines)] of a cubin's functions."""
    code, labels = functions(run(disassembler, str(path), text=True))
    bodies = {key: normal(key, code, labels) for key in code}
    known = {}
    for _ in range(6):  # calls this deep
        known = {key: hashlib.sha256("\n".join(
            f"{text} {known.get(calls, '') if calls else ''}" for text, calls in body)
            .encode()).hexdigest() for key, body in bodies.items()}
    return [(known[key], re.sub(r"_INTERNAL_\w*?_cu_[0-9a-f]{8}", "", key[1]),
             [text for text, _ in body]) for key, body in bodies.items()]


def show(a, b):
    """A short diff of functions that only one tree has, paired by name, the rest by order."""
    named = {name: (name, lines) for _, name, lines in b}
    pairs = [(one, named.pop(one[1], None)) for one in a]
    rest = list(named.values())
    for (_, name, lines), other in pairs:
        other = other or (rest.pop(0) if rest else ("nothing", []))
        if lines == other[1]:
            print(f"  {name}: a called function differs")
            continue
        print(f"  {name} ({len(lines)}) and {other[0]} ({len(other[1])} instructions)")
        k = next((k for k, (x, y) in enumerate(zip(lines, other[1])) if x != y),
                 min(len(lines), len(other[1])))
        diff = difflib.unified_diff(lines[k:k + 40], other[1][k:k + 40], n=1, lineterm="")
        for line in list(diff)[2:14]:
            print(f"    {line}")
    for name, _ in rest:
        print(f"  nothing in A and {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trees", nargs=2, type=pathlib.Path, metavar="TREE")
    parser.add_argument("--allocator", default="tessera")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--only", default="", help="a regular expression for paths of files")
    parser.add_argument("--cache", type=pathlib.Path, help="instead of ~/.cache/warpheap-sass")
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    arguments = parser.parse_args()
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    arguments.cache = (arguments.cache or home / "warpheap-sass").resolve()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    try:
        disassembler = nvdisasm(arguments.nvcc, arguments.cache)
        work = [(k, tree.resolve(), name) for k, tree in enumerate(arguments.trees)
                for name in kernel_files(tree, arguments.only)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            made = list(pool.map(lambda w: preprocess(w[1], w[2], arguments), work))
            list(pool.map(lambda item: compile_missing(item[0], *item[1]), dict(made).items()))
            each = [collections.Counter(path for w, (path, _) in zip(work, made) if w[0] == k)
                    for k in (0, 1)]
            same = sum((each[0] & each[1]).values())
            found = [[entry for part in pool.map(lambda p: digests(p, disassembler),
                                                 (each[k] - each[1 - k]).elements())
                      for entry in part] for k in (0, 1)]
    except (OSError, TypeError, StopIteration, subprocess.CalledProcessError) as error:
        print(f"sass_same: {error}", file=sys.stderr)
        return 2
    count = [collections.Counter(digest for digest, _, _ in part) for part in found]
    left = [[entry for entry in found[k] if entry[0] in count[k] - count[1 - k]] for k in (0, 1)]
    show(*left)
    print(f"sass_same: {same} files with the same source, {len(found[0])} and {len(found[1])} "
          f"functions in the others, {len(left[0])} and {len(left[1])} of them without an equal")
    return 0 if work and not left[0] and not left[1] else 1


if __name__ == "__main__":
    sys.exit(main())
