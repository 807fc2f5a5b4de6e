"""Heaps on the simulated device: what works, and what bad input gets."""
import array
import ctypes
import gc
import json
import mmap
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import warpheap

try:
    import numpy
except ImportError:
    numpy = None

MIB = 1 << 20


def refused(test, error, text):
    """As assertRaises, and the message has this in it."""
    return test.assertRaisesRegex(error, text)


class Life(unittest.TestCase):
    def test_context_manager(self):
        with warpheap.Heap(MIB, "sim") as heap:
            p = heap.malloc(100)
            self.assertGreaterEqual(heap.usable_size(p), 100)
            self.assertEqual(heap.stats()["live_blocks"], 1)
            self.assertIn("tessera", repr(heap))
        self.assertTrue(heap.closed)
        self.assertIn("closed", repr(heap))

    def test_every_call_of_a_closed_heap(self):
        heap = warpheap.Heap(MIB, "sim")
        p = heap.malloc(64)
        gauge = heap.gauge()
        heap.close()
        heap.close()
        for call in (lambda: heap.malloc(1), lambda: heap.free(p), heap.stats, heap.check,
                     heap.reset, heap.extent, heap.memory, heap.blocks, heap.snapshot, heap.mark,
                     heap.leaks, heap.violations, heap.failures, heap.check_blocks, heap.gauge,
                     heap.growth, heap.growth_start, heap.growth_stop, heap.growth_poll, heap.trim,
                     gauge.read, lambda: gauge.publish("/nowhere"), lambda: heap.extend(1),
                     lambda: heap.view(p, 1), lambda: heap.read(p, 1), lambda: heap.write(p, b""),
                     lambda: heap.blocks_left(1), lambda: heap.handle_struct, lambda: heap.handle,
                     heap.__enter__, lambda: heap.enable_peer("sim"), lambda: heap.peers):
            with refused(self, warpheap.ClosedError, "closed"):
                call()
        gauge.close()

    def test_text_with_a_byte_0(self):
        """C would read it up to there, and do something else."""
        with warpheap.Heap(MIB, "sim") as heap, heap.gauge() as gauge:
            for call in (lambda: warpheap.Heap(MIB, "sim\0x"), lambda: heap.snapshot("/tmp/a\0b"),
                         lambda: gauge.publish("/tmp/a\0b"), lambda: warpheap.read_gauge("a\0b"),
                         lambda: warpheap.Heap(MIB, "sim", allocator="tessera\0"),
                         lambda: warpheap.Heap(MIB, "sim", options={"track_peak\0": 1}),
                         lambda: warpheap.Device("sim", record="/tmp/a\0b")):
                with refused(self, warpheap.ArgumentError, "byte 0"):
                    call()

    def test_close_on_what_is_no_stream(self):
        with warpheap.Heap(MIB, "sim") as heap:
            for stream in ("x", object()):
                with self.assertRaises((ValueError, TypeError)):
                    heap.close(stream)
                self.assertFalse(heap.closed)
            self.assertIsNotNone(heap.malloc(1))

    def test_forgotten_heaps_go(self):
        device = warpheap.Device("sim", memory_bytes=8 * MIB)
        for _ in range(10):  # more than the device has memory for
            warpheap.Heap(4 * MIB, device)
            gc.collect()
        heap = warpheap.Heap(4 * MIB, device)
        with refused(self, MemoryError, "WH_OUT_OF_MEMORY"):
            warpheap.Heap(8 * MIB, device)
        heap.close()

    def test_error_inside_with(self):
        with self.assertRaises(KeyError):
            with warpheap.Heap(MIB, "sim") as heap:
                raise KeyError("mine")
        self.assertTrue(heap.closed)

    def test_reset(self):
        with warpheap.Heap(MIB, "sim") as heap:
            heap.malloc([100] * 50)
            heap.reset()
            self.assertEqual(heap.stats()["live_blocks"], 0)
            heap.check()


class BadHeaps(unittest.TestCase):
    def test_sizes(self):
        for size in (0, -1, 2**64, 2**70, 1.5, "1", None, [MIB]):
            with self.assertRaises((ValueError, TypeError)):
                warpheap.Heap(size, "sim")
        with refused(self, warpheap.ArgumentError, "WH_HEAP_TOO_SMALL.*needs"):
            warpheap.Heap(100, "sim")
        least = warpheap.Heap.min_bytes("sim")
        warpheap.Heap(least, "sim").close()
        with self.assertRaises(warpheap.ArgumentError):
            warpheap.Heap(least - 1, "sim")
        with self.assertRaises(MemoryError):
            warpheap.Heap(2**37, "sim")
        with refused(self, warpheap.ArgumentError, "too large"):
            warpheap.Heap(2**62, "sim")

    def test_names(self):
        with refused(self, ValueError, "WH_UNKNOWN_ALLOCATOR.*'tesera'.*tessera"):
            warpheap.Heap(MIB, "sim", allocator="tesera")
        with refused(self, warpheap.Error, "simm"):
            warpheap.Heap(MIB, "simm")
        with self.assertRaises(TypeError):
            warpheap.Heap(MIB, 0)
        with self.assertRaises(TypeError):
            warpheap.Heap(MIB, "sim", alocator="tessera")
        with refused(self, warpheap.ArgumentError, "no_such"):
            warpheap.Heap(MIB, "sim", options={"no_such": 1})
        with self.assertRaises(warpheap.ArgumentError):
            warpheap.Heap(MIB, "sim", options={"chunk_bytes": 1000})
        with self.assertRaises(warpheap.ArgumentError):
            warpheap.Heap(MIB, "sim", options={"chunk_bytes": -1})

    def test_no_gpu(self):
        if any(info["target"] == "cuda" for info in warpheap.devices()):
            self.skipTest("there is a GPU")
        with refused(self, warpheap.NoDeviceError, "WH_NO_DEVICE"):
            warpheap.Heap(MIB, "cuda")
        self.assertEqual(warpheap.Heap(MIB).device.target, "sim")  # "auto"

    def test_at_most_one_kind_of_memory(self):
        with refused(self, warpheap.ArgumentError, "WH_BAD_ARGUMENT"):
            warpheap.Heap(MIB, "sim", memory=bytearray(2 * MIB), reserve_bytes=8 * MIB)
        with self.assertRaises(warpheap.Error):
            warpheap.Heap(MIB, "sim", cuda_pool=4096)


class Devices(unittest.TestCase):
    def test_list(self):
        found = warpheap.devices()
        self.assertEqual(found[-1]["spec"], "sim")
        self.assertGreater(found[-1]["memory_bytes"], 0)

    def test_shared(self):
        with warpheap.Device("sim", seed=3, policy="random", n_sms=2) as device:
            self.assertEqual(device.info["n_sms"], 2)
            first, second = (warpheap.Heap(MIB, device) for _ in range(2))
            p = first.malloc(32)
            self.assertTrue(first.owns(p))
            self.assertFalse(second.owns(p))
            self.assertGreater(device.counters()["steps"], 0)
            device.sync()
            device.wait_stream(0)
        self.assertTrue(device.closed)
        device.close()
        self.assertEqual(first.stats()["live_blocks"], 1)  # heaps outlive it
        with refused(self, warpheap.ClosedError, "closed"):
            warpheap.Heap(MIB, device)
        with refused(self, warpheap.ClosedError, "closed"):
            device.sync()
        first.close()
        second.close()

    def test_options(self):
        for words in ({"policy": "fair"}, {"seed": -1}, {"seed": "x"}, {"n_sms": 2**32},
                      {"workers": 2**31}):
            with self.assertRaises(ValueError):
                warpheap.Device("sim", **words)
        with self.assertRaises(TypeError):
            warpheap.Device("sim", sms=1)

    def test_seeds_repeat(self):
        def run(seed):
            with warpheap.Device("sim", seed=seed, policy="random") as device:
                with warpheap.Heap(MIB, device) as heap:
                    base = heap.memory()[0]
                    blocks = heap.malloc([16 + i % 48 for i in range(200)])
                    return [p - base for p in blocks], device.counters()
        self.assertEqual(run(5), run(5))


class Calls(unittest.TestCase):
    def setUp(self):
        self.heap = warpheap.Heap(MIB, "sim", options={"track_totals": 1, "track_peak": 1})
        self.addCleanup(self.heap.close)

    def test_contents(self):
        p = self.heap.calloc(40)
        self.assertEqual(self.heap.read(p, 40), bytes(40))
        self.heap.write(p, b"four words of eight bytes, and more.....")
        q = self.heap.realloc(p, 10000)
        self.assertEqual(self.heap.read(q, 26), b"four words of eight bytes,")
        self.heap.write(q + 9990, array.array("i", [1, 2]))
        self.heap.free(q)
        self.assertEqual(self.heap.aligned_alloc(4096, 10) % 4096, 0)
        stats = self.heap.stats()
        self.assertEqual((stats["mallocs"] - stats["frees"], stats["live_blocks"]), (1, 1))
        self.assertGreaterEqual(stats["peak_bytes"], 10000)

    def test_batches(self):
        sizes = [i % 700 + 1 for i in range(1000)]
        blocks = self.heap.malloc(sizes)
        self.assertEqual(len(set(blocks)), 1000)
        usable = self.heap.usable_size(blocks)
        self.assertTrue(all(u >= s for u, s in zip(usable, sizes)))
        self.assertEqual(dict(self.heap.blocks()), dict(zip(blocks, usable)))
        self.assertEqual(self.heap.owns(blocks[:2] + [16]), [True, True, False])
        mixed = self.heap.calls([("free", blocks[0]), ("malloc", 8), ("usable_size", blocks[1]),
                                 ("realloc", blocks[2], 5000), ("aligned_alloc", 256, 3)])
        self.assertIsNone(mixed[0])
        self.assertEqual(mixed[4] % 256, 0)
        self.heap.free([mixed[1], mixed[3], mixed[4], blocks[1]] + blocks[3:])
        self.assertEqual(self.heap.blocks(), [])
        self.heap.check()
        self.assertEqual(self.heap.calls([]), [])
        self.assertEqual(self.heap.malloc([]), [])

    def test_full(self):
        self.assertIsNone(self.heap.malloc(2 * MIB))
        self.assertIsNone(self.heap.malloc(0))
        left = self.heap.blocks_left(1000)
        blocks = self.heap.malloc([1000] * (left + 5))
        self.assertEqual(sum(p is None for p in blocks), 5)
        self.assertEqual(self.heap.stats()["failed"], 6)

    def test_bad_pointers(self):
        p = self.heap.malloc(64)
        for wrong in (p + 16, p + 1, 4096, 2**64 - 16, id(self)):
            self.heap.free(wrong)
        self.heap.free(None)
        self.heap.free(p)
        self.heap.free(p)
        self.assertEqual(self.heap.stats()["bad_frees"], 6)
        self.heap.check()
        for wrong in (-1, 2**64, "p", 1.0):
            with self.assertRaises(ValueError):
                self.heap.free(wrong)

    def test_bad_calls(self):
        with refused(self, ValueError, "mallloc.*malloc"):
            self.heap.calls([("mallloc", 1)])
        for call in (("malloc",), ("free", 1, 2), ("realloc", 1)):
            with self.assertRaises(TypeError):
                self.heap.calls([call])
        with refused(self, ValueError, "different lengths"):
            self.heap.realloc([None, None], [1, 2, 3])

    def test_reads_outside(self):
        base, size = self.heap.memory()
        self.heap.read(base + size - 1, 1)
        for address, n in ((base - 1, 1), (base + size, 1), (base + size - 1, 2), (base, size + 1),
                           (4096, 1), (2**64 - 1, 2**64 - 1)):
            with refused(self, warpheap.ArgumentError, "not in the heap"):
                self.heap.read(address, n)
        with refused(self, warpheap.ArgumentError, "not in the heap"):
            self.heap.write(base + size - 1, b"ab")
        with refused(self, warpheap.ArgumentError, "not in the heap"):
            self.heap.view(base + size - 4, 2, "i4")
        with self.assertRaises(ValueError):
            self.heap.read(0, 1)

    def test_other_allocators(self):
        for allocator in warpheap.allocators():
            name, caps = allocator["name"], allocator["caps"]
            if "sim" not in caps:
                continue
            with warpheap.Heap(4 * MIB, "sim", allocator=name) as heap:
                self.assertEqual(heap.allocator["name"], name)
                if "disjoint" in caps:
                    self.assertIsNotNone(heap.malloc(16))
                else:
                    with refused(self, warpheap.UnsupportedError, name):
                        heap.malloc(16)

    def test_threads(self):
        """Threads share a heap: calls take turns, and a close in between is an error of those
        that come after it."""
        wrong, done = [], []

        def work():
            try:
                for _ in range(1000):
                    blocks = self.heap.malloc([24] * 8)
                    self.heap.stats()
                    self.heap.free(blocks)
            except warpheap.ClosedError:
                done.append(1)
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        threads[0].join(0.3)
        self.heap.check()
        self.heap.close()
        for thread in threads:
            thread.join()
        self.assertEqual((wrong, len(done)), ([], 4))

    def test_views_beside_a_close(self):
        """A view that is used while another thread closes the heap works, or says so."""
        wrong = []
        for _ in range(30):
            heap = warpheap.Heap(MIB, "sim")
            views = [heap.view(p, 64) for p in heap.malloc([64] * 8)]

            def work(heap=heap, views=views):
                try:
                    for _ in range(5):
                        for view in views:
                            view.tobytes()
                            view.__array_interface__
                except warpheap.ClosedError:
                    pass
                except Exception as error:
                    wrong.append(error)

            threads = [threading.Thread(target=work) for _ in range(2)]
            for thread in threads:
                thread.start()
            heap.close()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])

    def test_two_threads_close(self):
        for _ in range(20):
            heap = warpheap.Heap(MIB, "sim")
            threads = [threading.Thread(target=heap.close) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertTrue(heap.closed)


class Memory(unittest.TestCase):
    def test_buffers(self):
        for memory in (bytearray(2 * MIB), mmap.mmap(-1, 2 * MIB),
                       array.array("q", bytes(2 * MIB))):
            with warpheap.Heap(None, "sim", memory=memory) as heap:
                p = heap.malloc(100)
                heap.write(p, b"here it is")
                self.assertIn(b"here it is", bytes(memory))
                self.assertGreater(heap.memory()[1], 2 * MIB - 512)
        with warpheap.Heap(MIB, "sim", memory=bytearray(2 * MIB)) as heap:
            self.assertEqual(heap.memory()[1], MIB)

    def test_is_held(self):
        memory = bytearray(2 * MIB)
        with warpheap.Heap(MIB, "sim", memory=memory):
            with self.assertRaises(BufferError):
                memory.extend(b"x")
        gc.collect()
        memory.extend(b"x")

    def test_refused(self):
        class OfGpu:
            __cuda_array_interface__ = {"shape": (MIB,), "typestr": "|u1", "data": (4096, False),
                                        "version": 3}
        for memory, text in ((bytes(2 * MIB), "only be read"), (bytearray(100), "it has"),
                             (object(), "neither"), (memoryview(bytearray(4 * MIB))[::2],
                                                     "not contiguous"),
                             (OfGpu(), "of a GPU"), ((0, MIB), "memory is 0")):
            with refused(self, warpheap.ArgumentError, text):
                warpheap.Heap(MIB, "sim", memory=memory)
        with self.assertRaises(warpheap.ArgumentError):
            warpheap.Heap(None, "sim", memory=bytearray(10))

    def test_source(self):
        kept, log = {}, []

        def alloc(size, align, stream):
            if len(log) == 9:
                raise RuntimeError("must not reach C")
            block = mmap.mmap(-1, size)
            address = warpheap._memory._of_host(block)[0]
            kept[address] = block
            log.append(("alloc", size, align))
            return address

        def free(address, size, stream):
            log.append(("free", size, None))
            kept.pop(address)

        with warpheap.Heap(MIB, "sim", source=(alloc, free)) as heap:
            heap.malloc(64)
            heap.stats()
        self.assertEqual(kept, {})
        self.assertEqual(log[0], ("alloc", MIB, 256))
        for wrong, cause in ((lambda *_: 1 / 0, ZeroDivisionError), (lambda *_: "x", ValueError),
                             (lambda *_: 256.0, ValueError), (lambda *_: 2**64, ValueError)):
            with refused(self, MemoryError, "OUT_OF_MEMORY") as told:
                warpheap.Heap(MIB, "sim", source=(wrong, free))
            self.assertIsInstance(told.exception.__cause__, cause)
        with refused(self, warpheap.ArgumentError, "256"):
            warpheap.Heap(MIB, "sim", source=(lambda *_: 4097, lambda *_: None))
        for bad in (alloc, (alloc,), 5, (1, 2), (alloc, None)):
            with self.assertRaises(TypeError):
                warpheap.Heap(MIB, "sim", source=bad)


class Reserved(unittest.TestCase):
    def setUp(self):
        self.heap = warpheap.Heap(MIB, "sim", reserve_bytes=64 * MIB)
        self.addCleanup(self.heap.close)

    def test_extend_and_trim(self):
        self.assertIsNone(self.heap.malloc(4 * MIB))
        self.heap.extend(8 * MIB)
        p = self.heap.malloc(4 * MIB)
        view = self.heap.view(p, 16)
        self.assertEqual(len(view.tobytes()), 16)
        self.heap.free(p)
        with refused(self, warpheap.ArgumentError, "live block"):
            self.heap.view(p, 16)
        self.assertGreater(self.heap.trim(), 0)
        self.assertLess(self.heap.extent()["mapped"], 4 * MIB)
        for use in (view.tobytes, lambda: view.__array_interface__, view.__dlpack__):
            with refused(self, warpheap.ArgumentError, "live block"):  # an array would crash
                use()
        self.assertEqual(self.heap.trim(), 0)  # no array is left
        with refused(self, MemoryError, "WH_RESERVE_FULL"):
            self.heap.extend(100 * MIB)
        for wrong in (-1, 2**64, None, "1"):
            with self.assertRaises(ValueError):
                self.heap.extend(wrong)

    def test_growth(self):
        self.heap.growth_start(max_bytes=32 * MIB, step_bytes=MIB)
        with refused(self, warpheap.ArgumentError, "WH_BAD_ARGUMENT"):
            self.heap.growth_start()
        p = self.heap.malloc(4 * MIB)
        self.assertIsNotNone(p)
        info = self.heap.growth()
        self.assertGreater(info["mapped_bytes"], 4 * MIB)
        self.assertEqual(info["status"], "WH_OK")
        self.assertIsNone(self.heap.malloc(40 * MIB))
        self.heap.growth_stop()
        self.heap.growth_stop()
        self.heap.free(p)

    def test_poll(self):
        self.heap.growth_start(thread=False, ahead_bytes=2 * MIB)
        self.heap.growth_poll()
        self.assertGreaterEqual(self.heap.growth()["ahead_bytes"], 2 * MIB)

    def test_plain_heaps_do_not(self):
        with warpheap.Heap(MIB, "sim") as heap:
            for call in (lambda: heap.extend(1), heap.trim, heap.growth_start, heap.growth_poll):
                with self.assertRaises(warpheap.UnsupportedError):
                    call()
            for words in ({"wait_us": 2**32}, {"max_bytes": -1}, {"step_bytes": 0.5}):
                with self.assertRaises(ValueError):
                    heap.growth_start(**words)


class Peers(unittest.TestCase):
    def test_several(self):
        one, two, three = (warpheap.Device("sim", seed=seed) for seed in range(3))
        with warpheap.Heap(MIB, one) as heap:
            self.assertEqual(heap.peers, ())
            for _ in range(2):  # again is no error
                heap.enable_peer(two)
                heap.enable_peer(three)
                self.assertEqual(heap.peers, (two, three))
            two.close()  # the heap keeps it
            heap.enable_peer("sim")
            self.assertEqual(heap.peers[2].target, "sim")
            p = heap.malloc(100)
            heap.write(p, b"there")
            self.assertGreater(len(heap.handle_struct), 100)
            heap.check()
        with warpheap.Heap(MIB, three, reserve_bytes=8 * MIB) as heap:
            heap.growth_start()
            heap.enable_peer(one)
            self.assertIsNotNone(heap.malloc(4 * MIB))

    def test_refused(self):
        device, closed = warpheap.Device("sim"), warpheap.Device("sim")
        closed.close()
        with warpheap.Heap(MIB, device) as heap:
            for error, text, what in (
                    (warpheap.ArgumentError, "no peer of itself", device),
                    (warpheap.ClosedError, "the device is closed", closed),
                    (warpheap.ArgumentError, "WH_BAD_ARGUMENT", "simm"),
                    (TypeError, "named by a string", None), (TypeError, "named by a string", heap)):
                with refused(self, error, text):
                    heap.enable_peer(what)
                self.assertEqual(heap.peers, ())
            self.assertIsNotNone(heap.malloc(1))
        for name in {a["name"] for a in warpheap.allocators()
                     if "peers" not in a["caps"] and "sim" in a["caps"]}:
            with warpheap.Heap(64 * MIB, device, allocator=name) as heap:
                with refused(self, warpheap.UnsupportedError, "for kernels of one device"):
                    heap.enable_peer("sim")

    def test_one_turn(self):
        """Peers run their kernels together, so the calls of all of them take turns."""
        one, two, other = (warpheap.Device("sim") for _ in range(3))
        heaps = [warpheap.Heap(MIB, device) for device in (one, two, other)]
        heaps[0].enable_peer(two)
        with refused(self, warpheap.ArgumentError, "itself"):
            heaps[2].enable_peer(other)
        begun, done = threading.Event(), []

        def work(i):
            begun.set()
            done.append((i, heaps[i].stats()["live_blocks"]))

        threads = [threading.Thread(target=work, args=(i,)) for i in (1, 2)]
        with one._lock:
            for thread in threads:
                thread.start()
            threads[1].join()
            begun.wait()
            threads[0].join(0.1)
            self.assertEqual(done, [(2, 0)])
        threads[0].join()
        self.assertEqual(done, [(2, 0), (1, 0)])
        for heap in heaps:
            heap.close()

    def test_threads(self):
        """Threads that use heaps of devices, while these become peers, in any order."""
        wrong = []

        def work(mine, device, n):
            try:
                for step in range(60):
                    blocks = mine.malloc([24] * n)
                    if step == 20:
                        mine.enable_peer(device)
                    if mine.stats()["live_blocks"] != n:
                        wrong.append("a block is lost")
                    mine.free(blocks)
            except Exception as error:
                wrong.append(error)

        for seed in range(10):
            devices = [warpheap.Device("sim", seed=seed, policy="random") for _ in range(3)]
            heaps = [warpheap.Heap(MIB, device) for device in devices]
            threads = [threading.Thread(target=work, args=(heaps[i], devices[(i + 1) % 3], 8 + i))
                       for i in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])
            self.assertEqual([len(heap.peers) for heap in heaps], [1, 1, 1])
            for heap in heaps:
                heap.check()
                heap.close()

    def test_forgotten_peers(self):
        """Devices that nobody has leave their peers between the calls of other threads."""
        device, ended, wrong = warpheap.Device("sim"), threading.Event(), []

        def work():
            try:
                with warpheap.Heap(MIB, device) as heap:
                    while not ended.is_set():
                        heap.free(heap.malloc([24] * 32))
            except Exception as error:
                wrong.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        for seed in range(100):
            warpheap.Heap(MIB, warpheap.Device("sim", seed=seed)).enable_peer(device)
        ended.set()
        thread.join()
        self.assertEqual(wrong, [])


class Views(unittest.TestCase):
    def setUp(self):
        self.heap = warpheap.Heap(MIB, "sim")
        self.addCleanup(self.heap.close)
        self.p = self.heap.calloc(64)

    def test_bytes(self):
        view = self.heap.view(self.p, (2, 4), "u2")
        self.assertEqual((view.shape, view.nbytes, len(view)), ((2, 4), 16, 2))
        view.frombytes(b"0123456789abcdef")
        self.assertEqual(view.tobytes(), b"0123456789abcdef")
        with refused(self, warpheap.ArgumentError, "15 bytes do not fit a view of 16"):
            view.frombytes(bytes(15))

    def test_closed(self):
        view = self.heap.view(self.p, 4)
        self.heap.close()
        self.assertTrue(view.closed)
        self.assertIn("closed", repr(view))
        for use in (view.tobytes, view.numpy, view.__dlpack__, view.__dlpack_device__,
                    lambda: view.frombytes(bytes(4)), lambda: view.__array_interface__,
                    lambda: view.__cuda_array_interface__):
            with refused(self, (warpheap.ClosedError, ImportError), "closed|numpy"):
                use()

    def test_wrong(self):
        for dtype in ("x4", "f3", "", object, "U4", "datetime64", None):
            with self.assertRaises(TypeError):
                self.heap.view(self.p, 1, dtype)
        for shape in (-1, (2, -1), "2", (1.5,)):
            with self.assertRaises((ValueError, TypeError)):
                self.heap.view(self.p, shape)
        for address in (0, -1, None, "p"):
            with self.assertRaises(ValueError):
                self.heap.view(address, 1)
        with refused(self, TypeError, "no length"):
            len(self.heap.view(self.p, ()))
        with self.assertRaises(AttributeError):  # so hasattr says no
            self.heap.view(self.p, 1).__cuda_array_interface__

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_numpy(self):
        view = self.heap.view(self.p, (2, 4), numpy.float32)
        a = numpy.asarray(view)
        a[1, 2] = 0.5
        self.assertEqual((a.dtype, a.shape), (numpy.dtype("float32"), (2, 4)))
        self.assertEqual(self.heap.read(self.p + 24, 4), numpy.float32(0.5).tobytes())
        self.assertEqual(view.numpy()[1, 2], 0.5)
        if hasattr(numpy, "from_dlpack"):
            b = numpy.from_dlpack(view)
            self.assertEqual((b.dtype, b.shape, b[1, 2]), (a.dtype, a.shape, 0.5))
            del b
        gc.collect()
        self.assertEqual(warpheap._views._given_out, {})

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_arrays_outlive_the_heap(self):
        device = warpheap.Device("sim", memory_bytes=3 * MIB)
        heap = warpheap.Heap(2 * MIB, device)
        a = numpy.asarray(heap.view(heap.calloc(4096), 1024, "i4"))
        heap.close()
        a += 7
        self.assertEqual(int(a.sum()), 7 * 1024)
        with self.assertRaises(MemoryError):
            warpheap.Heap(2 * MIB, device)
        with self.assertRaises(warpheap.ClosedError):
            numpy.asarray(a.base)
        del a
        gc.collect()
        warpheap.Heap(2 * MIB, device).close()

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_trim_beside_arrays(self):
        with warpheap.Heap(MIB, "sim", reserve_bytes=64 * MIB) as heap:
            heap.extend(4 * MIB)
            a = numpy.asarray(heap.view(heap.malloc(64), 64))
            with refused(self, BufferError, "arrays"):
                heap.trim()
            del a
            gc.collect()
            heap.trim()

    def test_capsule_that_nobody_takes(self):
        capsule = self.heap.view(self.p, 4, "f8").__dlpack__()
        self.assertEqual(len(warpheap._views._given_out), 1)
        del capsule
        gc.collect()
        self.assertEqual(warpheap._views._given_out, {})
        with self.assertRaises(BufferError):
            self.heap.view(self.p, 4).__dlpack__(copy=True)


class Looking(unittest.TestCase):
    def test_stats(self):
        with warpheap.Heap(MIB, "sim") as heap:
            heap.malloc([100] * 3)
            stats = heap.stats()
            self.assertEqual(stats["heap_bytes"], MIB)
            self.assertIsNone(stats["peak_bytes"])
            self.assertEqual(sum(c["live"] for c in stats["classes"]), 3)
            self.assertIn("1,048,576", repr(stats))
            self.assertIn("<td>live_blocks</td><td>3</td>", stats._repr_html_())
            self.assertEqual(json.loads(json.dumps(stats)), stats)

    def test_checked(self):
        own = {"tessera.checked": 1, "failure_records": 8}
        with warpheap.Heap(MIB, "sim", options=own) as heap:
            mark = heap.mark()
            p, q = heap.malloc([20, 40])
            heap.write(p + 20, b"!")
            heap.free([p])
            heap.malloc(2 * MIB)
            self.assertEqual([v["kind"] for v in heap.violations()], ["OVERRUN"])
            self.assertEqual(heap.violations(), [])
            self.assertEqual(heap.failures()[0]["kind"], "TOO_LARGE")
            self.assertEqual(heap.check_blocks(leaks=True), 1)
            self.assertIn("LEAK", heap.violations()[0]["text"])
            leak, = heap.leaks(since=mark)
            self.assertEqual((leak["bytes"], leak["blocks"], leak["address"]), (40, 1, q))
            with self.assertRaises(warpheap.ArgumentError):
                heap.leaks(since=99)

    def test_kernel_that_fails(self):
        """A checked heap that ends the kernel: the error has the device's text."""
        heap = warpheap.Heap(MIB, "sim", options={"checked": 2})
        p = heap.malloc(20)
        heap.write(p + 20, b"!")
        with refused(self, warpheap.DeviceError, "WH_DEVICE_ERROR.*thread 0"):
            heap.free(p)
        heap.reset()
        self.assertIsNotNone(heap.malloc(20))
        heap.close()

    def test_snapshot(self):
        with warpheap.Heap(MIB, "sim") as heap, tempfile.TemporaryDirectory() as folder:
            heap.malloc(16)
            path = os.path.join(folder, "s.json")
            self.assertIsNone(heap.snapshot(path))
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["blocks"], heap.snapshot()["blocks"])
            with refused(self, OSError, "WH_IO_ERROR"):
                heap.snapshot(os.path.join(folder, "no", "such"))

    def test_gauge(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "gauge")
            with warpheap.Heap(MIB, "sim", gauge=path) as heap:
                heap.malloc([64] * 10)
                with heap.gauge() as gauge:
                    self.assertEqual(gauge.read(blocks=True)["live_blocks"], 10)
                with refused(self, warpheap.ClosedError, "closed"):
                    gauge.read()
                found = warpheap.read_gauge(path)
                self.assertEqual((found["state"], found["pid"], found["allocator"]),
                                 ("live", os.getpid(), "tessera"))
                self.assertEqual(found["sample"]["heap_bytes"], MIB)
            self.assertEqual(warpheap.read_gauge(path)["state"], "ended")
            with self.assertRaises(OSError):
                warpheap.read_gauge(os.path.join(folder, "none"))
            with self.assertRaises(OSError):
                warpheap.Heap(MIB, "sim", gauge=os.path.join(folder, "no", "such"))
            if any(a["name"] == "bump" for a in warpheap.allocators()):
                with self.assertRaises(warpheap.UnsupportedError):
                    warpheap.Heap(MIB, "sim", allocator="bump", gauge=path)

    def test_handles(self):
        with warpheap.Heap(MIB, "sim") as heap:
            self.assertGreater(len(heap.handle_struct), 100)
            try:
                handle = heap.handle
            except warpheap.UnsupportedError as error:  # of a library without it
                self.assertIn("wh_heap_abi1_handle", str(error))
                return
            self.assertNotEqual(handle, 0)
            # On the simulated device the host may call what kernels link.
            loaded = ctypes.CDLL(warpheap.get_library())
            loaded.wh_abi1_malloc.restype = ctypes.c_void_p
            loaded.wh_abi1_malloc.argtypes = [ctypes.c_uint64] * 2
            block = loaded.wh_abi1_malloc(handle, 100)
            self.assertIn(block, dict(heap.blocks()))
        self.assertIsNone(loaded.wh_abi1_malloc(handle, 100))  # the heap is gone
        self.assertIsNone(loaded.wh_abi1_malloc(0, 100))

    def test_lists(self):
        names = {a["name"]: a for a in warpheap.allocators()}
        self.assertIn("free", names["tessera"]["caps"])
        self.assertIn("tessera.track_peak", warpheap.options())


class Paths(unittest.TestCase):
    def run_it(self, *words, **environment):
        return subprocess.run([sys.executable, "-m", "warpheap", *words], capture_output=True,
                              text=True, env={**os.environ, **environment})

    def test_command_line(self):
        self.assertEqual(self.run_it("--version").stdout.strip(), warpheap.__version__)
        self.assertEqual(self.run_it("--cflags").stdout.strip(), "-I" + warpheap.get_include())
        self.assertEqual(self.run_it("--library").stdout.strip(), warpheap.get_library())
        self.assertIn("sim: simulated device", self.run_it("--devices").stdout)
        self.assertEqual(self.run_it().returncode, 0)
        for words, environment, text in (
                (("--link", "fatbin"), {"WARPHEAP_LINK_FOLDER": "/no/such"}, "/no/such/warpheap"),
                (("--library",), {"WARPHEAP_LIBRARY": "/no/such.so"}, "/no/such.so"),
                (("--devices",), {"WARPHEAP_LIBRARY": __file__}, "cannot be loaded")):
            done = self.run_it(*words, **environment)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(self.run_it("--link", "elf").returncode, 2)

    def test_kinds(self):
        with refused(self, ValueError, "several files: use get_links"):
            warpheap.get_link("ltoir")
        for function in (warpheap.get_link, warpheap.get_links):
            with refused(self, ValueError, "no kind 'elf'"):
                function("elf")
        with tempfile.TemporaryDirectory() as folder:
            old = os.environ.get("WARPHEAP_LINK_FOLDER")
            os.environ["WARPHEAP_LINK_FOLDER"] = folder
            try:
                with refused(self, FileNotFoundError, "without CUDA"):
                    warpheap.get_link()
                path = os.path.join(folder, "warpheap_abi.fatbin")
                with open(path, "wb"):
                    pass
                self.assertEqual(warpheap.get_link(), path)
            finally:
                del os.environ["WARPHEAP_LINK_FOLDER"]
                if old is not None:
                    os.environ["WARPHEAP_LINK_FOLDER"] = old

    def test_what_is_built_lies_elsewhere(self):
        """As after pip install -e."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("lib/libwarpheap.so.0.2", "data/warpheap_abi.fatbin",
                         "include/warpheap/warpheap.h"):
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True)
                path.touch()
            program = ("import sys, warpheap; warpheap.__path__.append(sys.argv[1]);"
                       "print(warpheap.get_library(), warpheap.get_link(), warpheap.get_include())")
            named = ("WARPHEAP_LIBRARY", "WARPHEAP_LINK_FOLDER")
            env = {name: value for name, value in os.environ.items() if name not in named}
            said = subprocess.run([sys.executable, "-c", program, folder], env=env, check=True,
                                  capture_output=True, text=True).stdout
            # of a package that is whole its own files come first
            here = pathlib.Path(warpheap.__file__).parent
            if not (here / "lib").is_dir():
                self.assertIn(f"{folder}/lib/libwarpheap.so.0.2 {folder}/data/", said)


if __name__ == "__main__":
    unittest.main()
