"""python -m warpheap: version, paths and devices, for people and for build scripts.

Without an option all of it is printed; with one of --version, --include, --cflags, --library,
--link KIND and --devices that alone. Exit status 1: what was asked for is not there.
"""
import argparse
import sys

import warpheap
from warpheap._paths import LINK_KINDS


def main():
    parser = argparse.ArgumentParser(prog="python -m warpheap", description="Where warpheap is, "
                                     "and what it finds. Without an option: everything.")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--version", action="store_true", help="the version")
    one.add_argument("--include", action="store_true", help="the folder of the headers")
    one.add_argument("--cflags", action="store_true", help="-I and that folder")
    one.add_argument("--library", action="store_true", help="the path of libwarpheap.so")
    one.add_argument("--link", metavar="KIND", choices=sorted(LINK_KINDS),
                     help="the paths of device code to link, one a line: fatbin, ptx, ltoir or "
                     "device (get_links)")
    one.add_argument("--devices", action="store_true", help="the devices, one a line")
    asked = parser.parse_args()
    try:
        if asked.version:
            print(warpheap.__version__)
        elif asked.include or asked.cflags:
            print(("-I" if asked.cflags else "") + warpheap.get_include())
        elif asked.library:
            print(warpheap.get_library())
        elif asked.link:
            print("\n".join(warpheap.get_links(asked.link)))
        elif asked.devices:
            print_devices()
        else:
            print_all()
    except (ImportError, FileNotFoundError, warpheap.Error) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def print_devices(indent=""):
    for info in warpheap.devices():
        print(f"{indent}{info['spec']}: {info['name']}, {info['memory_bytes'] >> 20} MiB, "
              f"{info['driver']}")


def print_all():
    print(f"warpheap {warpheap.__version__}")
    print(f"headers: {warpheap.get_include()}")
    print(f"library: {warpheap.get_library()}")
    for kind in LINK_KINDS:
        try:
            print(f"device code, {kind}: {' '.join(warpheap.get_links(kind))}")
        except FileNotFoundError:
            print(f"device code, {kind}: none")
    print("devices:")
    print_devices("    ")
    names = " ".join(a["name"] for a in warpheap.allocators())
    print(f"allocators: {names}")


if __name__ == "__main__":
    sys.exit(main())
