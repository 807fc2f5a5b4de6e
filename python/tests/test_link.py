"""Kernels of the examples compile and link with warpheap's device code, for a GPU that need not be
here: by NVRTC and nvJitLink, through cuda.core and Numba. What is not installed is skipped.

    test_link.py [<build> <folder> <nvcc> <wheels>]

<build>: a build folder, whose device code is taken if it has some. <folder>: where it is put if
not, for which nvcc is needed. <wheels>: a folder into which pip installs the packages that are
missing, once, about 100 MB. NVRTC, nvJitLink and NVVM are those of nvcc's toolkit then. Exit status
77: nothing was tested.
"""
import importlib.util
import os
import pathlib
import site
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLES = SOURCE / "examples" / "python"
ARCH = "sm_90"

# Pinned: numba-cuda 0.30 cannot be imported beside NumPy 2.5.
WHEELS = ["numba-cuda==0.30.4", "numba==0.68.1", "llvmlite==0.50.0", "numpy<2.5",
          "packaging", "cuda-core==1.2.2", "cuda-bindings==13.5.0", "cuda-pathfinder==1.9.1"]


def have(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def example(name):
    """An example as a module. It ends the program where a package is missing."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SystemExit:
        raise unittest.SkipTest(f"{name}: a package is missing") from None
    return module


def make_device_code(folder, nvcc):
    """What a build with CUDA has of it, for one architecture and with little optimization. The
    other parts, of kernels with headers, gpu.linked.jit tests."""
    folder.mkdir(parents=True, exist_ok=True)
    source, made = SOURCE / "src" / "device" / "abi.cu", folder / "warpheap_abi.fatbin"
    if made.is_file() or not source.is_file():
        return
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([nvcc, "-rdc=true", "-c", f"-arch={ARCH}", "-Ofc", "max", "-std=c++17",
                        f"-I{SOURCE / 'include'}", str(source), "-o", f"{work}/code.o"], check=True)
        subprocess.run(["objcopy", "-O", "binary", "--only-section=__nv_relfatbin",
                        f"{work}/code.o", str(made)], check=True)


def need(test, kind):
    """Skips where there is no such device code."""
    import warpheap
    try:
        warpheap.get_links(kind)
    except FileNotFoundError as error:
        test.skipTest(str(error))


class Link(unittest.TestCase):
    def setUp(self):
        if not have("cuda.core"):
            self.skipTest("no cuda.core")

    def build(self, name, kind="fatbin"):
        need(self, kind)
        code = example(name).build(ARCH).code
        self.assertEqual(bytes(code[:4]), b"\x7fELF")
        self.assertGreater(len(code), 10000)

    def test_cuda_core(self):
        self.build("cuda_core")

    def test_headers(self):
        self.build("nvrtc_headers", "device")

    def test_inlined(self):
        """LTO-IR: fast paths are inlined, the slow ones are fatbins."""
        from cuda.core import Linker, LinkerOptions, ObjectCode, Program, ProgramOptions
        import warpheap
        need(self, "ltoir")
        options = ProgramOptions(arch=ARCH, std="c++17", relocatable_device_code=True,
                                 link_time_optimization=True, include_path=warpheap.get_include())
        parts = [Program(example("cuda_core").KERNELS, "c++", options).compile("ltoir")]
        inlined, *slow = warpheap.get_links("ltoir")
        parts += [ObjectCode.from_ltoir(inlined)] + [ObjectCode.from_fatbin(f) for f in slow]
        linker = Linker(*parts, options=LinkerOptions(arch=ARCH, link_time_optimization=True))
        self.assertGreater(len(linker.link("cubin").code), 10000)

    def test_cupy(self):
        if not have("cupy"):
            self.skipTest("no CuPy")
        self.build("cupy_module")

    def test_a_function_that_is_not_there(self):
        """The linker says so: the tests above could fail."""
        from cuda.core import Linker, LinkerOptions, ObjectCode, Program, ProgramOptions
        import warpheap
        need(self, "fatbin")
        code = "extern \"C\" __device__ int wh_abi1_no_such(); " \
               "extern \"C\" __global__ void k(int *p) { *p = wh_abi1_no_such(); }"
        kernel = Program(code, "c++", ProgramOptions(arch=ARCH, relocatable_device_code=True))
        heap_code = ObjectCode.from_fatbin(warpheap.get_link())
        with self.assertRaises(Exception):
            Linker(kernel.compile("cubin"), heap_code,
                   options=LinkerOptions(arch=ARCH)).link("cubin")


class Warp(unittest.TestCase):
    def test_lists(self):
        """In half a minute: only where somebody has installed Warp."""
        if not have("warp"):
            self.skipTest("no Warp")
        module = example("warp_lists")
        sys.modules["warp_lists"] = module  # Warp looks it up
        with tempfile.TemporaryDirectory() as folder:
            module.build(folder, int(ARCH.removeprefix("sm_")))
            self.assertEqual(len(list(pathlib.Path(folder).glob("*.cubin"))), 1)


class Numba(unittest.TestCase):
    def setUp(self):
        if not have("numba") or not have("numba_cuda"):
            self.skipTest("no Numba-CUDA")

    def build(self, name):
        need(self, "fatbin")
        module = example(name)
        from numba import cuda
        import warpheap
        for kernel, signature in module.SIGNATURES.items():
            ptx, _ = cuda.compile(kernel, signature, device=False, abi="numba", cc=(9, 0),
                                  output="ptx")
            self.assertTrue("wh_abi1_" in ptx)
            self.assertFalse(".f64" in ptx, "an address has become a float")
            if have("cuda.core"):
                from cuda.core import Linker, LinkerOptions, ObjectCode
                linked = Linker(ObjectCode.from_ptx(ptx.encode()),
                                ObjectCode.from_fatbin(warpheap.get_link()),
                                options=LinkerOptions(arch=ARCH)).link("cubin")
                self.assertGreater(len(linked.code), 10000)

    def test_lists(self):
        self.build("numba_lists")

    def test_map(self):
        self.build("numba_map")


def install(wheels):
    """Puts the packages there, without what they also want: other copies of NVIDIA's libraries."""
    if not wheels.is_dir():
        wheels.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=wheels.parent) as half:
            got = subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target",
                 f"{half}/wheels", "--disable-pip-version-check", "--root-user-action", "ignore",
                 "--no-compile", "--only-binary", ":all:", *WHEELS], capture_output=True, text=True)
            if got.returncode != 0:
                print(f"pip cannot install them: {got.stderr.strip()[-300:]}")
                return
            os.rename(f"{half}/wheels", wheels)
    site.addsitedir(str(wheels))  # numba-cuda has a .pth file


def main():
    if len(sys.argv) > 1:
        build, folder, nvcc, wheels = (pathlib.Path(word).resolve() for word in sys.argv[1:5])
        if (build / "warpheap_abi.fatbin").is_file():
            folder = build
        toolkit = str(nvcc.parent.parent)
        os.environ.update(CUDA_PATH=toolkit, CUDA_HOME=toolkit, WARPHEAP_LINK_FOLDER=str(folder))
        if not have("numba") or not have("cuda"):
            install(wheels)
        if have("cuda") and nvcc.is_file():
            make_device_code(folder, str(nvcc))
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    done = unittest.TextTestRunner().run(suite)
    for _, why in done.skipped:
        print(f"skipped: {why}")
    if not done.wasSuccessful():
        return 1
    return 77 if len(done.skipped) == done.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
