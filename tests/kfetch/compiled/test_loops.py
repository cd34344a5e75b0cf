"""Every length that the kernel copies in another way: a piece at once, several, blocks, the end."""

from __future__ import annotations

import random

import pytest

from kfetch.model import TopicPartition
from tests.kfetch.decoders import Decode
from tests.kfetch.records.batch_builder import batch, make_slice, record

EDGES = [0, 1, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 8191, 8192, 8193, 12289, 70_001]


def blobs(seed: int) -> list[bytes | None]:
    """Random bytes of all those lengths, and nulls, mixed."""
    rng = random.Random(seed)
    blobs_and_none = [None, *(rng.randbytes(size) for size in EDGES)]
    rng.shuffle(blobs_and_none)
    return blobs_and_none


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_every_length_keeps_its_bytes(decode: Decode, codec: str) -> None:
    """Keys, values and headers of lengths around every border come out as they went in, whichever
    follows which, also as the last bytes of a batch."""
    keys, values = blobs(1), blobs(2)
    headers = [[("k" * 17 * n, value)] for n, value in enumerate(blobs(3))]
    made = [
        record(n % 4, value, key, [(name.encode(), extra) for name, extra in pairs])
        for n, (value, key, pairs) in enumerate(zip(values, keys, headers, strict=True))
    ]
    packed = [batch(*made[at : at + 4], base=at, codec=codec) for at in range(0, len(made), 4)]
    rows = decode([make_slice(b"".join(packed))])

    assert (keys, values) == ([row[0] for row in rows], [row[1] for row in rows])
    assert headers == [row[-1] for row in rows]


def test_topics_of_every_length(decode: Decode) -> None:
    """Names of 1 to 249 bytes, one row or many each, none for some: each row has its own."""
    data = batch(*[record(n) for n in range(100)])
    slices, expected = [], []
    for number, size in enumerate((1, 64, 2, 249, 65, 63, 249, 1)):
        tp = TopicPartition(chr(ord("a") + number) * size, number)
        for count in (1, 0, 100):
            slices.append(
                make_slice(data, end=count, tp=tp) if count else make_slice(data, start=200, tp=tp)
            )
            expected += [tp] * count

    assert expected == [TopicPartition(row[2], row[3]) for row in decode(slices)]
