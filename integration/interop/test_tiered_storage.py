"""Tiered storage (KIP-405): remote segments are read, expire, fail for a while and come back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from integration.agent.reader import Reader
from integration.conftest import TopicFactory
from integration.faults.test_truncation import KEPT, LOST, NEW, Unclean
from integration.interop import tiered
from integration.interop.servers import Place, produce
from integration.interop.test_mock_cluster import read
from integration.streams import drain, kfetch, running, wait_until
from kfetch.errors import LogTruncated, ReadStalled, RecordsExpired
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long]

RECORDS, SIZE = 6000, 1000
"""Each of two partitions gets 3 MB: two remote segments, and a local one."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One broker with remote storage in a directory beside its own."""
    directory = tmp_path_factory.mktemp("tiered")
    (directory / "remote").mkdir()
    properties = tiered.properties(directory / "remote")
    with Cluster.start(directory / "broker", properties=properties) as cluster:
        yield cluster


@pytest.fixture
def filled(broker: Cluster, topic: TopicFactory) -> tuple[str, dict[Place, bytes]]:
    """A topic of two partitions with two remote segments each, and its records."""
    name = topic(2, cluster=broker, **tiered.TOPIC)
    sizes = [(number % 2, SIZE) for number in range(RECORDS)]
    written = produce(broker, name, sizes, **{"batch.size": 50_000})
    tiered.wait_until_remote(broker, name, segments=2)
    return name, written


def reader(broker: Cluster, topic: str, directory: Path, **options: str) -> Reader:
    """A reader from the earliest offset, in this process."""
    dotted = {name.replace("__", "."): text for name, text in options.items()}
    return Reader(broker, topic, "inline", directory, **dotted)


def test_remote_segments_are_read(
    broker: Cluster, filled: tuple[str, dict[Place, bytes]], tmp_path: Path
) -> None:
    """The earliest offset is that of the remote log, and every record comes once."""
    name, written = filled
    local = tiered.offsets(broker, name, tiered.EARLIEST_LOCAL)
    with closing(reader(broker, name, tmp_path)) as opened:
        rows = read(opened)

    assert {0: 0, 1: 0} == tiered.offsets(broker, name, tiered.EARLIEST)
    assert all(offset > 0 for offset in local.values())
    assert sorted(written.items()) == rows


def test_a_start_by_time_below_the_local_log(
    broker: Cluster, filled: tuple[str, dict[Place, bytes]], tmp_path: Path
) -> None:
    """The broker finds a timestamp in a remote segment, and reading starts there."""
    name, _ = filled
    later = produce(broker, name, [(0, SIZE)] * 10)
    with closing(reader(broker, name, tmp_path, startingTimestamp="1")) as opened:
        rows = read(opened)

    assert 0 == rows[0][0][1]
    assert RECORDS + len(later) == len(rows)


def test_aborted_transactions_of_remote_segments(
    broker: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Under read_committed, aborted records of remote segments are left out."""
    confluent = pytest.importorskip("confluent_kafka")
    name = topic(cluster=broker, **tiered.TOPIC)
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    sender = confluent.Producer(servers | {"transactional.id": name})
    sender.init_transactions(30)
    for turn in range(30):
        sender.begin_transaction()
        for number in range(100):
            sender.produce(name, f"{turn} {number}".ljust(SIZE).encode())
        sender.flush(30)  # so that aborted records are in the log, too
        finish = sender.abort_transaction if turn % 3 else sender.commit_transaction
        finish(30)
    tiered.wait_until_remote(broker, name, segments=2)

    committed = {"kafka.isolation.level": "read_committed"}
    with closing(reader(broker, name, tmp_path, **committed)) as opened:
        values = [value.split() for _, value in read(opened)]

    expected = [(turn, number) for turn in range(0, 30, 3) for number in range(100)]
    assert expected == [(int(turn), int(number)) for turn, number in values]


@pytest.mark.parametrize("damage", [tiered.missing, tiered.unreadable])
def test_errors_of_the_storage_are_retried(
    broker: Cluster,
    filled: tuple[str, dict[Place, bytes]],
    tmp_path: Path,
    damage: Callable[[Cluster, str], AbstractContextManager[None]],
) -> None:
    """While the storage fails, the read waits. Once it works again, every record comes once."""
    name, written = filled
    rows: list[tuple[Place, bytes]] = []
    with closing(reader(broker, name, tmp_path)) as opened:
        thread = threading.Thread(target=lambda: rows.extend(read(opened)))
        with damage(broker, name):
            thread.start()
            thread.join(4)
            assert thread.is_alive()
        thread.join(60)

    assert sorted(written.items()) == rows


@pytest.mark.parametrize("damage", [tiered.missing, tiered.unreadable])
def test_an_error_that_stays_is_named(
    broker: Cluster,
    filled: tuple[str, dict[Place, bytes]],
    tmp_path: Path,
    damage: Callable[[Cluster, str], AbstractContextManager[None]],
) -> None:
    """A read gives up after ``kafkaConsumer.pollTimeoutMs``, and names partition, offset, cause."""
    name, _ = filled
    patience = {"kafkaConsumer__pollTimeoutMs": "4000"}
    with (
        closing(reader(broker, name, tmp_path, **patience)) as opened,
        damage(broker, name),
        pytest.raises(ReadStalled) as failed,
    ):
        read(opened)

    message = str(failed.value)
    assert f"{name}-" in message
    assert "no record from offset 0 on within 4 s (kafkaConsumer.pollTimeoutMs)" in message
    assert "the broker answered UNKNOWN_SERVER_ERROR (-1)" in message


def test_records_that_expire_remotely(
    broker: Cluster, filled: tuple[str, dict[Place, bytes]], tmp_path: Path
) -> None:
    """Retention deletes remote segments and moves the log start: RecordsExpired, or reading goes on
    at the new start if ``failOnDataLoss`` is false."""
    name, written = filled
    with (
        closing(reader(broker, name, tmp_path / "strict")) as strict,
        closing(reader(broker, name, tmp_path / "mild", failOnDataLoss="false")) as mild,
    ):
        expire(broker, name)
        starts = tiered.offsets(broker, name, tiered.EARLIEST)
        with pytest.raises(RecordsExpired, match=f"{name}-0"):
            read(strict)
        rows = read(mild)

    assert all(start > 0 for start in starts.values())
    assert [(at, value) for at, value in sorted(written.items()) if at[1] >= starts[at[0]]] == rows


def expire(broker: Cluster, topic: str) -> None:
    """Let all remote segments of a topic expire, and wait until the log starts have moved."""
    limits = {"retention.bytes": str(tiered.SEGMENT_BYTES // 2), "local.retention.bytes": "1"}
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=limits)
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_configs([resource])
    tiered.wait_for(
        lambda: all(tiered.offsets(broker, topic, tiered.EARLIEST).values()), "a new log start"
    )


def test_spark(
    spark: SparkSession,
    broker: Cluster,
    filled: tuple[str, dict[Place, bytes]],
    tmp_path: Path,
) -> None:
    """A drain reads remote and local segments. A running query waits while the storage fails."""
    name, written = filled
    source = kfetch(
        spark, broker, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=1500
    )
    drained = drain(source, tmp_path / "drain")
    assert sorted(written) == drained.places

    with ExitStack() as stack:
        outage = stack.enter_context(ExitStack())
        outage.enter_context(tiered.missing(broker, name))
        query, delivered = stack.enter_context(running(source, tmp_path / "run"))
        wait_until(lambda: remote_failures(broker, name), query)
        outage.close()
        wait_until(lambda: delivered.count >= len(written), query)

    assert sorted(written) == delivered.places


def test_spark_names_the_error(
    spark: SparkSession,
    broker: Cluster,
    filled: tuple[str, dict[Place, bytes]],
    tmp_path: Path,
) -> None:
    """A query fails with the partition, the offset and the broker's error."""
    name, _ = filled
    patience = {"kafkaConsumer.pollTimeoutMs": 3000}
    source = kfetch(spark, broker, subscribe=name, startingOffsets="earliest", **patience)
    with tiered.missing(broker, name), pytest.raises(StreamingQueryException) as failed:
        drain(source, tmp_path)

    assert "ReadStalled" in str(failed.value)
    assert "UNKNOWN_SERVER_ERROR (-1)" in str(failed.value)


def remote_failures(broker: Cluster, topic: str) -> list[str]:
    """The lines of the broker's log about reads of a topic that the remote storage failed."""
    lines = broker.nodes[0].log.read_text().splitlines()
    return [line for line in lines if "reading the remote data" in line and topic in line]


def test_a_truncated_log_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, topic: TopicFactory, tmp_path: Path
) -> None:
    """After an unclean election, the local end of a tiered log is truncated: LogTruncated."""
    directory = tmp_path_factory.mktemp("tiered")
    (directory / "remote").mkdir()
    properties = tiered.properties(directory / "remote", nodes=3)
    with Cluster.start(directory / "brokers", nodes=3, properties=properties) as cluster:
        name = topic(
            replicas=2,
            cluster=cluster,
            min_insync_replicas=1,
            unclean_leader_election_enable=True,
            **tiered.TOPIC,
        )
        remote = produce(cluster, name, [(0, SIZE)] * 3000, **{"batch.size": 50_000})
        tiered.wait_until_remote(cluster, name, segments=2)
        log = Unclean(cluster, name)
        log.fill()
        with closing(reader(cluster, name, tmp_path / "strict")) as strict:
            assert len(remote) + KEPT + LOST == len(read(strict))
            log.truncate()
            log.regrow()
            with pytest.raises(LogTruncated, match=f"{name}-0 was truncated at offset"):
                strict.read()
        with closing(reader(cluster, name, tmp_path / "again")) as again:
            assert len(remote) + KEPT + NEW == len(read(again))
