#!/usr/bin/env python3
"""recipes.py: what packaging/ says of the project is so: version, licence, options of CMake, the
libraries that it needs, and the files that an installed tree has.

    recipes.py SOURCE_DIR PREFIX

PREFIX is where the project was installed. What reads the files: dpkg-parsechangelog, Python's ast,
its parser of mail headers, which Debian's control files are made of, and PyYAML. Without
dpkg-parsechangelog or PyYAML that part is left out, and said so.
"""
import ast
import email
import fnmatch
import pathlib
import re
import shutil
import subprocess
import sys

try:
    import yaml
except ImportError:
    yaml = None

# What CMake's files look for: the names of it in Debian, Spack and conda.
LIBRARIES = {"ZLIB": ("zlib1g-dev", "zlib-api", "zlib"),
             "JANSSON": ("libjansson-dev", "jansson", "jansson"),
             "ASSIMP": ("libassimp-dev", "assimp", "libassimp")}
# Of a build with CUDA, which Debian's main cannot have.
DEVICE_FILES = re.compile(r"libwarpheap_(device|abi|malloc)|warpheap-(device|abi)|"
                          r"\.(fatbin|ltoir|ptx)$")

wrong = []


def must(condition, text):
    if not condition:
        wrong.append(text)


def paragraphs(text):
    """Of a control file: a mapping each, whose names may be in any case."""
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    found = [email.message_from_string(part) for part in re.split(r"\n\s*\n", text.strip())]
    for message in found:
        # What mail would take for a body is no field: the file is broken there.
        must(not message.get_payload().strip() and not message.defects,
             f"control file: no field: {message.get_payload()!r}")
    return found


def facts(root):
    """What the sources say: version, CMake's own version, options, libraries."""
    text = (root / "CMakeLists.txt").read_text()
    options = (root / "cmake/WhOptions.cmake").read_text()
    libraries = set(re.findall(r"find_library\(WARPHEAP_(\w+)_LIBRARY", text)) - {"PNG", "NCCL"}
    return {"version": re.search(r"^project\(warpheap VERSION ([\d.]+)", text, re.M)[1],
            "cmake": re.search(r"^cmake_minimum_required\(VERSION ([\d.]+)", text, re.M)[1],
            "options": set(re.findall(r"^\s*(?:option|set)\((WARPHEAP_\w+)", options, re.M)),
            "libraries": libraries}


def check_options(text, what, said):
    options = set(re.findall(r"(?:-D|\")(WARPHEAP_[A-Z_]+)", text))
    must(len(options) >= 4, f"{what}: only the options {options} were found")
    for option in sorted(options - said["options"]):
        must(False, f"{what}: CMake has no option {option}")


def matches(line, path):
    """Whether dh_install would take the file for a line of an install list: a folder is all of it.
    A star does not reach over a slash."""
    parts, wanted = path.split("/"), line.split("/")
    return len(parts) >= len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def check_lists(folder, prefix):
    """Each installed file is in one package, and each line is of some file."""
    here = [str(p.relative_to(prefix)) for p in sorted(prefix.rglob("*")) if not p.is_dir()]
    files = {"usr/" + re.sub(r"^lib(64|/x86_64-linux-gnu)?/", "lib/x86_64-linux-gnu/", p)
             for p in here if not DEVICE_FILES.search(p)}
    must(len(files) > 100, f"{prefix} has {len(files)} files: is it where warpheap is installed?")
    lines = [(file.name, line.strip()) for file in sorted(folder.glob("*install*"))
             for line in file.read_text().splitlines() if line.strip()]
    for file in sorted(files):
        taken = [name for name, line in lines if matches(line, file)]
        must(len(taken) == 1, f"debian: {file} is in the lists {taken}, not in one")
    for name, line in lines:
        must(any(matches(line, file) for file in files), f"debian/{name}: nothing matches {line}")


def check_debian(root, prefix, said):
    folder = root / "packaging/debian"
    source, *packages = paragraphs((folder / "control").read_text())
    must(source["Source"] == "warpheap", "debian/control: another source")
    needs = re.split(r"\s*,\s*", source["Build-Depends"].strip())
    must(f"cmake (>= {said['cmake']})" in needs, "debian/control: another version of CMake")
    for library in said["libraries"]:
        must(LIBRARIES[library][0] in needs, f"debian/control: no {LIBRARIES[library][0]}")
    major_minor = ".".join(said["version"].split(".")[:2])
    names = [p["Package"] for p in packages]
    must(names == [f"libwarpheap{major_minor}", "libwarpheap-dev", "warpheap-tools"],
         f"debian/control: the packages are {names}")
    lists = {f.name.rsplit(".", 1)[0] for f in folder.glob("*.install")}
    must(lists == set(names), f"debian: the install lists are of {lists}")
    for name in {f.name.rsplit(".", 1)[0] for f in folder.glob("*.symbols")}:
        must(name in names, f"debian/{name}.symbols: no such package")
    for package in packages:
        must(package["Description"] and package["Architecture"], f"{package['Package']}: a field")
    check_options((folder / "rules").read_text(), "debian/rules", said)
    must((folder / "rules").stat().st_mode & 0o111, "debian/rules cannot be run")
    check_lists(folder, prefix)
    check_symbols(root, (folder / f"libwarpheap{major_minor}.symbols").read_text(), major_minor)
    texts = paragraphs((folder / "copyright").read_text())
    must(any(p["Files"] == "*" and p["License"] == "Expat" for p in texts), "debian/copyright")
    plain = " ".join((root / "LICENSE").read_text().split())
    full = " ".join(texts[-1]["License"].replace("\n .\n", "\n").split()[1:])
    must(full and full in plain, "debian/copyright: other words than LICENSE")
    if not shutil.which("dpkg-parsechangelog"):
        print("no dpkg-parsechangelog: debian/changelog is not read")
        return
    for field, wanted in (("Source", "warpheap"), ("Version", said["version"] + "-1")):
        got = subprocess.run(["dpkg-parsechangelog", "-l", folder / "changelog", "-S", field],
                             check=True, capture_output=True, text=True)
        must(got.stdout.strip() == wanted and not got.stderr,
             f"debian/changelog: {field} is {got.stdout.strip()}, not {wanted} {got.stderr}")


def check_symbols(root, text, major_minor):
    """The versions of symbols that cmake/*.map give the libraries."""
    for file in sorted((root / "cmake").glob("*.map")):
        nodes = set(re.findall(r"^(WARPHEAP_[\w.]+) \{", file.read_text(), re.M))
        name = re.escape(f"lib{file.stem}.so.{major_minor}")
        part = re.search(rf"^{name} .*\n((?:[ *].*\n)*)", text, re.M)
        listed = set(re.findall(r"\(symver\)(\S+)", part[1])) if part else None
        must(listed == nodes, f"debian: symbols of lib{file.stem}: {listed}, not {nodes}")


def check_spack(root, said):
    text = (root / "packaging/spack/package.py").read_text()
    tree = ast.parse(text)
    package = next((node for node in tree.body if isinstance(node, ast.ClassDef)), None)
    if package is None or package.name != "Warpheap":
        must(False, "spack: no class Warpheap")
        return
    bases = {base.id for base in package.bases}
    must(bases == {"CMakePackage", "CudaPackage"}, f"spack: the bases are {bases}")
    modules = {node.module.rsplit(".", 1)[-1] for node in tree.body
               if isinstance(node, ast.ImportFrom)}
    must(modules == {"cmake", "cuda", "package"}, f"spack: imports of {modules}")
    calls = {}  # name: first arguments, of calls in the class
    for node in package.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            first = ast.literal_eval(node.value.args[0])
            calls.setdefault(node.value.func.id, []).append(first)
    must(calls["version"] == [said["version"]], f"spack: the version is {calls['version']}")
    must(calls["license"] == ["MIT"], "spack: another licence")
    must(f"cmake@{said['cmake']}:" in calls["depends_on"], "spack: another version of CMake")
    for library in said["libraries"]:
        must(LIBRARIES[library][1] in calls["depends_on"], f"spack: no {LIBRARIES[library][1]}")
    given = [ast.literal_eval(node.args[1]) for node in ast.walk(package)
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
             and node.func.attr == "define_from_variant"]
    for variant in given:
        must(variant in calls["variant"] + ["cuda"], f"spack: no variant {variant}")
    check_options(text, "spack", said)


def flat(items):
    """Requirements, with both sides of each condition."""
    for item in items:
        if isinstance(item, dict):
            for side in ("then", "else"):
                part = item.get(side, [])
                yield from flat(part if isinstance(part, list) else [part])
        else:
            yield item


def check_conda(root, prefix, said):
    if yaml is None:
        print("no PyYAML: conda/recipe.yaml is not read")
        return
    file = root / "packaging/conda/recipe.yaml"
    recipe = yaml.safe_load(file.read_text())
    must(recipe["schema_version"] == 1, "conda: another schema")
    must(recipe["context"]["version"] == said["version"], "conda: another version")
    must(recipe["package"] == {"name": "warpheap", "version": "${{ version }}"}, "conda: package")
    must(recipe["about"]["license"] == "MIT", "conda: another licence")
    must((root / recipe["about"]["license_file"]).exists(), "conda: no file of the licence")
    must((file.parent / recipe["source"]["path"]).resolve() == root.resolve(), "conda: the source")
    script = "\n".join(flat(recipe["build"]["script"]))
    check_options(script, "conda", said)
    needs = list(flat(recipe["requirements"]["build"])) + list(flat(recipe["requirements"]["host"]))
    must(f"cmake >={said['cmake']}" in needs, "conda: another version of CMake")
    program = "-DWARPHEAP_PROGRAM=OFF" not in script
    for library in said["libraries"] if program else {"ZLIB"}:
        must(LIBRARIES[library][2] in needs, f"conda: no {LIBRARIES[library][2]}")
    contents = recipe["tests"][0]["package_contents"]
    names = {p.name for p in prefix.rglob("lib*")}
    for library in contents["lib"]:
        must(library in names, f"conda: {library} is not installed")
    for path in contents["files"]:
        below = path.split("/", 1)[1]
        must(any(prefix.glob(path.split("/")[0] + "*/" + below))
             or any(prefix.glob("lib/*/" + below)), f"conda: {path} is not installed")


def main():
    root, prefix = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    said = facts(root)
    must(said["libraries"] == set(LIBRARIES), f"CMake looks for {said['libraries']}")
    must((root / "LICENSE").read_text().startswith("MIT License"), "LICENSE is not MIT's")
    check_debian(root, prefix, said)
    check_spack(root, said)
    check_conda(root, prefix, said)
    for text in wrong:
        print(text, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
