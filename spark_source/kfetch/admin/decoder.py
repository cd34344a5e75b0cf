"""The compiled record decoder: whether it is in the cache, and compiling it now."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DecoderState", "state", "warm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderState:
    """What a new process on this machine will decode records with."""

    compiled: bool
    """False: the first read compiles the decoder, which takes some seconds."""
    directory: str
    """The cache that has the compiled code; empty if none has it."""
    reference: bool
    """KFETCH_RECORDS selects the slow decoder in pure Python, which is never compiled."""


def state() -> DecoderState:
    """Return the state of the decoder. Compiles and writes nothing.

    Raises whatever a broken numba or llvmlite raises.
    """
    from kfetch import decoding
    from kfetch.compiled import native

    reference = decoding.IMPLEMENTATION != "kernel"
    directory = "" if reference else native.cache_directory()
    return DecoderState(compiled=bool(directory), directory=directory, reference=reference)


def warm() -> str:
    """Load the decoder, and compile it if the cache lacks it. Return a sentence for the user.

    The sentence has the time that it took and the directory of the cache. The environment variable
    KFETCH_CACHE names another directory.
    """
    from kfetch.decoder_loading import describe, load_decoder

    return describe(load_decoder())
