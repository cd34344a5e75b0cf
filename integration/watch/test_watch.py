"""The watch over a real broker, without Spark: idle topics, open transactions, former topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaProducer

from integration.benchmarks.idle import create
from integration.benchmarks.proxy import proxied
from integration.conftest import TopicFactory
from integration.records import write
from integration.streams import PATIENCE_S
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, Position, from_json
from kfetch.options import SourceOptions
from kfetch.spark import options as parsing
from kfetch.watch.driver import Driver
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

PARTITIONS = 1000
SECONDS = 10.0


def options(servers: str, topic: str) -> SourceOptions:
    """A query over one topic, from its end on."""
    return parsing.parse({"kafka.bootstrap.servers": servers, "subscribe": topic})


@pytest.fixture
def new_driver() -> Iterator[Callable[[SourceOptions], Driver]]:
    """Makes drivers, and closes them after the test."""
    made: list[Driver] = []

    def make(chosen: SourceOptions) -> Driver:
        made.append(Driver(chosen))
        return made[-1]

    yield make
    for driver in made:
        driver.close()


def follow_log_ends(driver: Driver, start: Offsets, seconds: float) -> Offsets:
    """Asks for the latest offset for ``seconds``, again and again, as Spark does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        start = driver.next_end(start, None) or start
        time.sleep(0.01)
    return start


def next_end(driver: Driver, start: Offsets) -> Offsets:
    """The next end, as soon as there is one. A busy broker may take longer than one question."""
    deadline = time.monotonic() + PATIENCE_S
    while (end := driver.next_end(start, None)) is None:
        assert time.monotonic() < deadline
    return end


@pytest.mark.long
def test_a_thousand_idle_partitions_cost_nothing(
    tmp_path: Path, new_driver: Callable[[SourceOptions], Driver]
) -> None:
    """An idle watch sends no ListOffsets. Its fetches have at most 60 bytes, and their replies at
    most 40. The sum is below 1,000 bytes a second."""
    with proxied(tmp_path / "kafka") as (_, proxy, address):
        create(address, "idle", PARTITIONS)
        driver = new_driver(options(address, "idle"))
        start = follow_log_ends(driver, driver.initial_offsets(), 2.0)
        proxy.take_tallies()
        end = follow_log_ends(driver, start, SECONDS)
        counted = proxy.take_tallies()
        driver.close()

    assert start is end
    assert {"Fetch"} == set(counted)
    fetch = counted["Fetch"]
    assert fetch.requests <= SECONDS / 0.5 + 2
    assert fetch.mean_request <= 60
    assert fetch.mean_reply <= 40
    assert (fetch.request_bytes + fetch.reply_bytes) / SECONDS < 1000


def test_an_open_transaction_keeps_the_long_poll(
    kafka: Cluster, topic: TopicFactory, new_driver: Callable[[SourceOptions], Driver]
) -> None:
    """Under read_committed an open transaction makes no hot loop: each poll takes as long as a long
    poll may. Other partitions continue, and the driver knows committed records at once."""
    name = topic(2)
    held, free = TopicPartition(name, 0), TopicPartition(name, 1)
    chosen = options(kafka.bootstrap_servers, name)
    chosen = replace(chosen, fetch=replace(chosen.fetch, read_committed=True))
    driver = new_driver(chosen)
    start = follow_log_ends(driver, driver.initial_offsets(), 1.0)
    servers = {"bootstrap_servers": kafka.bootstrap_servers}
    with (
        closing(KafkaProducer(transactional_id=name, **servers)) as transactional,
        closing(KafkaProducer(**servers)) as plain,
    ):
        transactional.init_transactions()
        transactional.begin_transaction()
        transactional.send(name, b"open", partition=0).get(30)
        start = follow_log_ends(driver, start, 1.0)
        polls = driver._watch.stats().incremental_requests
        start = follow_log_ends(driver, start, 4.0)
        polls = driver._watch.stats().incremental_requests - polls
        plain.send(name, b"plain", partition=1).get(30)
        with_plain = next_end(driver, start)
        transactional.commit_transaction()
        committed = next_end(driver, with_plain)

    assert polls <= 4.0 / 0.5 + 2
    assert (0, 1) == tuple(with_plain.positions[tp].offset for tp in (held, free))
    assert 2 == committed.positions[held].offset  # the record and the marker


def test_a_topic_that_leaves_and_returns(
    kafka: Cluster, topic: TopicFactory, new_driver: Callable[[SourceOptions], Driver]
) -> None:
    """A topic leaves the options and returns. The query continues where it has left the topic. A
    leader epoch that the broker does not know changes no position."""
    away, stays = topic(), topic()
    both = f"{away},{stays}"
    write(kafka, away, ["a", "b"])
    write(kafka, stays, ["c"])

    def driver_of(names: str) -> Driver:
        chosen = options(kafka.bootstrap_servers, names)
        return new_driver(replace(chosen, fail_on_data_loss=False))

    driver = driver_of(both)
    start = follow_log_ends(driver, driver.initial_offsets(), 1.0)
    newer = {tp: Position(at.offset, at.leader_epoch + 9) for tp, at in start.positions.items()}
    without_away = next_end(driver_of(stays), replace(start, positions=newer))
    write(kafka, away, ["d"])
    again = driver_of(both)
    end = next_end(again, from_json(without_away.to_json()))
    (split,) = again.splits(without_away, end)

    assert [(away, 2, 3)] == [(part.tp.topic, part.start, part.end) for part in split.ranges]
