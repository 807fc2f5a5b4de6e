"""python -m warpheap.report; and python3 FOLDER, as the program `warpheap` runs it."""
import importlib.util
import pathlib
import sys

if __package__:
    from .command import main
else:  # This folder alone: it gets a name of its own, so that nothing else is found beside it.
    _here = pathlib.Path(__file__).resolve().parent
    _spec = importlib.util.spec_from_file_location(
        "warpheap_report", _here / "__init__.py", submodule_search_locations=[str(_here)])
    sys.modules["warpheap_report"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["warpheap_report"])
    sys.path[:] = [path for path in sys.path if path != str(_here)]
    from warpheap_report.command import main

if __name__ == "__main__":
    sys.exit(main())
