"""Where the package's files are: headers, shared library, device code."""
import importlib.util
import os
import pathlib
import sys

_HERE = pathlib.Path(__file__).resolve().parent
_SOURCE = _HERE.parent.parent  # of a checkout, where the package runs from python/

_SLOW_PATHS = ("warpheap_tessera.fatbin", "warpheap_tessera_free.fatbin")
LINK_KINDS = {"fatbin": ("warpheap_abi.fatbin",), "ptx": ("warpheap_abi.ptx",),
              "ltoir": ("warpheap_abi.ltoir",) + _SLOW_PATHS, "device": _SLOW_PATHS}


def _folders(name):
    """The folders of this name in the package: of pip install -e what is built lies elsewhere."""
    places = [_HERE] + [pathlib.Path(place) for place in sys.modules[__package__].__path__]
    return [place / name for place in places]


def _in_checkout():
    return (_SOURCE / "include" / "warpheap" / "warpheap.h").is_file()


def get_include():
    """The folder to give to a compiler with -I, as a string."""
    for folder in _folders("include") + ([_SOURCE / "include"] if _in_checkout() else []):
        if (folder / "warpheap" / "warpheap.h").is_file():
            return str(folder)
    raise FileNotFoundError(f"warpheap: there are no headers in {_HERE / 'include'}: the package "
                            "is not whole, install it again")


def get_library():
    """The path of libwarpheap.so. The environment variable WARPHEAP_LIBRARY names another one."""
    named = os.environ.get("WARPHEAP_LIBRARY")
    if named:
        if not pathlib.Path(named).is_file():
            raise ImportError(f"warpheap: WARPHEAP_LIBRARY names {named}, which is no file")
        return named
    found = [file for folder in _folders("lib") for file in sorted(folder.glob("libwarpheap.so*"))]
    if not found:
        raise ImportError(f"warpheap: there is no {_HERE / 'lib'}/libwarpheap.so: install the "
                          "package with pip, or name a library by WARPHEAP_LIBRARY")
    return str(found[0])


def get_links(kind="fatbin"):
    """The paths of all files of device code to link with kernels, as a list.

    kind, of kernels that call wh_abi1_malloc and its like (warpheap_abi.h):
      "fatbin"  machine code, and PTX for newer GPUs: for nvJitLink, nvlink, Numba and cuda.core
      "ptx"     the same as PTX of the oldest architecture
      "ltoir"   for nvJitLink with -lto, which inlines the fast paths; the slow ones are fatbins
    or of kernels that include warpheap/warpheap.h and define WH_LINKED as 1:
      "device"  malloc's slow path, so that these kernels compile fast

    The environment variable WARPHEAP_LINK_FOLDER names another folder.
    """
    if kind not in LINK_KINDS:
        raise ValueError(f"warpheap: there is no kind {kind!r} of device code: there are "
                         f"{', '.join(LINK_KINDS)}")
    named = os.environ.get("WARPHEAP_LINK_FOLDER")
    folders = [pathlib.Path(named)] if named else _folders("data")
    folder = next((folder for folder in folders if folder.is_dir()), folders[0])
    files = [folder / name for name in LINK_KINDS[kind]]
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(f"warpheap: there is no {file}: this package was built "
                                    "without CUDA. Build it with nvcc: pip install . -C "
                                    "cmake.define.WARPHEAP_CUDA=ON")
    return [str(file) for file in files]


def get_link(kind="fatbin"):
    """The one file of get_links(kind), for a kind that is one file: "fatbin" or "ptx"."""
    if len(LINK_KINDS.get(kind, ())) > 1:
        raise ValueError(f"warpheap: {kind!r} is several files: use get_links({kind!r})")
    return get_links(kind)[0]


def nvidia_folders():
    """Where NVIDIA's packages of pip have their files: nvidia/cu13, nvidia/cuda_runtime, ..."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec else []
    return [str(folder) for root in roots for folder in sorted(pathlib.Path(root).iterdir())
            if folder.is_dir()]
