"""What the terminal shows while the demo runs, and the table and the curves at its end.

They go to stdout, which is for results. Everything else goes to stderr.
"""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from kfetch_jobs.demo.summary import Summary


class Screen:
    """Lines of text above two progress bars: events produced, rows in Delta."""

    def __init__(self, total: int) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bars = Progress(
            TextColumn("{task.description:>10}"),
            BarColumn(bar_width=40),
            TextColumn("{task.completed:>9,.0f} of {task.total:,.0f}"),
            TextColumn("{task.fields[note]}"),
            console=self._console,
            refresh_per_second=4,
            # A file or a pipe gets the lines alone.
            disable=not self._console.is_terminal,
        )
        self._produced = self._bars.add_task("produced", total=total, note="")
        self._landed = self._bars.add_task("in Delta", total=total, note="")

    def __enter__(self) -> Screen:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_bars()

    def stop_bars(self) -> None:
        """Leave the bars as they are, so that other text can follow them."""
        self._bars.stop()

    def print_line(self, line: str) -> None:
        """Print a line above the bars."""
        self._console.print(line)

    def update(self, produced: int, landed: int) -> None:
        """Move the two bars. Both arguments count events."""
        self._bars.update(self._produced, completed=produced)
        note = f"lag {max(0, produced - landed):,}"
        self._bars.update(self._landed, completed=landed, note=note)


def show(summary: Summary) -> None:
    """Print the table and the curves to stdout."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, text in summary.rows():
        bad = name in ("lost", "duplicated") and text != "0"
        table.add_row(name, text, style="bold red" if bad else None)
    console = Console(highlight=False)
    console.print(table)
    console.print()
    for line in summary.plot:
        console.print(Text(line), soft_wrap=True)
    if summary.kept_directory:
        console.print(f"kept: {summary.kept_directory}", soft_wrap=True)
