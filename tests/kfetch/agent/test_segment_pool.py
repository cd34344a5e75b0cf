"""Segments of reads under one budget: each read may have one, and a second only if it fits."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pyarrow as pa
import pytest

from kfetch.agent import segment_pool
from kfetch.agent.budget import Budget
from kfetch.agent.channel import Channel, SegmentFilled, SegmentReleased
from kfetch.agent.segment_pool import SegmentPool
from kfetch.agent.segments import Segment, map_segment
from kfetch.fetch.split_reader import Delivery

Reads = list[tuple[SegmentPool, Channel]]
READS = 8
LIMIT = 16 << 20
BATCH = pa.record_batch(
    {"value": [b"x" * (2 << 20)]}
)  # needs a segment of 3 MiB: eight reads need 24 MiB


@pytest.fixture
def reads() -> Iterator[tuple[Budget, Reads]]:
    """A budget, and the segment pools of eight reads, each with its worker's end of the channel."""
    budget = Budget(LIMIT)
    with ExitStack() as stack:
        pools: Reads = []
        for _ in range(READS):
            agent, worker = (Channel(end, 5.0) for end in socket.socketpair())
            stack.callback(agent.close)
            stack.callback(worker.close)
            pools.append((stack.enter_context(closing(SegmentPool(agent, budget))), worker))
        yield budget, pools


def test_a_full_budget_allows_each_reader_one_segment(
    reads: tuple[Budget, Reads],
) -> None:
    """Eight reads fill the budget with a segment each. The next batch of each goes into the segment
    that its worker has released."""
    budget, pools = reads
    for segments, worker in pools:
        segments.send(Delivery(batch=BATCH, positions=()))
        worker.send(SegmentReleased(segment=1))
    full = budget.used
    for segments, _ in pools:
        segments.send(Delivery(batch=BATCH, positions=()))

    assert full > LIMIT
    assert full == budget.used


def test_a_second_segment_waits_for_memory(
    reads: tuple[Budget, Reads],
) -> None:
    """While a second segment does not fit, the next batch waits for the worker's release. Meanwhile
    the budget counts that batch."""
    budget, ((segments, worker), *_) = reads
    segments.send(Delivery(batch=BATCH, positions=()))
    reservation = budget.reserve(LIMIT - budget.used - 1, 0)
    used: list[int] = []

    def release() -> None:
        used.append(budget.used)
        worker.send(SegmentReleased(segment=1))

    later = threading.Timer(0.1, release)
    later.start()
    segments.send(Delivery(batch=BATCH, positions=()))
    later.join()

    assert reservation is not None
    assert used[0] > LIMIT
    assert LIMIT - 1 == budget.used


def test_a_huge_segment_is_replaced(
    reads: tuple[Budget, Reads],
) -> None:
    """After one huge batch, the next one gets a smaller segment again."""
    budget, ((segments, worker), *_) = reads
    huge = pa.record_batch({"value": [b"x" * (32 << 20)]})
    segments.send(Delivery(batch=huge, positions=()))
    worker.send(SegmentReleased(segment=1))
    assert not segments.poll_worker()
    segments.send(Delivery(batch=BATCH, positions=()))

    assert budget.used < 4 << 20


def test_free_segments_are_closed_when_memory_is_short(channels: tuple[Channel, Channel]) -> None:
    """A read that waits closes the segments that its worker releases, if others wait for memory."""
    worker, agent = channels
    budget = Budget(100)
    with closing(SegmentPool(agent, budget)) as segments:
        segments.send(Delivery(batch=BATCH, positions=()))
        message, descriptors = worker.receive()
        assert isinstance(message, SegmentFilled)
        map_segment(descriptors[0])
        worker.send(SegmentReleased(segment=message.segment))
        assert not segments.poll_worker()
        assert budget.used > 100
        budget.reserve(50, 0)
        assert budget.reserve(60, 0, "somebody") is None
        assert not segments.poll_worker()

        assert 50 == budget.used


def test_poll_worker_never_blocks(channels: tuple[Channel, Channel]) -> None:
    """Without a message poll_worker() returns at once. It reports that the worker has closed."""
    worker, agent = channels
    with closing(SegmentPool(agent, Budget(100))) as segments:
        assert not segments.poll_worker()
        worker.close()

        assert segments.poll_worker()


def test_every_segment_is_closed(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one segment can't be closed, the pool still closes the others."""
    worker, agent = channels
    budget = Budget(64 << 20)
    segments = SegmentPool(agent, budget)
    for _ in range(2):
        segments.send(Delivery(batch=BATCH, positions=()))
        map_segment(worker.receive()[1][0])
    closed: list[int] = []

    def broken(segment: Segment) -> None:
        closed.append(segment.number)
        segment.memory.close()
        os.close(segment.descriptor)
        raise BufferError("still exported")

    monkeypatch.setattr(segment_pool.Segment, "close", broken)

    with pytest.raises(BufferError):
        segments.close()
    assert [2, 1] == closed
    assert 0 == budget.used


def test_a_segment_that_could_not_be_written_returns_its_memory(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If writing a batch fails, closing the pool returns the memory of its segment."""
    _, agent = channels
    budget = Budget(64 << 20)

    def broken(segment: Segment, batch: pa.RecordBatch) -> int:
        raise MemoryError

    monkeypatch.setattr(segment_pool.Segment, "write", broken)
    with closing(SegmentPool(agent, budget)) as segments, pytest.raises(MemoryError):
        segments.send(Delivery(batch=BATCH, positions=()))

    assert 0 == budget.used
