#!/usr/bin/env python3
"""live.py: in which registers the kernels of live_user.cu keep what they need after a call. ptxas
compiles calls of functions for a convention by which the callee may overwrite R2, R32 to R35, R40
to R43 and so on. A call of a malloc or free that it does not see is for CUDA's, which keeps these:
one that keeps values there must not get ours (docs/REPLACE_MALLOC.md). Where a kernel has a copy of
malloc for itself, compiled with it, there is no convention.

    live.py <nvcc> <cubin> [special]

Exit status: 0, the usual convention; 1, not; 77, there is no nvdisasm. With the word `special`
it only says what it found: for a call of CUDA's.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

KERNELS = ("live_malloc", "live_free")
VALUES = 24
SCRATCH = {2} | {n for n in range(32, 256) if n % 8 < 4}
LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)\s*(.*?);")


def disassembled(nvcc, cubin):
    """Machine code as text; None: there is no nvdisasm."""
    beside = pathlib.Path(os.path.realpath(nvcc)).parent / "nvdisasm"
    program = str(beside) if beside.is_file() else shutil.which("nvdisasm")
    if program is None:
        return None
    return subprocess.run([program, "-c", str(cubin)], check=True, capture_output=True,
                          text=True).stdout


def kernels(text):
    """The instructions of each kernel: pairs of a name and its operands."""
    found, own = {}, None
    for line in text.splitlines():
        begin = re.match(r"\.text\.(\w+):", line)
        if begin is not None:
            own = found.setdefault(begin[1], [])
        said = LINE.search(line)
        if said is not None and own is not None:
            own.append((said[1], said[2]))
    return {name: found.get(name, []) for name in KERNELS}


def kept(code):
    """Registers of the values: stored behind the barrier, and not loaded from the stack after the
    first call."""
    names = [name for name, _ in code]
    call = next((i for i, name in enumerate(names) if name.startswith("CALL")), None)
    barrier = next((i for i, name in enumerate(names) if name.startswith("BAR.")), len(code))
    if call is None or barrier < call:
        return set()
    own, loaded = set(), set()
    for i, (name, operands) in enumerate(code[call:], call):
        registers = [int(n) for n in re.findall(r"(?<![A-Z])R(\d+)", operands)]
        if name.startswith("LDL") and registers:
            loaded.add(registers[0])
        elif re.match(r"STG?\.", name) and i > barrier:
            own.add(registers[-1])
    return own - loaded


def check(nvcc, cubin, special=False):
    """An exit status, and what is to be said."""
    text = disassembled(nvcc, cubin)
    if text is None:
        return 77, "registers across calls are not looked at: there is no nvdisasm"
    status, said = 0, []
    for name, code in kernels(text).items():
        own = kept(code)
        wrong = sorted(own & SCRATCH)
        calls = [operands for op, operands in code if op.startswith("CALL")]
        if calls and all(callee.startswith("`($") for callee in calls):
            said.append(f"{name}: compiled with its own copy")
        elif len(own) < VALUES // 2:
            status = 1
            said.append(f"{name}: the values are not found, but in {sorted(own)}")
        elif wrong and not special:
            status = 1
            said.append(f"{name} keeps values across its call in {wrong}")
        elif special:
            said.append(f"{name}, of CUDA's malloc: {'a special' if wrong else 'the usual'} "
                        "convention")
        else:
            said.append(f"{name}: the usual convention")
    return status, "\n".join(said)


def main():
    status, said = check(sys.argv[1], sys.argv[2], sys.argv[3:] == ["special"])
    print(said)
    return status


if __name__ == "__main__":
    sys.exit(main())
