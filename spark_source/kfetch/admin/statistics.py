"""Fetch totals, from the files in the directory that ``kfetch.statsDirectory`` names."""

from __future__ import annotations

from pathlib import Path

from kfetch.fetch.stats import FetchStats
from kfetch.fetch.totals import read_stats


def totals(directory: Path) -> FetchStats:
    """Returns the sum of all files in ``directory``: one file per process, for all queries.

    Returns zeros if the directory does not exist. Raises OSError or ValueError for a file that
    can't be read.
    """
    return read_stats(directory)
