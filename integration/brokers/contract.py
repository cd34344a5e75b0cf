"""What every broker must give, whatever its version. The tests and the short run in CI share it."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Protocol

from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import TopicAlreadyExistsError

from integration.brokers.reading import Query
from integration.brokers.versions import API_NAMES, Release
from integration.contract import content
from integration.contract.content import append
from integration.records import producer
from integration.streams import wait_until
from kfetch.errors import BrokerError
from kfetch.spark.options import parse
from kfetch.wire import messages
from kfetch.wire.connection import Connection


class Servers(Protocol):
    """What a cluster of any kind has."""

    @property
    def bootstrap_servers(self) -> str: ...


def mixed_topic(cluster: Servers, name: str) -> str:
    """Make a topic with records of every kind, in every codec: a partition for each."""
    asked = {
        "num_partitions": len(content.CODECS),
        "replication_factor": 1,
        "configs": {"max.message.bytes": str(4 * content.MIB)},
    }
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.create_topics({name: asked}, wait_for_metadata=True)
    wait_known(cluster, name)
    records = content.mixed()
    # Old brokers refuse the dependent blocks in which pyarrow's lz4 writes more than 64 KiB.
    large = [record for record in records if len(record.value or b"") >= content.MIB]
    small = [record for record in records if record not in large]
    settings = {"max_request_size": 4 * content.MIB, "linger_ms": 20}
    for number, codec in enumerate(content.CODECS):
        with producer(cluster, compression_type=codec, **settings) as sender:
            place = TopicPartition(name, number)
            append(sender, place, small[number :: len(content.CODECS)])
            append(sender, place, [] if codec == "lz4" else large)
    return name


def newest_versions(cluster: Servers) -> dict[int, int]:
    """Returns the newest version of each API of ``versions``, as the first broker tells it."""
    options = parse({"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "t"})
    host, port = options.bootstrap[0]
    with closing(Connection.open(host, port, options.network, time.monotonic() + 10)) as opened:
        return {key: opened._versions[key][1] for key in API_NAMES if key in opened._versions}


def check_versions(cluster: Servers, release: Release) -> None:
    """The broker says of itself what ``versions`` says of its release."""
    assert release.apis == newest_versions(cluster)


def check_starts(cluster: Servers, topic: str) -> None:
    """A query starts at the beginning, at the end, or at a time. ``topic`` has a partition of 100
    records, at the times 1000 to 1099."""
    starts = {
        "earliest": {"startingOffsets": "earliest"},
        "latest": {"startingOffsets": "latest"},
        "time": {"startingTimestamp": "1040"},
    }
    found = {}
    for name, options in starts.items():
        with Query(cluster, topic, **options) as query:
            found[name] = [position.offset for position in query.at.positions.values()]
    assert {"earliest": [0], "latest": [100], "time": [40]} == found


def recreate(cluster: Servers, topic: str) -> None:
    """Delete a topic of one partition and create it again."""

    def created() -> bool:
        try:
            admin.create_topics({topic: asked}, wait_for_metadata=True)
        except TopicAlreadyExistsError:  # with ZooKeeper, its end takes longer than its metadata
            return False
        return True

    asked = {"num_partitions": 1, "replication_factor": 1}
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.delete_topics([topic])
        wait_until(
            lambda: all(topic not in known for known in known_topics(cluster)),
            what="the end of the topic",
        )
        wait_until(created, what="the new topic")
    wait_known(cluster, topic)


def known_topics(cluster: Servers) -> list[set[str]]:
    """Returns the topics that each broker knows, without those that lack a leader."""
    options = parse({"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "t"})
    answers = []
    for host, port in options.bootstrap:
        deadline = time.monotonic() + 10
        with closing(Connection.open(host, port, options.network, deadline)) as opened:
            topics = messages.metadata(opened, None, deadline).topics.values()
            answers.append({topic.name for topic in topics if all(topic.leaders.values())})
    return answers


def wait_known(cluster: Servers, topic: str) -> None:
    """Wait until each broker knows a new topic and its leaders: they learn it one by one."""

    def known() -> bool:
        try:
            return all(topic in names for names in known_topics(cluster))
        except BrokerError:  # while it has no leader yet
            return False

    wait_until(known, what=f"topic {topic} at every broker")


def wait_in_sync(cluster: Servers, topic: str, *, replicas: int) -> None:
    """Wait until each partition of a topic has so many replicas in sync."""

    def in_sync() -> bool:
        (described,) = admin.describe_topics([topic])
        return all(len(one["isr_nodes"]) == replicas for one in described["partitions"])

    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        wait_until(in_sync, what="all replicas")
