"""The wall clock, and by how much somebody has set it.

Moments are in seconds of the wall clock, for people and for the next supervisor. A machine that
sleeps looks like a clock that is set forward.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_STEP_MIN_S = 2.0
"""Time servers correct smaller differences all the time."""


class WallClock:
    """Compares the wall clock with the monotonic one."""

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self.now = wall
        self._steady = steady
        self._offset_s = wall() - steady()

    def late(self, now: float) -> float:
        """Returns the time in a round that began at ``now``, and may have hung since.

        It is the time as if nobody had set the clock since ``accept``. A time server may have
        corrected it since, so a small difference says nothing.
        """
        accepted = self._steady() + self._offset_s
        return accepted if accepted - now >= _STEP_MIN_S else now

    def step_s(self) -> float:
        """Returns by how much the clock was set since ``accept``, in seconds; 0.0 if it was not."""
        step_s = self.now() - self._steady() - self._offset_s
        return step_s if abs(step_s) >= _STEP_MIN_S else 0.0

    def accept(self) -> None:
        """Take the present time for right."""
        self._offset_s = self.now() - self._steady()
