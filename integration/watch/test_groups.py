"""Committed offsets of a consumer group at a real coordinator, beside kafka-python's consumer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition
from kafka.structs import OffsetAndMetadata

from integration.conftest import TopicFactory
from integration.records import numbered, write
from kfetch.errors import BrokerError
from kfetch.model import TopicPartition
from kfetch.offsets import Position
from kfetch.spark.options import parse
from kfetch.wire.cluster import Cluster as Brokers
from kfetch.wire.groups import commit_offsets, committed_offsets
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

UNKNOWN_MEMBER_ID = 25
PATIENCE_S = 60.0


def deadline() -> float:
    """A deadline for a first request: a new broker creates its topic of offsets then."""
    return time.monotonic() + PATIENCE_S


@pytest.fixture
def brokers(kafka: Cluster) -> Iterator[Brokers]:
    """The cluster, as kfetch asks it."""
    options = parse({"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": "t"})
    with closing(Brokers(options.bootstrap, options.network)) as asked:
        yield asked


def consumer(kafka: Cluster, group: str) -> KafkaConsumer:
    """A consumer of a group that has joined nothing yet."""
    return KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False
    )


def test_offsets_of_a_group(kafka: Cluster, topic: TopicFactory, brokers: Brokers) -> None:
    """kfetch and a consumer read each other's commits. A consumer that has joined is the only one
    that may commit."""
    name = topic(2)
    write(kafka, name, numbered("v", 3))
    places = [TopicPartition(name, p) for p in range(2)]
    commit_offsets(brokers, name, {places[0]: Position(2, 0)}, deadline())
    with closing(consumer(kafka, name)) as other:
        assert other.committed(KafkaPartition(name, 0)) == 2
        other.assign([KafkaPartition(name, 1)])
        other.commit({KafkaPartition(name, 1): OffsetAndMetadata(0, "", -1)})
    found = committed_offsets(brokers, name, places, deadline())

    assert {places[0]: Position(2, 0), places[1]: Position(0, -1)} == found
    assert {} == committed_offsets(brokers, f"{name}-none", places, deadline())
    with closing(consumer(kafka, name)) as member:
        member.subscribe([name])
        until = deadline()
        while not member.assignment():
            member.poll(timeout_ms=100)
            assert time.monotonic() < until
        with pytest.raises(BrokerError, match=f"of group {name}") as refused:
            commit_offsets(brokers, name, {places[0]: Position(1)}, deadline())
    assert UNKNOWN_MEMBER_ID == refused.value.code
