"""Every release of Kafka in ``versions``: records, starts, sessions, kills, truncation, topics.

``make brokers`` runs it, ``make brokers ARGS="-k 2.8"`` one release. CI has the short tests at the
end. What a release lacks, and so what to expect, comes from ``versions``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError
from pyspark.sql import SparkSession

from integration.brokers import contract
from integration.brokers.cluster import ReleaseCluster
from integration.brokers.fetch_log import fetches
from integration.brokers.reading import Query
from integration.brokers.sending import sending
from integration.brokers.versions import CHECKED_EPOCHS, RELEASES, TOPIC_IDS, Release, release
from integration.conftest import TopicFactory
from integration.contract import content
from integration.contract.content import Content, append, by_kafka_python, by_spark, by_worker
from integration.contract.test_mixed_content import everything, in_millis
from integration.faults.test_broker import PARTITIONS, every
from integration.faults.test_truncation import KEPT, LOST, NEW, Unclean
from integration.records import log_ends, numbered, producer, write
from integration.streams import drain, kfetch, wait_until
from kfetch.errors import DataLoss, LogTruncated, OffsetBeyondLog, TopicRecreated
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration
full = pytest.mark.brokers

OLD, NEWEST = release("3.3"), RELEASES[-1]
"""The releases of the short tests in CI."""


@pytest.fixture(scope="module", params=RELEASES, ids=lambda one: one.name)
def tested(request: pytest.FixtureRequest) -> Release:
    """Each release in turn."""
    return request.param


@pytest.fixture(scope="module")
def cluster(tested: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReleaseCluster]:
    """Two brokers of the release, which log every request."""
    directory = tmp_path_factory.mktemp(f"kafka-{tested.name}")
    with ReleaseCluster.start(directory, tested, requests="DEBUG") as started:
        yield started


@pytest.fixture
def brokers(cluster: ReleaseCluster) -> ReleaseCluster:
    """The cluster with all its brokers running."""
    for node in cluster.nodes:
        if not node.running:
            node.start()
    return cluster


@pytest.fixture
def topic(topic: TopicFactory) -> TopicFactory:
    """The factory of topics. It waits until each broker knows the new topic."""

    def create(partitions: int = 1, *, cluster: ReleaseCluster | Cluster, **settings: Any) -> str:
        name = topic(partitions, cluster=cluster, **settings)
        contract.wait_known(cluster, name)
        return name

    return create


@full
def test_the_table_is_true(brokers: ReleaseCluster, tested: Release) -> None:
    """The broker speaks the versions that docs/reference/broker-versions.md names."""
    contract.check_versions(brokers, tested)


@full
def test_every_record_and_column(
    spark: SparkSession, brokers: ReleaseCluster, tmp_path: Path
) -> None:
    """Spark gets every record once, with all columns, in every codec."""
    with content.every_codec():
        name = contract.mixed_topic(brokers, f"mixed-{tmp_path.name}")
        seen = by_kafka_python(brokers, name)
    delivered = drain(in_millis(kfetch(spark, brokers, **everything(name))), tmp_path)

    assert set(content.mixed()) == {
        Content(key, value, tuple(headers or ())) for key, value, *_, headers in seen
    }
    assert seen == by_spark(delivered.rows)


@full
def test_starts(brokers: ReleaseCluster, topic: TopicFactory) -> None:
    """A query starts at the beginning, at the end, or at a time."""
    contract.check_starts(brokers, timed_topic(brokers, topic(cluster=brokers)))


@full
def test_sessions(brokers: ReleaseCluster, topic: TopicFactory) -> None:
    """The driver opens one session at each broker. All its other fetches continue it or close it.

    The tasks continue their sessions, too."""
    name, client = topic(20, cluster=brokers), f"counted-{uuid.uuid4().hex}"
    with Query(brokers, name, **{"kafka.client.id": client}) as query:
        for number in range(1, 6):
            write(brokers, name, [f"v{number}"], partition=number % 2)
            query.read_count(number)
        for _ in range(3):  # a long poll at each broker
            assert 0 == query.step()
    watch, tasks = fetches(brokers, f"{client}-watch"), fetches(brokers, client)

    assert 2 == sum(fetch.opens for fetch in watch)
    assert 2 == sum(fetch.epoch == -1 for fetch in watch)
    assert 2 == sum(fetch.epoch == 0 for fetch in watch)
    assert sum(fetch.epoch > 0 for fetch in watch) >= 5
    assert 1 <= sum(fetch.epoch == 0 for fetch in tasks) <= 2
    assert sum(fetch.epoch > 0 for fetch in tasks) >= 3


@full
def test_killed_brokers(brokers: ReleaseCluster, topic: TopicFactory) -> None:
    """One broker after the other is killed and comes back: every record is read once."""
    name = topic(PARTITIONS, replicas=2, cluster=brokers, min_insync_replicas=1)
    with Query(brokers, name) as query:
        with sending(brokers, name, PARTITIONS) as acknowledged:
            query.read_count(500)
            for node in brokers.nodes:
                contract.wait_in_sync(brokers, name, replicas=2)
                node.kill()
                query.read_count(len(query.places) + 500)
                node.start()
                query.read_count(len(query.places) + 500)
        ends = log_ends(brokers, name)
        query.read_count(sum(ends.values()))

    assert every(ends) == sorted(query.places)
    assert sorted(acknowledged) == sorted(value.decode() for value in query.values)


@full
def test_a_truncated_log(brokers: ReleaseCluster, topic: TopicFactory, tested: Release) -> None:
    """A log that is shorter than the query's position is an error.

    If sessions check leader epochs, it stays one after the log has grown again, and
    failOnDataLoss=false continues at the cut."""
    name = topic(
        replicas=2,
        cluster=brokers,
        min_insync_replicas=1,
        unclean_leader_election_enable=True,
    )
    unclean = Elected(brokers, name)
    unclean.fill()
    with Query(brokers, name) as query:
        query.read_count(KEPT + LOST)
        write(brokers, name, ["lost, and read through the session"])
        query.read_count(KEPT + LOST + 1)
    unclean.truncate()

    if not tested.has(CHECKED_EPOCHS):
        fails(OffsetBeyondLog, brokers, name, query.checkpoint)
        unclean.regrow()
        unseen = LOST + 1
        found = rest(brokers, name, query.checkpoint, NEW - unseen)
        assert numbered("new", NEW)[unseen:] == found
        return
    fails(LogTruncated, brokers, name, query.checkpoint)
    unclean.regrow()
    fails(LogTruncated, brokers, name, query.checkpoint)
    options = {"failOnDataLoss": "false"}
    assert numbered("new", NEW) == rest(brokers, name, query.checkpoint, NEW, **options)


@full
def test_a_topic_created_again(
    brokers: ReleaseCluster, topic: TopicFactory, tested: Release
) -> None:
    """With topic ids, a topic that was created again is an error. Without failOnDataLoss it is read
    from its beginning. Without ids it is an error only while it is shorter."""
    name = topic(cluster=brokers)
    write(brokers, name, numbered("old", 5))
    with Query(brokers, name) as query:
        query.read_count(5)
    contract.recreate(brokers, name)
    write(brokers, name, numbered("new", 3))

    if tested.has(TOPIC_IDS):
        fails(TopicRecreated, brokers, name, query.checkpoint)
        options = {"failOnDataLoss": "false"}
        assert numbered("new", 3) == rest(brokers, name, query.checkpoint, 3, **options)
        return
    fails((LogTruncated, OffsetBeyondLog), brokers, name, query.checkpoint)
    write(brokers, name, numbered("more", 4))
    assert numbered("more", 4)[2:] == rest(brokers, name, query.checkpoint, 2)


def test_an_old_broker_in_short(tmp_path: Path) -> None:
    """A broker of an old release is killed and comes back: every record is read once."""
    started = ReleaseCluster.start(tmp_path, OLD, brokers=1, combined=True)
    with started as cluster, content.every_codec():
        contract.check_versions(cluster, OLD)
        name = contract.mixed_topic(cluster, "mixed")
        before = by_kafka_python(cluster, name)
        with Query(cluster, name) as query:
            query.read_count(len(before))
            cluster.node(1).kill()
            cluster.node(1).start()
            write(cluster, name, ["after"])
            query.read_count(len(before) + 1)
        after = by_kafka_python(cluster, name)

        assert after == by_worker(cluster, name)
    assert [(row[3], row[4]) for row in after] == sorted(query.places)


def test_the_newest_broker_in_short(kafka: Cluster, topic: TopicFactory) -> None:
    """The newest release is the one of all other tests, and the table knows its versions."""
    contract.check_versions(kafka, NEWEST)
    contract.check_starts(kafka, timed_topic(kafka, topic(cluster=kafka)))


class Elected(Unclean):
    """An unclean election that works with every release. Two of them need help.

    Kafka 2.1 keeps a dead replica in sync until the leader has more records than the replica. Kafka
    3.3 with KRaft has unclean elections on request alone.
    """

    def fill(self) -> None:
        """Records that both replicas have, then records that only the leader has."""
        write(self.cluster, self.topic, numbered("kept", KEPT))
        partition = self.described()
        self.leader = int(partition["leader_id"])
        (self.follower,) = (int(n) for n in partition["replica_nodes"] if n != self.leader)
        self.cluster.node(self.follower).kill()
        with producer(self.cluster, acks=1, enable_idempotence=False) as sender:
            for value in numbered("lost", LOST):
                sender.send(self.topic, value.encode(), partition=0)
        wait_until(lambda: self.follower not in self.described()["isr_nodes"], what="a small ISR")

    def described(self) -> dict[str, object]:
        """The partition as metadata describes it, once the asked broker knows the topic."""
        described: list[dict[str, object]] = []

        def known() -> bool:
            with suppress(IndexError):
                described.append(super(Elected, self).described())
            return bool(described)

        wait_until(known, what="the topic")
        return described[-1]

    def truncate(self) -> None:
        """The leader dies, and the replica that lacks its last records takes over."""
        self.cluster.node(self.leader).kill()
        self.cluster.node(self.follower).start()
        wait_until(self._is_elected, what="the election")

    def _is_elected(self) -> bool:
        if self.described()["leader_id"] == self.follower:
            return True
        if not self.cluster.node(self.follower).release.with_zookeeper:
            servers = self.cluster.node(self.follower).address
            with (
                suppress(KafkaError),
                closing(KafkaAdminClient(bootstrap_servers=servers)) as admin,
            ):
                admin.elect_leaders(_UNCLEAN, {self.topic: [0]}, raise_errors=False)
        return False


_UNCLEAN = 1
"""The type of an unclean election in ElectLeaders (KIP-460)."""


def timed_topic(cluster: contract.Servers, name: str) -> str:
    """Fill a topic with 100 records, at the times 1000 to 1099."""
    with producer(cluster, linger_ms=20) as sender:
        records = [Content(b"k", b"v", timestamp=1000 + n) for n in range(100)]
        append(sender, TopicPartition(name, 0), records)
    return name


def fails(
    kind: type[DataLoss] | tuple[type[DataLoss], ...],
    cluster: ReleaseCluster,
    topic: str,
    checkpoint: dict[str, object],
) -> None:
    """Continue at a checkpoint, and expect this error."""
    with Query(cluster, topic, checkpoint) as query, pytest.raises(kind):
        query.read_count(1)


def rest(
    cluster: ReleaseCluster, topic: str, checkpoint: dict[str, object], count: int, **options: str
) -> list[str]:
    """Continue at a checkpoint, and return the values of ``count`` records: all that are left."""
    with Query(cluster, topic, checkpoint, **options) as query:
        query.read_count(count)
        assert 0 == query.step()
    return [value.decode() for value in query.values]
