#!/usr/bin/env python3
"""calls.py: what the Julia package says of the C library is what the headers say: of each ccall the
name, the number and the widths of arguments and result; of each structure the fields, their places
and its size. Needs a C compiler, no Julia.

    calls.py SOURCE_DIR CC
"""
import pathlib
import re
import subprocess
import sys
import tempfile

SIZES = {"UInt8": 1, "Cint": 4, "Int32": 4, "UInt32": 4, "UInt64": 8, "Culonglong": 8, "Csize_t": 8,
         "Cstring": 8, "Cvoid": 0}
C_SIZES = {"int": 4, "wh_status": 4, "uint32_t": 4, "int32_t": 4, "uint64_t": 8, "size_t": 8,
           "unsigned long long": 8, "void": 0, "wh_visit_fn": 8}
HEADERS = ("heap.h", "heap_calls.h", "options.h", "device.h", "types.h")


def split(text):
    """A list's items, by the commas that are in no brackets."""
    items, depth, last = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += (c in "({[") - (c in ")}]")
        if c == "," and depth == 0:
            items.append(text[last:i].strip())
            last = i + 1
    return [item for item in items if item]


def size_align(kind, structs):
    """Of a type of Julia, as C lays it out."""
    if re.match(r"(Ptr|Ref)\{", kind):
        return 8, 8
    array = re.fullmatch(r"NTuple\{(\d+), (\w+)\}", kind)
    if array:
        size, align = size_align(array[2], structs)
        return int(array[1]) * size, align
    if kind in structs:
        return layout(structs[kind][1], structs)[1:]
    return SIZES[kind], SIZES[kind]


def layout(fields, structs):
    """(places, size, alignment) of fields, (name, type) each."""
    places, end, most = [], 0, 1
    for _, kind in fields:
        size, align = size_align(kind, structs)
        end = (end + align - 1) // align * align
        places.append(end)
        end, most = end + size, max(most, align)
    return places, (end + most - 1) // most * most, most


def prototypes(include):
    """name: (size of the result, sizes of the arguments) of each function of the headers."""
    found = {}
    for file in sorted(include.glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.S)
        for result, name, arguments in re.findall(
                r"^(?:static inline )?((?:const )?\w[\w ]*?[ *]+)(wh_\w+)\(([^()]*)\)(?:;|\s*\{)",
                text, re.M):
            found[name] = (c_size(result), [c_size(re.sub(r"\w+$", "", a.strip()))
                                            for a in split(arguments) if a.strip() != "void"])
    return found


def c_size(text):
    text = text.replace("const", "").strip()
    return 8 if text.endswith("*") else C_SIZES.get(text, text)


def check_calls(text, include):
    known, structs, wrong, calls = prototypes(include), {}, [], []
    for begin in [m.end() for m in re.finditer(r"\bccall\(", text)]:
        depth, end = 1, begin
        while depth != 0:
            depth += (text[end] in "({[") - (text[end] in ")}]")
            end += 1
        calls.append(split(text[begin:end - 1]))
    for what, result, types, *given in calls:
        name = re.search(r":(wh_\w+)\)$", what)
        if not name:
            wrong.append("a ccall without the name of a function: " + what)
            continue
        name, types = name[1], split(types[1:-1])
        said = (size_align(result, structs)[0], [size_align(t, structs)[0] for t in types])
        if name not in known:
            wrong.append(f"{name}: no header has it")
        elif said != known[name]:
            wrong.append(f"{name}: sizes of result and arguments are {said} in Julia, "
                         f"{known[name]} in C")
        if len(given) != len(types):
            wrong.append(f"{name}: {len(types)} types, {len(given)} arguments")
    return len(calls), wrong


def check_structures(text, include, compiler):
    structs = {name: (c_name, re.findall(r"^    (\w+)::([^#\n]*?)(?: #.*)?$", body, re.M))
               for name, c_name, body in re.findall(
                   r"^struct (\w+) # (\w+)\n(.*?)^end$", text, re.S | re.M)}
    lines, expected = [], []
    for c_name, fields in structs.values():
        places, size, _ = layout(fields, structs)
        lines.append(f'printf("%zu\\n", sizeof({c_name}));')
        expected.append((c_name, size))
        for (name, kind), place in zip(fields, places):
            # A wh_any_options begins with the head that all options have.
            there = "head." + name if c_name == "wh_any_options" and name != "values" else name
            lines.append(f'printf("%zu\\n", offsetof({c_name}, {there}));')
            expected.append((f"{c_name}.{name}", place))
            lines.append(f'printf("%zu\\n", sizeof((({c_name} *)0)->{there}));')
            expected.append((f"the size of {c_name}.{name}", size_align(kind, structs)[0]))
    program = "".join(f"#include <warpheap/{header}>\n" for header in HEADERS)
    program = f"#include <stdio.h>\n{program}int main(void) {{ {' '.join(lines)} return 0; }}\n"
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "layout.c")
        source.write_text(program)
        # -O1: the inline functions of the headers, which nothing calls, are left out.
        subprocess.run([compiler, "-std=gnu11", "-O1", f"-I{include.parent}", source, "-o",
                        source.with_suffix("")], check=True)
        said = subprocess.run([source.with_suffix("")], check=True, capture_output=True, text=True)
    return len(structs), [f"{what} is {here} in Julia, {there} in C"
                          for (what, here), there in zip(expected, map(int, said.stdout.split()))
                          if here != there]


def main():
    root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
    package = root / "julia/WarpHeap"
    text = (package / "src/library.jl").read_text()
    calls, wrong = check_calls(text, root / "include/warpheap")
    structures, more = check_structures(text, root / "include/warpheap", compiler)
    wrong += more
    version = ".".join(re.findall(r"define WH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                                  (root / "include/warpheap/detail/version.h").read_text()))
    if f'\nversion = "{version}"\n' not in (package / "Project.toml").read_text():
        wrong.append(f"Project.toml is not of version {version}")
    major, minor, _ = map(int, version.split("."))
    if f"libwarpheap.so.{major}.{minor}" not in text:
        wrong.append("library.jl names a library of another version")
    if "ccall" in (package / "src/WarpHeap.jl").read_text():
        wrong.append("a ccall outside of library.jl is not compared")
    if calls < 20 or structures < 8:
        wrong.append(f"only {calls} calls and {structures} structures were found")
    print(f"{calls} calls, {structures} structures")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
