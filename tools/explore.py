#!/usr/bin/env python3
"""explore.py: runs tests over many seeds and policies of the simulated device, in parallel
processes, and makes a failing schedule short.

    tools/explore.py --build build [--tests REGEX] [--policies LIST] [--seconds S] [--seeds N]
        every test of the build whose name matches: by default conform, stress, arena.model, the
        units of core/, and explore.BODY for each body of tests/explore
    tools/explore.py --command "build/tests/fault child veb-toggle {seed}" ...
        another program: {seed} is the seed of a run; several commands may be given. It is run once
        for each seed and policy
    tools/explore.py --minimise "COMMAND" ...
        a command that fails, as a test has printed it, with its WH_SIM in the environment

Work is cut into units: a test, a policy, and some seeds; each test gets the same time. The folder
--out (build/explore) has a line for each unit that is done (done.jsonl), so that a later run goes
on where this one ended; the hashes of the schedules seen by a test (NAME.seen); report.json; and
failures/, with a replay file for each failure. How many schedules differ is counted by the
simulator's hash (docs/SIMULATOR.md, schedules=FILE): of when each switch was, and to which lane. A
test that opens a device several times has as many schedules.

A failure is recorded (WH_SIM=switches=FILE), replayed, and then made short by delta debugging
(Zeller and Hildebrandt, IEEE TSE 2002): lines of the file are left out as long as what is left
still fails. The one command that shows the failure again is printed.

Policies: random, sticky, stall, round-robin, pct; a number after a colon is WH_SIM's arg.
Exit status: 0, nothing failed; 1, something did, now or in a run before that this one goes on from
(remove the folder when it is mended); 2, a bad argument or file; 130, interrupted.
"""
import argparse
import array
import concurrent.futures
import fcntl
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

TESTS = (r"(conform|stress)\..*sim|arena\.model.*|explore\..*|unit\.(veb|ring|vqueue|chunk_pool"
         r"|bulk_semaphore|use_word|grid_scan|warp_group)")
POLICIES = "random,sticky,stall,pct:1,pct:2,pct:3,pct:4"
KNOWN = ("random", "sticky", "stall", "round-robin", "pct")
SKIPPED = 77
# Suites that are told by the environment which seeds to try, and how many times --unit at once.
SEEDED = {"conform": 1, "stress": 1, "explore": 200}


class Bad(Exception):
    """An argument or a file that cannot be used."""


def merged(settings, more):
    return ",".join(part for part in (settings, more) if part)


def run(command, settings, seconds, more=None):
    """Exit status (None: out of time), output."""
    env = dict(os.environ, **(more or {}))
    env.pop("WH_SIM", None)
    if settings:
        env["WH_SIM"] = settings
    try:
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=seconds, check=False)
    except subprocess.TimeoutExpired as e:
        return None, (e.stdout or b"").decode(errors="replace")
    except OSError as e:
        raise Bad(f"cannot run {command[0]}: {e.strerror}; build it, or give --build") from e
    if done.returncode == -signal.SIGINT:  # from the terminal, as this process gets it
        raise KeyboardInterrupt
    return done.returncode, done.stdout.decode(errors="replace")


def fails(status):
    return status not in (0, SKIPPED)


class Minimiser:
    """Of a command that fails under given settings: a replay file as short as can be."""

    def __init__(self, command, settings, path, limits):
        self.command, self.settings, self.path = command, settings, pathlib.Path(path)
        self.trial = self.path.with_name(self.path.name + ".trial")
        self.trials, self.most = 0, limits.trials
        self.end = time.monotonic() + limits.shrink_seconds
        self.run_seconds = limits.run_seconds
        # A livelock is told by the budget, and takes its time.
        self.budget = ",".join(part for part in (settings or "").split(",")
                               if part.startswith("budget="))

    def still_fails(self, head, lines):
        self.trials += 1
        self.trial.write_text(head + "".join(lines))
        settings = merged(f"replay={self.trial}", self.budget)
        status, _ = run(self.command, settings, self.run_seconds)
        return fails(status)

    def exhausted(self):
        return self.trials >= self.most or time.monotonic() > self.end

    def shorten(self, head, lines):
        """ddmin, complements alone: as long as leaving out a piece still fails."""
        pieces = 2
        while len(lines) > 0 and not self.exhausted():
            size = -(-len(lines) // pieces)
            for at in range(0, len(lines), size):
                fewer = lines[:at] + lines[at + size:]
                if self.exhausted():
                    return lines
                if self.still_fails(head, fewer):
                    lines, pieces = fewer, max(2, pieces - 1)
                    break
            else:
                if size == 1:
                    break
                pieces = min(2 * pieces, len(lines))
        return lines

    def minimise(self):
        """What the report says of the failure's schedule."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        status, _ = run(self.command, merged(self.settings, f"switches={self.path}"),
                        self.run_seconds)
        shown = shlex.join(self.command)
        seeded = {"repeat": f"WH_SIM={self.settings} {shown}" if self.settings else shown}
        if not fails(status) or not self.path.is_file():
            return dict(seeded, note="it does not fail again while it is recorded")
        head, *lines = self.path.read_text().splitlines(keepends=True)
        if not self.still_fails(head, lines):
            return dict(seeded, note="the schedule of its last device alone does not fail")
        fewest = self.shorten(head, lines)
        self.trial.unlink(missing_ok=True)
        self.path.write_text(head + "".join(fewest))
        replay = merged(f"replay={self.path}", self.budget)
        status, text = run(self.command, replay, self.run_seconds)
        return {"repeat": f"WH_SIM={replay} {shown}", "seed": seeded["repeat"],
                "replay": str(self.path), "lines": [len(lines), len(fewest)],
                "trials": self.trials, "fails_again": fails(status), "says": text[-600:]}


class Seen:
    """Hashes of the schedules of one test, kept in a file."""

    def __init__(self, path):
        self.path, self.hashes = path, set()
        if path.is_file():
            known, text = array.array("Q"), path.read_bytes()
            whole = len(text) // known.itemsize * known.itemsize
            os.truncate(path, whole)  # a run may have been killed while it wrote
            known.frombytes(text[:whole])
            self.hashes.update(known)

    def add(self, path):
        """How many schedules a file of the simulator has."""
        hashes = [int(line.split()[0], 16) for line in path.read_text().splitlines()] \
            if path.is_file() else []
        new = set(hashes) - self.hashes
        self.hashes |= new
        with self.path.open("ab") as f:
            f.write(array.array("Q", new).tobytes())
        path.unlink(missing_ok=True)
        return len(hashes)


def tests_of(build, wanted):
    """Names and commands of the tests that the build has."""
    try:
        text = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout
    except (OSError, subprocess.CalledProcessError) as e:
        raise Bad(f"--build {build}: there are no tests: configure and build it first") from e
    named = {t["name"]: t["command"] for t in json.loads(text)["tests"] if "command" in t}
    try:
        wanted = re.compile(wanted)
    except re.error as e:
        raise Bad(f"--tests {wanted}: it is no regular expression: {e}") from e
    found = {name: command for name, command in named.items() if re.fullmatch(wanted, name)
             and pathlib.Path(command[0]).is_file()}
    # The program of small kernels: a test for each of them.
    bodies = named.get("explore")
    if bodies and pathlib.Path(bodies[0]).is_file():
        _, text = run(bodies + ["bodies"], None, 60)
        found |= {name: bodies + ["many", body] for body in text.split()
                  if re.fullmatch(wanted, name := f"explore.{body}")}
    if not found:
        raise Bad(f"--tests {wanted.pattern}: no test of {build} that is built has such a name")
    return found


def policies_of(text):
    for word in text.split(","):
        name, _, arg = word.partition(":")
        if name not in KNOWN or not (arg == "" or arg.isdigit()):
            raise Bad(f"--policies: {word} is none; known are {', '.join(KNOWN)}, with :ARG")
        yield f"policy={name}" + (f",arg={arg}" if arg else "")


def folder_of(out):
    path = pathlib.Path(out).resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise Bad(f"--out {out}: it cannot be made: {e.strerror}; give another folder") from e
    return path


def lock(folder):
    """An open file: as long as it is, no other process has the folder's lock."""
    file = (folder / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        raise Bad(f"{folder}: another run uses it: give another --out, or wait") from e
    return file


def words_of(text, option):
    try:
        words = shlex.split(text)
    except ValueError as e:
        raise Bad(f"{option} {text}: {e}") from e
    if not words:
        raise Bad(f"{option}: a program is to be named")
    return words


class Explorer:
    def __init__(self, args, tests):
        self.args, self.tests, self.lock = args, tests, threading.Lock()
        self.out = folder_of(args.out)
        self.only = lock(self.out)
        for path in self.out.glob("*.hashes"):  # of a run that was interrupted
            path.unlink()
        self.seen = {name: Seen(self.out / f"{name}.seen") for name in tests}
        self.rows = {name: {"runs": 0, "schedules": 0, "distinct": 0, "seconds": 0.0}
                     for name in tests}
        self.todo = {name: self.units(name) for name in tests}
        self.failures, self.seconds = [], 0.0
        self.done = {}  # the first seed that a test and a policy have not had
        self.waiting = dict.fromkeys(tests, 0)
        journal = self.out / "done.jsonl"
        text = journal.read_text() if journal.is_file() else ""
        whole = text[:text.rfind("\n") + 1]  # a run may have been killed while it wrote
        if whole != text:
            journal.write_text(whole)
        for k, line in enumerate(whole.splitlines()):
            self.read_unit(line, f"{journal}:{k + 1}")
        self.journal = journal.open("a")

    def read_unit(self, line, where):
        try:
            unit = json.loads(line)
            if unit["test"] in self.tests:
                self.take(unit)
        except (ValueError, KeyError, TypeError) as e:
            raise Bad(f"{where}: it is no line of a former run: remove the folder, or give "
                      "another --out") from e

    def take(self, unit):
        key = unit["test"], unit["policy"]
        self.done[key] = max(self.done.get(key, 0), unit["first"] + unit["seeds"])
        self.rows[unit["test"]]["runs"] += unit["runs"]
        self.rows[unit["test"]]["schedules"] += unit["schedules"]
        self.rows[unit["test"]]["seconds"] += unit["seconds"]
        self.seconds += unit["seconds"]
        self.failures += unit["failures"]

    def units(self, name):
        """Of a test: all policies over some seeds, then over the next ones, without an end."""
        at = {p: self.done.get((name, p), self.args.first_seed) for p in self.policies}
        while any(self.unit_of(name, first) > 0 for first in at.values()):
            for policy, first in at.items():
                n = self.unit_of(name, first)
                at[policy] += n
                if n > 0:
                    yield name, policy, first

    def unit_of(self, name, first):
        """How many seeds a unit has."""
        n = self.args.unit * SEEDED.get(name.split(".")[0], 1)
        left = self.args.first_seed + self.args.seeds - first
        return max(0, min(n, left)) if self.args.seeds else n

    def next_unit(self):
        """Of the test that has had the least time, with a second for each unit under way."""
        while self.todo:
            name = min(self.todo, key=lambda n: self.rows[n]["seconds"] + self.waiting[n])
            unit = next(self.todo[name], None)
            if unit is not None:
                self.waiting[name] += 1
                return unit
            del self.todo[name]
        return None

    @property
    def policies(self):
        return list(policies_of(self.args.policies))

    def commands(self, name, policy, first):
        """Of a unit: command, WH_SIM without the file of hashes, environment, number of seeds."""
        command, n = self.tests[name], self.unit_of(name, first)
        if any("{seed}" in word for word in command):
            for seed in range(first, first + n):
                yield [w.replace("{seed}", str(seed)) for w in command], policy, {}, 1
        elif name.split(".")[0] in SEEDED:
            word = policy.split(",")[0]
            # The suite chooses the depth of pct by the seed; WH_SIM would give all the same.
            yield (command + [word], policy.partition(",")[2],
                   {"WH_TEST_FIRST_SEED": str(first), "WH_TEST_SEEDS": str(n)}, n)
        else:
            for seed in range(first, first + n):
                yield command, f"seed={seed},{policy}", {"WH_TEST_SEEDS": "1"}, 1

    def explore(self, unit):
        name, policy, first = unit
        started = time.monotonic()
        hashes = self.out / f"{name}.{threading.get_ident()}.hashes"
        failures, runs = [], 0
        for command, settings, env, n in self.commands(name, policy, first):
            status, text = run(command, merged(settings, f"schedules={hashes}"),
                               self.args.run_seconds * n, env)
            runs += n
            if fails(status):
                failures.append(self.failure(name, command, settings, text))
                break
            if time.monotonic() > self.end:
                break
        with self.lock:
            schedules = self.seen[name].add(hashes)
            seeds = self.unit_of(name, first) if failures else runs
            unit = {"test": name, "policy": policy, "first": first, "seeds": seeds, "runs": runs,
                    "schedules": schedules, "seconds": round(time.monotonic() - started, 3),
                    "failures": failures}
            self.waiting[name] -= 1
            self.take(unit)
            self.journal.write(json.dumps(unit) + "\n")
            self.journal.flush()

    def failure(self, name, command, settings, text):
        """A suite says itself what repeats one run; of other programs it is the command."""
        told = re.search(r"^ *repeat: (.*)$", text, re.M)
        once = command
        if told:
            once = [command[0]] + shlex.split(told.group(1))[1:]
        path = self.out / "failures" / f"{name}-{time.time_ns()}.switches"
        found = Minimiser(once, settings, path, self.args).minimise()
        print(f"FAILED: {name}\n  {found['repeat']}", flush=True)
        return dict(found, test=name, output=text[-2000:])

    def work(self):
        self.end = time.monotonic() + self.args.seconds
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            running = set()
            while True:
                while len(running) < self.args.jobs and time.monotonic() < self.end and \
                        len(self.failures) < self.args.most_failures:
                    with self.lock:
                        unit = self.next_unit()
                    if unit is None:
                        break
                    running.add(pool.submit(self.explore, unit))
                if not running:
                    return
                done, running = concurrent.futures.wait(
                    running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    future.result()

    def report(self):
        for name, row in self.rows.items():
            row["distinct"] = len(self.seen[name].hashes)
            row["seconds"] = round(row["seconds"], 1)
        report = {"seconds": round(self.seconds, 1),
                  "runs": sum(row["runs"] for row in self.rows.values()),
                  "schedules": sum(row["schedules"] for row in self.rows.values()),
                  "distinct": sum(row["distinct"] for row in self.rows.values()),
                  "policies": self.policies, "failures": self.failures, "tests": self.rows}
        (self.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
        width = max(len(name) for name in self.rows)
        for name, row in self.rows.items():
            print(f"{name:{width}} {row['runs']:9} runs {row['schedules']:10} schedules "
                  f"{row['distinct']:10} distinct")
        print(f"{report['distinct']} distinct schedules of {report['schedules']} in "
              f"{report['seconds']} s, {len(self.failures)} failures: "
              f"{self.out / 'report.json'}")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                epilog="The head of this file says more.")
    p.add_argument("--build", default="build", help="build folder with tests (build)")
    p.add_argument("--tests", default=TESTS, metavar="REGEX", help="which, by their whole names")
    p.add_argument("--command", action="append", default=[], help="another program, with {seed}")
    p.add_argument("--minimise", metavar="COMMAND", help="make the schedule of this failure short")
    p.add_argument("--policies", default=POLICIES)
    p.add_argument("--seconds", type=float, default=60, help="start nothing after so long (60)")
    p.add_argument("--seeds", type=int, default=0, help="of each test and policy; 0: no end")
    p.add_argument("--first-seed", type=int, default=1)
    p.add_argument("--unit", type=int, default=4, help="seeds of a unit of work (4)")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--run-seconds", type=float, default=60, help="most for one seed (60)")
    p.add_argument("--shrink-seconds", type=float, default=120, help="most for one failure (120)")
    p.add_argument("--trials", type=int, default=4000, help="most for one failure (4000)")
    p.add_argument("--most-failures", type=int, default=10, help="then stop (10)")
    p.add_argument("--out", help="folder of results (BUILD/explore)")
    args = p.parse_args()
    args.out = args.out or os.path.join(args.build, "explore")
    for name in ("jobs", "unit", "seconds", "run_seconds", "trials", "most_failures"):
        if getattr(args, name) <= 0:
            raise Bad(f"--{name.replace('_', '-')}: it must be more than 0")
    for name in ("seeds", "first_seed"):
        if getattr(args, name) < 0:
            raise Bad(f"--{name.replace('_', '-')}: it must not be less than 0")
    list(policies_of(args.policies))
    return args


def main():
    try:
        args = arguments()
        if args.minimise is not None:
            path = folder_of(args.out) / "failures" / f"{time.time_ns()}.switches"
            words = words_of(args.minimise, "--minimise")
            found = Minimiser(words, os.environ.get("WH_SIM", ""), path, args).minimise()
            print(json.dumps(found, indent=1))
            return 1 if found.get("fails_again") else 2
        tests = {}
        for text in args.command:
            words = words_of(text, "--command")
            tests["command." + ".".join(re.sub(r"[^\w-]+", "_", os.path.basename(w)) for w in words
                           if w != "{seed}")] = words
        explorer = Explorer(args, tests or tests_of(args.build, args.tests))
        explorer.work()
        explorer.report()
        return 1 if explorer.failures else 0
    except Bad as e:
        print(f"explore.py: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("explore.py: interrupted; the next run goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
