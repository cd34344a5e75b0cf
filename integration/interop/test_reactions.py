"""The table of broker errors is that of Kafka's client; librdkafka's mock cluster is readable."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from integration.interop.java import HERE, java
from kfetch.model import TopicPartition
from kfetch.options import NetworkOptions
from kfetch.reactions import NAMES, Api
from kfetch.wire.cluster import Cluster
from tools.broker_reactions import kafkas_reaction

pytestmark = pytest.mark.integration


def test_the_table_has_the_reactions_of_kafkas_client() -> None:
    """Codes, names and reactions are those of Kafka's classes Errors and FetchCollector.

    Two codes of Metadata are left out. Other classes handle them: TopicMetadataFetcher skips
    UNKNOWN_TOPIC_OR_PARTITION (3), and NetworkClient starts again at REBOOTSTRAP_REQUIRED (129).
    """
    rows = [line.split() for line in java(HERE / "Reactions.java").splitlines()]

    assert {int(code): name for code, name, *_ in rows} == {c: n for c, n in NAMES.items() if c}
    for text, name, retriable, fetch in rows:
        code = int(text)
        by_errors = "RETRY" if retriable == "true" else "FAIL"
        assert (name, fetch) == (name, kafkas_reaction(Api.FETCH, code).name)
        metadata = [] if code in (3, 129) else [Api.METADATA]
        for api in (Api.LIST_OFFSETS, Api.EPOCH_ENDS, *metadata):
            assert (name, by_errors) == (name, kafkas_reaction(api, code).name)


def test_librdkafkas_mock_cluster() -> None:
    """kfetch reads metadata of librdkafka's mock cluster, whose UNSUPPORTED_VERSION is compact."""
    confluent = pytest.importorskip("confluent_kafka")
    mock = confluent.Producer({"test.mock.num.brokers": 2, "bootstrap.servers": "mock"})
    mock.produce("clicks", b"one")
    assert 0 == mock.flush(10)
    servers = tuple((b.host, b.port) for b in mock.list_topics(timeout=10).brokers.values())
    deadline = time.monotonic() + 10
    with closing(Cluster(servers, NetworkOptions())) as cluster:
        topic = cluster.view(["clicks"], deadline).topics["clicks"]
        partitions = [TopicPartition("clicks", number) for number in topic.leaders]

        ends = cluster.offsets(dict.fromkeys(partitions, -1), deadline)
    assert 1 == sum(end.offset for end in ends.values())
