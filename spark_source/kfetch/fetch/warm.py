"""Loading the compiled record decoder, and telling when that took long.

What was compiled is kept in a directory (``compiled/code_cache.py``). Where that is empty, not kept
between containers, or from another kind of CPU, every new process compiles for seconds before its
first record: worth a line that says so, and a way to do it once.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from functools import cache

from kfetch import decoding

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """How the decoder was loaded."""

    compiled: bool
    seconds: float
    directory: str
    """Where compiled code is kept; empty if nowhere."""


_loading = threading.Lock()


def load() -> Loaded:
    """Load the decoder, once per process: whoever comes meanwhile waits. A warning if it had to be
    compiled."""
    with _loading:
        return _load()


@cache
def _load() -> Loaded:
    began = time.monotonic()
    ready = decoding.load()
    seconds = time.monotonic() - began
    found = Loaded(compiled=ready.compiled, seconds=seconds, directory=ready.directory)
    log.log(logging.WARNING if found.compiled else logging.INFO, "%s", sentence(found))
    return found


def sentence(found: Loaded) -> str:
    """What a user should know of it."""
    if not found.compiled:
        return f"the record decoder was ready in {found.seconds:.1f} s, from {found.directory}"
    kept = (
        f"it is kept in {found.directory}: keep that directory, or fill it with `kfetch warm` when "
        "an image is built"
        if found.directory
        else "it can't be kept: set KFETCH_CACHE to a directory that only this user can write"
    )
    return f"the record decoder was compiled in {found.seconds:.1f} s; {kept}"
