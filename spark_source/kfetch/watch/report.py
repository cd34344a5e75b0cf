"""What the driver has to tell: the losses it found, and what watching cost.

With ``kfetch.statsDirectory`` a file ``driver/<query>-<pid>.json`` below it is kept current, beside
the workers' files of fetch statistics:

    {"losses": {"LogTruncated": 1}, "watch": {"full_requests": 1, "incremental_requests": 41, …}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from kfetch.fetch import stats_file
from kfetch.fetch.stats import FetchStats


class Report:
    """One query's file; nothing is written without a directory."""

    def __init__(self, directory: str, query: str) -> None:
        self._directory = Path(directory) / "driver" if directory else None
        self._query = query

    def write(self, watch: FetchStats, losses: Mapping[str, int]) -> None:
        """Replace the file. A full disk must not fail a query: it is logged."""
        if self._directory is not None:
            document = {"losses": dict(losses), "watch": asdict(watch)}
            stats_file.write(self._directory, self._query, document)
