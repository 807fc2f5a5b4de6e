#!/usr/bin/env python3
"""readme.py: the documents tell the truth where a program can check it: the code that README.md
and docs/CUDA.md show is that of examples which the tests build, as is GRAPH.md's program, every
link leads somewhere, to a heading that is there, every file of results is linked from some page,
and every allocator of list.h is in the README's table.

An example marks what is shown: between /* [readme */ and /* readme] */ for README.md, between
/* [docs NAME */ and /* docs] */ for docs/CUDA.md, /* [graph */ and /* graph] */ for docs/GRAPH.md.
docs/MEMORY.md has parts between /* [memory NAME */ and /* memory] */; docs/GAUGE.md,
docs/CHECKED.md, docs/LEAKS.md, docs/CPP.md, docs/ABI.md, docs/REPLACE_MALLOC.md and
docs/SEVERAL_GPUS.md likewise, and docs/tessera/reserve.md, where the other code is abridged.

    readme.py SOURCE_DIR
"""
import pathlib
import re
import sys
import textwrap

MARK = r"^[ ]*/\* (?:\[\w+ \w+|\w+\]) \*/\n"  # of a part within another one
MARKED = r"[ ]*/\* \[%s \*/\n(.*?)[ ]*/\* %s\] \*/"


def shown(text, languages):
    """The fenced blocks of a document in these languages."""
    return re.findall(r"^```(?:%s)\n(.*?)^```$" % "|".join(languages), text, re.S | re.M)


def marked(root, begin, end):
    """(example, code) of each part of an example between two marks."""
    files = sorted(f for folder in ("examples/*", "examples/mpi/*") for f in root.glob(folder)
                   if f.suffix in (".c", ".cpp", ".cu", ".h"))
    return [(f.name, textwrap.dedent(re.sub(MARK, "", code, flags=re.M))) for f in files
            for code in re.findall(MARKED % (begin, end), f.read_text(), re.S)]


def snippets(root):
    """What is wrong with the code that the documents show."""
    wrong = []
    for document, begin, end in (("README.md", "readme", "readme"),
                                 ("docs/CUDA.md", r"docs \w+", "docs"),
                                 ("docs/MEMORY.md", r"memory \w+", "memory"),
                                 ("docs/GAUGE.md", r"gauge \w+", "gauge"),
                                 ("docs/tessera/reserve.md", r"reserve \w+", "reserve"),
                                 ("docs/CHECKED.md", r"checked \w+", "checked"),
                                 ("docs/LEAKS.md", r"leaks \w+", "leaks"),
                                 ("docs/CPP.md", r"cpp \w+", "cpp"),
                                 ("docs/ABI.md", r"abi \w+", "abi"),
                                 ("docs/REPLACE_MALLOC.md", r"replace \w+", "replace"),
                                 ("docs/SEVERAL_GPUS.md", r"ranks \w+", "ranks"),
                                 ("docs/GRAPH.md", "graph", "graph")):
        blocks = shown((root / document).read_text(), ("c", "cpp"))
        parts = marked(root, begin, end)
        if not parts:
            wrong.append("no example marks a part for {}".format(document))
        for name, code in parts:
            if code not in blocks:
                wrong.append("{} does not show the marked part of {}".format(document, name))
        for block in blocks if end not in ("graph", "reserve") else []:  # parts of programs
            if block not in [code for _, code in parts]:
                wrong.append("{} shows code that is in no example: {}".format(
                    document, block.splitlines()[0]))
    return wrong


def documents(root):
    return [file for pattern in ("*.md", "docs/**/*.md", "include/**/*.md", "results/*.md")
            for file in sorted(root.glob(pattern))]


def headings(document):
    """What a link may name behind #, as the sites that show the pages make it of a heading."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.S | re.M)
    found = []
    for heading in re.findall(r"^#+ +(.*?) *$", text, re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(slug if slug not in found else f"{slug}-{found.count(slug)}")
    return found


def anchors(root):
    """The links to a heading that is not there."""
    wrong, known = [], {}
    for document in documents(root):
        text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.S | re.M)
        for link, heading in re.findall(r"\]\(((?:[^)#:\s]+\.md)?)#([^)\s]+)\)", text):
            target = (document.parent / link).resolve() if link else document.resolve()
            if target.exists() and heading not in known.setdefault(target, headings(target)):
                wrong.append("{}: no heading {}#{}".format(document.relative_to(root), link,
                                                           heading))
    return wrong


def links(root):
    """The links that lead nowhere, and the files of results that no page quotes."""
    wrong = []
    results = {file.resolve() for file in root.glob("results/**/*.jsonl")}
    for document in documents(root):
        text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.S | re.M)
        for link in re.findall(r"(?:\]\(|^\[[^]]+\]: *)([^)#:\s]+)(?=[)#\s])", text, re.M):
            target = document.parent / link
            results.discard(target.resolve())
            if not target.exists():
                wrong.append("{}: no such file: {}".format(document.relative_to(root), link))
    return wrong + ["no page quotes {}".format(file.relative_to(root.resolve()))
                    for file in sorted(results)]


def main():
    root = pathlib.Path(sys.argv[1])
    readme = (root / "README.md").read_text()
    wrong = snippets(root) + links(root) + anchors(root)
    list_h = (root / "include/warpheap/detail/alloc/list.h").read_text()
    names = re.findall(r'^\s*X\(\w+, "([^"]+)"', list_h, re.M)
    if not names:
        wrong.append("no allocator found in list.h")
    for name in names:
        if not re.search(r"^\|[^|]*`{}`[^|]*\|".format(re.escape(name)), readme, re.M):
            wrong.append("README.md: allocator {} is not in the table".format(name))
    for text in wrong:
        print(text, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
