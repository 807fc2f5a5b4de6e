#!/usr/bin/env python3
"""sass_votes.py: looks in compiled kernels for votes that may count a part of a warp only.

    tools/sass_votes.py OBJECT...     (of nvcc: .o, .cubin)

Before a vote or shuffle of a full warp ptxas has a check whether the warp is together (BRA.DIV); if
not, the lanes wait for each other (WARPSYNC.COLLECTIVE). It leaves the check out where one before
found the warp together, and takes no notice of a call in between, though lanes may come back from
a function in parts (include/warpheap/detail/simt/cuda.h). Such a vote is right until they do: tests
on the simulated device do not see it, those on a GPU may not either. This follows all ways through
each function and prints those that lead from a call to a vote without a check.

(The compiler's own divisions do not count as calls.)

It needs cuobjdump and nvdisasm: on PATH, beside nvcc, or of pip's nvidia-cuda-cuobjdump and
nvidia-cuda-nvdisasm. Exit status: 1 if there is such a vote, 2 if something failed; 77 if the two
programs are not there.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MISSING = 77
BLOCK = re.compile(r"^([.$\w][^\s/]*):\s*$")
TEXT = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;?\s*$")
TARGET = re.compile(r"`\((\.L_x_\d+)\)")


def tool(name):
    """Path of cuobjdump or nvdisasm, or None."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    places = [pathlib.Path(nvcc).resolve().parent]
    for folder in sys.path:
        places += pathlib.Path(folder).glob("nvidia/*/bin")
    return shutil.which(name) or next(
        (str(p / name) for p in places if (p / name).is_file()), None)


def cubins(path, cuobjdump, folder):
    """The cubins in an object, as files in folder."""
    if path.suffix == ".cubin":
        return [path]
    subprocess.run([cuobjdump, "-xelf", "all", str(path.resolve())], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    return sorted(folder.glob("*.cubin"))


def functions(text):
    """(name, instructions, where each label is) of each function; an instruction: (predicate,
    name, operands)."""
    name, code, labels = None, [], {}
    for line in text.splitlines():
        block = BLOCK.match(line)
        if block and block[1].startswith(".L_"):
            labels[block[1]] = len(code)
        elif block:
            if code:
                yield name, code, labels
            name, code, labels = block[1], [], {}
        else:
            found = TEXT.match(line)
            if found:
                code.append((found[1], found[2], found[3]))
    if code:
        yield name, code, labels


def asks(code, k):
    """Whether instruction k is a vote or shuffle of lanes that are meant to be all of a mask: not
    activemask, which votes on nothing, nor the shuffle behind one in an atomic that the compiler
    makes for all lanes that are here."""
    _, op, operands = code[k]
    if op.startswith("VOTE."):
        return not operands.endswith("PT, PT")
    by_compiler = any(before.startswith("VOTEU") for _, before, _ in code[max(0, k - 40):k])
    return op.startswith("SHFL.") and not by_compiler


def unchecked(code, labels):
    """Places of votes that a call reaches without a check."""
    reached = set()
    todo = collections.deque(k + 1 for k, (_, op, operands) in enumerate(code)
                             if op.startswith("CALL") and "$__internal_" not in operands)
    bad = []
    while todo:
        k = todo.popleft()
        while k < len(code) and k not in reached:
            reached.add(k)
            predicate, op, operands = code[k]
            if op.startswith("BRA.DIV") or op.startswith("WARPSYNC.COLLECTIVE"):
                break
            if asks(code, k):
                bad.append(k)
            target = TARGET.search(operands) if op.startswith("BRA") else None
            if target and target[1] in labels:
                todo.append(labels[target[1]])
            if predicate is None and op.split(".")[0] in ("BRA", "RET", "EXIT", "BRX", "JMP"):
                break
            k += 1
    return sorted(bad)


def short(name):
    """Of the mangled name of a function in a kernel, the function's."""
    found = re.search(r"(\d\d)(wh_\w+)", name.split("$")[-1])
    return found[2][:int(found[1])] if found else name


def look(path, cuobjdump, nvdisasm):
    """(how many functions an object has, a line for each vote found)."""
    count, lines = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for cubin in cubins(path, cuobjdump, pathlib.Path(folder)):
            text = subprocess.run([nvdisasm, "-c", str(cubin)], check=True, text=True,
                                  stdout=subprocess.PIPE).stdout
            for name, code, labels in functions(text):
                count += 1
                lines += [f"{path}: {short(name)}: instruction {k}: {' '.join(code[k][1:])}"
                          for k in unchecked(code, labels)]
    return count, lines


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("objects", nargs="+", type=pathlib.Path)
    objects = arguments.parse_args().objects
    cuobjdump, nvdisasm = tool("cuobjdump"), tool("nvdisasm")
    if cuobjdump is None or nvdisasm is None:
        print("sass_votes: skipped, there is no cuobjdump and nvdisasm (pip install "
              "nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm)")
        return MISSING
    for path in objects:
        if not path.is_file():
            print(f"sass_votes: {path}: no such file", file=sys.stderr)
            return 2
    try:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(lambda path: look(path, cuobjdump, nvdisasm), objects))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"sass_votes: {error}", file=sys.stderr)
        return 2
    for _, lines in found:
        for line in lines:
            print(line)
    bad = sum(len(lines) for _, lines in found)
    print(f"sass_votes: {sum(count for count, _ in found)} functions, {bad} votes behind a call "
          "without a check")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
