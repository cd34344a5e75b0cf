"""Returns the C library's freed memory to the system while the agent is short of memory.

The codecs allocate their windows with ``malloc``. The C library keeps what is freed below a block
that is still in use, and nobody counts it: 10 to 15 MiB of a budget of 64 MiB.
"""

from __future__ import annotations

import ctypes
import threading
import time

__all__ = ["return_freed_memory"]

_PAUSE_S = 0.1  # a call takes about a millisecond, and the next window pays for fresh pages
_lock = threading.Lock()
_next_at = 0.0


def return_freed_memory() -> None:
    """Calls ``malloc_trim`` at most ten times a second. Does nothing where libc has none (musl)."""
    global _next_at
    now = time.monotonic()
    if now < _next_at or not _lock.acquire(blocking=False):
        return
    try:
        _next_at = now + _PAUSE_S
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(ctypes.c_size_t(0))
    finally:
        _lock.release()
