"""Tells the runs of a host until when their supervisor leads the project.

The time is the file's own time of change, in seconds since the machine's start. So a full disk
can't keep it from moving on. The supervisor's lease sets it like the timer that ends a process.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kfetch.storage.processes import boottime

_STOPS = 1 / 3
"""The share of a lease before its end at which runs stop. The next leader waits until behind it."""


@dataclass(frozen=True, slots=True)
class TermFile:
    """The file of one supervisor."""

    path: Path
    length_s: float
    """How long the supervisor's lease lasts without renewal."""

    def end_in(self, seconds: float) -> None:
        """Let the runs go on until a third of a lease before so many seconds."""
        at = boottime() + seconds - self.length_s * _STOPS
        with suppress(OSError):  # the runs end if that lasts
            try:
                os.utime(self.path, (at, at))
            except FileNotFoundError:
                new = self.path.with_suffix(".new")
                new.parent.mkdir(parents=True, exist_ok=True)
                new.touch(mode=0o600)
                os.utime(new, (at, at))
                new.rename(self.path)

    def close(self) -> None:
        """End the runs."""
        with suppress(OSError):
            self.path.unlink()

    def trouble(self) -> str:
        """Returns why a run of this host must stop; nothing while its supervisor leads."""
        try:
            leads = 0 < self.path.stat().st_mtime - boottime() <= self.length_s
        except OSError:
            leads = False
        return "" if leads else "the supervisor of this host does not lead the project any more"
