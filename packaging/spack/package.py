# The recipe of warpheap for Spack 1.0 and later: docs/INSTALL.md says how it is used. It builds the
# source that lies there, so it needs no address; who publishes it adds the `url` and the `sha256`
# of a release.
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Warpheap(CMakePackage, CudaPackage):
    """malloc and free for GPU kernels: heaps in device memory, and a simulated device."""

    license("MIT", checked_by="the warpheap authors")

    version("0.2.0")

    variant("shared", default=True, description="Build the shared libraries, too")
    variant("program", default=False, description="Build the program warpheap")
    variant("assimp", default=False, when="+program", description="Read files of meshes")
    variant("allocators", default="default", multi=False, values=("default", "all"),
            description="Which allocators to build")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("cmake@3.25:", type="build")
    depends_on("cuda@13.0:", when="+cuda")
    depends_on("zlib-api")
    depends_on("jansson", when="+program")
    depends_on("assimp", when="+assimp")

    conflicts("cuda_arch=none", when="+cuda", msg="say for which GPUs: cuda_arch=90")

    def cmake_args(self):
        args = [
            self.define_from_variant("WARPHEAP_CUDA", "cuda"),
            self.define_from_variant("WARPHEAP_SHARED", "shared"),
            self.define_from_variant("WARPHEAP_PROGRAM", "program"),
            self.define_from_variant("WARPHEAP_ALLOCATORS", "allocators"),
            self.define("WARPHEAP_TESTS", False),
            self.define("WARPHEAP_INSTALL", True),
        ]
        if self.spec.satisfies("+cuda"):
            archs = self.spec.variants["cuda_arch"].value
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", list(archs)))
        return args
