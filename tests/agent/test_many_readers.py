"""Many readers under one budget: each may need a segment, none needs two while memory is short."""

from __future__ import annotations

import os
import socket
import threading
import time
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
        segments.await_room()
        segments.send(Delivery(batch=BATCH, positions=()))

    assert full > LIMIT
    assert full == budget.used


def test_a_second_segment_waits_for_memory(
    readers: tuple[Budget, list[tuple[Segments, Channel]]],
) -> None:
    """While a segment of the usual size would not fit, the next batch waits for the worker's
    release before it is decoded; with room for it there is nothing to wait for."""
    budget, ((segments, worker), *_) = readers
    segments.send(Delivery(batch=BATCH, positions=()))
    segments.await_room()
    filled = budget.reserve(LIMIT - budget.used, 0)
    release = threading.Timer(0.1, worker.send, (Release(segment=1),))
    release.start()
    began = time.monotonic()
    segments.await_room()

    assert filled is not None
    assert 0.05 < time.monotonic() - began < 5
    release.join()


def test_few_decode_at_once() -> None:
    """Of many readers no more decode at one moment than there are processors: a batch that is not
    in a segment yet is memory that no account knows."""
    budget, at_once, most = Budget(LIMIT), [0], [0]
    lock, started = threading.Lock(), threading.Barrier(4 * (os.cpu_count() or 1))

    def decode() -> None:
        started.wait(10)
        for _ in range(50):
            with budget.decoding():
                with lock:
                    at_once[0] += 1
                    most[0] = max(most[0], at_once[0])
                time.sleep(0)
                with lock:
                    at_once[0] -= 1

    threads = [threading.Thread(target=decode) for _ in range(started.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert 1 <= most[0] <= (os.cpu_count() or 1)
