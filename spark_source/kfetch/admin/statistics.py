"""Totals of what fetching cost, from the files that the option ``kfetch.statsDirectory`` names."""

from __future__ import annotations

from pathlib import Path

from kfetch.fetch.stats import FetchStats
from kfetch.fetch.stats_file import read_stats

__all__ = ["totals"]


def totals(directory: Path) -> FetchStats:
    """Return the sum over all processes that wrote into a directory, of all queries.

    A directory that does not exist gives zeros. Raises OSError or ValueError for a file that
    cannot be read.
    """
    return read_stats(directory)
