#!/usr/bin/env python3
"""seeds.py: makes the seeds of the targets for libFuzzer: small files that are good, or nearly.

    seeds.py FOLDER [PROGRAM]      PROGRAM writes checkpoints: fuzz_seed_heaps"""
import gzip
import pathlib
import subprocess
import sys

MTX = b"%%MatrixMarket matrix coordinate pattern symmetric\n% c\n4 4 3\n2 1\n3 2\n4 4\n"
GRAPH = {
    b"\0" + MTX,
    b"\0%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 0.5\n3 1 -1e3\n",
    b"\1% c\n3 2\n2\n1 3\n2\n",
    b"\1" + b"3 2 011\n1 2 5\n1 1 5 3 7\n1 2 7\n",
    b"\2# c\n0 1\n1 2 100\n2,0\n",
    b"\6" + b"0\t1\n5 5\n",
    b"\3" + gzip.compress(MTX, mtime=0),
    b"\2",
}
PLY = (b"ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\n"
       b"property float z\nelement face 2\nproperty list uchar int vertex_index\nend_header\n"
       b"0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n4 0 1 2 3\n")
BINARY = PLY.split(b"end_header\n")[0].replace(b"ascii", b"binary_little_endian")
PLYS = {
    PLY,
    PLY.replace(b"\n", b"\r\n").replace(b"uchar int", b"int8 uint16"),
    BINARY + b"end_header\n" + bytes(48) + bytes([3, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0]),
    BINARY.replace(b"little", b"big") + b"comment c\nend_header\n" + bytes(50),
    PLY.replace(b"element face", b"element edge 1\nproperty double w\nelement face"),
}
# Options, then calls: what, and a number of two bytes.
CALLS = {
    bytes([8, 0, 0, 1, 0, 0]) + bytes([9, 0, 40, 4, 0, 0, 10, 1, 0, 2, 0, 0, 9, 0, 16, 3, 0, 0]),
    bytes([2, 0, 1, 1, 0, 16]) + bytes([0, 16, 0, 10, 4, 0, 1, 0, 0, 9, 0, 0, 1, 0, 0, 3, 0, 0]),
    bytes([2, 0, 1, 2, 128, 8]) +
    bytes([5, 1, 0, 10, 16, 0, 6, 0, 0, 10, 2, 0, 7, 0, 0, 8, 0, 9]),
    bytes([16, 0, 3, 0x7d, 15, 0]) +
    bytes([9, 0, 63, 9, 0, 0, 10, 3, 0, 4, 0, 0, 2, 0, 0, 9, 0, 1]),
    bytes([0, 1, 128, 0, 0, 0]) + bytes([9, 0, 1]),
}

# A snapshot, checked and not: docs/LEAKS.md has the form.
HEAD = (b'{"snapshot":{"format":"warpheap snapshot","version":1,"allocator":"t","device":"s","pid":'
        b'7,"created_ns":1,"time_ns":2,"base":4096,"chunk_bytes":1024,"chunks":5,"heap_bytes":9,'
        b'"metadata_bytes":1,"used_bytes":40,"live_blocks":2,"largest_free":0,"failed":0,'
        b'"bad_frees":0,')
PIECES = (b'"pieces":[[0,1,"slab",64,16,1,1,9],[1,1,"free"],[2,1,"absent"],[3,2,"large",1,0]],'
          b'"blocks":[')
END = b'"end":{"pieces":4,"blocks":2,"sites":'
SNAPSHOTS = {
    HEAD + b'"checked":true,"mark":2},' + PIECES +
    b'[64,64,40,0,0,5,1],[3072,2048,9,1,null,null,null]],"sites":[["<a>\\u00e9.cu",7],["",3]],'
    + END + b"2}}",
    HEAD + b'"checked":false},' + PIECES + b'[64,64],[3072,2048]],"sites":[],' + END + b"0}}",
    HEAD + b'"checked":false},"pieces":[[0,6,"other"]]',
    b"",
}


def write(folder, name, seeds):
    to = folder / name
    to.mkdir(parents=True, exist_ok=True)
    for k, seed in enumerate(sorted(seeds)):
        (to / f"seed-{k}").write_bytes(seed)


def main():
    folder = pathlib.Path(sys.argv[1])
    write(folder, "graph_file", GRAPH)
    write(folder, "ply_file", PLYS)
    write(folder, "host_calls", CALLS)
    write(folder, "snapshot_file", SNAPSHOTS)
    if len(sys.argv) > 2:
        heaps = folder / "checkpoint_file"
        heaps.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.argv[2], heaps], check=True)
        whole = (heaps / "plain").read_bytes()
        (heaps / "short").write_bytes(whole[:len(whole) // 2])
        (heaps / "changed").write_bytes(whole[:100] + b"\xff" + whole[101:])


if __name__ == "__main__":
    main()
