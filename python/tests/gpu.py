#!/usr/bin/env python3
"""gpu.py: the package on a GPU: heaps, growth, streams and memory of others, and each example of
examples/python whose packages are installed. Exit status: 0, all that could run was right; 1, the
names of what failed are printed; 77, there is no GPU.

    PYTHONPATH=python WARPHEAP_LIBRARY=build/libwarpheap.so WARPHEAP_LINK_FOLDER=build \\
        python3 python/tests/gpu.py [NAME...]

or, with the package installed, python3 python/tests/gpu.py. NAME: run these alone.
"""
import gc
import importlib.util
import pathlib
import subprocess
import sys
import traceback

import warpheap

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "python"
MIB = 1 << 20


class Skip(Exception):
    pass


def need(module):
    if importlib.util.find_spec(module) is None:
        raise Skip(f"no {module}")
    return importlib.import_module(module)


def heap_calls():
    """Life of a heap, statistics, copies in and out, errors."""
    with warpheap.Heap(64 * MIB, "cuda", options={"track_peak": 1}) as heap:
        assert heap.device.target == "cuda"
        base, size = heap.memory()
        heap.write(base + size - 64, b"x" * 64)
        assert heap.read(base + size - 64, 64) == b"x" * 64
        stats = heap.stats()
        assert stats["heap_bytes"] == 64 * MIB and stats["live_blocks"] == 0, stats
        heap.reset()
        heap.check()
        assert heap.handle != 0 and len(heap.handle_struct) > 100
        with heap.gauge() as gauge:
            assert gauge.read(blocks=True)["live_blocks"] == 0
        try:
            heap.malloc(16)
            raise AssertionError("the host has called malloc on a GPU")
        except warpheap.UnsupportedError:
            pass
    try:
        warpheap.Heap(2**45, "cuda")
        raise AssertionError("a heap of 32 TiB")
    except warpheap.Error as error:
        print(error)


def reserved():
    """Extend, trim and growth of a heap in reserved addresses."""
    with warpheap.Heap(64 * MIB, "cuda", reserve_bytes=4096 * MIB) as heap:
        heap.extend(128 * MIB)
        assert heap.extent()["mapped"] >= 192 * MIB
        heap.trim(64 * MIB)
        assert heap.extent()["mapped"] <= 128 * MIB
        heap.growth_start(max_bytes=1024 * MIB)
        assert heap.growth()["status"] == "WH_OK"
        heap.growth_stop()


def two_heaps_one_device():
    with warpheap.Device("cuda") as device:
        heaps = [warpheap.Heap(16 * MIB, device) for _ in range(2)]
    assert heaps[0].handle != heaps[1].handle
    old = heaps[0].handle
    for heap in heaps:
        heap.close()
    again = warpheap.Heap(16 * MIB, "cuda")
    print(f"handles {old:x} and {again.handle:x}")
    assert again.handle != old  # else a kernel with the old one would use this heap


def arrays_of_cupy():
    """Views as arrays of CuPy, by __cuda_array_interface__ and DLPack; they outlive the heap."""
    cupy = need("cupy")
    heap = warpheap.Heap(64 * MIB, "cuda")
    base, size = heap.memory()
    tail = heap.view(base + size - 4096, 1024, "f4")
    a = cupy.asarray(tail)
    a[:] = 2.5
    b = cupy.from_dlpack(tail)
    assert float(b.sum()) == 2560, b
    assert tail.numpy()[7] == 2.5
    free = cupy.cuda.runtime.memGetInfo()[0]
    heap.close()
    assert float(a.sum()) == 2560
    del a, b
    gc.collect()
    print(f"{(cupy.cuda.runtime.memGetInfo()[0] - free) >> 20} MiB more are free without the array")
    memory = cupy.empty(32 * MIB, cupy.uint8)
    with warpheap.Heap(None, "cuda", memory=memory) as heap:
        start, size = heap.memory()
        assert memory.data.ptr <= start and size > 31 * MIB
        stream = cupy.cuda.Stream()
        heap.stats(stream)
        heap.reset(stream)


def tensors_of_torch():
    torch = need("torch")
    memory = torch.zeros(32 * MIB, dtype=torch.uint8, device="cuda")
    with warpheap.Heap(None, "cuda", memory=memory) as heap:
        base, size = heap.memory()
        view = heap.view(base + size - 4096, (2, 512), torch.float32)
        t = torch.as_tensor(view, device="cuda")
        t.fill_(1.5)
        assert torch.from_dlpack(view).sum().item() == 1536
        heap.stats(torch.cuda.current_stream())


def arrays_of_numba():
    numpy = need("numpy")
    need("numba_cuda")
    from numba import cuda
    if not hasattr(numpy, "row_stack"):
        raise Skip("numba-cuda 0.30 needs NumPy before 2.5")
    with warpheap.Heap(32 * MIB, "cuda") as heap:
        base, size = heap.memory()
        view = heap.view(base + size - 4096, 512, "i8")
        a = cuda.as_cuda_array(view)
        a[:] = 3
        assert int(a.copy_to_host().sum()) == 1536


def example(name):
    def run():
        if name not in ("simulated", "torch_inline", "torch_pool", "warp_lists"):
            try:
                warpheap.get_links("device" if name == "nvrtc_headers" else "fatbin")
            except FileNotFoundError as error:
                raise Skip(error) from None
        done = subprocess.run([sys.executable, str(EXAMPLES / f"{name}.py")], timeout=600)
        if done.returncode == 77:
            raise Skip("the example has said why")
        assert done.returncode == 0, f"exit status {done.returncode}"
    run.__name__ = name
    return run


def main():
    if not any(info["target"] == "cuda" for info in warpheap.devices()):
        print("skipped: there is no GPU, or the library was built without CUDA")
        return 77
    subprocess.run([sys.executable, "-m", "warpheap"], check=True)
    tests = [heap_calls, reserved, two_heaps_one_device, arrays_of_cupy, tensors_of_torch,
             arrays_of_numba]
    tests += [example(file.stem) for file in sorted(EXAMPLES.glob("*.py"))]
    failed, skipped = [], []
    for test in tests:
        if len(sys.argv) > 1 and test.__name__ not in sys.argv[1:]:
            continue
        print(f"--- {test.__name__}", flush=True)
        try:
            test()
        except Skip as why:
            print(f"skipped: {why}")
            skipped.append(test.__name__)
        except Exception:
            traceback.print_exc()
            failed.append(test.__name__)
    print(f"skipped: {' '.join(skipped) or 'none'}; failed: {' '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
