#!/usr/bin/env python3
"""test_mutate.py: does tools/mutate.py find out what it should, of a project of two files?

    test_mutate.py MUTATE.PY"""
import fcntl
import json
import pathlib
import subprocess
import sys
import tempfile

LIST = """
least = {least}
[build.plain]
cmake = []
[groups]
all = ["looks"]
[suite.looks]
build = "plain"
targets = ["program"]
command = ["grep", "-q", "good", "../copy.txt"]
"""
MUTATION = """
[[mutation]]
name = "{name}"
file = "source.txt"
old = '{old}'
new = '{new}'
breaks = "what it says"
suites = ["@all"]
{more}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(toy NONE)
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
add_custom_target(program COMMAND sh -c "! grep -q BROKEN $1 && cp $1 $2" sh
    "${CMAKE_SOURCE_DIR}/source.txt" "${CMAKE_BINARY_DIR}/copy.txt" VERBATIM)
"""


class Project:
    def __init__(self, folder, tool):
        self.root, self.tool = pathlib.Path(folder), tool
        subprocess.run(["git", "init", "-q", folder], check=True)
        (self.root / "CMakeLists.txt").write_text(CMAKE)
        (self.root / "source.txt").write_text("a good word\nanother one\n")
        (self.root / ".gitignore").write_text("/scratch/\n")
        (self.root / "tests").mkdir()

    def run(self, mutations, *arguments, least=0.5):
        (self.root / "list.toml").write_text(LIST.format(least=least) + "".join(
            MUTATION.format(**dict({"more": ""}, **m)) for m in mutations))
        p = subprocess.run([sys.executable, self.tool, "--root", self.root, "--work",
                            self.root / "scratch", "--list", self.root / "list.toml", *arguments],
                           cwd=self.root, capture_output=True, text=True, check=False)
        return p.returncode, p.stdout + p.stderr

    def report(self):
        report = json.loads((self.root / "scratch" / "report.json").read_text())
        return {m["name"]: m["status"] for m in report["mutations"]}


def expect(good, what, text):
    if not good:
        print(f"test_mutate.py: {what}:\n{text}", file=sys.stderr)
        sys.exit(1)


def main():
    killed = {"name": "killed", "old": "good", "new": "bad"}
    survives = {"name": "survives", "old": "another", "new": "one more"}
    same = {"name": "same", "old": "another one", "new": "one more",
            "more": "equivalent = \"nobody reads it\""}
    with tempfile.TemporaryDirectory() as folder:
        p = Project(folder, sys.argv[1])
        for m, text in (({"name": "x", "old": "worse", "new": "y"}, "is 0 times in source.txt"),
                        ({"name": "x", "old": "o", "new": "y"}, "times in source.txt, not once"),
                        ({"name": "x", "old": "good", "new": "good"}, "the same"),
                        ({"name": "x", "old": "good", "new": "y", "more": "other = 1"},
                         "no field")):
            status, out = p.run([m], "--check")
            expect(status == 2 and text in out and out.count("\n") == 1, f"not told: {text}", out)
        status, out = p.run([killed, killed], "--check")
        expect(status == 2 and "there are two" in out, "a name twice", out)
        status, out = p.run([killed, survives, same], "--check")
        expect(status == 0 and "3 mutations" in out, "a good list", out)

        status, out = p.run([killed, survives, same])
        expect(status == 0 and "50.0 % killed" in out, "half of them is enough", out)
        expect(p.report() == {"killed": "killed", "survives": "survived", "same": "equivalent"},
               "the report", p.report())
        expect((p.root / "source.txt").read_text().startswith("a good"), "the source stays", out)
        status, out = p.run([killed, survives, same], least=0.6)
        expect(status == 1 and "[" not in out, "what is known is not tried again", out)
        status, out = p.run([killed, survives], "surv*")
        expect("[1/1] survives: SURVIVED looks" in out, "one by its name", out)
        status, out = p.run([killed, {"name": "broken", "old": "another", "new": "BROKEN"}],
                            "broken")
        expect(status == 2 and p.report()["broken"] == "does not build", "no build", out)
        before = p.report()
        for words, text in ((["nosuch-*"], "no mutation's name matches nosuch-*"),
                            (["--jobs", "0"], "must be 1 or more"),
                            (["--work", "/proc/none"], "give another --work"),
                            (["--work", "list.toml"], "give another --work")):
            status, out = p.run([killed, survives], *words)
            expect(status == 2 and text in out and "Traceback" not in out, f"not told: {text}", out)
        with (p.root / "scratch" / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            status, out = p.run([killed, survives], "survives")
            expect(status == 2 and "another run uses it" in out, "two at once", out)
        expect(p.report() == before, "what is refused changes nothing", p.report())
        (p.root / "source.txt").write_text("a word\nanother one\n")
        status, out = p.run([survives])
        expect(status == 2 and "failed without a mutation" in out, "a suite that fails", out)
    print("test_mutate.py: all as it should be")


if __name__ == "__main__":
    main()
