"""Record batches to Arrow: two decoders behind one door.

``decode`` is the kernel unless KFETCH_RECORDS=reference says otherwise; both give the same rows and
the same errors, and one test suite runs over both. Importing this module loads no compiled code.
Every message format that brokers hold is read: v2, and v0 and v1 of segments older than Kafka 0.11.
It refuses to guess: what is damaged is an error, or is left out and told.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NamedTuple, Protocol

import pyarrow as pa

from kfetch.errors import CorruptBatch, KfetchError, OptionError
from kfetch.records.arrow import Columns
from kfetch.records.batch import Slice
from kfetch.records.faults import Unsure
from kfetch.records.sections import OnCorrupt, Section, sections

__all__ = ["IMPLEMENTATION", "Ready", "decode", "decoder", "load"]

IMPLEMENTATION = os.environ.get("KFETCH_RECORDS", "kernel")
"""Which decoder ``decode`` uses: the only place where that is chosen."""

_MODULES = {"kernel": "kfetch.compiled.kernel", "reference": "kfetch.records.reference"}

if IMPLEMENTATION not in _MODULES:
    raise OptionError(
        f"KFETCH_RECORDS={IMPLEMENTATION}",
        action="must be reference or kernel",
        option="KFETCH_RECORDS",
    )


NO_MORE_COLUMNS = Columns()


class Decoder(Protocol):
    """What ``reference`` and ``kernel`` both offer."""

    def __call__(self, found: Sequence[Section], /, *, columns: Columns) -> pa.RecordBatch | None:
        """All wanted rows of all sections as one RecordBatch, or None if there are none."""


def decoder(name: str) -> Decoder:
    """The decoder of that name; the kernel's first use compiles it or loads it from its cache."""
    try:
        found: Decoder = import_module(_MODULES[name]).decode
    except Exception as cause:  # a broken numba or llvmlite raises whatever it likes
        # Never fall back in silence: a hundred times slower would look like a broken broker.
        raise KfetchError(
            f"the {name} record decoder cannot be loaded ({cause})",
            action="repair numba, or set KFETCH_RECORDS=reference for the slow decoder in pure "
            "Python",
        ) from cause
    return found


class Ready(NamedTuple):
    """How a decoder came to be ready."""

    compiled: bool = False
    """Whether this process compiled it, which takes seconds."""
    directory: str = ""
    """Where compiled code is kept; empty if nowhere."""


def load() -> Ready:
    """Load the decoder that ``decode`` uses."""
    decoder(IMPLEMENTATION)
    if IMPLEMENTATION != "kernel":
        return Ready()
    loops = import_module("kfetch.compiled.native").load()
    return Ready(loops.compiled, loops.directory)


def decode(
    slices: Sequence[Slice],
    *,
    columns: Columns = NO_MORE_COLUMNS,
    check_crcs: bool = True,
    on_corrupt: OnCorrupt | None = None,
) -> pa.RecordBatch | None:
    """The wanted rows of all slices, in their order, as one RecordBatch; None if there are none.

    The bytes must not change until it returns; nothing of the result refers to them. A damaged
    batch raises CorruptBatch. With ``on_corrupt`` it is left out instead, all of its records, and
    told; that still raises where the place behind the batch is not known for sure.
    """
    use = decoder(IMPLEMENTATION)
    if IMPLEMENTATION == "kernel":
        checked = check_crcs or on_corrupt is not None
        straight = import_module(_MODULES["kernel"]).decode_slices
        with suppress(CorruptBatch, Unsure):  # what is wrong, and whose fault, is found out below
            return straight(slices, columns=columns, check_crcs=checked)
    found = sections(slices, check_crcs=check_crcs, on_corrupt=on_corrupt)
    if not found:
        return None
    try:
        return use(found, columns=columns)
    except CorruptBatch:
        if on_corrupt is None:
            raise
    kept = _sound(found, use, on_corrupt)
    return use(kept, columns=columns) if kept else None


def _sound(found: Sequence[Section], use: Decoder, on_corrupt: OnCorrupt) -> list[Section]:
    """The sections whose records are, tried one by one."""
    kept = []
    for section in found:
        try:
            use([section], columns=NO_MORE_COLUMNS)
        except CorruptBatch as error:
            on_corrupt(error)
        else:
            kept.append(section)
    return kept
