"""Memory for replies."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Allocate", "ReplyBuffer"]

Allocate = Callable[[int], memoryview]
"""Returns the memory for a reply of so many bytes."""


_KEPT_BYTES = 1 << 16


class ReplyBuffer:
    """Memory that all replies share: it grows to the largest reply, and nothing zeroes it again.

    The next reply overwrites the view of the last one. A caller that keeps bytes copies them.
    """

    def __init__(self) -> None:
        self._memory = bytearray(_KEPT_BYTES)

    def __call__(self, size: int) -> memoryview:
        if size > len(self._memory):
            self._memory = bytearray(size + size // 4)
        return memoryview(self._memory)[:size]

    def trim(self) -> None:
        """Return the memory of large replies to the system once the last view of them ends."""
        if len(self._memory) > _KEPT_BYTES:
            self._memory = bytearray(_KEPT_BYTES)
