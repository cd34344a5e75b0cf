"""How many bytes a compressed batch may unpack to, from its frames, without unpacking it.

Java's streams state no size, but their blocks have a largest size. Snappy states the size of each
block, and its decoder checks it. Only gzip has no bound: its trailer says what the writer claims.
Sources: RFC 8878 (zstd), lz4_Frame_format.md, snappy's format_description.txt, RFC 1952 (gzip).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct, error

import cramjam

XERIAL_MAGIC = b"\x82SNAPPY\x00"  # org.xerial.snappy.SnappyCodec
XERIAL_HEADER_BYTES = 16  # magic, then version and compatible version, which kfetch ignores

_U32 = Struct("<I")
_SKIPPABLE = 0x184D2A50  # the first of 16 magic numbers that lz4 and zstd share

_LZ4_MAGIC = 0x184D2204
_LZ4_RATIO_MAX = 255

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK_BYTES_MAX = 128 << 10
_ZSTD_RLE, _ZSTD_COMPRESSED = 1, 2  # types of a block; 0 is stored

_Block = tuple[int, int]
"""Position behind a block or a frame's part, and the most bytes that it unpacks to."""


def size_bound(codec: int, data: memoryview) -> int | None:
    """Returns the most bytes to which intact data unpacks; None if the frame has no bound."""
    blocks = _BLOCKS.get(codec)
    try:
        return sum(size for _, size in blocks(data)) if blocks else None
    except (
        IndexError,
        ValueError,
        error,
        cramjam.DecompressionError,
    ):  # a damaged frame: the codec names the fault
        return None


def gzip_claim(data: memoryview) -> int:
    """Returns the size that the last four bytes of a gzip stream claim, modulo 2**32."""
    return int.from_bytes(data[-4:], "little")


def _snappy_blocks(data: memoryview) -> Iterator[_Block]:
    if data[:8] != XERIAL_MAGIC:
        yield len(data), cramjam.snappy.decompress_raw_len(data)
        return
    at = XERIAL_HEADER_BYTES
    while at < len(data):
        if data[at : at + 8] == XERIAL_MAGIC:
            at += XERIAL_HEADER_BYTES
            continue
        size = cramjam.snappy.decompress_raw_len(data[at + 4 : at + 9])
        at += 4 + int.from_bytes(data[at : at + 4], "big")
        yield at, size


def _lz4_blocks(data: memoryview) -> Iterator[_Block]:
    return _blocks_of_frames(data, _LZ4_MAGIC, _lz4_frame)


def _zstd_blocks(data: memoryview) -> Iterator[_Block]:
    return _blocks_of_frames(data, _ZSTD_MAGIC, _zstd_frame)


def _blocks_of_frames(
    data: memoryview, magic: int, frame: Callable[[memoryview, int], Iterator[_Block]]
) -> Iterator[_Block]:
    """Yields the blocks of all frames. ``frame`` reads one, from the byte behind its magic on."""
    at = 0
    while at < len(data):
        number = _U32.unpack_from(data, at)[0]
        if number & 0xFFFFFFF0 == _SKIPPABLE:
            at += 8 + int(_U32.unpack_from(data, at + 4)[0])
        elif number == magic:
            for at, size in frame(data, at + 4):  # noqa: B020 - it ends behind the frame
                yield at, size
        else:
            raise ValueError("another frame")


def _lz4_frame(data: memoryview, at: int) -> Iterator[_Block]:
    flags, block_bytes_max = data[at], 1 << 8 + 2 * (data[at + 1] >> 4 & 7)
    has_size, has_dictionary = flags >> 3 & 1, flags & 1
    block_checksum, frame_checksum = 4 * (flags >> 4 & 1), 4 * (flags >> 2 & 1)
    at += 3 + 8 * has_size + 4 * has_dictionary
    while header := _U32.unpack_from(data, at)[0]:
        is_stored, size = header >> 31, header & 0x7FFFFFFF
        at += 4 + size + block_checksum
        yield at, size if is_stored else min(block_bytes_max, _LZ4_RATIO_MAX * size)
    yield at + 4 + frame_checksum, 0


def _zstd_frame(data: memoryview, at: int) -> Iterator[_Block]:
    descriptor = data[at]
    size_flag, is_single, has_checksum = descriptor >> 6, descriptor >> 5 & 1, descriptor >> 2 & 1
    window_bytes, dictionary_bytes = 1 - is_single, (0, 1, 2, 4)[descriptor & 3]
    at += 1 + window_bytes + dictionary_bytes + (is_single, 2, 4, 8)[size_flag]
    is_last = False
    while not is_last:
        low, middle, high = data[at : at + 3]
        header = low | middle << 8 | high << 16
        is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        at += 3 + (1 if kind == _ZSTD_RLE else size)
        yield at, _ZSTD_BLOCK_BYTES_MAX if kind == _ZSTD_COMPRESSED else size
    yield at + 4 * has_checksum, 0


_BLOCKS: dict[int, Callable[[memoryview], Iterator[_Block]]] = {
    2: _snappy_blocks,
    3: _lz4_blocks,
    4: _zstd_blocks,
}
