"""Gives freed memory back to the system: while the agent is short of it, and when no task reads.

With a large budget, Arrow's allocator keeps the pages of freed replies and batches for a second
(``launch``), because fresh pages are a third of the agent's time. The codecs allocate their windows
with ``malloc``. The C library keeps what is freed below a block that is still in use, and nobody
counts it: 10 to 15 MiB of a budget of 64 MiB.
"""

from __future__ import annotations

import ctypes
import os
import time

import pyarrow as pa

_PAUSE_S = 0.1  # a call takes about a millisecond, and the next batch pays for fresh pages
_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
"""None where the C library has no such function (musl)."""
_next_at = 0.0


def return_freed_memory(*, is_idle: bool = False) -> None:
    """Give back the free pages of both allocators, about ten times a second at most.

    ``is_idle``: whether nobody reads now. Then it gives them back at once.
    """
    global _next_at
    now = time.monotonic()
    if not is_idle and now < _next_at:
        return
    _next_at = now + _PAUSE_S
    pa.default_memory_pool().release_unused()
    if _malloc_trim is not None:
        _malloc_trim(ctypes.c_size_t(0))
