"""The code that docs/PYTHON.md and python/README.md show: blocks for the simulated device run, one
after the other; blocks of kernels are part of an example; words that are said of the package are
there."""
import pathlib
import re
import subprocess
import sys
import unittest

import warpheap

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = ("docs/PYTHON.md", "python/README.md")
FOREIGN = r"\b(numba|cupy|torch|load_inline|wp|cuda|rmm|Program|Linker)\b"


def blocks(page):
    text = (SOURCE / page).read_text()
    return re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)


class Docs(unittest.TestCase):
    def test_blocks(self):
        files = sorted((SOURCE / "examples" / "python").glob("*.py"))
        whole = "\n".join(file.read_text() for file in files)
        for page in PAGES:
            names = {}
            self.assertTrue(blocks(page), page)
            for block in blocks(page):
                with self.subTest(page=page, block=block.splitlines()[0]):
                    if not re.search(FOREIGN, block):
                        exec(compile(block, page, "exec"), names)
                        continue
                    lines = [line.strip() for line in block.splitlines()]
                    there = "\n".join(line.strip() for line in whole.splitlines())
                    self.assertIn("\n".join(lines), there, "no example has this code")

    def test_words(self):
        """`Heap.name(` and `heap.name(` in the text are calls that exist."""
        text = "".join((SOURCE / page).read_text() for page in PAGES)
        with warpheap.Heap(1 << 20, "sim") as heap:
            known = dir(heap)
        for name in set(re.findall(r"\bheap\.(\w+)\b", text, re.I)) - {"h"}:
            self.assertIn(name, known)
        for name in set(re.findall(r"\bwarpheap\.([a-z_]+)\(", text)):
            self.assertTrue(hasattr(warpheap, name), name)

    def test_names_are_told(self):
        """Each public call of a heap stands on the page."""
        text = (SOURCE / "docs/PYTHON.md").read_text()
        public = [name for name in vars(warpheap.Heap) if not name.startswith("_")]
        missing = [name for name in public + warpheap.__all__
                   if not re.search(rf"\b{name}\b", text)]
        self.assertEqual(missing, [])

    def test_simulated(self):
        example = SOURCE / "examples" / "python" / "simulated.py"
        done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
