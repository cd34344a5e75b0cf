"""Decompression of a batch's records section, into memory that one decode call owns.

It refuses to grow without bounds: output goes into a buffer of known size, so a few bytes that
claim or unfold into gigabytes fail before the memory is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cramjam
import numpy as np

from kfetch.errors import KfetchError
from kfetch.records.arrow import room

__all__ = [
    "BATCH_BYTES_MAX",
    "CALL_BYTES_MAX",
    "CODECS",
    "CODECS_LEGACY",
    "LZ4",
    "Room",
    "Undecodable",
    "address_of",
]

# One batch, decompressed. Brokers limit the compressed size (message.max.bytes, 1 MiB unless
# raised) and producers the uncompressed one (batch.size 16 KiB, max.request.size 1 MiB unless
# raised): 128 MiB is a hundred times either, and what one decode thread may afford.
BATCH_BYTES_MAX = 128 << 20

# All compressed batches of one call, decompressed: a reply of fetch.max.bytes (50 MiB unless
# raised) at 20:1, and half of what an Arrow binary column can address.
CALL_BYTES_MAX = 1 << 30

_FIRST_BYTES_MIN = 64 << 10
_FIRST_BYTES_MAX = 16 << 20
_UNFOLDING = 4  # text shrinks to about a quarter: the first guess, and the growth after a miss

_XERIAL_MAGIC = b"\x82SNAPPY\x00"  # org.xerial.snappy.SnappyCodec
_XERIAL_HEADER_BYTES = 16  # magic, then version and compatible version, which say nothing


class Undecodable(Exception):
    """The bytes are not what the codec says, or are too many; becomes CorruptBatch upstairs."""


def _snappy_into(data: memoryview, out: memoryview) -> int:
    """Raw snappy, or xerial's frame of raw blocks: Java writes it, others write either."""
    if data[:8] != _XERIAL_MAGIC:
        return int(cramjam.snappy.decompress_raw_into(data, out))
    at, size = _XERIAL_HEADER_BYTES, 0
    while at < len(data):
        if data[at : at + 8] == _XERIAL_MAGIC:  # streams may follow one another
            at += _XERIAL_HEADER_BYTES
            continue
        length = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if not 0 <= length <= len(data) - at:
            raise Undecodable("a snappy block runs past the end of the batch")
        size += cramjam.snappy.decompress_raw_into(data[at : at + length], out[size:])
        at += length
    return size


LZ4 = 3
CODECS: dict[int, tuple[str, Callable[[Any, Any], int]]] = {
    1: ("gzip", cramjam.gzip.decompress_into),
    2: ("snappy", _snappy_into),
    LZ4: ("lz4", cramjam.lz4.decompress_into),
    4: ("zstd", cramjam.zstd.decompress_into),
}
"""Name and function by the low three bits of a batch's attributes; 0 is uncompressed."""

CODECS_LEGACY = (1, 2, LZ4)
"""What the message formats v0 and v1 allow (KIP-110)."""


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Where the array's first byte lies; valid while the array lives."""
    return int(array.__array_interface__["data"][0])


class Room:
    """Memory for the decompressed batches of one call: few large chunks, one behind the other.

    No codec but snappy says its size up front for sure, so each batch gets all that is left of
    the chunk, and on a miss a larger one. Untouched pages cost only address space.
    """

    def __init__(self, compressed_bytes: int) -> None:
        guess = _UNFOLDING * compressed_bytes
        self._take(min(max(guess, _FIRST_BYTES_MIN), _FIRST_BYTES_MAX))
        self._total = 0

    def _take(self, size: int) -> None:
        chunk = room(min(size, BATCH_BYTES_MAX), np.uint8)
        self._chunk = chunk.data  # keeps the memory alive, and every view of it does
        self._address = address_of(chunk)
        self._used = 0

    def decompress(self, codec: int, data: memoryview) -> tuple[memoryview, int]:
        """The section's bytes and their address."""
        size = self._unfold(codec, data)
        at, self._used = self._used, self._used + size
        self._total += size
        if self._total > CALL_BYTES_MAX:
            raise KfetchError(
                f"the record batches of one decode call unfold to more than {CALL_BYTES_MAX} "
                "bytes: lower fetch.max.bytes",
                call_bytes_max=CALL_BYTES_MAX,
            )
        return self._chunk[at : self._used], self._address + at

    def _unfold(self, codec: int, data: memoryview) -> int:
        name, into = CODECS[codec]
        while True:
            out = self._chunk[self._used : self._used + BATCH_BYTES_MAX]
            try:
                return int(into(data, out))
            except cramjam.DecompressionError as error:
                # Too small a buffer and damaged bytes raise the same class, told apart only by
                # their English: so every failure is tried again until the buffer is at its limit.
                if len(out) >= BATCH_BYTES_MAX:
                    raise Undecodable(f"{name}, at most {BATCH_BYTES_MAX} bytes: {error}") from None
            self._take(_UNFOLDING * max(len(self._chunk), len(data)))
