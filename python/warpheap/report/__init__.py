"""warpheap.report: files of `warpheap bench --json` as a page to read.

`warpheap report`, or python -m warpheap.report. docs/REPORT.md of the project has more. It needs
Matplotlib and Jinja2.
"""
