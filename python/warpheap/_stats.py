"""Statistics as a dict that shows itself as a table."""
import html

_MEANING = {
    "heap_bytes": "whole heap, metadata included",
    "metadata_bytes": "not available to blocks",
    "used_bytes": "of live blocks",
    "peak_bytes": "the most that it has been (option track_peak)",
    "live_blocks": "handed out and not freed",
    "largest_free": "largest block that malloc could return",
    "failed": "mallocs that found the heap full",
    "bad_frees": "frees that were rejected",
    "mallocs": "blocks handed out (option track_totals)",
    "frees": "blocks given back (option track_totals)",
    "timed_out": "of failed: waited for growth in vain",
}


def _text(value):
    return "unknown" if value is None else f"{value:,}"


class Stats(dict):
    """What wh_heap_get_stats says, by its names (types.h). A number that the allocator does not
    track is None. "classes": a dict for each size class with live blocks or room for some."""

    def rows(self):
        """(name, number, meaning) of each number."""
        return [(name, self[name], _MEANING.get(name, "")) for name in self if name != "classes"]

    def live(self):
        """The size classes that have live blocks."""
        return [c for c in self["classes"] if c["live"]]

    def __repr__(self):
        rows = [(name, _text(value), meaning) for name, value, meaning in self.rows()]
        width = max(len(text) for _, text, _ in rows)
        lines = [f"{name:15}{text:>{width}}  {meaning}" for name, text, meaning in rows]
        if self.live():
            lines.append(f"{'block bytes':>15}{'live':>12}{'capacity':>12}")
            lines += [f"{c['block_bytes']:15,}{c['live']:12,}{c['capacity']:12,}"
                      for c in self.live()]
        return "\n".join(lines)

    def _repr_html_(self):
        def table(rows):
            return "<table>" + "".join(
                "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
                for row in rows) + "</table>"
        text = table((name, _text(value), meaning) for name, value, meaning in self.rows())
        if self.live():
            text += table([("block bytes", "live", "capacity")] + [
                tuple(_text(c[name]) for name in ("block_bytes", "live", "capacity"))
                for c in self.live()])
        return text

    def to_pandas(self):
        """The size classes as a table of pandas, which must be installed."""
        import pandas
        return pandas.DataFrame(self["classes"], columns=["block_bytes", "live", "capacity"])
