"""Unclean leader elections: a log is truncated below the checkpoint and grows past it again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from integration.conftest import TopicFactory
from integration.nodes import start_node
from integration.records import numbered, write
from integration.streams import PATIENCE_S, drain, kfetch, running, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

KEPT, LOST, NEW = 10, 15, 40


class Unclean:
    """A topic of one partition on two of three nodes, and its unclean election."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.leader, self.follower = 0, 0

    def fill(self) -> None:
        """Records that both replicas have, then records that only the leader has."""
        write(self.cluster, self.topic, numbered("kept", KEPT))
        partition = self.described()
        self.leader = int(partition["leader_id"])
        (self.follower,) = (int(n) for n in partition["replica_nodes"] if n != self.leader)
        self.cluster.nodes[self.follower - 1].kill()
        wait_until(lambda: self.follower not in self.described()["isr_nodes"], what="a small ISR")
        write(self.cluster, self.topic, numbered("lost", LOST))

    def truncate(self) -> None:
        """The leader dies, and the replica that lacks its last records takes over."""
        self.cluster.nodes[self.leader - 1].kill()
        start_node(self.cluster, self.follower)
        wait_until(lambda: self.described()["leader_id"] == self.follower, what="the election")

    def regrow(self) -> None:
        """The log grows past what it was."""
        write(self.cluster, self.topic, numbered("new", NEW))

    def described(self) -> dict[str, object]:
        """The partition, as metadata tells it, once somebody answers: nodes die here."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            servers = [n.address for n in self.cluster.nodes if n.running]
            try:
                with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
                    (topic,) = admin.describe_topics([self.topic])
                return dict(topic["partitions"][0])
            except KafkaError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that the tests of this module kill nodes of."""
    with Cluster.start(tmp_path_factory.mktemp("cluster"), nodes=3) as cluster:
        yield cluster


@pytest.fixture
def unclean(three_nodes: Cluster, topic: TopicFactory) -> Unclean:
    """The topic, filled. The node that follows is dead."""
    for node in three_nodes.nodes:
        if not node.running:
            start_node(three_nodes, node.node_id)
    name = topic(
        replicas=2,
        cluster=three_nodes,
        min_insync_replicas=1,
        unclean_leader_election_enable=True,
    )
    made = Unclean(three_nodes, name)
    made.fill()
    return made


def test_a_truncated_log_that_has_grown_again_is_noticed(
    spark: SparkSession, unclean: Unclean, tmp_path: Path
) -> None:
    """After an unclean election below the checkpoint a restart fails with LogTruncated though the
    log is longer now; with failOnDataLoss=false it goes on at the cut, and nothing comes twice."""
    source = kfetch(spark, unclean.cluster, subscribe=unclean.topic, startingOffsets="earliest")
    before = drain(source, tmp_path)
    unclean.truncate()
    unclean.regrow()

    with pytest.raises(StreamingQueryException) as failed:
        drain(source, tmp_path)
    lenient = kfetch(spark, unclean.cluster, subscribe=unclean.topic, failOnDataLoss="false")
    after = drain(lenient, tmp_path)
    again = drain(source, tmp_path)

    assert numbered("kept", KEPT) + numbered("lost", LOST) == before.values
    assert f"LogTruncated: {unclean.topic}-0 was truncated at offset {KEPT} " in str(failed.value)
    assert f"The records up to offset {KEPT + LOST}, of leader epoch" in str(failed.value)
    assert numbered("new", NEW) == after.values
    assert [] == again.rows


@pytest.mark.long
@pytest.mark.parametrize("fail", [True, False])
def test_a_running_query_notices_a_truncation(
    spark: SparkSession, unclean: Unclean, tmp_path: Path, fail: bool
) -> None:
    """The watch of a running query finds the truncation: an error, or every new record once."""
    options = {"failOnDataLoss": str(fail).lower(), "fetchOffset.numRetries": 10}
    source = kfetch(
        spark, unclean.cluster, subscribe=unclean.topic, startingOffsets="earliest", **options
    )

    with running(source, tmp_path) as (query, delivered):
        wait_until(lambda: delivered.count >= KEPT + LOST, query)
        unclean.truncate()
        if fail:
            wait_until(lambda: not query.isActive, what="the query's failure")
            assert f"LogTruncated: {unclean.topic}-0 was truncated at" in str(query.exception())
            return
        unclean.regrow()
        wait_until(lambda: numbered("new", NEW)[-1] in delivered.values, query)

    expected = numbered("kept", KEPT) + numbered("lost", LOST) + numbered("new", NEW)
    assert expected == delivered.values
