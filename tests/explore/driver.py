#!/usr/bin/env python3
"""driver.py: tools/explore.py on a planted fault, which it must find, make short, and show again;
and without one.

    driver.py EXPLORE_PROGRAM SOURCE_FOLDER
"""
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
COMMAND = f"{PROGRAM} run veb.toggle seed={{seed}}"


def expect(good, what):
    if not good:
        sys.exit(f"driver.py: {what}")


def explore(out, *words, fault="none"):
    """Exit status, report."""
    done = subprocess.run([sys.executable, SOURCE / "tools/explore.py", "--out", out, *words],
                          env=dict(os.environ, WH_FAULT=fault), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    report = pathlib.Path(out) / "report.json"
    return done, json.loads(report.read_text()) if report.is_file() else None


def replays(command, fault):
    return subprocess.run(command, shell=True, env=dict(os.environ, WH_FAULT=fault),
                          stdout=subprocess.DEVNULL, check=False).returncode


def main():
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "sound")
        words = ["--command", COMMAND, "--seeds", "20", "--policies", "random,pct:3", "--jobs", "2"]
        done, report = explore(out, *words)
        expect(done.returncode == 0, f"a failure without a fault:\n{done.stdout}")
        expect(report["runs"] == report["schedules"] == 40, f"not all runs were counted: {report}")
        expect(20 <= report["distinct"] <= 40, f"{report['distinct']} schedules of 40 are distinct")
        again, second = explore(out, *words)
        expect(again.returncode == 0 and second == report, "a second run did not go on from it")
        words[3] = "30"
        more, third = explore(out, *words)
        expect(more.returncode == 0 and third["runs"] == 60, "a longer run did not go on")

        out = os.path.join(folder, "planted")
        done, report = explore(out, "--command", COMMAND, "--seeds", "200", "--policies", "random",
                               "--most-failures", "1", "--jobs", "1", fault="veb_r1")
        expect(done.returncode == 1 and report["failures"], f"a fault was missed:\n{done.stdout}")
        found = report["failures"][0]
        expect(found.get("fails_again"), f"the short schedule does not fail: {found}")
        expect(found["lines"][1] <= 3, f"it is not short: {found['lines']}")
        expect(found["repeat"] in done.stdout, "the command that repeats it is not printed")
        expect(replays(found["repeat"], "veb_r1") == 1, "the printed command does not fail")
        expect(replays(found["repeat"], "none") == 0, "the printed command fails without the fault")
        print(f"{found['lines'][0]} choices became {found['lines'][1]} in {found['trials']} trials")

        after_a_kill(folder, words)
        interrupted(folder)
        bad_arguments(folder)


def after_a_kill(folder, words):
    """Files whose last rows were not written to the end; another run in the same folder."""
    out = os.path.join(folder, "sound")
    with open(os.path.join(out, "done.jsonl"), "a", encoding="utf-8") as f:
        f.write('{"test": "comm')
    for path in pathlib.Path(out).glob("*.seen"):
        with path.open("ab") as f:
            f.write(b"abc")
    for seeds, runs in (("40", 80), ("50", 100)):
        words[3] = seeds
        done, report = explore(out, *words)
        expect(done.returncode == 0 and report["runs"] == runs,
               f"a run that was killed cannot be gone on from:\n{done.stdout}")
        expect(report["distinct"] <= runs, "schedules were counted that are none")
    with open(os.path.join(out, "lock"), encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        refused(out, *words)
    with open(os.path.join(out, "done.jsonl"), "a", encoding="utf-8") as f:
        f.write("[]\n")
    refused(out, *words)


def interrupted(folder):
    """Ctrl-C reaches the programs, too; that they end is no failure."""
    out = os.path.join(folder, "interrupted")
    run = subprocess.Popen([sys.executable, SOURCE / "tools/explore.py", "--out", out, "--jobs",
                            "2", "--command", "sleep 60", "--policies", "random"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           start_new_session=True)
    journal = pathlib.Path(out) / "done.jsonl"
    while not journal.is_file() and run.poll() is None:
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(run.pid, signal.SIGINT)
    try:
        text = run.communicate(timeout=30)[0]
    finally:
        run.kill()
    expect(run.returncode == 130 and "interrupted" in text and "FAILED" not in text,
           f"exit status {run.returncode} of a run that was interrupted:\n{text}")
    expect(journal.read_text() == "", "an interrupted unit was noted")


def refused(out, *words):
    bad, _ = explore(out, *words)
    expect(bad.returncode == 2 and bad.stdout.count("\n") == 1,
           f"{words}: exit status {bad.returncode}\n{bad.stdout}")


def bad_arguments(folder):
    for words in (["--policies", "wild"], ["--jobs", "0"], ["--build", folder],
                  ["--command", "/nonexistent/program {seed}"], ["--command", ""],
                  ["--command", "true '{seed}"], ["--minimise", ""], ["--seeds", "-1"],
                  ["--first-seed", "-1"], ["--most-failures", "0"],
                  ["--out", "/proc/none", "--command", "true"]):
        refused(os.path.join(folder, "bad"), *words)


if __name__ == "__main__":
    main()
