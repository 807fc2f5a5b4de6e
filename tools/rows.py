"""rows.py: files of results. A line is a JSON object: the first is the header of the run, each
after it is one row. results/README.md describes the form.
"""
import json
import pathlib
from typing import NamedTuple


class Unreadable(Exception):
    """A file that is not one of results. The text is one short line."""


class Run(NamedTuple):
    header: dict
    rows: list
    left_out: list  # parts of cases that ran out of time: what they are, without figures


def object_of(line, number):
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Unreadable(f"line {number} is no JSON object")
    return value


def parse(text, needed=()):
    """The run that a text tells of. Each row must have the members that are needed."""
    objects = [object_of(line, i + 1) for i, line in enumerate(text.splitlines())]
    if not objects or "case" in objects[0]:
        raise Unreadable("its first line is not the header of a run")
    run = Run(objects[0], [], [])
    for number, row in enumerate(objects[1:], 2):
        if row.pop("left_out", False):
            run.left_out.append(row)
            continue
        lacks = [name for name in needed if name not in row]
        if lacks:
            raise Unreadable(f"the row in line {number} has no '{lacks[0]}'")
        run.rows.append(row)
    return run


def read(path, needed=()):
    try:
        return parse(pathlib.Path(path).read_text(encoding="utf-8"), needed)
    except OSError as e:
        raise Unreadable(e.strerror or "cannot be read") from None
    except UnicodeDecodeError:
        raise Unreadable("is no text") from None


def text_of(header, rows):
    """What a file of results has in it."""
    return "".join(json.dumps(x, separators=(",", ":"), ensure_ascii=False) + "\n"
                   for x in (header, *rows))
