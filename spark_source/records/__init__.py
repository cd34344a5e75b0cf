"""Record batches (message format v2) to Arrow: two decoders behind one door.

``decode`` is the kernel unless KFETCH_RECORDS=reference says otherwise; both give the same rows and
the same errors, and one test suite runs over both. Importing this package does not import numba.
It refuses message formats v0 and v1, and leaves aborted transactions to a later version: control
batches are skipped, every other batch is read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

import pyarrow as pa

from spark_source.errors import KfetchError, OptionError
from spark_source.records.arrow import SCHEMA, SCHEMA_WITH_HEADERS
from spark_source.records.batch import Extent, Section, Slice, extent, sections, tail

__all__ = [
    "IMPLEMENTATION",
    "SCHEMA",
    "SCHEMA_WITH_HEADERS",
    "Extent",
    "Slice",
    "decode",
    "decoder",
    "extent",
    "tail",
]

IMPLEMENTATION = os.environ.get("KFETCH_RECORDS", "kernel")
"""Which decoder ``decode`` uses: the only place where that is chosen."""

if IMPLEMENTATION not in ("reference", "kernel"):
    raise OptionError(f"KFETCH_RECORDS={IMPLEMENTATION}: must be reference or kernel")


class Decoder(Protocol):
    """What ``reference`` and ``kernel`` both offer."""

    def __call__(self, found: Sequence[Section], /, *, headers: bool) -> pa.RecordBatch | None:
        """All wanted rows of all sections as one RecordBatch, or None if there are none."""


def decoder(name: str) -> Decoder:
    """The decoder of that name; the kernel's first use compiles it or loads it from its cache."""
    try:
        found: Decoder = import_module(f"{__name__}.{name}").decode
    except Exception as cause:  # a broken numba or llvmlite raises whatever it likes
        # Never fall back in silence: a hundred times slower would look like a broken broker.
        raise KfetchError(
            f"the {name} record decoder cannot be loaded ({cause}): repair numba, or set "
            "KFETCH_RECORDS=reference for the slow decoder in pure Python"
        ) from cause
    return found


def decode(
    slices: Sequence[Slice], *, headers: bool, check_crcs: bool = True
) -> pa.RecordBatch | None:
    """The wanted rows of all slices, in their order, as one RecordBatch; None if there are none.

    The bytes must not change until it returns; nothing of the result refers to them.
    """
    found = sections(slices, check_crcs=check_crcs)
    return decoder(IMPLEMENTATION)(found, headers=headers) if found else None
