"""The free space of a file system, and when it is short: pure."""

from __future__ import annotations

from dataclasses import dataclass

_SHARE_MIN = 0.05
_BYTES_ENOUGH = 10 << 30
"""A large disk has this much left long before its last twentieth is full."""
_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """The space of a file system, in bytes."""

    free_bytes: int
    """What a user without privileges may still write."""
    size_bytes: int

    @property
    def short(self) -> bool:
        """Whether less than a twentieth is free, and less than 10 GiB."""
        return self.free_bytes < min(_BYTES_ENOUGH, _SHARE_MIN * self.size_bytes)

    def __str__(self) -> str:
        return f"{self.free_bytes / _GIB:,.1f} GiB free of {self.size_bytes / _GIB:,.1f} GiB"
