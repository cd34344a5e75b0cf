"""The model of a cluster: what it keeps, what it loses, and whom it tells."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from uuid import UUID

import pytest

from simulation.cluster.cluster import Cluster, Listener, Place, Records
from simulation.cluster.log import SEGMENT_MS, Log
from simulation.cluster.releases import KAFKA_2_8, KAFKA_4_3, RELEASES, Release
from tests.kfetch.records.batch_builder import MemoryRecords


class Account(Listener):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.gone: list[tuple[str, Records]] = []

    def acknowledged(
        self, topic_id: UUID, place: Place, base: int, values: Sequence[bytes]
    ) -> None:
        self.values += values

    def lost(self, topic_id: UUID, place: Place, records: Records, kept: int) -> None:
        self.gone.append(("lost", records))

    def expired(self, topic_id: UUID, place: Place, records: Records, start: int) -> None:
        self.gone.append(("expired", records))

    def deleted(self, topic_id: UUID, place: Place, records: Records) -> None:
        self.gone.append(("deleted", records))


@pytest.fixture
def account() -> Account:
    """An empty account."""
    return Account()


@pytest.fixture
def cluster(account: Account) -> Cluster:
    """Three brokers, and a topic of one partition at the first two. The first one leads."""
    return with_topic(account, KAFKA_4_3)


def with_topic(account: Account, release: Release) -> Cluster:
    """A cluster of a release, with a topic."""
    made = Cluster(3, Random(1), release=release, listener=account)
    made.create_topic("t", 1, 0.0, placed=[[1, 2]])
    return made


def log_of(cluster: Cluster, broker: int) -> Log:
    """The replica of a broker."""
    return cluster.brokers[broker].hosted["t", 0].log


def put(cluster: Cluster, *values: bytes) -> bool:
    """Write a batch."""
    return cluster.produce("t", 0, values, 0.0, time_ms=5)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_batches_are_real(cluster: Cluster, codec: str) -> None:
    """kafka-python's decoder reads the records of a log, with a right CRC."""
    cluster.produce("t", 0, [b"a", b"b"], 0.0, time_ms=5, codec=codec)
    read = MemoryRecords(log_of(cluster, 1).read(0, 2, 1000, whole_first=True)).next_batch()

    assert read.validate_crc()
    assert [(0, b"a", 5), (1, b"b", 5)] == [(r.offset, r.value, r.timestamp) for r in read]


def test_acknowledged_when_all_in_sync_have_it(cluster: Cluster, account: Account) -> None:
    """A record counts as acknowledged only when every replica in sync has it."""
    cluster.brokers[2].stuck = True
    assert put(cluster, b"a")

    assert ([], 0) == (account.values, log_of(cluster, 1).high_watermark)
    cluster.catch_up(2, 0.0)
    assert ([b"a"], 1) == (account.values, log_of(cluster, 1).high_watermark)


def test_a_clean_election_keeps_every_record(cluster: Cluster, account: Account) -> None:
    """A replica in sync takes over with all that was acknowledged, at a new epoch."""
    put(cluster, b"a", b"b")
    assert cluster.elect("t", 0, 0.0)
    put(cluster, b"c")

    assert [(0, b"a"), (1, b"b"), (2, b"c")] == cluster.surviving("t", 0)
    assert [(0, 0), (1, 2)] == log_of(cluster, 2).epochs
    assert not account.gone


def test_an_unclean_election_loses_records(cluster: Cluster, account: Account) -> None:
    """A replica that fell behind leads: what it lacks is lost, and told. The others follow it."""
    put(cluster, b"a")
    assert cluster.set_apart("t", 0, 2, 0.0)
    put(cluster, b"b", b"c")
    assert cluster.elect_unclean("t", 0, 2, 0.0)
    cluster.bring_back("t", 0, 2, 0.0)
    put(cluster, b"d")

    assert [("lost", [(1, b"b"), (2, b"c")])] == account.gone
    assert [(0, b"a"), (1, b"d")] == cluster.surviving("t", 0)
    assert log_of(cluster, 1).batches == log_of(cluster, 2).batches
    assert (0, 1) == log_of(cluster, 1).end_of_epoch(0)


def test_an_unacknowledged_record_may_vanish(cluster: Cluster, account: Account) -> None:
    """A record that only the leader has is gone after a clean election. Nobody was told of it."""
    cluster.brokers[2].stuck = True
    put(cluster, b"a")
    cluster.elect("t", 0, 0.0, leader=2)
    cluster.catch_up(2, 0.0)
    put(cluster, b"b")

    assert ([b"b"], []) == (account.values, account.gone)
    assert [(0, b"b")] == cluster.surviving("t", 0)


def test_a_deposed_leader_acknowledges_nothing(cluster: Cluster, account: Account) -> None:
    """A leader that does not know of its successor gets no record acknowledged.

    Its followers are as long as its own log. They have the successor's records there.
    """
    cluster.brokers[1].lags = True
    cluster.elect("t", 0, 0.0, leader=2)
    put(cluster, b"a")
    cluster.brokers[2].lags = True
    cluster.elect("t", 0, 0.0, leader=1)
    put(cluster, b"b")

    assert [] == account.values
    assert 0 == log_of(cluster, 1).high_watermark


def test_deleted_records(cluster: Cluster, account: Account) -> None:
    """Records before an offset are deleted within a batch, too, at every replica."""
    put(cluster, b"a", b"b", b"c")
    cluster.delete_records("t", 0, 2, 0.0)

    assert [("expired", [(0, b"a"), (1, b"b")])] == account.gone
    assert (2, 2) == (log_of(cluster, 1).start, log_of(cluster, 2).start)
    assert [(2, b"c")] == cluster.surviving("t", 0)


def test_a_topic_created_again(cluster: Cluster, account: Account) -> None:
    """A topic that was deleted and created again has another id and no record."""
    put(cluster, b"a")
    former = cluster.image.topics["t"].id
    new = cluster.recreate_topic("t", 0.0)

    assert former != new
    assert [("deleted", [(0, b"a")])] == account.gone
    assert [] == cluster.surviving("t", 0)


def test_transactions(cluster: Cluster) -> None:
    """Readers of committed records stop at the last stable offset, and skip what was aborted."""
    put(cluster, b"a")
    cluster.produce("t", 0, [b"b"], 0.0, producer=7)
    log = log_of(cluster, 1)
    assert (1, 2) == (log.last_stable, log.high_watermark)

    cluster.end_transaction("t", 0, 7, 0.0, commits=False)
    data = log.read(0, 3, 1000, whole_first=True)
    assert (3, [(7, 1)]) == (log.last_stable, log.aborted_between(0, data))
    assert [(0, b"a")] == cluster.surviving("t", 0)


def test_segments(cluster: Cluster) -> None:
    """A read stays in one segment. A batch that is a week younger begins another one."""
    put(cluster, b"a")
    put(cluster, b"b")
    assert cluster.roll("t", 0)
    put(cluster, b"c")
    cluster.produce("t", 0, [b"d"], 0.0, time_ms=SEGMENT_MS + 6)
    log = log_of(cluster, 1)
    sizes = [len(log.read(offset, 4, 1000, whole_first=True)) for offset in range(4)]

    assert [2, 3] == log.rolls == log_of(cluster, 2).rolls
    assert [2, 1, 1, 1] == [size // sizes[3] for size in sizes]


def test_a_restarted_broker_comes_back(cluster: Cluster) -> None:
    """A broker that was away follows again, and is in sync again."""
    cluster.stop_broker(1, 0.0)
    put(cluster, b"a")
    assert (2, (2,)) == leadership(cluster)
    cluster.start_broker(1, 0.0, KAFKA_2_8)

    assert (2, (1, 2)) == leadership(cluster)
    assert log_of(cluster, 1).batches == log_of(cluster, 2).batches
    assert 12 == cluster.brokers[1].versions[1][1]


def leadership(cluster: Cluster) -> tuple[int, tuple[int, ...]]:
    """Leader and replicas in sync."""
    partition = cluster.image.topics["t"].partitions[0]
    return partition.leader, tuple(sorted(partition.in_sync))


def test_the_last_in_sync_leads_again(cluster: Cluster) -> None:
    """Without any replica in sync there is no leader, until one is back."""
    cluster.stop_broker(2, 0.0)
    cluster.stop_broker(1, 0.0)
    assert -1 == leadership(cluster)[0]
    assert not put(cluster, b"a")
    cluster.start_broker(2, 0.0)
    assert -1 == leadership(cluster)[0]

    cluster.start_broker(1, 0.0)
    assert 1 == leadership(cluster)[0]
    assert put(cluster, b"a")


def test_reassigned(cluster: Cluster) -> None:
    """A partition moves to other brokers with its records. Its old leader has none of it."""
    put(cluster, b"a")
    assert cluster.reassign("t", 0, [3], 0.0)

    assert (3, (3,)) == leadership(cluster)
    assert [(0, b"a")] == cluster.surviving("t", 0)
    assert ("t", 0) not in cluster.brokers[1].hosted


def test_a_copy_of_a_log_that_starts_within_a_batch(cluster: Cluster) -> None:
    """A new replica knows no epoch before the log's start, though its first batch begins there."""
    put(cluster, b"a", b"b", b"c")
    cluster.delete_records("t", 0, 2, 0.0)
    assert cluster.reassign("t", 0, [3], 0.0)

    assert (2, [(0, 2), (1, 3)]) == (log_of(cluster, 3).start, log_of(cluster, 3).epochs)


def test_a_broker_that_lags(cluster: Cluster) -> None:
    """A broker that lags believes that it still leads, and knows no new topic."""
    cluster.brokers[1].lags = True
    cluster.elect("t", 0, 0.0)
    cluster.create_topic("new", 1, 0.0)
    lagging = cluster.brokers[1]

    assert (1, 0) == lagging.leader_of("t", 0)
    assert lagging.hosted["t", 0].is_leader
    assert not lagging.knows("new", 0)
    cluster.catch_up(1, 0.0)
    assert (2, 1) == lagging.leader_of("t", 0)
    assert lagging.knows("new", 0)


def test_a_leader_with_an_older_high_watermark(cluster: Cluster) -> None:
    """A new leader may not know that the last records are acknowledged. It learns it later."""
    put(cluster, b"a")
    put(cluster, b"b")
    assert cluster.elect_behind("t", 0, 0.0)
    assert 1 == log_of(cluster, 2).high_watermark

    cluster.follow("t", 0, 0.0)
    assert 2 == log_of(cluster, 2).high_watermark


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda one: one.name)
def test_every_release_answers(account: Account, release: Release) -> None:
    """A cluster of each release takes records."""
    assert put(with_topic(account, release), b"a")
    assert [b"a"] == account.values
