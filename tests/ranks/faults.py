#!/usr/bin/env python3
"""faults.py MPIRUN PROGRAM: ranks that end, hang, or do something else than the others.

Rank 1 of 2 or 4 fails in the way that the program is told. All others must end within LIMIT
seconds and name rank 1 with the reason. By default mpirun ends all ranks when one has ended
wrongly, and names it; with --enable-recovery it leaves them alone, and it is on them to notice.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import time

LIMIT = 60  # a rank waits 3 seconds for another one; the rest is a machine with much to do
AT_ONCE = 4  # most of the time they wait

# name: what each rank but rank 1 says (rank 1, too, if it is late only); whether mpirun is to leave
# them alone
FAULTS = {
    "kill": (r"DEVICE_ERROR: rank 1 did not come .* it has ended, or hangs", True),
    "exit": (r"DEVICE_ERROR: rank 1 did not come .* it has ended, or hangs", True),
    "any": (r"DEVICE_ERROR: rank 1 did not come .* it has ended, or hangs", True),
    "batch": (r"DEVICE_ERROR: rank 1 did not come .* it has ended, or hangs", True),
    "batch-fewer": (r"BAD_ARGUMENT: rank 1 is in its call \d+, close; rank 0 in its call", False),
    "join": (r"DEVICE_ERROR: rank 1 did not come .* it has ended, or hangs", True),
    "hang": (r"DEVICE_ERROR: rank 1 did not come .* it has ended, or hangs", False),
    "late": (r"DEVICE_ERROR: rank 1 did not come .* it has ended, or hangs", False),
    "absent": (r"in open: WH_DEVICE_ERROR: rank 1 did not open the communicator", True),
    "fewer": (r"BAD_ARGUMENT: rank 1 is in its call \d+, close; rank 0 in its call", False),
    "version": (r"in open: WH_WRONG_BUILD: rank 1 is of version 1, rank 0 of version \d+", False),
}


# Over sockets, as between machines, where MPI itself notices that a peer has ended.
TCP = {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "lo"}


def run(mpirun, ranks, program, words, recover, environment=None):
    command = [mpirun] + (["--enable-recovery"] if recover else []) + ["-n", str(ranks)]
    begin = time.monotonic()
    try:
        done = subprocess.run(command + [program] + words, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False,
                              env={**os.environ, **(environment or {})})
    except subprocess.TimeoutExpired as error:
        return None, f"it has not ended: {error.output}"
    if time.monotonic() - begin > LIMIT:
        return None, done.stdout
    return done.returncode, done.stdout


def check(mpirun, program, name, ranks, seed, environment=None):
    expected, recover = FAULTS[name]
    code, text = run(mpirun, ranks, program, [name, str(seed)], recover, environment)
    wrong = code is None or "is broken" in text
    for rank in range(ranks):
        said = re.findall(rf"^rank {rank} ends (.*)$", text, re.M)
        if (rank != 1 or name == "late") and (len(said) != 1 or not re.search(expected, said[0])):
            wrong = True
    if wrong:
        print(f"{name}, {ranks} ranks, seed {seed}, {environment}: expected of all but rank 1: "
              f"{expected}\n{text}")
    return wrong


def check_mpirun(mpirun, program):
    """mpirun alone: it ends the others, and names the rank."""
    code, text = run(mpirun, 4, program, ["kill"], False)
    wrong = code in (None, 0) or not re.search(r"process rank 1 .*signal 9|rank 1 did not come",
                                               text)
    if wrong:
        print(f"kill, by mpirun: status {code}\n{text}")
    return wrong


def main():
    mpirun, program = sys.argv[1:3]
    version = subprocess.run([mpirun, "--version"], stdout=subprocess.PIPE, text=True, check=False)
    if not re.search("Open MPI|OpenRTE", version.stdout):
        print("left out: --enable-recovery is of Open MPI's mpirun")
        return 77
    seeds = int(os.environ.get("WH_TEST_SEEDS", "3"))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [pool.submit(check_mpirun, mpirun, program)]
        runs += [pool.submit(check, mpirun, program, name, ranks, seed)
                 for name in FAULTS for ranks in (2, 4)
                 for seed in range(seeds if name in ("any", "batch", "join") else 1)]
        runs += [pool.submit(check, mpirun, program, name, 4, 0, TCP)
                 for name in ("kill", "batch", "fewer")]
        wrong = [each.result() for each in runs]
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
