"""Looking up the addresses of followers that leaders name, while metadata does not come."""

from __future__ import annotations

import pytest

from kfetch.errors import BrokerError, ConnectionLost
from kfetch.fetch import replicas
from kfetch.fetch.arrivals import RangeHandedOn
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.replicas import ReadReplicas
from kfetch.model import NO_TOPIC_ID, Broker, ClusterView, OffsetRange, TopicPartition

LEADER, FOLLOWER = (Broker(node_id=n, host="h", port=n) for n in (1, 2))
VIEW = ClusterView(brokers={1: LEADER, 2: FOLLOWER}, topics={})


class Metadata:
    """Metadata that fails with errors, one after the other, and then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    def announce(self, topic: str) -> None:
        pass

    def view(self, topics: object, since: float, deadline: float) -> ClusterView:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return VIEW


def handed_on(partition: int, *, forced: bool = False) -> RangeHandedOn:
    """A range whose leader names a follower."""
    tp = TopicPartition("t", partition)
    item = OffsetRange(tp=tp, topic_id=NO_TOPIC_ID, start=0, end=9, leader_epoch=0, leader=LEADER)
    return RangeHandedOn(
        progress=RangeProgress.of(item), follower_id=FOLLOWER.node_id, forced=forced
    )


def moved(table: ReadReplicas, metadata: Metadata, count: int) -> list[Broker]:
    """The brokers of ranges after each of them was redirected."""
    arrivals = [handed_on(partition) for partition in range(count)]
    for one in arrivals:
        table.follow(one, metadata, float("inf"))
    for one in arrivals:
        table.place(one.progress)
    return [one.progress.broker for one in arrivals]


@pytest.mark.parametrize("error", [ConnectionLost("no answer"), BrokerError("no", code=1)])
def test_a_failure_counts_for_all_ranges(error: Exception) -> None:
    """Redirected ranges wait for metadata in turn, so only the first of them waits in vain."""
    metadata = Metadata(error)
    table = ReadReplicas("r")

    assert [LEADER] * 5 == moved(table, metadata, 5)
    assert [LEADER] * 5 == moved(table, metadata, 5)  # another task
    assert 1 == metadata.asked


def test_a_failure_is_an_error_if_the_leader_sends_nothing() -> None:
    """Each range that its leader redirects unasked gets the error, the remembered one too."""
    table, metadata = ReadReplicas("r"), Metadata(ConnectionLost("no answer"))

    assert all(table.follow(handed_on(n, forced=True), metadata, float("inf")) for n in range(3))


def test_a_failure_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seconds later metadata is asked again. Its answer counts for every range."""
    monkeypatch.setattr(replicas, "_UNKNOWN_S", 0.0)
    metadata = Metadata(ConnectionLost("no answer"))

    assert [LEADER, FOLLOWER, FOLLOWER] == moved(ReadReplicas("r"), metadata, 3)
    assert 2 == metadata.asked
