"""How verbs print for people: tables, numbers, durations."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:  # late: `kfetch --help` needs none of it
    from rich.console import Console

__all__ = ["console", "duration", "number", "offset", "table", "warn"]

_WIDTH = 200
"""Where there is no terminal: nothing is to be cut that a script might look for."""


def console() -> Console:
    """Where tables go: as wide as the terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDTH
    return Console(markup=False, highlight=False, width=width)


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; what is too wide for the terminal is folded, not cut."""
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False)
    for name in names:
        drawn.add_column(name, overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    console().print(drawn)


def warn(sentences: Iterable[str]) -> None:
    """Say what is no mistake, and may not be what was meant."""
    for sentence in sentences:
        typer.echo(f"kfetch: warning: {sentence}", err=True)


def number(value: int | None) -> str:
    """With thousands apart; nothing for what nobody knows."""
    return "" if value is None else f"{value:,}"


def offset(value: int | None) -> str:
    """As it is, for scripts and for comparing."""
    return "?" if value is None else str(value)


def duration(seconds: float) -> str:
    """A duration in its two largest units."""
    seconds = max(0, int(seconds))
    for size, unit, smaller, smaller_unit in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit} {rest} {smaller_unit}"
    return f"{seconds} s"
