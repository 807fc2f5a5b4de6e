#!/usr/bin/env python3
"""tidy.py: rules of the house that a program can keep.

    tidy.py [--modules FOLDER] [--list] [--write-allow] ROOT

It looks at the files that git knows, or at all files where there is no git. Its rules:

  length            a function has at most 70 lines
  parameters        a function has at most 6 parameters
  ternary           no conditional operator stands inside another one
  width             a line has at most 100 columns (not: tables, lines without a space, made pages)
  mask              a full warp is WH_FULL_WARP
  hash              the hash constant is in core/hash.h alone
  head              the comment at the head of a file has at most 60 lines
  size              a file has at most 200 KB
  detail            a header in detail/ says at its head that it may change
  link              a link, and a file that a text names, leads to a file that is there
  tag-undefined     a tag that a comment cites is defined in a comment of its family, of a header
                    that its file includes, or of the file that is named before it
  tag-uncited       a tag that is defined is cited by code or by a test
  tag-unexplained   docs/MEMORY_MODEL.md has each ordering pair: P1, P2, ...
  plant             each WH_PLANT is named in a test, and each fault of a test's table is a WH_PLANT
  layer             includes go down: simt <- core <- alloc <- workload <- bench <- cli
  circle            no file includes itself by way of others, and no .c file calls itself so

It does not look at functions of .hpp files, which are C++.

A family is the files of an allocator's folder, or one file of core/. allow.txt, beside this file,
has today's offenders, a line each: rule, path, symbol, value, reason. It may only shrink: an error
is an offender that is not in it, one whose value has grown, and a line without an offender. A line
is found by rule and symbol, so files may be moved. --write-allow writes it anew and keeps the
reasons. --list prints all offenders.

It needs tree-sitter and tree-sitter-c, which pip installs into the FOLDER of --modules. Exit
status: 1 if a rule is broken, 77 (skipped) if the two are not to be had.
"""
import argparse
import collections
import graphlib
import importlib
import os
import pathlib
import re
import subprocess
import sys

MODULES = ["tree-sitter>=0.25,<0.27", "tree-sitter-c>=0.24,<0.25"]
ALLOW = "tests/tidy/allow.txt"
LAYERS = ["simt", "core", "alloc", "workload", "bench", "cli"]
MOST = {"length": 70, "parameters": 6, "ternary": 0}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
TAG = r"[CGHIPRSTX]\d{1,2}\b"
DEFINED = re.compile(rf"^[ /]\* {{1,4}}({TAG}) {{2,}}\S", re.M)
CITED = re.compile(rf"(?:((?:\w+/)*\w+\.[ch])(?:'s)? )?\b(?!C11\b|H[12]0\b)"
                   rf"({TAG}(?:(?: to |-|, | and |, and | or ){TAG})*)")
NAMED = re.compile(r"(?<![\w/.{}*>-])((?:docs|tests|core|simt|alloc|src|tools|bench|workload|cli|"
                   r"include|examples)/[\w./-]+\.(?:c|h|cu|[ch]pp|py|md|sh|jsonl?))"
                   r"\b")
Offender = collections.namedtuple("Offender", "rule path symbol value line")


def line_of(text, index):
    return text.count("\n", 0, index) + 1


class Tree:
    """The files of a source tree, and which of them include which."""

    def __init__(self, root):
        self.root = root
        git = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"],
                             capture_output=True, text=True)
        names = git.stdout.splitlines() if git.returncode == 0 else [
            name for name in (str(p.relative_to(root)) for p in root.rglob("*"))
            if not re.match(r"(build|install|\.git)\b", name)]
        self.files = sorted({name for name in names if (root / name).is_file()})
        self.text = {name: (root / name).read_text(errors="replace") for name in self.files
                     if re.search(r"\.(c|h|cu|[ch]pp|py|sh|md|cmake|S)$|(^|/)[^./]*$|"
                                  r"CMakeLists.txt$", name) and name != "LICENSE"}
        self.code = [name for name in self.text if re.search(r"\.(c|h|cu|hpp)$", name)]
        self.includes = {name: self.included(name) for name in self.code}

    def included(self, name):
        found = set()
        for target in re.findall(r'(?m)^\s*#\s*include\s*["<]([^">]+)[">]', self.text[name]):
            paths = [os.path.normpath(os.path.join(folder, target)) for folder in
                     (os.path.dirname(name), "include", "", "src", "tests", "tests/common")]
            found |= set([path for path in paths if path in self.text][:1])
        return found

    def ending(self, path):
        return [name for name in self.files if ("/" + name).endswith("/" + path)]


# --- functions and expressions --------------------------------------------------------------

def plain(text):
    """The same lines as C that the parser understands: words of macros before a declaration are
    left out, and kernels and functions of the linked library are functions."""
    def blank(found):
        return re.sub(r"[^\n]", " ", found[0])
    text = re.sub(r"\btemplate\s*<[^<>]*>|\b__[a-z]+__\b(?! *\()", blank, text)
    text = re.sub(r"(?m)^ +[A-Z][A-Z0-9_]+$", blank, text)
    text = re.sub(r"(?m)^WH_KERNEL\w*\((?:\(.*\), )?(\w+), *([^\n{]*\{)", r"void \1(int \2", text)
    text = re.sub(r"(?m)^WH_FN_LINKED\w*\(([^,()]+),(\s*)(\w+),(\s*)(\([^()]*\))\)(?= \{)",
                  r"\1\2\3\4\5", text)
    text = re.sub(r"(?m)^((?:static |extern )*)[A-Z][A-Z0-9_]{2,} (?=[a-z])", r"\1", text)
    return re.sub(r"(?<=\w) [A-Z][A-Z_]*_(?=\))", blank, text)


def nodes(node, kind):
    if node.type == kind:
        yield node
    for child in node.children:
        yield from nodes(child, kind)


def nested(node, inside=False):
    """How many conditional operators stand inside another one."""
    here = node.type == "conditional_expression"
    return (here and inside) + sum(nested(child, here or inside) for child in node.children)


def functions(tree, parse):
    for name in (name for name in tree.code if not name.endswith(".hpp")):
        text = plain(tree.text[name])
        root = parse(text.encode())
        outside = nested(root)
        for function in nodes(root, "function_definition"):
            head = next(nodes(function, "function_declarator"), None)
            if head is None:
                continue
            symbol = re.sub(r"\s", "", head.child_by_field_name("declarator").text.decode())
            parameters = head.child_by_field_name("parameters").named_children
            values = {"length": function.end_point[0] - function.start_point[0] + 1,
                      "parameters": sum(p.type == "parameter_declaration" for p in parameters),
                      "ternary": nested(function)}
            outside -= values["ternary"]
            for rule, value in values.items():
                if value > MOST[rule]:
                    yield Offender(rule, name, symbol, value, function.start_point[0] + 1)
        if outside > 0:
            yield Offender("ternary", name, "-", outside, 1)
        for macro in re.finditer(r"(?m)^ *# *define (\w+)(?:\([^)]*\))?((?:.*\\\n)*.*)$", text):
            body = re.sub(r"\\\n|##", " ", macro[2])
            value = max(nested(parse(form.encode())) for form in (
                f"void f(void) {{ x = ({body}); }}", f"void f(void) {{ {body}; }}")
                if "?" in body) if "?" in body else 0
            if value:
                yield Offender("ternary", name, macro[1], value, line_of(text, macro.start()))


# --- texts ----------------------------------------------------------------------------------

def is_wide(name, line):
    if name.endswith(".md") and (line.lstrip().startswith("|")
                                 or " " not in re.sub(r"^[\s>*-]+", "", line)[:100]):
        return False
    return len(line) > 100


def is_made(name, text):
    """Whether a tool writes this page."""
    return name.endswith(".md") and "Do not edit this page" in "".join(text.splitlines()[:5])


def head_of(name, text):
    """The comment at the head of a file; "" if it has none."""
    if name.endswith(".md"):
        return ""
    if re.search(r"\.(c|h|cu|[ch]pp|S)$", name):
        comment = r"/\*.*?\*/|(?://[^\n]*\n)+"
    else:  # after the line that names the interpreter
        comment = r'(?:#![^\n]*\n)?(?:(?:#[^\n]*\n)+|""".*?""")'
    found = re.match(comment, text, re.S)
    return found[0] if found else ""


def texts(tree, _):
    for name in tree.files:
        size = (tree.root / name).stat().st_size // 1024
        if size > 200:
            yield Offender("size", name, "-", size, 1)
    for name, text in tree.text.items():
        wide = [k for k, line in enumerate(text.splitlines(), 1) if is_wide(name, line)]
        if wide and not is_made(name, text):
            yield Offender("width", name, "-", len(wide), wide[0])
        head = head_of(name, text)
        if len(head.splitlines()) > 60:
            yield Offender("head", name, "-", len(head.splitlines()), 1)
        if re.search(r"\bdetail/.*\.h$", name) and "may change" not in head:
            yield Offender("detail", name, "-", 1, 1)
        for rule, literal in (("mask", r"(?<!define WH_FULL_WARP )\b0x[fF]{8}[uU]\b"),
                              ("hash", r"\b2654435761[uU]?\b")):
            found = [line_of(text, f.start()) for f in re.finditer(literal, text)]
            if found and name in tree.code and (rule, name[-11:]) != ("hash", "core/hash.h"):
                yield Offender(rule, name, "-", len(found), found[0])
        # The past, what is planted, and the text of pages that lie elsewhere.
        if name.startswith(("CHANGELOG.md", "tests/tidy/", "docs/notes/", "tools/report/")):
            continue
        prose = re.sub(r"(?ms)^```.*?^```$", lambda f: "\n" * f[0].count("\n"), text)
        links = re.finditer(r"(?:\]\(|^\[[^]\n]+\]: )([^)#:\s]+)(?=[)#\s])",
                            prose if name.endswith(".md") else "", re.M)
        broken = [f for f in links if not (tree.root / name).parent.joinpath(f[1]).exists()]
        broken += [f for f in NAMED.finditer(text) if not tree.ending(f[1]) and "foo" not in f[1]]
        for found in broken:
            yield Offender("link", name, found[1], 1, line_of(found.string, found.start()))


# --- tags and plants ------------------------------------------------------------------------

def family(name):
    found = re.search(r"alloc/(\w+)/|\b(workload)/|src/(sim)/", name)
    return next(filter(None, found.groups() if found else ()), pathlib.Path(name).stem)


def expand(cited):
    """The tags of "P1, P3 to P5"."""
    ranges = re.findall(r"([A-Z])(\d+)(?: to |-)[A-Z](\d+)", cited)
    return re.findall(TAG, cited) + [f"{letter}{k}" for letter, first, last in ranges
                                     for k in range(int(first) + 1, int(last))]


def citations(text):
    """(tag, the file named before it or None, whether its comment defines tags, line)."""
    for comment in COMMENT.finditer(text):
        defines = {found.start(1) for found in DEFINED.finditer(comment[0])}
        body = re.sub(r"\n[ /]*\*? *", lambda f: " " * len(f[0]), comment[0])
        for found in CITED.finditer(body):
            for tag in expand(found[2]) if found.start(2) not in defines else ():
                at = comment.start() + found.start()
                yield tag, found[1], bool(defines), line_of(text, at)


def tags(tree, _):
    defined = {}  # (family, tag): (path, line)
    for name in tree.code:
        for comment in COMMENT.finditer(tree.text[name]):
            for found in DEFINED.finditer(comment[0]):
                at = line_of(tree.text[name], comment.start() + found.start())
                defined.setdefault((family(name), found[1]), (name, at))
    groups = {group for group, _ in defined}

    def reach(name, seen):
        """The families of a file and of all that it includes."""
        seen.add(name)
        for other in tree.includes[name] - seen:
            reach(other, seen)
        return {family(n) for n in seen} | {g for g in groups if family(name).startswith(g)}

    cited, missing = set(), collections.defaultdict(list)
    for name in tree.code:
        far = reach(name, set())
        for tag, path, in_head, line in citations(tree.text[name]):
            where = {family(n) for n in tree.ending(path)} if path else (
                {family(name)} & groups or far)
            hits = {(group, tag) for group in where} & set(defined)
            if not hits:
                missing[name, tag].append(line)
            elif path or not in_head or name.startswith("tests/"):
                cited |= hits
    for (name, tag), lines in missing.items():
        yield Offender("tag-undefined", name, f"{family(name)}:{tag}", len(lines), lines[0])
    for (group, tag), (name, line) in defined.items():
        if (group, tag) not in cited:
            yield Offender("tag-uncited", name, f"{group}:{tag}", 1, line)
    heading, told = "", set()
    for text in tree.text.get("docs/MEMORY_MODEL.md", "").splitlines():
        heading = text if text.startswith("#") else heading
        context = re.sub(r"[_-]", "", heading + text).lower()
        told |= {(group, tag) for group, tag in defined
                 if re.search(rf"\b{tag}\b", text) and group.replace("_", "") in context}
    for (group, tag), (name, line) in defined.items() if heading else ():
        if tag[0] == "P" and (group, tag) not in told:
            yield Offender("tag-unexplained", name, f"{group}:{tag}", 1, line)


def plants(tree, _):
    planted, tested, strings = {}, {}, set()
    for name in tree.code:
        text = COMMENT.sub("", tree.text[name])
        if not name.startswith("tests/"):
            planted |= {tag: name for tag in re.findall(r"\bWH_PLANT\w*\(\s*([a-z]\w*)\b", text)}
        else:
            strings |= set(re.findall(r'"(\w+)"', text))
            rows = re.findall(r'\{\s*"([a-z0-9_]+)",\s*"[a-z0-9-]+"', text)
            tested |= {tag: name for tag in rows if "fault" in name}
    planted.pop("tag", None)  # the macro's own
    for tag in (planted.keys() - strings) | (tested.keys() - planted.keys()):
        yield Offender("plant", (planted | tested)[tag], tag, 1, 1)


# --- what includes what ---------------------------------------------------------------------

def layer(name):
    parts = [part for part in name.split("/")[:-1] if part in LAYERS]
    own = re.match(r"(include|workload|bench|cli)/", name)
    return LAYERS.index(parts[0]) if parts and own else -1


def calls(tree):
    """{.c file of the library or the program: those whose functions it names}."""
    code = {name: COMMENT.sub("", tree.text[name]) for name in tree.code
            if re.match(r"(src|workload|bench|cli)/.*(?<!_kernels)\.c$", name)}
    defined = {found[1]: name for name, text in code.items() for found in
               re.finditer(r"(?m)^(?!static\b)[a-z][\w *]*\b(whi?_\w+)\([^;{]*\) \{$", text)}
    return {name: {defined[word] for word in set(re.findall(r"\w+", text)) & set(defined)} - {name}
            for name, text in code.items()}


def layers(tree, _):
    for name, others in tree.includes.items():
        for other in others:
            if 0 <= layer(name) < layer(other) or (
                    name.startswith("include/") and not other.startswith("include/")):
                yield Offender("layer", name, other, 1, 1)
    for graph in (tree.includes, calls(tree)):
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            yield Offender("circle", error.args[1][0], "->".join(error.args[1]), 1, 1)


# --- the list of offenders ------------------------------------------------------------------

def offenders(root, parse):
    tree = Tree(root)
    return sorted(o for rule in (functions, texts, tags, plants, layers) for o in rule(tree, parse))


def key(offender):
    own = os.path.basename(offender.path) if offender.symbol == "-" else offender.symbol
    return offender.rule, own


def read_allow(root):
    """[(offender, reason)] of the list."""
    path, entries = root / ALLOW, []
    for line in path.read_text().splitlines() if path.is_file() else ():
        fields, _, reason = line.partition("#")
        if fields.strip():
            rule, name, symbol, value = fields.split()
            entries.append((Offender(rule, name, symbol, int(value), 0), reason.strip()))
    return entries


def write_allow(root, found):
    reasons = {key(offender): reason for offender, reason in read_allow(root)}
    lines = [f"{o.rule} {o.path} {o.symbol} {o.value}  # {reasons.get(key(o)) or 'to do'}\n"
             for o in found]
    head = "# Today's offenders: rule, path, symbol, value, reason. It may only shrink: tidy.py.\n"
    (root / ALLOW).write_text(head + "".join(lines))


def compare(found, allowed):
    """What is wrong, a line each. Of several lines of one key an offender has that of its path."""
    left = collections.defaultdict(list)
    for offender, _ in allowed:
        left[key(offender)].append(offender)
    paths = {(key(offender), offender.path) for offender, _ in allowed}
    for o in sorted(found, key=lambda o: (key(o), o.path) not in paths):
        entry = min(left[key(o)], key=lambda e: (e.path != o.path, -e.value), default=None)
        if entry:
            left[key(o)].remove(entry)
        if not entry or o.value > entry.value:
            limit = f", more than {entry.value} of {ALLOW}" if entry else ""
            yield f"{o.path}:{o.line}: {o.rule}: {o.symbol}: {o.value}{limit}"
    for o in (entry for entries in left.values() for entry in entries):
        yield f"{ALLOW}: no offender any more, take it out: {o.rule} {o.path} {o.symbol}"


def parser(folder):
    """A function from C to the root of its syntax tree; None if there is no tree-sitter."""
    sys.path.append(str(folder))
    for attempt in (1, 2):
        try:
            import tree_sitter
            import tree_sitter_c
            machine = tree_sitter.Parser(tree_sitter.Language(tree_sitter_c.language()))
            return lambda text: machine.parse(text).root_node
        except ImportError:
            if attempt == 1 and folder:
                subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target",
                                str(folder), "--disable-pip-version-check", *MODULES])
                importlib.invalidate_caches()
    return None


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("root", type=pathlib.Path)
    arguments.add_argument("--modules", type=pathlib.Path)
    arguments.add_argument("--write-allow", action="store_true")
    arguments.add_argument("--list", action="store_true")
    chosen = arguments.parse_args()
    parse = parser(chosen.modules)
    if parse is None:
        why = ("pip has not installed" if chosen.modules else
               "give --modules FOLDER, and pip installs there")
        print("tidy: SKIPPED: no tree-sitter here;", why, *MODULES)
        return 77
    found = offenders(chosen.root, parse)
    for o in found if chosen.list else ():
        print(f"{o.path}:{o.line}: {o.rule}: {o.symbol}: {o.value}")
    if chosen.write_allow:
        write_allow(chosen.root, found)
    wrong = list(compare(found, read_allow(chosen.root)))
    print(*wrong, f"tidy: {len(found)} offenders, {len(wrong)} errors", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
