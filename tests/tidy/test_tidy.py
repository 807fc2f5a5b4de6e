#!/usr/bin/env python3
"""test_tidy.py: tidy.py finds each kind of offence, planted in a tree of a few files, and nothing
in the tree without one; and its list of offenders may only shrink.

    test_tidy.py FOLDER     (of tidy.py's modules)
"""
import pathlib
import subprocess
import sys
import tempfile

import tidy

CLEAN = {
    "README.md": "See [the page](docs/MEMORY_MODEL.md#pairs), [elsewhere](https://example.org/x).\n"
                 "| " + "a wide table " * 10 + "|\n",
    "docs/MEMORY_MODEL.md": "# Pairs\n\n## core\n\n- `ring` P1\n\n## foo\n\n- P1: see src/a.c\n",
    "docs/MADE.md": "# Made\n\nMade by a tool. Do not edit this page.\n\n" + "word " * 30 + "\n",
    "src/list.h": "#define A 1\n" * 70 + "/* list.h */\n",
    "tests/x.cmake": "set(a b)\n" + "# no head\n" * 70,
    "tests/x.py": '#!/usr/bin/env python3\n"""x.py"""\n' + "# no head\n" * 70,
    "src/d.c": "/* d.c: wh_d */\nvoid wh_d(int a,\n          int b) {\n    wh_e();\n}\n",
    "src/a.c": "/* a.c: see tests/fault/f.c. */\nWH_HD int pick(int a, int b) {\n"
               "    return a ? b : 0;\n}\n",
    "include/warpheap/core/ring.h": "/* ring.h\n *   I1  one owner\n *   P1  put -> take\n */\n"
                                    "int ring_put(void); /* I1, P1 */\n",
    "include/warpheap/detail/alloc/foo/foo.h":
        "/* foo.h: may change.\n *   P1  free -> malloc (core/ring.h P1)\n *   X1  exact\n */\n"
        '#include "warpheap/core/ring.h"\n'
        "WH_FN int f(void) { return WH_PLANT(foo_x1, 1, 0); /* X1, P1 */ }\n",
    "tests/fault/f.c": '/* f.c */\n#include "warpheap/detail/alloc/foo/foo.h"\n'
                       'struct row rows[] = {{"foo_x1", "never-null"}}; /* P1 */\n',
}
FOO = "include/warpheap/detail/alloc/foo/foo.h"
RING = "include/warpheap/core/ring.h"

# (rule, symbol), the file, and what is added to it, or (what it has, what it has instead).
PLANTED = [
    (("length", "longer"), "src/a.c", "void longer(void) {\n" + "    x();\n" * 69 + "}\n"),
    (("length", "longer"), "src/a.c",
     "WH_KERNEL(longer, some_args, a) {\n" + "    x();\n" * 69 + "}\n"),
    (("parameters", "seven"), FOO,
     "WH_FN_SLOW int seven(int a, int b, int c,\n    int d, int e, int f, int g) { return a; }\n"),
    (("parameters", "linked"), FOO,
     "WH_FN_LINKED(int *, linked,\n    (int a, int b, int c, int d, int e, int f, int g)) {}\n"),
    (("ternary", "g"), "src/a.c", "int g(int a) { return a ? 1 : a > 2 ? 3 : 4; }\n"),
    (("ternary", "g"), "src/a.c", "int g(int a) { return h(a ? f(a ? 1 : 2) : 4); }\n"),
    (("ternary", "M"), "src/a.c", "#define M(a, b) \\\n    ((a) ? 1 : \\\n     (b) ? 2 : 3)\n"),
    (("width", "a.c"), "src/a.c", "/*" + " word" * 20 + " */\n"),
    (("width", "README.md"), "README.md", "word " * 21 + "\n"),
    (("tag-undefined", "a:P9"), "src/a.c", "int x; /* P9 */\n"),
    (("tag-undefined", "foo:I1"), FOO, "int x; /* the ring's, but the file is not named: I1 */\n"),
    (("tag-undefined", "foo:I2"), FOO, "int x; /* core/ring.h I2 */\n"),
    (("tag-uncited", "foo:X1"), FOO, (" /* X1, P1 */", " /* P1 */")),
    (("tag-unexplained", "foo:P1"), "docs/MEMORY_MODEL.md", ("- P1", "- that")),
    (("tag-unexplained", "ring:P1"), "docs/MEMORY_MODEL.md", ("- `ring`", "- `veb`")),
    (("plant", "foo_x2"), FOO, "#define Y WH_PLANT(foo_x2, 1, 0)\n"),
    (("plant", "foo_x3"), "tests/fault/f.c", 'struct row more[] = {{"foo_x3", "never"}};\n'),
    (("mask", "a.c"), "src/a.c", "int all = 0xffffffffu;\n"),
    (("hash", "a.c"), "src/a.c", "int h = 3 * 2654435761u;\n"),
    (("size", "big.json"), "big.json", "1" * 300000),
    (("head", "a.c"), "src/a.c", ("/* a.c", "/*" + "\n *" * 61 + " a.c")),
    (("head", "x.cmake"), "tests/x.cmake", ("set(a b)\n", "")),
    (("head", "x.py"), "tests/x.py", ('"""x.py', '"""x.py' + "\n" * 61)),
    (("link", "docs/NO.md"), "README.md", "[gone](docs/NO.md)\n"),
    (("link", "docs/NO.md"), "README.md", "See [it].\n\n[it]: docs/NO.md#part\n"),
    (("link", "tests/unit/no.c"), "src/a.c", "/* tests/unit/no.c shows it */\n"),
    (("detail", "foo.h"), FOO, ("may change", "stays")),
    (("layer", FOO), RING, '#include "warpheap/detail/alloc/foo/foo.h"\n'),
    (("layer", "src/b.h"), RING, '#include "src/b.h"\n'),
    (("circle", "*"), "src/b.h", '#include "c.h"\n'),
    (("circle", "*"), "src/e.c", "void wh_e(void) {\n    wh_d();\n}\n"),
]


def found_in(files, parse):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return tidy.offenders(root, parse)


def without_modules():
    """Python is told (-S) to see no packages of the machine."""
    program = pathlib.Path(tidy.__file__)
    r = subprocess.run([sys.executable, "-I", "-S", program, program.parent], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if r.returncode != 77 or "give --modules FOLDER" not in r.stdout or r.stderr:
        yield f"without --modules: {r.returncode} {r.stdout!r} {r.stderr[-200:]!r}"


def main():
    parse = tidy.parser(pathlib.Path(sys.argv[1]))
    if parse is None:
        print("test_tidy: SKIPPED: there is no tree-sitter")
        return 77
    clean = {**CLEAN, "src/b.h": "/* b.h */\n", "src/c.h": '/* c.h */\n#include "b.h"\n'}
    wrong = [f"in the clean tree: {o}" for o in found_in(clean, parse)]
    for expected, name, change in PLANTED:
        text = clean.get(name, "")
        text = text.replace(*change) if isinstance(change, tuple) else text + change
        keys = {tidy.key(o) for o in found_in({**clean, name: text}, parse)}
        if not any(k[0] == expected[0] and expected[1] in (k[1], "*") for k in keys):
            wrong.append(f"not found: {expected} in {name}, but {keys}")
    one = tidy.Offender("length", "a/x.c", "f", 80, 1)
    for have, may, errors in (
            ([one], [], 1), ([], [one], 1), ([one], [one], 0), ([one._replace(value=81)], [one], 1),
            ([one._replace(value=79)], [one], 0), ([one._replace(path="b/x.c")], [one], 0),
            ([one, one._replace(path="b/x.c", value=90)], [one], 1)):
        if len(list(tidy.compare(have, [(o, "why") for o in may]))) != errors:
            wrong.append(f"compare: {have} with {may} is not {errors} errors")
    wrong += without_modules()
    print(*wrong, f"test_tidy: {len(PLANTED)} planted, {len(wrong)} errors", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
