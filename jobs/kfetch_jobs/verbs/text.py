"""Prints tables and numbers for people."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:  # late: `kfetch --help` needs none of it
    from rich.console import Console

_WIDTH = 200
"""The width without a terminal, in columns. It cuts no text that a script may look for."""


def console() -> Console:
    """Returns the console for tables. It is as wide as the terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDTH
    return Console(markup=False, highlight=False, width=width)


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table. It folds cells that are too wide for the terminal, and cuts none."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False)
    for name in names:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*row)
    console().print(grid)


def warn(sentences: Iterable[str]) -> None:
    """Print warnings to stderr."""
    for sentence in sentences:
        typer.echo(f"kfetch: warning: {sentence}", err=True)


def number(value: int | None) -> str:
    """Returns the number with thousands separators; an empty text for None."""
    return "" if value is None else f"{value:,}"


def offset(value: int | None) -> str:
    """Returns the offset without separators, which scripts can compare; ``?`` for None."""
    return "?" if value is None else str(value)
