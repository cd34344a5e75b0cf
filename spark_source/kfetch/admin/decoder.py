"""Shows whether the compiled record decoder is in the cache, and compiles it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderState:
    """The record decoder that a new process on this machine will use."""

    compiled: bool
    """Whether the cache has it. If not, the first read compiles it, which takes some seconds."""
    directory: str
    """The cache directory with the compiled code; empty if no cache has it."""


def state() -> DecoderState:
    """Returns the state of the decoder. Compiles and writes nothing.

    A broken numba or llvmlite can raise any exception.
    """
    from kfetch.compiled import native

    directory = native.cache_directory()
    return DecoderState(compiled=bool(directory), directory=directory)


def warm() -> str:
    """Load the decoder, and compile it if the cache lacks it. Returns a sentence for the user.

    The sentence has the duration and the cache directory. The environment variable KFETCH_CACHE
    names another cache directory.
    """
    from kfetch.decoding import describe, load_decoder
    from kfetch.formats import loading
    from kfetch.formats.face import FORMATS

    described = describe(load_decoder())
    for name in FORMATS:
        loading.load(name)
    return described
