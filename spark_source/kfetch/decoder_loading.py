"""Loads the compiled record decoder once per process, and logs how long that took.

Compiled code is cached in a directory (``compiled/code_cache.py``). The cache may be empty, lost
with a container, or made for another kind of CPU. Then every new process compiles for seconds
before its first record. A warning in the log says so. ``kfetch warm`` fills the cache in advance.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from functools import cache

from kfetch import decoding

__all__ = ["DecoderLoad", "describe", "load_decoder"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderLoad:
    """How this process loaded the decoder."""

    compiled: bool
    """Whether this process compiled it; otherwise it came from the cache."""
    seconds: float
    """The time that loading took."""
    cache_directory: str
    """Where compiled code is cached; empty if it can't be cached."""
    named_directory_problem: str = ""
    """The directory that KFETCH_CACHE names, and why it can't be used; empty if it can."""


_lock = threading.Lock()


def load_decoder() -> DecoderLoad:
    """Loads the decoder once per process.

    Logs a warning if the process had to compile it, or if it can't use KFETCH_CACHE.
    Another thread that calls this during the load waits for its end.
    """
    with _lock:
        return _load_decoder()


@cache
def _load_decoder() -> DecoderLoad:
    began = time.monotonic()
    origin = decoding.load()
    load = DecoderLoad(
        compiled=origin.compiled,
        seconds=time.monotonic() - began,
        cache_directory=origin.directory,
        named_directory_problem=origin.named_directory_problem,
    )
    needs_attention = load.compiled or load.named_directory_problem
    log.log(logging.WARNING if needs_attention else logging.INFO, "%s", describe(load))
    return load


def describe(load: DecoderLoad) -> str:
    """Returns one sentence for the user: how long loading took, and how to make it faster."""
    sentence = _describe(load)
    if load.named_directory_problem:
        sentence += f"; KFETCH_CACHE can't be used: {load.named_directory_problem}"
    return sentence


def _describe(load: DecoderLoad) -> str:
    if not load.compiled:
        return f"the record decoder was ready in {load.seconds:.1f} s, from {load.cache_directory}"
    advice = (
        f"it is cached in {load.cache_directory}: keep that directory, or fill it with "
        "`kfetch warm` when you build an image"
        if load.cache_directory
        else "it can't be cached: set KFETCH_CACHE to a directory that only this user can write"
    )
    return f"the record decoder was compiled in {load.seconds:.1f} s; {advice}"
