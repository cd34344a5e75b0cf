"""Losses between two offsets and the splits: no range of a lost history is read."""

from __future__ import annotations

import pytest

from kfetch.errors import (
    DataLoss,
    LogTruncated,
    PartitionGone,
    TopicRecreated,
)
from tests.kfetch.watch.damage import (
    LOSSES,
    Damage,
    Ranges,
    Reader,
    deleted,
    recreated,
    regrown,
    shrunk,
)
from tests.kfetch.watch.helpers import ALWAYS, T0, T1, U0, logged, query, read
from tests.kfetch.wire.little import LittleKafka


@LOSSES
def test_loss_before_planning(
    kafka: LittleKafka, damage: Damage, kind: type[DataLoss], message: str, ranges: Ranges
) -> None:
    """A loss between ``latest`` and ``splits`` fails no lenient query, and repeats nothing."""
    reader = Reader(kafka, query(kafka, failOnDataLoss="false"))
    reader.batch()
    kafka.log(T1).append(b"y")
    start, end = reader.offsets, logged(reader.driver.next_end(reader.offsets, None))
    damage(kafka)
    reader.offsets = end
    reader.take(start, end)
    reader.finish()

    assert len(set(reader.values)) == len(reader.values)


@pytest.mark.parametrize("damage", [recreated, regrown, deleted, shrunk])
@pytest.mark.parametrize("restart", [False, True])
def test_loss_before_planning_fails(kafka: LittleKafka, damage: Damage, restart: bool) -> None:
    """By default such a loss fails the query, also if planning is the first call of a run."""
    driver = query(kafka)
    start = logged(driver.initial_offsets())
    end = logged(driver.next_end(start, None))
    damage(kafka)
    driver = query(kafka) if restart else driver
    with pytest.raises((TopicRecreated, PartitionGone)):
        driver.splits(start, end)


def test_new_topic_gone_before_planning(kafka: LittleKafka) -> None:
    """A topic that was created and deleted between two offsets is a loss too."""
    for fail in ("true", "false"):
        driver = query(kafka, subscribePattern=".", failOnDataLoss=fail, **ALWAYS)
        start = logged(driver.next_end(logged(driver.initial_offsets()), None))
        kafka.create("u")
        kafka.log(U0).append(b"u")
        end = logged(driver.next_end(start, None))
        del kafka.topics["u"]
        if fail == "true":
            with pytest.raises(PartitionGone, match="u-0 no longer exists"):
                driver.splits(start, end)
        else:
            assert {} == read(driver, start, end)


def test_new_topic_recreated_before_planning(kafka: LittleKafka) -> None:
    """Offsets of a topic that was created again are not applied to the new one."""
    for fail in ("true", "false"):
        kafka.topics.pop("u", None)
        driver = query(kafka, subscribePattern=".", failOnDataLoss=fail, **ALWAYS)
        start = logged(driver.next_end(logged(driver.initial_offsets()), None))
        kafka.create("u")
        kafka.log(U0).append(b"u")
        end = logged(driver.next_end(start, None))
        kafka.create("u")
        kafka.log(U0).append(b"new u")
        if fail == "true":
            with pytest.raises(TopicRecreated):
                driver.splits(start, end)
        else:
            assert {} == read(driver, start, end)
            assert {U0: (0, 1)} == read(driver, end, logged(driver.next_end(end, None)))


def cut_while_planned(kafka: LittleKafka) -> None:
    """An unclean election cuts the log inside a planned range; it grows past the end."""
    log = kafka.log(T0)
    log.truncate(4)
    kafka.elect(T0, 2)
    log.append(*[b"new %d" % n for n in range(4, 9)])


def test_truncation_between_planning_and_reading(kafka: LittleKafka) -> None:
    """A planned range that ends in a lost history fails the query."""
    driver = query(kafka)
    start = logged(driver.next_end(logged(driver.initial_offsets()), None))
    kafka.log(T0).append(b"d")
    kafka.log(T0).append(b"e", b"f")
    end = logged(driver.next_end(start, None))
    cut_while_planned(kafka)
    with pytest.raises(LogTruncated, match="t-0 was truncated at offset 4"):
        driver.splits(start, end)
    with pytest.raises(LogTruncated, match="t-0 was truncated at offset 4"):
        driver.next_end(end, None)


def test_truncation_inside_a_planned_range_is_read_once(
    kafka: LittleKafka, lenient: Reader
) -> None:
    """With failOnDataLoss=false the records below the truncation are read, then the new ones."""
    kafka.log(T0).append(b"d")
    kafka.log(T0).append(b"e", b"f")
    end = logged(lenient.driver.next_end(lenient.offsets, None))
    cut_while_planned(kafka)
    start, lenient.offsets = lenient.offsets, end
    lenient.take(start, end)
    lenient.finish()

    assert [b"d", *[b"new %d" % n for n in range(4, 9)]] == lenient.values[4:]


def test_a_planned_range_that_has_lost_both_ends_is_read_once(
    kafka: LittleKafka, lenient: Reader
) -> None:
    """What lies between the new log start and the truncation is read, then the new records.

    The next micro-batch continues at the truncation, so nobody would read them later.
    """
    log = kafka.log(T0)
    log.append(b"d")
    log.append(b"e")
    log.append(b"f", b"g")
    end = logged(lenient.driver.next_end(lenient.offsets, None))
    log.expire(4)
    log.truncate(5)
    kafka.elect(T0, 2)
    log.append(*[b"new %d" % n for n in range(5, 9)])
    start, lenient.offsets = lenient.offsets, end
    lenient.take(start, end)
    lenient.finish()

    assert [b"e", *[b"new %d" % n for n in range(5, 9)]] == lenient.values[4:]


def test_a_new_topic_that_is_cut_before_planning(kafka: LittleKafka) -> None:
    """The first range of a new topic is read up to the truncation, and nothing is read twice."""
    reader = Reader(kafka, query(kafka, subscribePattern=".", failOnDataLoss="false", **ALWAYS))
    reader.batch()
    kafka.create("u")
    log = kafka.log(U0)
    log.append(b"u0")
    log.append(b"u1")
    start, end = reader.offsets, logged(reader.driver.next_end(reader.offsets, None))
    log.truncate(1)
    kafka.elect(U0, 2)
    log.append(b"new 1", b"new 2")
    reader.offsets = end
    reader.take(start, end)
    reader.finish()

    assert [b"u0", b"new 1", b"new 2"] == reader.values[-3:]
