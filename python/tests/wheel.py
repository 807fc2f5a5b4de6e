#!/usr/bin/env python3
"""wheel.py: pip builds the wheel, installs it into a fresh virtual environment, and what is in it
works there: the tests of the package, and `python -m warpheap`.

    wheel.py <build folder of the library> <folder for the work> [<folder for scikit-build-core>]

The library is taken from the build folder as it is. Exit status 77: there is no venv, no pip, or
no network to get scikit-build-core from.
"""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

TESTS = pathlib.Path(__file__).resolve().parent
SOURCE = TESTS.parent.parent
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(*command, **more):
    print("+", *command, flush=True)
    return subprocess.run(list(map(str, command)), check=True, text=True, **more)


def builder(modules):
    """scikit-build-core, in a folder: installed once, so that a test needs the network once."""
    have = subprocess.run([sys.executable, "-c", "import scikit_build_core"],
                          env={**os.environ, "PYTHONPATH": str(modules)}, capture_output=True)
    if have.returncode != 0:
        got = subprocess.run(PIP + ["install", "--root-user-action", "ignore", "--target",
                                    str(modules), "scikit-build-core>=0.10"],
                             capture_output=True, text=True)
        if got.returncode != 0:
            skip(f"pip cannot install scikit-build-core: {got.stderr.strip()[-300:]}")


def contents(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {"warpheap/__init__.py", "warpheap/report/rows.py", "warpheap/report/page.html",
              "warpheap/include/warpheap/warpheap.h",
              "warpheap/include/warpheap/detail/alloc/tessera/tessera.h"}
    missing = wanted - names
    if missing or not any(name.startswith("warpheap/lib/libwarpheap.so") for name in names):
        sys.exit(f"{wheel} lacks files: {sorted(missing) or 'libwarpheap.so'}")
    if any("__pycache__" in name or "/tests/" in name for name in names):
        sys.exit(f"{wheel} has files that it should not have")


def main():
    build, work = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    modules = pathlib.Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else work / "modules"
    for module in ("venv", "pip"):
        if importlib.util.find_spec(module) is None:
            skip(f"this Python has no {module}")
    builder(modules)
    for name in ("wheel", "venv", "empty"):
        shutil.rmtree(work / name, ignore_errors=True)
        (work / name).mkdir(parents=True)
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("PYTHON", "WARPHEAP", "MAKE", "MFLAGS"))}
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", work / "wheel", SOURCE,
        "-C", f"cmake.define.WARPHEAP_PYTHON_BUILD={build}",
        env={**clean, "PYTHONPATH": str(modules)})
    wheel, = (work / "wheel").glob("warpheap-*-py3-none-*.whl")
    contents(wheel)
    run(sys.executable, "-m", "venv", "--without-pip", work / "venv", env=clean)
    python = work / "venv" / "bin" / "python"
    # pip of this Python, which fills the other one: a venv with its own takes seconds to make.
    place = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", env=clean,
                capture_output=True).stdout.strip()
    run(*PIP, "install", "--no-deps", "--no-index", "--root-user-action", "ignore", "--target",
        place, wheel, env=clean)
    in_it = {"cwd": work / "empty", "env": clean}
    where = run(python, "-c", "import warpheap; print(warpheap.get_library())", capture_output=True,
                **in_it).stdout.strip()
    if not where.startswith(str(work / "venv")):
        sys.exit(f"the library is that of {where}, not of the wheel")
    run(python, "-m", "warpheap", **in_it)
    flags = run(python, "-m", "warpheap", "--cflags", capture_output=True, **in_it).stdout.strip()
    if not (pathlib.Path(flags.removeprefix("-I")) / "warpheap" / "warpheap.h").is_file():
        sys.exit(f"--cflags says {flags}")
    for test in ("test_heap", "test_layout"):
        run(python, TESTS / f"{test}.py", **in_it)


if __name__ == "__main__":
    main()
