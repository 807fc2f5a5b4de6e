#!/usr/bin/env python3
"""mutate.py: breaks the library in the ways of a list, one at a time, and says which tests notice.

    tools/mutate.py                    all mutations that have no result yet; goes on where it ended
    tools/mutate.py NAME...            those whose names match (shell patterns), once more
    tools/mutate.py --survivors        those that no suite noticed the last time, once more
    tools/mutate.py --check            only whether each mutation still fits the source; quick

The list is tests/mutants/list.toml, which explains itself. Each mutation replaces a text of one
file. It works in a copy of the working tree, in build-mutants/, and builds what the next suite
needs, no more. Suites run in the order of what they take without a mutation, each with a time
limit; the first one that fails ends it. Results are kept in build-mutants/report.json after each
mutation, and hold until the entry or its file changes; that a mutation survived, also only until a
file of the tests does.

Exit status: 0 if enough are killed (the list says how many); 1 if not; 2 if the list or an argument
is wrong, or something does not build; 130, interrupted.
"""
import argparse
import fcntl
import fnmatch
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutants" / "list.toml"
WORK = ROOT / "build-mutants"
NEEDED = {"name", "file", "old", "new", "breaks", "suites"}
FIELDS = NEEDED | {"equivalent"}
EXTRA_SECONDS = 30  # of a suite's time limit, beside five times what it takes
BUILD_SECONDS = 1200


class BadList(Exception):
    """The list, or an entry, is wrong: one line that says where, what, and the mend."""


# --- the list --------------------------------------------------------------------------------


def expand(names, groups, where):
    """Suites of a list, in which @NAME stands for a group."""
    found = []
    for name in names:
        if not name.startswith("@"):
            found.append(name)
        elif name[1:] in groups:
            found += groups[name[1:]]
        else:
            raise BadList(f"{where}: there is no group {name}; add it to [groups]")
    return found


def check_entry(entry, known, groups, root):
    where = f"mutation {entry.get('name', '(no name)')}"
    if missing := NEEDED - entry.keys():
        raise BadList(f"{where}: {sorted(missing)[0]} is missing; add it")
    if unknown := entry.keys() - FIELDS:
        raise BadList(f"{where}: {sorted(unknown)[0]} is no field; fields are {sorted(FIELDS)}")
    entry["suites"] = expand(entry["suites"], groups, where)
    for suite in entry["suites"]:
        if suite not in known:
            raise BadList(f"{where}: there is no suite {suite}; add [suite.{suite}]")
    path = root / entry["file"]
    if not path.is_file():
        raise BadList(f"{where}: {entry['file']} is not there; name the file that has the text")
    n = path.read_text().count(entry["old"])
    if n != 1:
        raise BadList(f"{where}: its text is {n} times in {entry['file']}, not once; "
                      "write more of the text around it, or what it is now")
    if entry["old"] == entry["new"]:
        raise BadList(f"{where}: old and new are the same; let new break something")


def read_list(path, root):
    try:
        with open(path, "rb") as f:
            data = tomllib.load(f)
    except (OSError, tomllib.TOMLDecodeError) as e:
        raise BadList(f"{path}: {e}") from None
    for part in ("mutation", "suite", "groups", "build", "least"):
        if part not in data:
            raise BadList(f"{path}: {part} is missing; add it")
    names = set()
    for entry in data["mutation"]:
        check_entry(entry, data["suite"], data["groups"], root)
        if entry["name"] in names:
            raise BadList(f"mutation {entry['name']}: there are two; rename one")
        names.add(entry["name"])
    return data


# --- the copy, builds and runs -----------------------------------------------------------------


def copy_tree(root, tree):
    """What git knows or would take, as it is now. Files that are the same stay as they are, so that
    nothing is compiled for them."""
    try:
        out = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
                             check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError) as e:
        raise BadList(f"{root}: git cannot list its files; give the --root of a clone") from e
    listed = out.decode().split("\0")
    wanted = {name for name in listed
              if name and not name.startswith("results/") and (root / name).is_file()}
    for name in wanted:
        text, to = (root / name).read_bytes(), tree / name
        if not to.is_file() or to.read_bytes() != text:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(text)
            to.chmod((root / name).stat().st_mode)
    for path in tree.rglob("*"):
        if path.is_file() and str(path.relative_to(tree)) not in wanted:
            path.unlink()


def run(command, cwd, seconds, log, env=None):
    """Exit status, None: it ran past its time. Its children end with it."""
    with open(log, "wb") as out:
        p = subprocess.Popen(command, cwd=cwd, stdout=out, stderr=subprocess.STDOUT,
                             stdin=subprocess.DEVNULL, env=env, start_new_session=True)
        try:
            return p.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            p.wait()


class Bench:
    """The copy of the tree, and its builds."""

    def __init__(self, data, root, work, jobs):
        self.suites, self.builds = data["suite"], data["build"]
        self.tree, self.work, self.jobs = work / "tree", work, jobs
        copy_tree(root, self.tree)
        self.marker = work / "mutated"  # names the file that has been changed
        if self.marker.is_file():  # a run was killed: what was compiled then must not stay
            (self.tree / self.marker.read_text()).touch()
        self.env = dict(os.environ, CCACHE_BASEDIR=str(work))
        self.usual = {}  # suite -> seconds without a mutation

    def build(self, suite):
        """Whether the suite's program builds."""
        s = self.suites[suite]
        folder = self.work / s["build"]
        log = self.work / "build.log"
        if not (folder / "CMakeCache.txt").is_file():
            command = ["cmake", "-S", self.tree, "-B", folder, *self.builds[s["build"]]["cmake"]]
            if run(command, self.work, BUILD_SECONDS, log, self.env) != 0:
                return False
        command = ["cmake", "--build", folder, "--parallel", str(self.jobs), "--target",
                   *s["targets"]]
        return run(command, self.work, BUILD_SECONDS, log, self.env) == 0

    def try_suite(self, suite, seconds):
        """passed, failed, hangs; and after how many seconds."""
        s = self.suites[suite]
        env = dict(self.env, **self.builds[s["build"]].get("env", {}), **s.get("env", {}))
        start = time.monotonic()
        status = run(s["command"], self.work / s["build"] / "tests", seconds,
                     self.work / "suite.log", env)
        took = time.monotonic() - start
        if status is None:
            return "hangs", took
        return "passed" if status in (0, 77) else "failed", took

    def usual_seconds(self, suite):
        """Runs the suite on the source as it is, once: it must pass."""
        if suite not in self.usual:
            if not self.build(suite):
                raise BadList(f"suite {suite} does not build without a mutation; "
                              f"see {self.work / 'build.log'}")
            result, took = self.try_suite(suite, 900)
            if result != "passed":
                raise BadList(f"suite {suite} {result} without a mutation; "
                              f"see {self.work / 'suite.log'}")
            self.usual[suite] = took
        return self.usual[suite]

    def mutate(self, entry):
        """What the suites say of the mutated source."""
        path = self.tree / entry["file"]
        suites = sorted(entry["suites"], key=self.usual_seconds)
        text = path.read_text()
        self.marker.write_text(entry["file"])
        path.write_text(text.replace(entry["old"], entry["new"]))
        tried, status = [], "survived"
        try:
            for suite in suites:
                if not self.build(suite):
                    status = "does not build"
                    break
                result, took = self.try_suite(suite, 5 * self.usual[suite] + EXTRA_SECONDS)
                tried.append({"suite": suite, "result": result, "seconds": round(took, 2)})
                if result != "passed":
                    status = "killed"
                    break
        finally:
            path.write_text(text)
            self.marker.unlink()
        return {"status": status, "tried": tried}


# --- results -----------------------------------------------------------------------------------


def digest(entry, root):
    """Of what is mutated, and how."""
    parts = [entry[k] for k in ("name", "file", "old", "new")] + [entry.get("equivalent", "")]
    h = hashlib.sha256(json.dumps(parts).encode())
    h.update((root / entry["file"]).read_bytes())
    return h.hexdigest()[:16]


def digest_of_tests(entry, root):
    h = hashlib.sha256(json.dumps(entry["suites"]).encode())
    for pattern in ("*.[ch]", "*.[ch]pp"):
        for path in sorted((root / "tests").rglob(pattern)):
            h.update(path.read_bytes())
    return h.hexdigest()[:16]


def old_results(path):
    try:
        return {m["name"]: m for m in json.loads(path.read_text())["mutations"]}
    except (OSError, ValueError, KeyError):
        return {}


def write_report(path, data, results, bench):
    done = [results[e["name"]] for e in data["mutation"] if e["name"] in results]
    counts = {}
    for m in done:
        counts[m["status"]] = counts.get(m["status"], 0) + 1
    report = {"mutations": done, "counts": counts,
              "suites": {k: round(v, 2) for k, v in sorted(bench.usual.items())}}
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(report, indent=1) + "\n")
    temporary.replace(path)
    return counts


def describe(m):
    if m["status"] == "killed":
        last = m["tried"][-1]
        before = sum(t["seconds"] for t in m["tried"])
        how = "hangs" if last["result"] == "hangs" else "fails"
        return (f"killed: {last['suite']} {how} after {last['seconds']:.1f} s"
                f" ({before:.1f} s of {len(m['tried'])} suites)")
    if m["status"] == "survived":
        return "SURVIVED " + ", ".join(t["suite"] for t in m["tried"])
    return f"{m['status']}: {m['reason']}" if "reason" in m else m["status"].upper()


def verdict(counts, least):
    killed, survived = counts.get("killed", 0), counts.get("survived", 0)
    broken = counts.get("does not build", 0)
    share = killed / (killed + survived) if killed + survived else 1.0
    print(f"{killed} killed, {survived} survived, {counts.get('equivalent', 0)} equivalent, "
          f"{broken} do not build: {100 * share:.1f} % killed; wanted: {100 * least:.0f} %")
    if broken:
        return 2
    return 0 if share >= least else 1


def is_chosen(entry, arguments, old):
    name = entry["name"]
    if arguments.names:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in arguments.names)
    if name not in old or old[name]["digest"] != entry["digest"]:
        return not arguments.survivors
    failed = old[name]["status"] in ("survived", "does not build")
    return failed and (arguments.survivors or old[name]["tests"] != entry["tests"])


def lock(folder):
    """An open file: as long as it is, no other process has the folder's lock. Two that mutate one
    copy of the tree would both be wrong."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BadList(f"{folder}: another run uses it; wait, or give another --work") from None
    except OSError as e:
        raise BadList(f"{folder}: {e.strerror}; give another --work") from None
    return file


def run_all(data, arguments):
    work = arguments.work.resolve()
    with lock(work):
        return run_chosen(data, arguments, work)


def run_chosen(data, arguments, work):
    bench = Bench(data, arguments.root, work, arguments.jobs)
    report = work / "report.json"
    results = {} if arguments.again else old_results(report)
    for entry in data["mutation"]:
        entry["digest"] = digest(entry, arguments.root)
        entry["tests"] = digest_of_tests(entry, arguments.root)
    chosen = [e for e in data["mutation"] if is_chosen(e, arguments, results)]
    for k, entry in enumerate(chosen):
        result = ({"status": "equivalent", "reason": entry["equivalent"], "tried": []}
                  if "equivalent" in entry else bench.mutate(entry))
        results[entry["name"]] = {"name": entry["name"], "file": entry["file"],
                                  "breaks": entry["breaks"], "digest": entry["digest"],
                                  "tests": entry["tests"], **result}
        print(f"[{k + 1}/{len(chosen)}] {entry['name']}: {describe(results[entry['name']])}",
              flush=True)
        write_report(report, data, results, bench)
    return verdict(write_report(report, data, results, bench), data["least"])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    p.add_argument("names", nargs="*", help="mutations, as shell patterns")
    p.add_argument("--check", action="store_true", help="only whether each one still fits")
    p.add_argument("--survivors", action="store_true", help="those that survived, once more")
    p.add_argument("--again", action="store_true", help="forget former results")
    p.add_argument("--list", type=pathlib.Path, default=LIST, help="another list")
    p.add_argument("--root", type=pathlib.Path, default=ROOT, help="another working tree")
    p.add_argument("--work", type=pathlib.Path, default=WORK, help="another folder for builds")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    arguments = p.parse_args()
    if arguments.jobs < 1:
        p.error(f"--jobs {arguments.jobs}: it must be 1 or more")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # children end, the file is put back
    try:
        data = read_list(arguments.list, arguments.root)
        for pattern in arguments.names:
            if not fnmatch.filter([e["name"] for e in data["mutation"]], pattern):
                raise BadList(f"no mutation's name matches {pattern}; {arguments.list} has them")
        if arguments.check:
            print(f"{len(data['mutation'])} mutations fit the source")
            return 0
        return run_all(data, arguments)
    except BadList as e:
        print(f"mutate.py: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mutate.py: interrupted; the next run goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
