"""Memory for replies."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Allocate", "ReplyBuffer"]

Allocate = Callable[[int], memoryview]
"""Returns the memory for a reply of so many bytes."""


class ReplyBuffer:
    """Memory that all replies share: it grows to the largest reply, and nothing zeroes it again.

    The next reply overwrites the view of the last one. A caller that keeps bytes copies them.
    """

    def __init__(self) -> None:
        self._memory = bytearray(1 << 16)

    def __call__(self, size: int) -> memoryview:
        if size > len(self._memory):
            self._memory = bytearray(max(size, 2 * len(self._memory)))
        return memoryview(self._memory)[:size]
