"""The driver's fetch sessions, as the broker saw them: idle, ended, left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from integration.agent.requests import Fetch, fetches
from integration.checkpoints import batches, logged
from integration.conftest import TopicFactory
from integration.records import write
from integration.streams import kfetch, running, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One broker that logs every request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KFETCH_BROKER_REQUESTS", "DEBUG")
        with Cluster.start(tmp_path_factory.mktemp("watched")) as cluster:
            yield cluster


def watched(cluster: Cluster, client: str) -> list[Fetch]:
    """The fetches of a query's driver."""
    return fetches(cluster, f"{client}-watch")


def test_a_stopped_query_leaves_no_session(
    spark: SparkSession, broker: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """query.stop() closes the driver's session: its last request carries epoch -1."""
    name = topic(3, cluster=broker)
    source = kfetch(spark, broker, subscribe=name, **{"kafka.client.id": "stopped"})

    with running(source, tmp_path) as (query, _):
        wait_until(lambda: any(f.epoch > 0 for f in watched(broker, "stopped")), query)
    wait_until(lambda: watched(broker, "stopped")[-1].epoch == -1, what="the closing request")

    requests = watched(broker, "stopped")
    assert [3] == [f.partitions for f in requests if f.opens]
    assert {0} == {f.partitions for f in requests if not f.opens}
    assert requests[1].session == requests[-1].session


def test_a_killed_query_leaves_one_session(
    spark: SparkSession, broker: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """After a kill the session stays in its slot until the broker evicts it: the next run opens a
    session of its own, and no request closes the old one."""
    name = topic(2, cluster=broker)
    options = {"kafka.client.id": "killed", "startingOffsets": "earliest"}
    source = kfetch(spark, broker, subscribe=name, **options)
    before = source_processes()
    with running(source, tmp_path) as (query, delivered):
        wait_until(lambda: watched(broker, "killed"), query)
        write(broker, name, ["a"])
        wait_until(lambda: delivered.count, query)
        (driver,) = set(source_processes()) - set(before)
        os.kill(driver, signal.SIGKILL)
        wait_until(lambda: not query.isActive, what="the end of the query")
    with running(source, tmp_path) as (query, _):
        wait_until(lambda: len(beginnings(broker, "killed")) == 2, query)

    first, second = beginnings(broker, "killed")
    assert (0, 0) == (first.session, second.session)
    assert first.replied_session != second.replied_session
    old = [f for f in watched(broker, "killed") if f.session == first.replied_session]
    assert old
    assert {0, -1}.isdisjoint(f.epoch for f in old)
    last = batches(tmp_path, "offsets")[-1]
    assert "sessions" not in logged(tmp_path, last)


def beginnings(cluster: Cluster, client: str) -> list[Fetch]:
    """The fetches that opened a session."""
    return [fetch for fetch in watched(cluster, client) if fetch.opens]


def source_processes() -> list[int]:
    """The processes in which Spark runs the driver's half of Python sources."""
    return [child.pid for child in psutil.Process().children(recursive=True) if plans(child)]


def plans(process: psutil.Process) -> bool:
    """Whether a process is one of them."""
    try:
        return any("python_streaming_source_runner" in word for word in process.cmdline())
    except psutil.Error:  # it has ended meanwhile
        return False
