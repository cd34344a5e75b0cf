"""Splits: the values that tasks get, and partitions without a leader at planning."""

from __future__ import annotations

import threading

import pytest

from kfetch.errors import (
    BrokerError,
)
from kfetch.model import NO_TOPIC_ID
from kfetch.offsets import Offsets
from kfetch.watch.driver import Driver
from tests.kfetch.watch.helpers import T0, T1, logged, query
from tests.kfetch.wire.little import LittleKafka


def test_splits_know_leader_and_topic(kafka: LittleKafka) -> None:
    """A range has its leader, epoch and topic id, and a split has its query."""
    kafka.elect(T0, 2)
    driver = query(kafka, kfetch__rowsPerSplit="0")
    start = logged(driver.initial_offsets())
    splits = driver.splits(start, logged(driver.next_end(start, None)))

    assert 2 == len(splits)
    assert 1 == len({split.query for split in splits})
    (first,) = splits[0].ranges
    assert T0 == first.tp
    assert kafka.topics["t"].topic_id == first.topic_id != NO_TOPIC_ID
    assert (kafka.nodes[2].broker, 1) == (first.leader, first.leader_epoch)


def test_small_ranges_share_a_split(kafka: LittleKafka, driver: Driver) -> None:
    """Partitions that trickle share a task."""
    start = logged(driver.initial_offsets())

    assert 1 == len(driver.splits(start, logged(driver.next_end(start, None))))


def test_no_leader_at_planning(kafka: LittleKafka) -> None:
    """A partition that stays without a leader can't be planned; the error says what to do."""
    driver = query(kafka, kafka__request__timeout__ms="1000")
    start = logged(driver.initial_offsets())
    end = logged(driver.next_end(start, None))
    kafka.elect(T1, None)
    with pytest.raises(BrokerError, match="t-1 has no leader: start its brokers, or wait"):
        driver.splits(start, end)


def test_an_election_at_planning_is_waited_for(kafka: LittleKafka, driver: Driver) -> None:
    """A partition whose leader is elected a moment later is planned."""
    start = logged(driver.initial_offsets())
    end = logged(driver.next_end(start, None))
    leader = kafka.log(T1).leader
    kafka.elect(T1, None)
    threading.Timer(0.2, kafka.elect, (T1, leader)).start()

    assert 1 == len(driver.splits(start, end))


def test_a_leader_that_resigns_while_splits_are_planned(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Splits name the leader of the moment before: tasks look for its successor, planning does not
    fail."""
    driver = query(kafka)
    start = driver.initial_offsets()
    end = driver.next_end(start, None)
    assert end is not None
    honest = driver._check.valid_offsets

    def resigning(offsets: Offsets) -> Offsets:
        kafka.elect(T0, None)
        driver._watch.take_changed()
        return honest(offsets)

    monkeypatch.setattr(driver._check, "valid_offsets", resigning)

    assert {T0, T1} == {item.tp for split in driver.splits(start, end) for item in split.ranges}
