"""Decompression of the records of a batch, into memory that one decode call owns.

The output has a size limit, so a few bytes that unfold into gigabytes fail before they use memory.
The buffer reserves each chunk of memory before it writes there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cramjam
import numpy as np

from kfetch.errors import KfetchError
from kfetch.records.arrow import empty_array
from kfetch.records.memory import Part, PartIsFull
from kfetch.records.unpacked_size import (
    XERIAL_HEADER_BYTES,
    XERIAL_MAGIC,
    gzip_claim,
    size_bound,
)

# One batch, decompressed. Brokers limit the compressed size (message.max.bytes, 1 MiB unless
# raised) and producers the uncompressed one (batch.size 16 KiB, max.request.size 1 MiB unless
# raised). 128 MiB is a hundred times either, and one decode thread can afford it.
BATCH_BYTES_MAX = 128 << 20

# All compressed batches of one call, after decompression: a reply of fetch.max.bytes (50 MiB unless
# raised) at 20:1, and half of what an Arrow binary column can address.
CALL_BYTES_MAX = 1 << 30

_FIRST_BYTES_MIN = 64 << 10
_CHUNK_BYTES = 16 << 20  # unless a batch needs more
_MARGIN = 1.25  # batches of one topic shrink alike
_RATIO = 4  # text shrinks to about a quarter; also the growth of chunks


class DecompressionFailed(Exception):
    """The bytes don't fit the codec, or are too many. ``sections`` turns it into CorruptBatch."""


def _snappy_into(data: memoryview, out: memoryview) -> int:
    """Decompresses raw snappy, or xerial's frame of raw blocks, and returns the size.

    Java writes frames, other clients write either.
    """
    if data[:8] != XERIAL_MAGIC:
        return int(cramjam.snappy.decompress_raw_into(data, out))
    at, size = XERIAL_HEADER_BYTES, 0
    while at < len(data):
        if data[at : at + 8] == XERIAL_MAGIC:  # streams may follow one another
            at += XERIAL_HEADER_BYTES
            continue
        length = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if not 0 <= length <= len(data) - at:
            raise DecompressionFailed("a snappy block runs past the end of the batch")
        size += cramjam.snappy.decompress_raw_into(data[at : at + length], out[size:])
        at += length
    return size


GZIP, LZ4 = 1, 3
CODECS: dict[int, tuple[str, Callable[[Any, Any], int]]] = {
    GZIP: ("gzip", cramjam.gzip.decompress_into),
    2: ("snappy", _snappy_into),
    LZ4: ("lz4", cramjam.lz4.decompress_into),
    4: ("zstd", cramjam.zstd.decompress_into),
}
"""Name and function by the low three bits of a batch's attributes; 0 is uncompressed."""

CODECS_LEGACY = (GZIP, 2, LZ4)
"""The codecs that message formats v0 and v1 allow (KIP-110)."""


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Returns the address of the array's first byte, valid while the array lives."""
    return int(array.__array_interface__["data"][0])


class DecompressionBuffer:
    """Memory for the decompressed batches of one part: a few large chunks.

    A batch goes into the rest of the chunk if it fits there at the ratio of the batch before.
    Otherwise its frame says how much it may need, and a larger chunk is reserved. Unwritten pages
    cost only address space.
    """

    def __init__(self, compressed_bytes: int, part: Part) -> None:
        self._part = part
        self._next_chunk_bytes = min(max(_RATIO * compressed_bytes, _FIRST_BYTES_MIN), _CHUNK_BYTES)
        self._chunk = memoryview(bytearray())
        self._address = 0
        self._used = 0
        self._total = 0
        self._last_ratio = float("inf")

    def decompress(self, codec: int, data: memoryview) -> tuple[memoryview, int]:
        """Returns the decompressed bytes and their address.

        Raises PartIsFull, DecompressionFailed, and KfetchError if all batches together are too
        large.
        """
        if self._part.is_full_with(0):
            raise PartIsFull
        if not data:  # a larger chunk would never be enough
            raise DecompressionFailed(f"{CODECS[codec][0]}: there are no bytes")
        if _MARGIN * self._last_ratio * len(data) > len(self._rest):
            self._make_room(_expected_bytes(codec, data))
        size = self._decompress_into_chunk(codec, data)
        self._last_ratio = size / max(1, len(data))
        at, self._used = self._used, self._used + size
        self._total += size
        if self._total > CALL_BYTES_MAX:
            raise KfetchError(
                f"the record batches of one decode call unfold to more than {CALL_BYTES_MAX} "
                "bytes: lower fetch.max.bytes",
                call_bytes_max=CALL_BYTES_MAX,
            )
        return self._chunk[at : self._used], self._address + at

    @property
    def _rest(self) -> memoryview:
        return self._chunk[self._used : self._used + BATCH_BYTES_MAX]

    def _make_room(self, size: int) -> None:
        """Reserve a chunk for ``size`` bytes, unless they fit. Raises PartIsFull."""
        if size <= len(self._rest):
            return
        if self._part.is_full_with(size):
            raise PartIsFull
        if not self._used:
            self._part.release(len(self._chunk))
        self._chunk, self._used = memoryview(bytearray()), 0  # sections keep the old one alive
        chunk_bytes = self._next_chunk_bytes
        if self._part.part_bytes is not None:
            chunk_bytes = min(chunk_bytes, self._part.part_bytes - self._total)
        size = min(max(size, chunk_bytes), BATCH_BYTES_MAX)
        self._part.reserve(size)
        chunk = empty_array(size, np.uint8)
        self._chunk = chunk.data  # this view, like every view of it, keeps the memory alive
        self._address = address_of(chunk)
        self._next_chunk_bytes = min(_RATIO * size, _CHUNK_BYTES)

    def _decompress_into_chunk(self, codec: int, data: memoryview) -> int:
        name, into = CODECS[codec]
        while True:
            out = self._rest
            try:
                return int(into(data, out))
            except cramjam.DecompressionError as error:
                # A buffer that is too small and damaged bytes raise the same class with different
                # texts. So every failure is tried again until the buffer has its largest size.
                if len(out) >= BATCH_BYTES_MAX:
                    raise DecompressionFailed(
                        f"{name}, at most {BATCH_BYTES_MAX} bytes: {error}"
                    ) from None
            expected = _expected_bytes(codec, data)
            larger = min(_RATIO * max(len(out), len(data)), BATCH_BYTES_MAX)
            size = expected if expected > len(out) else larger
            del out  # so that the small chunk is free while the part waits for a larger one
            self._make_room(size)


def _expected_bytes(codec: int, data: memoryview) -> int:
    """Returns how many bytes to reserve for a batch: a guess where its frame has no bound."""
    bound = size_bound(codec, data)
    if bound is None:
        bound = max(_RATIO * len(data), gzip_claim(data) if codec == GZIP else 0)
    return min(bound, BATCH_BYTES_MAX)
