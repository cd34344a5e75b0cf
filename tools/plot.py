"""Draws docs/images/figures.svg: ``python -m tools.plot``.

The figures are those of the tables of docs/explanation/figures.md. Each pair of bars compares
kfetch with Spark's connector. A test compares the picture with the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PICTURE", "drawn"]

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "explanation/figures.md"
PICTURE = DOCS / "images/figures.svg"

ROWS = (
    ("Rows per second, 100 B records", "rows per second", 1, 2, ""),
    ("JSON into rows, 4 M values: seconds", "JSON, five fields, 4 M x 92 B", 2, 1, " s"),
    ("Idle topic of 1,000 partitions: bytes per second", "1,000", 3, 5, ""),
)
"""Title, the table's row by its first cell, the columns of kfetch and the connector, the unit."""

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" role="img" aria-label="{label}">
<style>
text {{ font: 14px system-ui, sans-serif; fill: #1f2328 }}
.title {{ font-weight: 600 }}
.kfetch {{ fill: #3b5bdb }}
.connector {{ fill: #adb5bd }}
@media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3 }} .kfetch {{ fill: #748ffc }} }}
</style>
"""
BAR_X, BAR_WIDTH, BAR_HEIGHT, ROW_HEIGHT = 140, 420, 18, 84


def _cells(first: str) -> list[str]:
    """The cells of the first row of the page that begins with ``first``."""
    found = re.search(rf"(?m)^\| {re.escape(first)} \|.*$", PAGE.read_text())
    if found is None:
        raise ValueError(f"docs/explanation/figures.md has no row {first!r}")
    return [cell.strip() for cell in found[0].strip("|").split("|")]


def _number(cell: str) -> float:
    return float(re.sub(r"[^\d.]", "", cell.split("(")[0]))


def _row(number: int, title: str, first: str, ours: int, theirs: int, unit: str) -> Iterator[str]:
    cells = _cells(first)
    values = {"kfetch": cells[ours].split("(")[0], "connector": cells[theirs].split("(")[0]}
    largest = max(map(_number, values.values()))
    y = number * ROW_HEIGHT + 20
    yield f'<text class="title" x="0" y="{y}">{title}</text>'
    for line, (source, text) in enumerate(values.items()):
        top = y + 10 + line * (BAR_HEIGHT + 6)
        width = max(2, round(BAR_WIDTH * _number(text) / largest))
        shown = text.strip().removesuffix(unit) + unit
        size = f'width="{width}" height="{BAR_HEIGHT}"'
        yield f'<text x="0" y="{top + 14}">{_NAMES[source]}</text>'
        yield f'<rect class="{source}" x="{BAR_X}" y="{top}" {size} rx="2"/>'
        yield f'<text x="{BAR_X + width + 8}" y="{top + 14}">{shown}</text>'


_NAMES = {"kfetch": "kfetch", "connector": "Spark's connector"}


def drawn() -> str:
    """Returns the picture."""
    lines = [line for number, row in enumerate(ROWS) for line in _row(number, *row)]
    label = "kfetch beside Spark's connector: rows per second, seconds for JSON, bytes when idle"
    head = HEAD.format(height=len(ROWS) * ROW_HEIGHT, label=label)
    return head + "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(drawn())
