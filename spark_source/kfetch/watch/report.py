"""What the driver has to tell: the losses it found, and what watching cost.

With ``kfetch.statsDirectory`` a file ``driver/<query>-<pid>.json`` below it is kept current, beside
the workers' files of fetch statistics:

    {"losses": {"LogTruncated": 1}, "watch": {"full_requests": 1, "incremental_requests": 41, …}}
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from kfetch.fetch.stats import FetchStats

log = logging.getLogger(__name__)


class Report:
    """One query's file; nothing is written without a directory."""

    def __init__(self, directory: str, query: str) -> None:
        name = f"{query}-{os.getpid()}.json"
        self._target = Path(directory) / "driver" / name if directory else None

    def write(self, watch: FetchStats, losses: Mapping[str, int]) -> None:
        """Replace the file. A full disk must not fail a query: it is logged."""
        if self._target is None:
            return
        draft = self._target.with_suffix(".tmp")
        try:
            self._target.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps({"losses": dict(losses), "watch": asdict(watch)}))
            draft.replace(self._target)
        except OSError as cause:
            log.warning("driver statistics can't be written to %s: %s", self._target, cause)
