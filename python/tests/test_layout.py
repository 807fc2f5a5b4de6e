"""The binding is that of the C headers: sizes and offsets of structures as a C compiler says them,
the lists of names, and the version."""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import warpheap
from warpheap import _library

INCLUDE = pathlib.Path(warpheap.get_include())
HEADERS = ("warpheap.h", "options.h", "gauge.h", "snapshot.h", "heap_calls.h")
# Fields of the binding that have another name in C.
NAMES = {("wh_any_options", "family"): "head.family",
         ("wh_any_options", "any_bytes"): "head.struct_bytes"}


def structures():
    return [c for c in vars(_library).values() if hasattr(c, "c_name")]


def listed(header, macro, item):
    """What the X(...) of a list in a header say, by a regular expression for one."""
    text = (INCLUDE / "warpheap" / header).read_text()
    body = re.search(rf"#define {macro}\(X\)((?:.*\\\n)*.*\n)", text)[1]
    return re.findall(item, body)


class Layout(unittest.TestCase):
    def test_structures(self):
        compiler = os.environ.get("CC") or shutil.which("cc")
        if not compiler:
            self.skipTest("there is no C compiler")
        lines, expected = [], []
        for c in structures():
            lines.append(f'printf("%zu\\n", sizeof({c.c_name}));')
            expected.append((c.c_name, ctypes.sizeof(c)))
            for name, _ in c._fields_:
                there = NAMES.get((c.c_name, name), name)
                lines.append(f'printf("%zu\\n", offsetof({c.c_name}, {there}));')
                expected.append((f"{c.c_name}.{there}", getattr(c, name).offset))
        includes = "".join(f"#include <warpheap/{header}>\n" for header in HEADERS)
        program = (f"#include <stddef.h>\n#include <stdio.h>\n{includes}"
                   f"int main(void) {{ {' '.join(lines)} return 0; }}\n")
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "layout.c")
            source.write_text(program)
            # -O1: the inline functions of the headers, which nothing calls, are left out.
            subprocess.run([compiler, "-std=gnu11", "-O1", f"-I{INCLUDE}", source, "-o",
                            source.with_suffix("")], check=True)
            said = subprocess.run([source.with_suffix("")], check=True, capture_output=True,
                                  text=True).stdout.split()
        self.assertEqual(list(zip([name for name, _ in expected], map(int, said))), expected)

    def test_lists(self):
        self.assertEqual(tuple(listed("types.h", "WH_CAP_LIST", r'X\(\d+, \w+, "([^"]+)"')),
                         _library.CAPS)
        self.assertEqual(tuple(listed("device.h", "WH_SIM_POLICY_LIST", r'X\(\w+, "([^"]+)"')),
                         _library.POLICIES)
        self.assertEqual(tuple(name.lower() for name in listed("heap_calls.h", "WH_CALL_LIST",
                                                               r"X\((\w+),")), _library.CALLS)
        statuses = {f"WH_{name}" for name in listed("types.h", "WH_STATUS_LIST", r"X\((\w+),")}
        self.assertLessEqual(set(warpheap._errors.CLASSES), statuses)

    def test_version(self):
        text = (INCLUDE / "warpheap/detail/version.h").read_text()
        parts = [re.search(rf"WH_VERSION_{part} (\d+)", text)[1]
                 for part in ("MAJOR", "MINOR", "PATCH")]
        self.assertEqual(warpheap.__version__, ".".join(parts))
        self.assertEqual(_library.VERSION, tuple(map(int, parts[:2])))
        self.assertEqual(_library.library().version_text, ".".join(parts))


if __name__ == "__main__":
    unittest.main()
