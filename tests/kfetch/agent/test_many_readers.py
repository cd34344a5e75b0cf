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

from kfetch.agent.budget import Budget
from kfetch.agent.channel import Channel, Release
from kfetch.agent.server import Segments
from kfetch.fetch.split_reader import Delivery

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


def test_a_second_segment_waits_for_memory(
    readers: tuple[Budget, list[tuple[Segments, Channel]]],
) -> None:
    """While a second segment would not fit, the next batch waits for the worker's release, and
    what it takes itself is known meanwhile."""
    budget, ((segments, worker), *_) = readers
    segments.send(Delivery(batch=BATCH, positions=()))
    filled = budget.reserve(LIMIT - budget.used - 1, 0)
    known: list[int] = []

    def release() -> None:
        known.append(budget.used)
        worker.send(Release(segment=1))

    later = threading.Timer(0.1, release)
    later.start()
    segments.send(Delivery(batch=BATCH, positions=()))
    later.join()

    assert filled is not None
    assert known[0] > LIMIT
    assert LIMIT - 1 == budget.used


def test_a_huge_segment_is_not_kept(
    readers: tuple[Budget, list[tuple[Segments, Channel]]],
) -> None:
    """After one huge batch, usual ones get usual memory again."""
    budget, ((segments, worker), *_) = readers
    huge = pa.record_batch({"value": [b"x" * (32 << 20)]})
    segments.send(Delivery(batch=huge, positions=()))
    worker.send(Release(segment=1))
    assert not segments.look()
    segments.send(Delivery(batch=BATCH, positions=()))

    assert budget.used < 4 << 20


def test_few_decode_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many readers two decode at one moment under a small limit, however many processors there
    are: what is being decoded is memory that no account knows."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    budget, at_once, most = Budget(LIMIT), [0], [0]
    lock, started = threading.Lock(), threading.Barrier(8)

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

    assert most[0] in (1, 2)
