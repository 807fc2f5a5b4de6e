#!/usr/bin/env python3
"""sass_same.py: proves that the kernels of two trees are the same machine code but for names.

    tools/sass_same.py TREE_A TREE_B [--allocator tessera] [--arch sm_90] [--only REGEX]

It compiles each tree's kernel files (*_kernels.c and alloc_ops.c) for one allocator as the release
build does, to PTX. A kernel is compared together with all functions that it calls: these are put
in the order of the calls and get new names. If that text is the same in both trees, so is what
ptxas makes of it. If not, it compiles and disassembles both texts and compares the instructions.

(Names as they are would not do: ptxas compiles functions in the order of their names, and gives
them registers in that order. So another name alone can change the machine code of a kernel.)

What was compiled is kept under a key made of its source, so a second run compiles only what has
changed. --only: the files whose paths match. Needs nvcc, and nvdisasm: on PATH, beside nvcc, or of
pip's nvidia-cuda-nvdisasm, which it installs into its cache folder.

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
NAME = re.compile(r"[A-Za-z_$][\w$]*")
FUNCTION = re.compile(r"\.(func|entry)\s+(?:\([^)]*\)\s*)?([\w$]+)")
VARIABLE = re.compile(r"\.(?:global|const|shared)\b[^;={]*?([A-Za-z_$][\w$]*)(?:\[[^]]*\]|\s)*[;=]")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(\S.*?)\s*(?:\(\*.*)?;?\s*(?:\(\*.*)?$")


def run(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def disassemble(cubin, arguments):
    """The instructions of a cubin, a line each, without addresses."""
    def look():
        paths = [shutil.which("nvdisasm") or "", os.path.dirname(arguments.nvcc) + "/nvdisasm",
                 *map(str, arguments.cache.glob("pip/nvidia/*/bin/nvdisasm"))]
        return next((path for path in paths if os.path.isfile(path)), None)
    if not look():
        run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--target", str(arguments.cache / "pip"), "nvidia-cuda-nvdisasm")
    lines = run(look(), "-c", str(cubin)).splitlines()
    return [found[1] if found else line.strip() for line in lines
            if (found := INSTRUCTION.match(line)) or line.startswith((".L_", "$", "."))]


def kernel_files(tree, only):
    """Paths in the tree of the files that nvcc compiles for each allocator."""
    names = run("git", "-C", str(tree), "ls-files", "-co", "--exclude-standard").splitlines()
    return sorted(name for name in names if KERNELS.search("/" + name)
                  and re.search(only, name) and (tree / name).is_file())


def cached(arguments, text, kind, make):
    """The file of the cache that make(path) writes, which depends on the text alone."""
    key = hashlib.sha256((arguments.version + arguments.arch + text).encode()).hexdigest()[:24]
    path = arguments.cache / f"{key}.{kind}"
    if not path.is_file():
        fresh = path.with_suffix(f".{os.getpid()}.tmp")
        make(str(fresh))
        fresh.rename(path)
    return path


def ptx(tree, name, arguments):
    """The PTX of a file of a tree."""
    listed = next((tree / "include").rglob("alloc/list.h")).read_text()
    ident = arguments.allocator  # older trees have the family in the list's entry
    family = re.search(rf"(?:X\({ident},\s*|WH_FAMILY_OF_{ident} )(\w+)", listed)[1]
    command = [arguments.nvcc, "-x", "cu", "-O3", "-DNDEBUG", "-std=c++17",
               f"-arch={arguments.arch}", "-DWH_HAVE_CUDA=1",
               f"-DWH_ALLOCATOR={arguments.allocator}", f"-DWH_ALLOCATOR_FAMILY={family}",
               "-Iinclude", "-I.", "-Isrc", "-Itests", "-Itests/common"]
    text = run(*command, "-E", name, cwd=tree)
    text = re.sub(r"\s+", " ", re.sub(r"(?m)^#.*$", "", text))
    return cached(arguments, " ".join(command) + text, "ptx", lambda path: run(
        "nice", "-n", "5", *command, "-ptx", "-o", path, name, cwd=tree)).read_text()


def split(text):
    """What the lines of PTX begin with, and {name: text} of its functions and variables."""
    head, items, item, depth = [], {}, [], 0
    for line in re.sub(r"//[^\n]*", "", text).splitlines():
        if not line.strip() or line.lstrip().startswith((".loc ", ".loc\t", ".file")):
            continue
        if not item and line.startswith((".version", ".target", ".address_size")):
            head.append(line)
            continue
        item.append(line.rstrip())
        depth += line.count("{") - line.count("}")
        if depth == 0 and line.rstrip().endswith((";", "}")):
            whole, item = "\n".join(item), []
            function = FUNCTION.search(whole.splitlines()[0] + whole)
            found = function or VARIABLE.search(whole)
            if not function or "{" in whole or ".extern" in whole:
                items[found[2 if function else 1]] = whole
    return "\n".join(head), items


def kernels(text):
    """{name: PTX of the kernel and of all that it calls, with new names}."""
    head, items = split(text)
    result = {}
    for kernel in [name for name, item in items.items() if re.match(r"[^\n]*\.entry\b", item)]:
        order = []

        def visit(name, above=()):
            for other in NAME.findall(items[name]):
                if other in items and other not in order and other not in above + (name,):
                    visit(other, above + (name,))
            if name not in order:
                order.append(name)

        visit(kernel)
        renamed = {name: f"f{k}" for k, name in enumerate(order) if ".extern" not in items[name]}
        parts = [head]
        for k, name in enumerate(order):
            def new(found, own=f"{name}_param_", k=k):
                word = found[0]
                if word.startswith(own):
                    return f"f{k}_param_{word[len(own):]}"
                local = re.sub(r"^(\$L__BB|__local_depot)\d+", rf"\g<1>{k}", word)
                return renamed.get(word, local)
            parts.append(NAME.sub(new, items[name]))
        result[kernel] = "\n".join(parts) + "\n"
    return result


def compare(name, texts, arguments):
    """Whether two kernels are the same instructions; prints where they begin to differ."""
    def assemble(text):
        ptxas = os.path.dirname(arguments.nvcc) + "/ptxas"

        def make(path):
            pathlib.Path(path + ".ptx").write_text(text)
            run("nice", "-n", "5", ptxas, f"-arch={arguments.arch}", "-o", path, path + ".ptx")
            os.remove(path + ".ptx")
        return disassemble(cached(arguments, text, "cubin", make), arguments)
    a, b = map(assemble, texts)
    if a == b:
        return True
    print(f"{name}: {len(a)} and {len(b)} lines of SASS")
    for kind, one, two in (("PTX", *(text.splitlines() for text in texts)), ("SASS", a, b)):
        pairs = list(zip(one, two))
        k = next((k for k, (x, y) in enumerate(pairs) if x != y), len(pairs))
        print(f"  {kind} from line {k}:")
        diff = difflib.unified_diff(one[max(0, k - 2):k + 30], two[max(0, k - 2):k + 30], n=2,
                                    lineterm="")
        print(*(f"    {line}" for line in list(diff)[2:14]), sep="\n")
    return False


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
    try:
        arguments.cache.mkdir(parents=True, exist_ok=True)
        arguments.version = run(arguments.nvcc, "--version")
        work = [(k, tree.resolve(), name) for k, tree in enumerate(arguments.trees)
                for name in kernel_files(tree, arguments.only)]
        found = [collections.defaultdict(list), collections.defaultdict(list)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for (k, _, file), text in zip(work, pool.map(lambda w: ptx(*w[1:], arguments), work)):
                for name, body in kernels(text).items():
                    found[k][body].append(f"{os.path.basename(file)}: {name}")
        count = [sum(map(len, part.values())) for part in found]
        left = [[(name, body) for body, names in found[k].items()
                 for name in names[len(found[1 - k].get(body, ())):]] for k in (0, 1)]
        print(f"sass_same: {count[0]} and {count[1]} kernels, {len(left[0])} and {len(left[1])} "
              "with PTX of their own", flush=True)
        others = dict(left[1])
        bad = 0
        for name, body in left[0]:
            other = name if name in others else next(iter(others), None)
            if other is None or not compare(name, (body, others.pop(other)), arguments):
                bad += 1
        bad += len(others)
    except (OSError, TypeError, StopIteration, subprocess.CalledProcessError) as error:
        print(f"sass_same: {error}", file=sys.stderr)
        return 2
    print(f"sass_same: {bad} kernels differ")
    return 0 if count[0] and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
