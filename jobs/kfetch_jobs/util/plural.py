"""How many there are of something, in words."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, one: str, many: str = "") -> str:
    """``1 job``, ``2 jobs``; ``many`` where an s does not make it."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
