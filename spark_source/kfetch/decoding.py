"""Record batches to Arrow, and the load of the compiled decoder.

Importing this module loads no compiled code: ``load_decoder`` does, once per process.
The decoder reads every message format that brokers hold: v2, and v0 and v1 of segments older than
Kafka 0.11. Damaged data raises CorruptBatch; with ``on_corrupt``, ``decode_part`` skips it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import pyarrow as pa

from kfetch.compiled.code_cache import CodeOrigin
from kfetch.errors import CorruptBatch, KfetchError
from kfetch.records import batch as batches
from kfetch.records.arrow import STANDARD_COLUMNS, Columns
from kfetch.records.batch import Extent, Slice, Walker
from kfetch.records.faults import UnexplainedFault
from kfetch.records.memory import UNLIMITED, Memory, Part
from kfetch.records.sections import OnCorrupt, Section, sections

log = logging.getLogger(__name__)

_walker: Walker = batches.walk
"""Walks over batch headers: in Python, until ``load`` has the compiled code."""


def kernel() -> Any:
    """Returns the module ``kfetch.compiled.kernel``. The first use compiles or loads its code.

    Raises KfetchError if it cannot be loaded.
    """
    try:
        return import_module("kfetch.compiled.kernel")
    except Exception as cause:  # a broken numba or llvmlite raises any exception
        raise KfetchError(
            f"the record decoder cannot be loaded ({cause})",
            action="reinstall numba and llvmlite",
        ) from cause


def load() -> CodeOrigin:
    """Loads the decoder, and returns the origin of its code.

    From then on, ``extent`` and ``batches_from`` use compiled code too.
    """
    global _walker
    kernel()
    _walker = import_module("kfetch.compiled.walk").walk
    origin: CodeOrigin = import_module("kfetch.compiled.native").load().origin
    return origin


class DecoderLoad(NamedTuple):
    """How this process loaded the decoder."""

    origin: CodeOrigin
    seconds: float
    """The time that loading took."""


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
    origin = load()
    loaded = DecoderLoad(origin, time.monotonic() - began)
    needs_attention = origin.compiled or origin.named_directory_problem
    log.log(logging.WARNING if needs_attention else logging.INFO, "%s", describe(loaded))
    return loaded


def describe(load: DecoderLoad) -> str:
    """Returns one sentence for the user: how long loading took, and how to make it faster."""
    compiled, directory, problem = load.origin
    sentence = f"the record decoder was ready in {load.seconds:.1f} s, from {directory}"
    if compiled:
        advice = (
            f"it is cached in {directory}: keep that directory, or fill it with `kfetch warm` when "
            "you build an image"
            if directory
            else "it can't be cached: set KFETCH_CACHE to a directory that only this user can write"
        )
        sentence = f"the record decoder was compiled in {load.seconds:.1f} s; {advice}"
    return f"{sentence}; KFETCH_CACHE can't be used: {problem}" if problem else sentence


def extent(data: memoryview, start: int, *, end: int | None = None) -> Extent:
    """Returns how far a reply's records reach; see ``records.batch.extent``.

    It never waits for ``load``: a broker's thread calls it while another thread may compile.
    """
    return batches.extent(data, start, end=end, walker=_walker)


def batches_from(data: memoryview, offset: int) -> memoryview:
    """Returns the complete batches that end at or after ``offset``; empty without any."""
    return batches.batches_from(data, offset, walker=_walker)


def decode_part(
    slices: Sequence[Slice],
    *,
    columns: Columns = STANDARD_COLUMNS,
    check_crcs: bool = True,
    on_corrupt: OnCorrupt | None = None,
    memory: Memory = UNLIMITED,
) -> tuple[pa.RecordBatch | None, tuple[Slice, ...]]:
    """Returns rows in range of the slices, in order, as one RecordBatch, and the slices left.

    It decodes so many rows as ``memory`` has room for. The first slice that is left may begin later
    than before. Without rows there is no RecordBatch. The bytes must not change during the call,
    and the result does not refer to them.
    ``on_corrupt``: receives the error of each damaged batch, which is skipped with all its records.

    Raises CorruptBatch for a damaged batch. With ``on_corrupt`` it raises only if the next offset
    after the batch is not certain.
    """
    part = Part(memory, columns)
    decode_slices = kernel().decode_slices
    checked = check_crcs or on_corrupt is not None
    with suppress(CorruptBatch, UnexplainedFault):  # the code below finds the fault again
        batch: pa.RecordBatch | None
        batch = decode_slices(slices, columns=columns, check_crcs=checked, part=part)
        if batch is None or not part.is_overfull_with_structs(batch.num_rows):
            return batch, part.remaining
        del batch
    part.abandon()  # the code below can end a part before a plain batch, too
    part = Part(memory, columns)
    in_range = sections(slices, check_crcs=check_crcs, on_corrupt=on_corrupt, part=part)
    return _decode_sections(in_range, columns, on_corrupt, part), part.remaining


def _decode_sections(
    in_range: Sequence[Section], columns: Columns, on_corrupt: OnCorrupt | None, memory: Memory
) -> pa.RecordBatch | None:
    """Returns the rows of sections. Skips those with damaged records if ``on_corrupt`` is given."""
    if not in_range:
        return None
    decode_sections: Callable[..., pa.RecordBatch | None] = kernel().decode
    try:
        return decode_sections(in_range, columns=columns, memory=memory)
    except CorruptBatch:
        if on_corrupt is None:
            raise
    decodable = _decodable(in_range, decode_sections, on_corrupt)
    return decode_sections(decodable, columns=columns, memory=memory) if decodable else None


def _decodable(
    candidates: Sequence[Section], decode_sections: Callable[..., object], on_corrupt: OnCorrupt
) -> list[Section]:
    """Returns the sections without damaged records. Decodes each section alone to find them."""
    decodable = []
    for section in candidates:
        try:
            decode_sections([section], columns=STANDARD_COLUMNS)
        except CorruptBatch as error:
            on_corrupt(error)
        else:
            decodable.append(section)
    return decodable
