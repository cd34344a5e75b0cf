"""``pulse.json``: the last sign of life of a run's query, and its lag. A value and its reader.

The run writes the file (``query_recorder.py``). The supervisor, ``kfetch status`` and the page read
it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The query's last sign of life."""

    at: float
    """When the query reported, or tasks of its micro-batch finished: seconds since 1970."""
    batch: int | None
    """The last micro-batch that this run committed."""
    lag: int | None = None
    """Offsets behind after that micro-batch; None while the lag is unknown."""
    lag_s: float = 0.0
    """The next offset had waited at least this long, in seconds."""
    query: str = ""
    """Spark's id of the query, empty at first. The agents know the query by the same id."""

    @property
    def is_idle(self) -> bool:
        """Whether the query has had nothing to read since its start."""
        return self.batch is None and self.lag == 0


def pulse_path(directory: Path) -> Path:
    """Return the path of the pulse in a job's directory."""
    return directory / "pulse.json"


def read_pulse(path: Path) -> Pulse | None:
    """Return the pulse; None if there is no readable one."""
    try:
        return Pulse(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
