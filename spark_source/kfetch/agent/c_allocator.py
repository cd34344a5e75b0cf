"""Returns the C library's freed memory to the system while the agent is short of memory.

The codecs allocate their windows with ``malloc``. The C library keeps what is freed below a block
that is still in use, and nobody counts it: 10 to 15 MiB of a budget of 64 MiB.
"""

from __future__ import annotations

import ctypes
import time

__all__ = ["return_freed_memory"]

_PAUSE_S = 0.1  # a call takes about a millisecond, and the next window pays for fresh pages
_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""None where the C library has no such function (musl)."""
_next_at = 0.0


def return_freed_memory() -> None:
    """Calls ``malloc_trim`` about ten times a second at most, if the C library has it."""
    global _next_at
    now = time.monotonic()
    if _malloc_trim is not None and now >= _next_at:
        _next_at = now + _PAUSE_S
        _malloc_trim(ctypes.c_size_t(0))
