"""Three brokers in three racks: tasks read in their rack, and at the leaders while it is down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from integration.agent.requests import fetches
from integration.conftest import TopicFactory
from integration.faults.test_broker import PARTITIONS, arriving, every, grown
from integration.nodes import start_node
from integration.records import log_ends
from integration.streams import kfetch, running, wait_until
from kfetch.admin import agents
from kfetch_jobs.kafka import Cluster, settings

if TYPE_CHECKING:
    from kfetch_jobs.kafka.settings import NodePorts

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

CLIENT = "kfetch-racks"
PERIOD_MS = 3000
NEAR = 2
"""The node in the executor's rack."""


@pytest.fixture
def racks(kafka_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Three brokers in the racks r1, r2 and r3. They log every request."""
    properties = settings.server_properties

    def with_rack(
        node_id: int,
        nodes: Sequence[NodePorts],
        data: Path,
        extra: Mapping[str, str],
        *secured: Mapping[str, str],
    ) -> str:
        in_rack = {**extra, "broker.rack": f"r{node_id}"}
        return properties(node_id, nodes, data, in_rack, *secured)

    monkeypatch.setattr(settings, "server_properties", with_rack)
    monkeypatch.setenv("KFETCH_BROKER_REQUESTS", "DEBUG")
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    return kafka_cluster(nodes=3, replica_selector_class=selector)


@pytest.mark.long
def test_records_stay_in_the_rack(
    spark: SparkSession, racks: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """In steady state no record byte comes from another rack. While the broker of the rack is
    down, the leaders are read; when it is back, it is read again. Each record comes once."""
    name = topic(PARTITIONS, replicas=3, cluster=racks, min_insync_replicas=1)
    options = {
        "kafka.client.id": CLIENT,
        "kafka.client.rack": f"r{NEAR}",
        "kafka.metadata.max.age.ms": PERIOD_MS,
        "fetchOffset.numRetries": 10,
    }
    source = kfetch(spark, racks, subscribe=name, startingOffsets="earliest", **options)

    with running(source.select("partition", "offset"), tmp_path) as (query, delivered):
        with arriving(racks, name):
            wait_until(lambda: delivered.count > 1000, query)
            before = record_bytes(racks)
            more = delivered.count + 2000
            wait_until(lambda: delivered.count > more, query)
            steady = record_bytes(racks) - before
            assert {NEAR} == set(steady), steady
            assert 0 == totals(name)

            racks.nodes[NEAR - 1].kill()
            furthest = delivered.furthest
            wait_until(lambda: grown(furthest, delivered.furthest), query)
            assert totals(name) > 0

            start_node(racks, NEAR)
            wait_until(lambda: stays_near(racks, name), query)
            furthest = delivered.furthest
            wait_until(lambda: grown(furthest, delivered.furthest), query)
        ends = log_ends(racks, name)
        wait_until(lambda: delivered.count >= sum(ends.values()), query)

    assert every(ends) == delivered.places


def record_bytes(cluster: Cluster) -> Counter[int]:
    """Bytes of records that each node has sent to the tasks, by the nodes' own logs."""
    sent: Counter[int] = Counter()
    for fetch in fetches(cluster, CLIENT):
        sent[fetch.node] += fetch.record_bytes
    return sent


def totals(topic: str) -> int:
    """Bytes of records from other racks, as ``kfetch agents`` shows them."""
    queries = [query for agent in agents.find() for query in agent.queries]
    return sum(query.totals.other_rack_bytes for query in queries if topic in query.topics)


def stays_near(cluster: Cluster, topic: str) -> bool:
    """Whether a micro-batch or more came from the near node alone."""
    near, far = record_bytes(cluster)[NEAR], totals(topic)
    wait_until(lambda: record_bytes(cluster)[NEAR] > near or totals(topic) > far)
    return totals(topic) == far
