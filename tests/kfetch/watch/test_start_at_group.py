"""Queries that start at the committed offsets of a consumer group."""

from __future__ import annotations

import pytest

from kfetch.errors import LogTruncated, OptionError, RecordsExpired
from kfetch.model import TopicPartition
from kfetch.offsets import Position
from tests.kfetch.watch.helpers import T0, T1, at, logged, query, read
from tests.kfetch.wire.coordinator import Coordinator
from tests.kfetch.wire.little import LittleKafka

GROUP = {"startingOffsets": "group", "kfetch__startingGroup": "g"}


@pytest.fixture
def coordinator(kafka: LittleKafka) -> Coordinator:
    """The coordinator. Group g has committed t-0."""
    coordinator = Coordinator(kafka, node=2)
    coordinator.offsets["g"] = {T0: Position(2, 0), TopicPartition("other", 0): Position(5)}
    return coordinator


@pytest.mark.parametrize("options", [GROUP, {"startingOffsets": "group", "kafka__group__id": "g"}])
def test_start_at_committed_offsets(
    kafka: LittleKafka, coordinator: Coordinator, options: dict[str, str]
) -> None:
    """A query goes on where the group stopped. A partition without a commit starts at earliest."""
    kafka.log(T1).append(b"y")
    kafka.log(T1).expire(1)
    driver = query(kafka, **options)
    start = driver.initial_offsets()
    end = driver.next_end(start, None)
    assert end is not None

    assert {T0: 2, T1: 1} == at(start)
    assert {T0: (2, 3), T1: (1, 2)} == read(driver, start, end)


def test_a_restart_does_not_ask_the_group(kafka: LittleKafka, coordinator: Coordinator) -> None:
    """The checkpoint decides after the first micro-batch, whatever the group commits later."""
    driver = query(kafka, **GROUP)
    start = driver.initial_offsets()
    end = driver.next_end(start, None)
    assert end is not None
    coordinator.offsets["g"] = {}
    kafka.log(T0).append(b"d")
    restarted = query(kafka, **GROUP)
    after = restarted.next_end(logged(end), None)
    assert after is not None

    assert {T0: (3, 4)} == read(restarted, logged(end), after)


def test_a_group_without_commits(kafka: LittleKafka, coordinator: Coordinator) -> None:
    """A group that has committed none of the partitions is an error: its name may be wrong."""
    coordinator.offsets["g"] = {}
    with pytest.raises(OptionError) as caught:
        query(kafka, **GROUP).initial_offsets()

    assert caught.value.message == (
        "consumer group g has no committed offset for any subscribed partition: check its name, "
        "or set startingOffsets to earliest or latest"
    )


def test_a_commit_below_the_log_start(kafka: LittleKafka, coordinator: Coordinator) -> None:
    """Records between the commit and the log start are a loss, not skipped in silence."""
    kafka.log(T0).append(b"d")
    kafka.log(T0).expire(3)
    driver = query(kafka, **GROUP)
    with pytest.raises(RecordsExpired):
        driver.next_end(driver.initial_offsets(), None)


def test_a_commit_of_a_truncated_log(kafka: LittleKafka, coordinator: Coordinator) -> None:
    """The commit's leader epoch shows that the log was truncated since."""
    kafka.log(T0).truncate(0)
    kafka.elect(T0, 2)
    kafka.log(T0).append(b"x", b"y", b"z")
    driver = query(kafka, **GROUP)
    with pytest.raises(LogTruncated):
        driver.next_end(driver.initial_offsets(), None)
