"""The ways in which a run ends, and which of them an attempt more would not change."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Kind"]


class Kind(StrEnum):
    """The ways in which a run ends."""

    FINISHED = "finished"
    """by itself: all was read"""
    STOPPED = "stopped"
    """as it was told to"""
    CONFIG = "config"
    """a mistake in a file or in the transform"""
    AUTH = "auth"
    """the brokers refuse who asks, or what"""
    DATA_LOSS = "data_loss"
    """records are gone that were not read"""
    FAILED = "failed"
    """anything else that was told"""
    KILLED = "killed"
    """the process was gone without a word"""
    HUNG = "hung"
    """it made no progress, and was ended for that"""

    @property
    def good(self) -> bool:
        """Whether the run did what it should."""
        return self in (Kind.FINISHED, Kind.STOPPED)

    @property
    def repeats(self) -> bool:
        """Whether the next run would end the same way: only a person can mend it."""
        return self in (Kind.CONFIG, Kind.AUTH, Kind.DATA_LOSS)
