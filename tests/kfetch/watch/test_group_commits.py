"""Progress that the driver commits for a consumer group. No query depends on it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetCommitRequest

from kfetch.model import TopicPartition
from kfetch.offsets import Position
from kfetch.options import SourceOptions
from kfetch.spark.options import parse
from kfetch.watch import group_commits
from kfetch.watch.group_commits import GroupCommits
from kfetch.wire import groups
from tests.kfetch.watch.helpers import T0, T1, logged, query
from tests.kfetch.wire.coordinator import Coordinator
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Silence

PATIENCE_S = 60.0


@pytest.fixture
def coordinator(kafka: LittleKafka) -> Coordinator:
    """The coordinator of every group."""
    return Coordinator(kafka, node=2)


def options(kafka: LittleKafka) -> SourceOptions:
    """Returns options with short back-offs."""
    return parse(
        {
            "kafka.bootstrap.servers": kafka.bootstrap,
            "subscribe": "t",
            "kafka.request.timeout.ms": "60000",
            "kafka.retry.backoff.ms": "10",
        }
    )


def impatient(plain: SourceOptions) -> SourceOptions:
    """Returns options with a request timeout that is soon over."""
    return replace(plain, network=replace(plain.network, request_timeout_s=0.05))


def end_threads() -> None:
    """Wait until no thread commits any more."""
    for thread in threading.enumerate():
        if thread.name == "group commits":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def test_progress_is_committed(kafka: LittleKafka, coordinator: Coordinator) -> None:
    """The group has the end of the last micro-batch that Spark has committed, with epochs."""
    driver = query(kafka, kfetch__commitGroup="g")
    start = driver.initial_offsets()
    end = driver.next_end(start, 2)
    assert end is not None
    driver.next_end(logged(end), None)
    driver.close()

    assert dict(end.positions) == coordinator.offsets["g"]


def test_a_start_is_no_progress(kafka: LittleKafka, coordinator: Coordinator) -> None:
    """Before a micro-batch is committed, the group's offsets stay the same."""
    driver = query(kafka, kfetch__commitGroup="g")
    driver.next_end(driver.initial_offsets(), None)
    driver.close()

    assert [] == kafka.asked(OffsetCommitRequest)


def test_only_moved_positions_are_committed(kafka: LittleKafka, coordinator: Coordinator) -> None:
    """A commit names the partitions that moved, and nothing is sent when none did."""
    commits = GroupCommits("g", options(kafka))
    commits.note({T0: Position(1), T1: Position(1)})
    kafka.nodes[2].wait_asked(OffsetCommitRequest, 1)
    commits.note({T0: Position(1), T1: Position(1)})
    commits.note({T0: Position(2), T1: Position(1)})
    commits.close()
    _, last = kafka.asked(OffsetCommitRequest)

    assert [("t", [0])] == [
        (t.name, [p.partition_index for p in t.partitions]) for t in last.topics
    ]
    assert {T0: Position(2), T1: Position(1)} == coordinator.offsets["g"]


def test_commits_are_paced(
    kafka: LittleKafka, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many micro-batches share a commit. The next one is due after the interval."""
    monkeypatch.setattr(group_commits, "_INTERVAL_S", 0.05)
    commits = GroupCommits("g", options(kafka))
    began = time.monotonic()
    for offset in range(200):
        commits.note({T0: Position(offset)})
    kafka.nodes[2].wait_asked(OffsetCommitRequest, 2)
    commits.close()
    took_s = time.monotonic() - began

    assert len(kafka.asked(OffsetCommitRequest)) <= 3 + took_s / 0.05
    assert {T0: Position(199)} == coordinator.offsets["g"]


@pytest.mark.parametrize("code", [25, 30])
def test_a_refusal_is_logged_once(
    kafka: LittleKafka,
    coordinator: Coordinator,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
) -> None:
    """A group with members, and an ACL, are one warning. Later a commit has all that is missing."""
    monkeypatch.setattr(group_commits, "_AFTER_FAILURE_S", 0.01)
    coordinator.error = code
    commits = GroupCommits("g", options(kafka))
    with caplog.at_level("WARNING"):
        commits.note({T0: Position(1)})
        kafka.nodes[2].wait_asked(OffsetCommitRequest, 3)
        coordinator.error = 0
        commits.note({T0: Position(1), T1: Position(5)})
        commits.close()

    assert {T0: Position(1), T1: Position(5)} == coordinator.offsets["g"]
    (warning,) = [r.message for r in caplog.records if "commitGroup" in r.message]
    assert "of group g" in warning
    assert warning.endswith("The query goes on")


def test_no_error_ends_the_commits(
    kafka: LittleKafka,
    coordinator: Coordinator,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error that is not kfetch's is one warning, with its class and line; commits go on."""
    monkeypatch.setattr(group_commits, "_AFTER_FAILURE_S", 0.01)
    commit, failures = groups.commit_offsets, iter([LookupError("hush"), LookupError("hush")])

    def fail_twice(*arguments: Any) -> None:
        if failure := next(failures, None):
            raise failure
        commit(*arguments)

    monkeypatch.setattr(groups, "commit_offsets", fail_twice)
    commits = GroupCommits("g", options(kafka))
    with caplog.at_level("WARNING"):
        commits.note({T0: Position(1)})
        kafka.nodes[2].wait_asked(OffsetCommitRequest, 1)
        commits.close()

    assert {T0: Position(1)} == coordinator.offsets["g"]
    (warning,) = [r.message for r in caplog.records if "commitGroup" in r.message]
    assert "LookupError at " in warning
    assert "hush" not in warning


def test_a_silent_coordinator_does_not_hold_up_planning(
    kafka: LittleKafka, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that never answers delays neither a micro-batch nor, for long, the end."""
    monkeypatch.setattr(group_commits, "_CLOSE_S", 0.05)
    for node in kafka.nodes.values():
        node.always(OffsetCommitRequest, Silence())
    driver = query(kafka, kfetch__commitGroup="g", kafka__request__timeout__ms="200")
    end = driver.next_end(driver.initial_offsets(), 1)
    assert end is not None
    began = time.monotonic()
    last = driver.next_end(logged(end), None)
    driver.close()

    assert last is not None
    assert time.monotonic() - began < PATIENCE_S / 2
    end_threads()


def test_no_thread_without_the_option(kafka: LittleKafka) -> None:
    """A query without ``kfetch.commitGroup`` commits nothing and has no such thread."""
    driver = query(kafka)
    end = driver.next_end(driver.initial_offsets(), None)
    driver.next_end(logged(end), None)

    assert "group commits" not in {thread.name for thread in threading.enumerate()}
    assert [] == kafka.asked(OffsetCommitRequest)


def test_a_partition_that_leaves(kafka: LittleKafka, coordinator: Coordinator) -> None:
    """A partition that is gone is not committed again; its last offset stays in the group."""
    other = TopicPartition("u", 0)
    commits = GroupCommits("g", options(kafka))
    commits.note({T0: Position(1), other: Position(2)})
    commits.note({T0: Position(3)})
    commits.close()

    assert {T0: Position(3), other: Position(2)} == coordinator.offsets["g"]


def test_a_deleted_topic_is_not_committed_for_ever(
    kafka: LittleKafka, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker refuses offsets of a topic that it does not know any more. Once the partition has
    left the query, the next commit is good again, and comes after the usual pause."""
    monkeypatch.setattr(group_commits, "_AFTER_FAILURE_S", 0.01)
    coordinator.error_of_topic["u"] = 3
    commits = GroupCommits("g", impatient(options(kafka)))
    commits.note({T0: Position(1), TopicPartition("u", 0): Position(2)})
    kafka.nodes[2].wait_asked(OffsetCommitRequest, 2)
    commits.note({T0: Position(3)})
    deadline = time.monotonic() + PATIENCE_S
    while commits._failed or commits._pending:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    commits.close()

    assert {T0: Position(3)} == coordinator.offsets["g"]
    assert ["t"] == [t.name for t in kafka.asked(OffsetCommitRequest)[-1].topics]
