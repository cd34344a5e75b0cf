"""The walk over batch headers: compiled code and Python agree, and Python walks over few only."""

from __future__ import annotations

import random

import pytest

from kfetch import decoding
from kfetch.compiled import walk
from kfetch.records import batch as batches
from tests.kfetch.records import fuzz
from tests.kfetch.records.batch_builder import batch, record
from tests.kfetch.records.legacy_builder import message

MANY = b"".join(batch(record(), base=n) for n in range(500))
OLD = message(500)


@pytest.mark.parametrize("few", [0, 1, 8])
def test_damaged_replies(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On damaged replies of every format both walks end at the same batch, from any offset."""
    monkeypatch.setattr(walk, "_FEW", few)
    rng, samples = random.Random(few), [*fuzz.samples(), MANY[:5000]]
    for _ in range(2000):
        data = memoryview(fuzz.mutation(rng, rng.choice(samples)))
        offset = rng.choice((0, 3, 1003, 1005, 2**62))

        assert batches.walk(data, offset) == walk.walk(data, offset), (
            bytes(data).hex(),
            offset,
        )


@pytest.mark.parametrize("end", ["", "cut", "old format", "order", "fault"])
def test_ends_of_a_long_reply(end: str) -> None:
    """Behind many batches: nothing, a partial batch, an old format, an old offset, a fault."""
    tail = {"": b"", "cut": MANY[:80], "old format": OLD + batch(record(), base=501)}
    tail |= {"order": MANY[:80] + MANY, "fault": batch(record(), base=-1)}
    data = memoryview(MANY + tail[end])
    for offset in (0, 1, 250, 499, 500, 501, 502):
        walked = walk.walk(data, offset)

        assert batches.walk(data, offset) == walked
        assert (502 if end == "old format" else 500) == walked.batches


def test_no_bytes_and_few() -> None:
    """An empty reply and replies of few batches need no compiled code."""
    for count in range(20):
        data = memoryview(MANY[: count * len(MANY) // 500])

        assert batches.walk(data, 3) == walk.walk(data, 3)
        assert count == walk.walk(data, 3).batches


def test_many_batches_need_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply of 500 batches of one record costs Python a dozen headers, not 500.

    Producers without linger write such batches. Python walks only until the decoder is loaded."""
    headers = 0
    in_python = batches._header

    def counted(data: memoryview, at: int) -> batches.Header:
        nonlocal headers
        headers += 1
        return in_python(data, at)

    monkeypatch.setattr(batches, "_header", counted)
    monkeypatch.setattr(decoding, "_walker", batches.walk)
    costs = []
    for load in (lambda: None, decoding.load):
        load()
        headers = 0
        extent = decoding.extent(memoryview(MANY), 0)
        rest = decoding.batches_from(memoryview(MANY), 490)
        costs.append(headers)

        assert (500, 500, len(MANY)) == (extent.next_offset, extent.batches, extent.size)
        assert MANY[-len(MANY) // 50 :] == rest

    assert costs[0] > 1000
    assert costs[1] < 24
