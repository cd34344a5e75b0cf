"""Many readers under one budget: each may need a segment, none needs two while memory is short."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pyarrow as pa
import pytest

from spark_source.agent.budget import Budget
from spark_source.agent.channel import Channel, Release
from spark_source.agent.reading import Delivery
from spark_source.agent.server import Segments

READERS = 8
LIMIT = 16 << 20
BATCH = pa.record_batch({"value": [b"x" * (2 << 20)]})  # a segment of 3 MiB: 24 for eight readers


@pytest.fixture
def readers() -> Iterator[tuple[Budget, list[tuple[Segments, Channel]]]]:
    """A budget, and eight readers' shared memory, each with its worker's end of the channel."""
    budget = Budget(LIMIT)
    with ExitStack() as stack:
        made = []
        for _ in range(READERS):
            channels = [Channel(end, 5.0) for end in socket.socketpair()]
            for channel in channels:
                stack.callback(channel.close)
            ours, theirs = channels
            made.append((stack.enter_context(closing(Segments(ours, budget))), theirs))
        yield budget, made


def test_a_full_budget_allows_each_reader_one_segment(
    readers: tuple[Budget, list[tuple[Segments, Channel]]],
) -> None:
    """With eight readers that have filled the budget with a segment each, the next batch goes into
    the segment that the worker has given back."""
    budget, made = readers
    for segments, worker in made:
        segments.send(Delivery(batch=BATCH, positions=()))
        worker.send(Release(segment=1))
    full = budget.used
    for segments, _ in made:
        segments.send(Delivery(batch=BATCH, positions=()))

    assert full > LIMIT
    assert full == budget.used
