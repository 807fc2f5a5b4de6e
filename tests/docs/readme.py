#!/usr/bin/env python3
"""readme.py: the documents tell the truth where a program can check it: the README's
example is the one that the tests build and run, every link leads somewhere, and every
allocator of list.h is in the README's table.

    readme.py SOURCE_DIR
"""
import pathlib
import re
import sys


def main():
    root = pathlib.Path(sys.argv[1])
    readme = (root / "README.md").read_text()
    wrong = []
    example = (root / "examples/01_malloc_free.c").read_text()
    marked = re.search(r"/\* \[readme \*/\n(.*?)/\* readme\] \*/", example, re.S)
    if marked is None or "```c\n" + marked.group(1) + "```" not in readme:
        wrong.append("README.md does not show the marked part of examples/01_malloc_free.c")
    for document in [root / "README.md", *root.glob("docs/*.md"), *root.glob("include/**/*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            if not (document.parent / link).exists():
                wrong.append("{}: no such file: {}".format(document.relative_to(root), link))
    names = re.findall(r'^\s*X\(\w+, \w+, "([^"]+)"', (root / "include/warpheap/alloc/list.h").read_text(), re.M)
    if not names:
        wrong.append("no allocator found in list.h")
    for name in names:
        if "| `{}`".format(name) not in readme:
            wrong.append("README.md: allocator {} is not in the table".format(name))
    for text in wrong:
        print(text, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
