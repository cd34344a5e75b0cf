"""Ranges read from cached records and from fetches, over logs with old batches and transactions."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.agent.budget import Budget
from kfetch.agent.read_ahead import ReadAhead
from kfetch.fetch.arrivals import RecordsArrived
from kfetch.fetch.broker_reader import BrokerReader
from kfetch.records.format import CONTROL, TRANSACTIONAL
from kfetch.session.replies import PartitionReply
from tests.examples import examples
from tests.kfetch.agent.test_read_ahead import progress, reply
from tests.kfetch.decoders import decode
from tests.kfetch.records.batch_builder import batch, record
from tests.kfetch.records.legacy_builder import message, wrapped


class Fetchless:
    """Stands in for a fetcher; the test makes the replies."""

    def set_position(self, *_: object) -> None:
        """Ignored: there is no broker."""


class Piece(NamedTuple):
    """A batch, or an old message."""

    first: int
    last: int
    data: bytes


class RandomLog:
    """A log of batches, old and empty ones too, and ended transactions of two producers."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.pieces: list[Piece] = []
        self.aborted: list[tuple[int, int, int]] = []
        """(producer, first offset, offset of its marker)."""
        self.committed: set[int] = set()
        self.end = 0
        self._open: dict[int, list[int]] = {}
        for _ in range(random.randint(5, 25)):
            random.choice([self._plain, self._old, self._data, self._data, self._marker])()
            if random.random() < 0.3:  # what compaction has removed
                self._add(2, batch(base=self.end, count=0, last_delta=1))
        while self._open:
            self._marker()

    def fetch(self, offset: int) -> PartitionReply:
        """Some batches from an offset on, and the beginning of the one behind them."""
        behind = [piece for piece in self.pieces if piece.last >= offset]
        count = self.random.randint(1, 8)
        data, upto = b"".join(piece.data for piece in behind[:count]), behind[:count][-1].last
        for piece in behind[count : count + 1]:
            data += piece.data[: self.random.randint(0, len(piece.data) - 1)]
        listed = [(p, first) for p, first, last in self.aborted if last >= offset and first <= upto]
        return replace(reply(data), aborted=tuple(listed))

    def _add(self, count: int, data: bytes) -> list[int]:
        offsets = list(range(self.end, self.end + count))
        self.pieces.append(Piece(offsets[0], offsets[-1], data))
        self.end += count
        return offsets

    def _plain(self) -> None:
        self.committed.update(self._add(2, batch(record(), record(1), base=self.end)))

    def _old(self) -> None:
        inner = message(0) + message(1)
        self.committed.update(self._add(2, wrapped(self.end + 1, inner)))

    def _data(self) -> None:
        producer, bits = self.random.choice([7, 8]), TRANSACTIONAL
        data = batch(record(), record(1), base=self.end, attributes=bits, producer=producer)
        self._open.setdefault(producer, []).extend(self._add(2, data))

    def _marker(self) -> None:
        if not self._open:
            return
        producer = self.random.choice([*self._open])
        abort, offsets = self.random.random() < 0.6, self._open.pop(producer)
        key, bits = (b"\0\0\0\0" if abort else b"\0\0\0\1"), CONTROL | TRANSACTIONAL
        data = batch(record(key=key), base=self.end, attributes=bits, producer=producer)
        (at,) = self._add(1, data)
        if abort:
            self.aborted.append((producer, offsets[0], at))
        else:
            self.committed.update(offsets)


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "SPARK-25495: FetchedData.reset should reset all fields",
)
@examples(25)
@given(st.randoms(use_true_random=False), st.booleans())
def test_every_committed_record_once(random: Random, skip: bool) -> None:
    """Each range reads cached records first, then fetches. Every committed record comes once and in
    order, and no aborted one. Every reply moves the position. No byte stays in use."""
    log, budget = RandomLog(random), Budget(1 << 20)
    read_ahead = ReadAhead(budget)
    reader = BrokerReader(Fetchless(), 1, on_range_done=read_ahead.store, skip_corrupt=skip)  # type: ignore[arg-type]
    offsets: list[int] = []
    at = 0
    while at < log.end:
        current = progress(at, min(log.end, at + random.randint(1, 6)))
        arrivals: list[RecordsArrived] = []
        if (cached := read_ahead.take(current)) is not None:
            arrivals.append(reader.accept_records(current, cached[0]))
            cached[1].release()
        while not current.done:
            arrivals.append(reader.accept_records(current, log.fetch(current.offset)))

            assert arrivals[-1].advanced
        batches = [decode([a.records]) for a in arrivals]
        offsets += [at for arrow in batches if arrow for at in arrow["offset"].to_pylist()]
        at = current.range.end
    read_ahead.close()

    assert sorted(log.committed) == offsets
    assert 0 == budget.used
