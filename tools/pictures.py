"""Draws pictures of docs/explanation/ as SVG: ``python -m tools.pictures``.

``record.svg`` and ``agent.svg`` show processes, as the lists below say. ``sessions.svg`` shows the
states of a fetch session. Its arrows are those of ``session_moves``. A test compares
the files with what this module draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import hypot
from pathlib import Path

from kfetch.session.transitions import SessionState
from tools import session_moves

__all__ = ["FOLDER", "drawn"]

FOLDER = Path(__file__).parent.parent / "docs/images"

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}" role="img" aria-label="{label}">
<style>
text {{ font: 13px system-ui, sans-serif; fill: #1f2328; text-anchor: middle }}
.name {{ font-weight: 600 }}
.page {{ fill: #ffffff }}
.group {{ fill: #f1f3f5 }}
.box {{ fill: #dbe4ff; stroke: #3b5bdb }}
.arrow {{ stroke: #5c636a; stroke-width: 1.5; fill: none; marker-end: url(#head) }}
.tip {{ fill: #5c636a }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e6edf3 }}
.page {{ fill: #1b1d23 }}
.group {{ fill: #2b2f36 }}
.box {{ fill: #2b3a67; stroke: #748ffc }}
.arrow {{ stroke: #adb5bd }}
.tip {{ fill: #adb5bd }}
}}
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" \
orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>
<rect class="page" width="{width}" height="{height}" rx="6"/>
"""
LINE_HEIGHT = 17

Box = tuple[int, int, int, int, str]
"""Left, top, width and height in pixels, and lines of text. The first line is the name."""

Arrow = tuple[int, int, int, int]
"""From x, y to x, y."""

Label = tuple[int, int, str]
"""The middle of the text, and the text."""

RECORD_GROUPS: tuple[Box, ...] = (
    (6, 6, 188, 266, "Driver"),
    (206, 6, 188, 266, "Executors"),
)
RECORD_BOXES: tuple[Box, ...] = (
    (16, 36, 168, 30, "Spark's JVM"),
    (216, 36, 168, 30, "Spark's JVM"),
    (216, 104, 168, 46, "Python workers\none per task slot"),
    (16, 192, 168, 66, "Source process\none per query: finds\nnew records, plans"),
    (216, 192, 168, 66, "Agent\none per executor:\nfetches and decodes"),
    (16, 338, 368, 46, "Kafka\nbroker 1   ·   broker 2   ·   broker 3"),
)
RECORD_ARROWS: tuple[Arrow, ...] = (
    (100, 192, 100, 66),
    (300, 104, 300, 66),
    (300, 192, 300, 150),
    (100, 258, 100, 338),
    (300, 258, 300, 338),
)
RECORD_LABELS: tuple[Label, ...] = (
    (62, 130, "offsets"),
    (340, 90, "Arrow"),
    (332, 176, "memory"),
    (258, 176, "shared"),
    (48, 296, "1 session"),
    (152, 296, "per broker"),
    (248, 296, "1 session"),
    (352, 288, "per query"),
    (352, 304, "and broker"),
)

AGENT_GROUPS: tuple[Box, ...] = (
    (6, 6, 388, 142, "Without an agent: three sessions"),
    (6, 160, 388, 142, "With an agent: one session"),
)
AGENT_BOXES: tuple[Box, ...] = (
    *((16, top, 90, 28, f"worker {n}") for n, top in enumerate((36, 72, 108), 1)),
    (294, 66, 90, 40, "broker"),
    *((16, top, 90, 28, f"worker {n}") for n, top in enumerate((190, 226, 262), 1)),
    (160, 220, 80, 40, "agent"),
    (294, 220, 90, 40, "broker"),
)
AGENT_ARROWS: tuple[Arrow, ...] = (
    (106, 50, 294, 78),
    (106, 86, 294, 86),
    (106, 122, 294, 94),
    (106, 204, 160, 232),
    (106, 240, 160, 240),
    (106, 276, 160, 248),
    (240, 240, 294, 240),
)

STATE_BOXES: dict[SessionState, Box] = {
    SessionState.NONE: (10, 16, 130, 64, "NONE\n(0, 0)\nno session"),
    SessionState.SESSION: (260, 16, 130, 64, "SESSION\n(id, n)\nincremental"),
    SessionState.SESSIONLESS: (10, 226, 130, 64, "SESSIONLESS\n(0, -1)\nfull fetches"),
    SessionState.DOUBT: (260, 226, 130, 64, "DOUBT\n(id, 0)\nepoch unknown"),
}


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x}" y="{y}">{text}</text>'


def _group(left: int, top: int, width: int, height: int, text: str) -> Iterator[str]:
    size = f'width="{width}" height="{height}"'
    yield f'<rect class="group" x="{left}" y="{top}" {size} rx="6"/>'
    yield _text(left + width // 2, top + 19, text, "name")


def _box(left: int, top: int, width: int, height: int, text: str) -> Iterator[str]:
    size = f'width="{width}" height="{height}"'
    yield f'<rect class="box" x="{left}" y="{top}" {size} rx="4"/>'
    lines = text.split("\n")
    first = top + (height - LINE_HEIGHT * len(lines)) // 2 + 13
    for number, line in enumerate(lines):
        y = first + number * LINE_HEIGHT
        yield _text(left + width // 2, y, line, "" if number else "name")


def _arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    return f'<path class="arrow" d="M{x} {y} {to_x} {to_y}"/>'


def _picture(width: int, height: int, label: str, parts: Iterable[str]) -> str:
    head = HEAD.format(width=width, height=height, label=label)
    return head + "\n".join([*parts, "</svg>"]) + "\n"


def _processes(
    groups: Iterable[Box], boxes: Iterable[Box], arrows: Iterable[Arrow], labels: Iterable[Label]
) -> Iterator[str]:
    for group in groups:
        yield from _group(*group)
    for box in boxes:
        yield from _box(*box)
    yield from (_arrow(*arrow) for arrow in arrows)
    yield from (_text(*label) for label in labels)


def _states() -> Iterator[str]:
    for box in STATE_BOXES.values():
        yield from _box(*box)
    for number, (before, after) in enumerate(session_moves.arrows(), 1):
        yield from _numbered(number, STATE_BOXES[before], STATE_BOXES[after])


def _numbered(number: int, before: Box, after: Box) -> Iterator[str]:
    """An arrow from border to border, a little to its left side, with its number."""
    x, y = _middle(before)
    to_x, to_y = _middle(after)
    length = hypot(to_x - x, to_y - y)
    right, down = (to_x - x) / length, (to_y - y) / length
    shift_x, shift_y = 12 * down, -12 * right  # two arrows between two boxes lie side by side
    start = _border(before, right, down)
    end = _border(after, right, down)
    points = (x + start * right, y + start * down, to_x - end * right, to_y - end * down)
    x, y, to_x, to_y = (
        round(value + shift) for value, shift in zip(points, (shift_x, shift_y) * 2, strict=True)
    )
    yield _arrow(x, y, to_x, to_y)
    at_x = round(x + 0.3 * (to_x - x) + shift_x * 0.9)
    at_y = round(y + 0.3 * (to_y - y) + shift_y * 0.9) + 5
    yield _text(at_x, at_y, str(number), "name")


def _middle(box: Box) -> tuple[int, int]:
    left, top, width, height, _ = box
    return left + width // 2, top + height // 2


def _border(box: Box, right: float, down: float) -> float:
    """The way from the middle of a box to just behind its border."""
    _, _, width, height, _ = box
    ways = [size / 2 / abs(part) for size, part in ((width, right), (height, down)) if part]
    return min(ways) + (14 if len(ways) > 1 else 2)


def drawn() -> dict[str, str]:
    """Returns each picture by the name of its file."""
    record = _processes(RECORD_GROUPS, RECORD_BOXES, RECORD_ARROWS, RECORD_LABELS)
    agent = _processes(AGENT_GROUPS, AGENT_BOXES, AGENT_ARROWS, ())
    return {
        "record.svg": _picture(400, 394, "Driver, executors and brokers", record),
        "agent.svg": _picture(400, 308, "Workers, agent and broker", agent),
        "sessions.svg": _picture(400, 306, "The states of a fetch session", _states()),
    }


if __name__ == "__main__":
    for name, text in drawn().items():
        (FOLDER / name).write_text(text)
