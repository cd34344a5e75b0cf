"""When the supervisor's loop last completed a round: the time of an empty file.

A supervisor may live and hang, at a disk that does not answer for example. So its process says
nothing about its jobs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from kfetch_jobs.supervise.store import supervisor_directory


def _file(storage: Path) -> Path:
    return supervisor_directory(storage) / "heartbeat"


def write_heartbeat(storage: Path, now: float) -> None:
    """Note a round of the loop."""
    with suppress(OSError):  # a full disk, for example: the next round tries again
        _file(storage).touch(mode=0o600)
        os.utime(_file(storage), (now, now))


def heartbeat_age_s(storage: Path, now: float, started_s: float) -> float | None:
    """Returns the age of the last round, in seconds.

    Returns None if the supervisor that started at ``started_s`` has noted none: it is of the
    previous release.
    """
    try:
        at = _file(storage).stat().st_mtime
    except OSError:
        return None
    return max(0.0, now - at) if at >= started_s else None
