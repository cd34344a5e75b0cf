"""A cluster of three nodes goes from Kafka 3.9 to 4.x, a node at a time, while a query reads it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from pyspark.sql import SparkSession

from integration.brokers.cluster import ReleaseCluster
from integration.brokers.contract import newest_versions, wait_in_sync, wait_known
from integration.brokers.sending import sending
from integration.brokers.versions import RELEASES, release
from integration.conftest import TopicFactory
from integration.faults.test_broker import PARTITIONS, every, grown
from integration.records import log_ends
from integration.streams import kfetch, running, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.brokers, pytest.mark.timeout(900)]

BEFORE, AFTER = release("3.9"), RELEASES[-1]


def test_an_upgrade_loses_and_repeats_nothing(
    spark: SparkSession, topic: TopicFactory, tmp_path: Path
) -> None:
    """A streaming query over nodes that are upgraded one after the other, and whose metadata
    version is raised at the end, delivers each acknowledged record once."""
    started = ReleaseCluster.start(tmp_path / "kafka", BEFORE, brokers=3, combined=True)
    with started as cluster:
        name = topic(PARTITIONS, replicas=3, cluster=cluster, min_insync_replicas=2)
        wait_known(cluster, name)
        options = {"startingOffsets": "earliest", "fetchOffset.numRetries": 10}
        source = kfetch(spark, cluster, subscribe=name, **options).select(
            "partition", "offset", "value"
        )
        with running(source, tmp_path / "checkpoint") as (query, delivered):
            with sending(cluster, name, PARTITIONS) as acknowledged:
                wait_until(lambda: delivered.count > 1000, query)
                for node in cluster.nodes:
                    wait_in_sync(cluster, name, replicas=3)
                    node.upgrade(AFTER)
                    furthest = delivered.furthest
                    wait_until(lambda furthest=furthest: grown(furthest, delivered.furthest), query)
                raise_metadata_version(cluster)
                furthest = delivered.furthest
                wait_until(lambda: grown(furthest, delivered.furthest), query)
            ends = log_ends(cluster, name)
            wait_until(lambda: delivered.count >= sum(ends.values()), query)

        assert AFTER.apis == newest_versions(cluster)
    assert every(ends) == delivered.places
    assert sorted(acknowledged) == delivered.values


def raise_metadata_version(cluster: ReleaseCluster) -> None:
    """Let the cluster use the newest version of its metadata, as `kafka-features upgrade` does."""
    feature = "metadata.version"
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        before = described(admin)[feature]
        newest = before["supported"][1]
        assert before["finalized"][1] < newest
        assert {feature: "OK"} == admin.update_features({feature: newest})
        wait_until(lambda: newest == described(admin)[feature]["finalized"][1], what=feature)


def described(admin: KafkaAdminClient) -> dict[str, dict[str, Any]]:
    """The features that the cluster supports and uses."""
    return dict(admin.describe_features())
