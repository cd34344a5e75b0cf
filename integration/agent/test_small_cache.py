"""A session cache too small for all consumers: reading goes on, and lost sessions are counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from integration.agent.reader import Reader
from integration.conftest import TopicFactory
from integration.records import log_ends, producer
from kfetch.fetch.fetcher import Fetcher
from kfetch.fetch.totals import read_stats
from kfetch.model import FetchPosition, TopicPartition
from kfetch.options import FetchOptions, NetworkOptions
from kfetch.spark.options import parse
from kfetch.watch.lookups import OffsetLookup
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

PARTITIONS = 32
ROUNDS = 25
STRANGERS = 30


@contextmanager
def strangers(cluster: Cluster, topic: str) -> Iterator[threading.Event]:
    """Thirty other consumers whose sessions fill the cache before the block begins.

    A new session of our size evicts no session that is younger than two minutes, so the broker
    refuses ours. After the event is set, the others come and go. Then ours may be opened or not.
    """
    go, over = threading.Event(), threading.Event()
    with ExitStack() as stack:
        first = opened(cluster, topic, stack)

        # The cache is full: the broker refuses the next session.
        assert sum(one.totals.stats().sessions_refused for one in first) > 0
        with ThreadPoolExecutor(1) as pool:
            churning = pool.submit(churn, cluster, topic, stack.pop_all(), go, over)
            try:
                yield go
            finally:
                over.set()
                go.set()
                churning.result()


def churn(
    cluster: Cluster, topic: str, first: ExitStack, go: threading.Event, over: threading.Event
) -> None:
    """Keep the first sessions until the event ``go``, then open and close others."""
    with first:
        go.wait()
    while not over.is_set():
        with ExitStack() as stack:
            opened(cluster, topic, stack)


def opened(cluster: Cluster, topic: str, stack: ExitStack) -> list[Fetcher]:
    """Returns consumers that have each requested a session. The stack closes them."""
    options = parse({"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic})
    with closing(OffsetLookup(options)) as log:
        view = log.cluster_view()
    (broker,) = view.brokers.values()
    fetchers = []
    for _ in range(STRANGERS):
        fetcher = Fetcher(broker, FetchOptions(max_wait_ms=0, max_bytes=1), NetworkOptions())
        fetchers.append(fetcher)
        stack.callback(fetcher.close)
        for p in range(PARTITIONS):
            position = FetchPosition(topic_id=view.topics[topic].topic_id, offset=0, max_bytes=1)
            fetcher.set_position(TopicPartition(topic, p), position)
        fetcher.send(time.monotonic() + 10)
        fetcher.receive(time.monotonic() + 10)
    return fetchers


# 16 slots are two in each of eight shards. With fewer than eight there is none.
@pytest.mark.parametrize(
    ("slots", "agent"),
    [
        (16, "process"),
        (4, "inline"),
        pytest.param(16, "inline", marks=pytest.mark.long),
        pytest.param(4, "process", marks=pytest.mark.long),
    ],
)
def test_reading_without_a_safe_session(
    slots: int,
    agent: str,
    kafka_cluster: Callable[..., Cluster],
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every record is read once, whether the broker evicts sessions, refuses them or has none."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    cluster = kafka_cluster(1, max_incremental_fetch_session_cache_slots=slots)
    name = topic(PARTITIONS, cluster=cluster)
    seen: list[tuple[int, int]] = []
    with (
        strangers(cluster, name) as go,
        producer(cluster) as sender,
        closing(Reader(cluster, name, agent, tmp_path / "stats")) as reader,
    ):
        for number in range(ROUNDS):
            for partition in range(PARTITIONS):
                sender.send(name, b"%d" % number, partition=partition)
            sender.flush()
            seen += reader.read()
            go.set()
    ends = log_ends(cluster, name)
    totals = read_stats(tmp_path / "stats")

    assert [(p, o) for p, end in sorted(ends.items()) for o in range(end)] == sorted(seen)
    assert ROUNDS * PARTITIONS == totals.records
    assert totals.sessions_refused > 0
