"""Decompression of the records of a batch, into memory that one decode call owns.

The output has a size limit, so a few bytes that unfold into gigabytes fail before they use memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cramjam
import numpy as np

from kfetch.errors import KfetchError
from kfetch.records.arrow import empty_array

__all__ = [
    "BATCH_BYTES_MAX",
    "CALL_BYTES_MAX",
    "CODECS",
    "CODECS_LEGACY",
    "LZ4",
    "DecompressionBuffer",
    "DecompressionFailed",
    "address_of",
]

# One batch, decompressed. Brokers limit the compressed size (message.max.bytes, 1 MiB unless
# raised) and producers the uncompressed one (batch.size 16 KiB, max.request.size 1 MiB unless
# raised). 128 MiB is a hundred times either, and one decode thread can afford it.
BATCH_BYTES_MAX = 128 << 20

# All compressed batches of one call, after decompression: a reply of fetch.max.bytes (50 MiB unless
# raised) at 20:1, and half of what an Arrow binary column can address.
CALL_BYTES_MAX = 1 << 30

_FIRST_BYTES_MIN = 64 << 10
_FIRST_BYTES_MAX = 16 << 20
_RATIO = 4  # text shrinks to about a quarter; also the growth of a buffer that is too small

_XERIAL_MAGIC = b"\x82SNAPPY\x00"  # org.xerial.snappy.SnappyCodec
_XERIAL_HEADER_BYTES = 16  # magic, then version and compatible version, which kfetch ignores


class DecompressionFailed(Exception):
    """The bytes don't fit the codec, or are too many. ``sections`` turns it into CorruptBatch."""


def _snappy_into(data: memoryview, out: memoryview) -> int:
    """Decompresses raw snappy, or xerial's frame of raw blocks, and returns the size.

    Java writes frames, other clients write either.
    """
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
            raise DecompressionFailed("a snappy block runs past the end of the batch")
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
"""The codecs that message formats v0 and v1 allow (KIP-110)."""


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Returns the address of the array's first byte, valid while the array lives."""
    return int(array.__array_interface__["data"][0])


class DecompressionBuffer:
    """Memory for the decompressed batches of one call: a few large chunks.

    Only snappy states the decompressed size reliably. So each batch gets the rest of the chunk, and
    a larger chunk if that is too small. Unwritten pages cost only address space.
    """

    def __init__(self, compressed_bytes: int) -> None:
        estimate = _RATIO * compressed_bytes
        self._allocate(min(max(estimate, _FIRST_BYTES_MIN), _FIRST_BYTES_MAX))
        self._total = 0

    def _allocate(self, size: int) -> None:
        chunk = empty_array(min(size, BATCH_BYTES_MAX), np.uint8)
        self._chunk = chunk.data  # this view, like every view of it, keeps the memory alive
        self._address = address_of(chunk)
        self._used = 0

    def decompress(self, codec: int, data: memoryview) -> tuple[memoryview, int]:
        """Returns the decompressed bytes and their address.

        Raises DecompressionFailed, and KfetchError if all batches together are too large.
        """
        size = self._decompress_into_chunk(codec, data)
        at, self._used = self._used, self._used + size
        self._total += size
        if self._total > CALL_BYTES_MAX:
            raise KfetchError(
                f"the record batches of one decode call unfold to more than {CALL_BYTES_MAX} "
                "bytes: lower fetch.max.bytes",
                call_bytes_max=CALL_BYTES_MAX,
            )
        return self._chunk[at : self._used], self._address + at

    def _decompress_into_chunk(self, codec: int, data: memoryview) -> int:
        name, into = CODECS[codec]
        while True:
            out = self._chunk[self._used : self._used + BATCH_BYTES_MAX]
            try:
                return int(into(data, out))
            except cramjam.DecompressionError as error:
                # A buffer that is too small and damaged bytes raise the same class with different
                # texts. So every failure is tried again until the buffer has its largest size.
                if len(out) >= BATCH_BYTES_MAX:
                    raise DecompressionFailed(
                        f"{name}, at most {BATCH_BYTES_MAX} bytes: {error}"
                    ) from None
            self._allocate(_RATIO * max(len(self._chunk), len(data)))
