#!/usr/bin/env python3
"""top.py: `warpheap top` beside a program that publishes: lines, JSON, a picture on a terminal;
what it says of a program that ends, is killed, or of a file that is none.

    top.py <warpheap> <example 12_gauge>
"""
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WARPHEAP, EXAMPLE = sys.argv[1:3]
failures = 0


def check(condition, what):
    global failures
    if not condition:
        failures += 1
        print(f"FAIL {what}")


def top(*words):
    """(exit status, standard output, standard error)"""
    done = subprocess.run([WARPHEAP, "top", *map(str, words)], capture_output=True, text=True,
                          timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def refuses(words, status, pattern):
    code, out, err = top(*words)
    check(code == status, f"{words}: exit status {code}, not {status}")
    check(out == "", f"{words}: prints {out!r}")
    check(re.search(pattern, err) and err.count("\n") == 1, f"{words}: says {err!r}")


def start(path, seconds, name=EXAMPLE):
    path.unlink(missing_ok=True)
    program = subprocess.Popen([name, "sim", path, str(seconds)], executable=EXAMPLE,
                               stdout=subprocess.DEVNULL)
    for _ in range(1000):
        if path.exists() and path.stat().st_size > 0:
            return program
        time.sleep(0.01)
    raise SystemExit("the example publishes nothing")


def stop(program):
    program.send_signal(signal.SIGKILL)
    program.wait()


def on_terminal(*words):
    """What is drawn on a terminal, and the exit status."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(WARPHEAP, ["warpheap", "top", *map(str, words)])
    text = b""
    while True:
        try:
            more = os.read(terminal, 4096)
        except OSError:  # the other side is closed
            break
        if not more:
            break
        text += more
    return text.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def running(path):
    program = start(path, 600)
    code, out, err = top(path, "--count", 3, "--interval", 60)
    lines = out.splitlines()
    check(code == 0 and err == "" and len(lines) == 3, f"three lines: {code} {out!r} {err!r}")
    for line in lines:
        check(re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  used [\d.]+ \w*B  claimed [\d.]+ \w*B  "
                           r"of 31\.\d MiB  live \d+  failed 0  bad frees 0", line), line)
    code, out, _ = top("--json", "-n", 4, "-i", 110, path)
    rows = [json.loads(line) for line in out.splitlines()]
    check(code == 0 and len(rows) == 4, "four objects")
    check(len({row["time_ns"] for row in rows}) > 1, "samples follow each other")
    for row in rows:
        check(row["pid"] == program.pid and row["allocator"] == "tessera", "whose it is")
        check(0 <= row["used_bytes"] <= row["claimed_bytes"] <= row["heap_bytes"], "amounts")
        check(row["peak_bytes"] is None and row["failed"] == 0, "what is not known")
    text, code = on_terminal(path, "-n", 3, "-i", 60)
    check(code == 0 and text.count("\033[7A\r") == 2, f"two pictures over the first: {text!r}")
    check(text.count("\n") == 21 and text.count("\033[K") == 21, "seven lines a picture")
    check(re.search(r"used +\[[#.]{40}\]", text), "a bar")
    stop(program)
    refuses([path], 1, r"pid \d+\) has ended without closing its gauge")


def ends(path):
    """The program ends while it is watched, in the usual way or by force."""
    program = start(path, 0.5)
    code, out, err = top(path, "-i", 20)
    check(program.wait() == 0 and code == 0 and err == "", f"at the end: {code} {err!r}")
    check(re.search("used 0 B .* live 0 .*\n$", out), f"the last sample: {out[-200:]!r}")
    refuses([path], 1, "has closed its gauge")
    program = start(path, 600)
    watcher = subprocess.Popen([WARPHEAP, "top", path, "-i", "20"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    time.sleep(0.3)
    stop(program)
    _, err = watcher.communicate(timeout=60)
    check(watcher.returncode == 1 and "without closing" in err, f"killed: {err!r}")


def names(path):
    """A program whose name has orders for a terminal, and is no UTF-8."""
    name = b"a\x1b[31m\x07\x9b2J\xc2\x9b\\\n"
    shown = r"a\x1b[31m\x07\x9b2J\xc2\x9b\x5c\x0a"
    program = start(path, 600, name)
    text, code = on_terminal(path, "-n", 1)
    check(code == 0 and text.startswith(shown + " (pid"), f"a drawn name: {text[:80]!r}")
    code, out, _ = top(path, "-n", 1, "--json")
    check(code == 0 and json.loads(out)["program"] == shown, f"a name in JSON: {out!r}")
    stop(program)
    code, out, err = top(path)
    check(code == 1 and shown in err and "\x1b" not in err, f"a name in a complaint: {err!r}")


def files(folder, path):
    refuses([], 2, "wants the file")
    refuses([path, path], 2, "one file")
    refuses([path, "--count", "x"], 2, "--count: 'x' is not a number above 0")
    refuses([path, "-n", "0"], 2, "--count")
    refuses([path, "--interval", "9G"], 2, "up to an hour")
    refuses([folder / "nowhere"], 1, "nowhere: it cannot be read: No such file")
    refuses([folder], 1, "directory")
    good = path.read_bytes()
    other = folder / "other"
    for content, pattern in ((b"", "no gauge publishes"), (b"a text\n" * 99, "no gauge publishes"),
                             (good[:100], "cut short"), (good[:-1] + b"\xff", "damaged"),
                             (good[:8] + b"\x63" + good[9:], "version 99")):
        other.write_bytes(content)
        refuses([other], 1, pattern)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "gauge"
        running(path)
        names(path)
        ends(path)
        files(folder, path)
    print("failed" if failures else "passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
