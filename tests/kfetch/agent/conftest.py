"""One little Kafka, one query, a budget for them, and the two ends of a channel."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from kfetch.agent.budget import Budget
from kfetch.agent.channel import Channel
from kfetch.agent.shared_query import SharedQuery
from tests.kfetch.agent.helpers import BATCHES, T0, T1, options
from tests.kfetch.wire.little import LittleKafka


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """One node; two partitions of six batches with two records each."""
    with LittleKafka(1) as running:
        running.create("t", 2)
        for tp in (T0, T1):
            for n in range(BATCHES):
                running.log(tp).append(b"%d %da" % (tp.partition, n), b"b")
        yield running


@pytest.fixture
def budget() -> Budget:
    """More than the tests need."""
    return Budget(64 << 20)


@pytest.fixture
def query(kafka: LittleKafka, budget: Budget) -> Iterator[SharedQuery]:
    """A query that tasks share."""
    with closing(SharedQuery("q", options(kafka), budget)) as shared:
        yield shared


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    """The worker's and the agent's end of a channel."""
    worker, agent = (Channel(end, 5.0) for end in socket.socketpair(socket.AF_UNIX))
    yield worker, agent
    worker.close()
    agent.close()
