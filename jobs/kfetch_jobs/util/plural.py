"""A count with its noun: ``1 job``, ``2 jobs``."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """Returns ``1 job`` or ``2 jobs``. ``many`` is a plural that does not end in s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
