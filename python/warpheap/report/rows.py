"""rows.py: files of results. A line is a JSON object: the first is the header of the run, each
after it is one row. results/README.md describes the form.
"""
import gzip
import json
import lzma
import pathlib
import sys
import zlib
from typing import NamedTuple

TEXTS = ("alloc", "case", "op", "phase", "form", "build", "name", "what", "input")
KEY = (*TEXTS, "size", "size_min", "threads", "block", "fill", "free_share")  # of a row
NUMBERS = ("us", "us_min", "us_max", "us_null", "null_us", "ratio_null", "size", "size_min",
           "threads", "ops", "reps", "failed", "bad", "block", "fill", "free_share", "registers",
           "local_bytes", "max_threads", "reserved_bytes", "compile_cpu_seconds", "instructions",
           "utilization", "range_ratio", "ratio_alone", "ratio_plain", "waste_mean")
COMPRESSED = {".gz": gzip.open, ".xz": lzma.open}  # by the end of the name


class Unreadable(Exception):
    """A file that is not one of results. The text is one short line."""


class Row(dict):
    """An object of a file, and where it stands. A member that is null is left out."""

    def __init__(self, members, where):
        super().__init__((k, v) for k, v in members.items() if v is not None)
        self.where = where

    def __missing__(self, name):
        raise Unreadable(f"{self.where} has no '{name}'")

    def number(self, name):
        """None if it has no such member."""
        value = self.get(name)
        if value is not None and not is_number(value):
            raise Unreadable(f"{self.where}: '{name}' is no number")
        return value


class Run(NamedTuple):
    header: Row
    rows: list
    left_out: list  # parts of cases that ran out of time: what they are, without figures


def is_number(value):
    return (isinstance(value, (int, float)) and not isinstance(value, bool)
            and abs(value) <= sys.float_info.max)


def check_row(row):
    for name in TEXTS:
        if not isinstance(row.get(name, ""), str):
            raise Unreadable(f"{row.where}: '{name}' is no text")
    for name in NUMBERS:
        row.number(name)


def object_of(line, number):
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Unreadable(f"line {number} is no JSON object")
    return Row(value, f"line {number}")


def parse(text, needed=(), check=check_row):
    """The run that a text tells of. Each row must have the members that are needed."""
    objects = [object_of(line, i + 1) for i, line in enumerate(text.splitlines())]
    if not objects or "case" in objects[0]:
        raise Unreadable("its first line is not the header of a run")
    run = Run(objects[0], [], [])
    for row in objects[1:]:
        if row.pop("left_out", False):
            run.left_out.append(row)
            continue
        for name in needed:
            row[name]  # raises Unreadable
        check(row)
        run.rows.append(row)
    return run


def bytes_of(path):
    """What is in a file, which may be compressed."""
    opener = COMPRESSED.get(pathlib.Path(path).suffix, open)
    with opener(path, "rb") as f:
        return f.read()


def read(path, needed=(), check=check_row):
    """As parse. Each row then tells of its file, too."""
    try:
        run = parse(bytes_of(path).decode("utf-8"), needed, check)
    except (lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError):
        raise Unreadable("its compression is broken") from None
    except OSError as e:
        raise Unreadable(e.strerror or "cannot be read") from None
    except UnicodeDecodeError:
        raise Unreadable("is no text") from None
    for row in (run.header, *run.rows):
        row.where = f"{path}: {row.where}"
    return run


def text_of(header, rows):
    """What a file of results has in it."""
    return "".join(json.dumps(x, separators=(",", ":"), ensure_ascii=False) + "\n"
                   for x in (header, *rows))
