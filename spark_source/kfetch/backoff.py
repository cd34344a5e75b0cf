"""Exponential back-off as a value: each pause is twice as long as the one before, up to a maximum.

The unit belongs to the caller. ``wire.retry`` counts seconds, ``session.refusals`` counts fetches.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The next pause of a series, and the longest one."""

    pause: float
    pause_max: float

    def doubled(self) -> Backoff:
        """Returns the back-off after one more pause."""
        return Backoff(min(2 * self.pause, self.pause_max), self.pause_max)
