"""Segments that the agent retires under memory pressure: the worker unmaps them."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from kfetch.agent import client
from kfetch.agent.budget import Budget
from kfetch.agent.channel import Channel, ReadDone
from kfetch.agent.segment_pool import SegmentPool
from kfetch.fetch.split_reader import Delivery
from tests.kfetch.agent.helpers import wait_until

BATCHES = 20
BATCH_KIB = 1 << 10
BATCH = pa.record_batch({"value": [b"x" * (BATCH_KIB << 10)]})


@pytest.fixture
def worker() -> Iterator[Channel]:
    """The worker's end of a read of 20 batches of 1 MiB, with another reader waiting for memory.

    The agent's end runs in a thread. It retires each segment as soon as the worker releases it.
    """
    worker_end, agent_end = (Channel(end, 5.0) for end in socket.socketpair())
    agent = threading.Thread(target=_send_batches, args=(agent_end,))
    agent.start()
    yield worker_end
    worker_end.close()
    agent.join(timeout=60)
    agent_end.close()


def _send_batches(channel: Channel) -> None:
    budget = Budget(1)
    budget.reserve(1, 0)
    assert budget.reserve(1, 0, "another reader") is None
    with closing(SegmentPool(channel, budget)) as pool:
        for _ in range(BATCHES):
            pool.send(Delivery(batch=BATCH, positions=()))
            wait_until(lambda: pool.poll_worker() or not pool._lent)
        channel.send(ReadDone())


def _mapping_count() -> int:
    """How many segments the worker's side of this process maps (proc(5))."""
    return len(re.findall(r" r--s .*/memfd:kfetch-", Path("/proc/self/maps").read_text()))


def _resident_by_mapping() -> list[int]:
    """The resident KiB of each segment that the worker's side of this process maps (proc(5))."""
    mappings = Path("/proc/self/smaps").read_text()
    pattern = r" r--s .*/memfd:kfetch-\d+ .*\n(?:\w+: .*\n)*?Rss: +(\d+) kB"
    return [int(size) for size in re.findall(pattern, mappings)]


def test_a_starving_worker_maps_two_segments(worker: Channel) -> None:
    """While the agent retires each segment, the worker maps two at most: the batch that Spark has
    read and the next one."""
    mapped = [_mapping_count() for batch in client.received_batches(worker, []) if batch.num_rows]

    assert BATCHES == len(mapped)
    assert 2 >= max(mapped)


def test_a_retired_segment_holds_no_memory(worker: Channel) -> None:
    """Spark keeps the first batch of a read until its end. The segment behind it stays mapped, but
    its memory returns to the system when the agent retires it."""
    batches = client.received_batches(worker, [])
    first = next(batches)
    assert first == BATCH
    resident_at_first = sum(_resident_by_mapping())
    for _ in range(5):
        assert next(batches) == BATCH
    resident = _resident_by_mapping()
    remaining = [*batches]

    assert BATCH_KIB <= resident_at_first
    assert 0 in resident
    assert 3 * BATCH_KIB >= sum(resident)
    assert BATCHES == 6 + len(remaining)
