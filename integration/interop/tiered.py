"""Kafka with tiered storage: Kafka's LocalTieredStorage keeps remote segments in a directory.

Kafka loads that class from its test jar by ``remote.log.storage.manager.class.path``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kfetch.model import TopicPartition
from kfetch.options import NetworkOptions
from kfetch.wire.cluster import Cluster as Lookups
from kfetch_jobs.jvm.maven import jars
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.settings import HOST, KAFKA

EARLIEST, EARLIEST_LOCAL, LATEST_TIERED = -2, -4, -5
"""Timestamps of ListOffsets (KIP-405, KIP-1005)."""
SEGMENT_BYTES = 1 << 20
"""Kafka 4 allows no smaller segments."""
TOPIC = {
    "remote_storage_enable": True,
    "segment_bytes": SEGMENT_BYTES,
    # Local copies go as soon as a segment is remote.
    "local_retention_bytes": 1,
    "retention_ms": -1,
}
"""Settings of a topic whose closed segments are all remote."""
PATIENCE_S = 60


def properties(directory: Path, nodes: int = 1) -> dict[str, str]:
    """Properties of brokers that share the remote storage in a directory."""
    version = KAFKA[0].rpartition(":")[2]
    (jar,) = jars(f"org.apache.kafka:kafka-storage:jar:test:{version}", transitive=False)
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": (
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
        ),
        "remote.log.storage.manager.class.path": str(jar),
        "rsm.config.dir": str(directory),
        "remote.log.metadata.manager.listener.name": "BROKER",
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(nodes),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
        # The defaults wait for half a minute, and for five minutes.
        "remote.log.manager.task.interval.ms": "300",
        "log.initial.task.delay.ms": "300",
        "log.retention.check.interval.ms": "300",
    }


def offsets(cluster: Cluster, topic: str, timestamp: int) -> dict[int, int]:
    """Each partition's offset for a special timestamp."""
    servers = tuple((HOST, n.port) for n in cluster.nodes if n.running)
    deadline = time.monotonic() + 20
    with closing(Lookups(servers, NetworkOptions())) as lookups:
        leaders = lookups.view([topic], deadline).topics[topic].leaders
        asked = {TopicPartition(topic, number): timestamp for number in leaders}
        return {tp.partition: at.offset for tp, at in lookups.offsets(asked, deadline).items()}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition is true. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited for {what} in vain")
        time.sleep(0.1)


def wait_until_remote(cluster: Cluster, topic: str, segments: int) -> None:
    """Wait until so many segments of each partition are remote, and no longer local."""

    def is_remote() -> bool:
        local = offsets(cluster, topic, EARLIEST_LOCAL)
        remote = offsets(cluster, topic, LATEST_TIERED)
        counts = [len(list(each.glob("*.log"))) for each in storage(cluster).glob(f"{topic}-*")]
        return counts == [segments] * len(local) and all(local[p] == remote[p] + 1 for p in local)

    wait_for(is_remote, "remote segments")


def storage(cluster: Cluster) -> Path:
    """The directory with a directory for each partition."""
    return cluster.directory.parent / "remote" / "kafka-tiered-storage"


def segments(cluster: Cluster, topic: str) -> list[Path]:
    """The remote segments of a topic, in order."""
    return sorted(storage(cluster).glob(f"{topic}-*/*.log"))


@contextmanager
def missing(cluster: Cluster, topic: str) -> Iterator[None]:
    """The remote storage has lost the segments of a topic, until the block ends."""
    with replaced(segments(cluster, topic), lambda _: None):
        yield


@contextmanager
def unreadable(cluster: Cluster, topic: str) -> Iterator[None]:
    """The remote storage can't read the segments of a topic, until the block ends.

    Each is a directory meanwhile: the rights of a file do not stop root.
    """
    with replaced(segments(cluster, topic), Path.mkdir):
        yield


@contextmanager
def replaced(files: list[Path], substitute: Callable[[Path], object]) -> Iterator[None]:
    """Other things are in the place of these files, until the block ends."""
    for file in files:
        file.rename(file.with_suffix(".away"))
        substitute(file)
    try:
        yield
    finally:
        for file in files:
            if file.is_dir():
                file.rmdir()
            file.with_suffix(".away").rename(file)
