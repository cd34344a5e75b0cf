"""One fetch session per broker and executor, counted at the brokers. Agents exit in time."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from integration.agent.processes import agents_of, all_ended
from integration.agent.requests import Fetch, fetches
from integration.streams import PATIENCE_S
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

ENOUGH = 20
"""So many fetches at each broker are a steady state."""
ROOT = Path(__file__).parents[2]


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition is true. Returns whether it was in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers that log every request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KFETCH_BROKER_REQUESTS", "DEBUG")
        with Cluster.start(tmp_path_factory.mktemp("three"), nodes=3) as cluster:
            yield cluster


@contextmanager
def steady_data(cluster: Cluster, topic: str) -> Iterator[None]:
    """A producer that writes to every partition all the time."""
    from kafka import KafkaProducer

    over = threading.Event()

    def produce() -> None:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=100)
        number = 0
        while not over.wait(0.1):
            for _ in range(20):
                producer.send(topic, value=b"x" * 100, partition=number % 96)
                number += 1
        producer.close()

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def running_query(cluster: Cluster, topic: str, client_id: str) -> Iterator[subprocess.Popen[str]]:
    """A running query with two executors. Afterwards all of its processes are killed."""
    words = [cluster.bootstrap_servers, topic, client_id]
    command = [sys.executable, "-m", "integration.agent.query", *words]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert "running\n" == process.stdout.readline()
            yield process
        finally:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()


def say(process: subprocess.Popen[str], answer: str) -> None:
    """Let the query's script take its next step, and wait for its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()

    assert f"{answer}\n" == process.stdout.readline()


def test_one_session_and_connection_per_broker_and_executor(
    brokers: Cluster, topic: Callable[..., str]
) -> None:
    """Two executors over three brokers make two sessions and two connections at each broker.

    When the query has ended, its sessions are closed after the lease; when Spark has, no agent
    is left.
    """
    name = topic(96, cluster=brokers)
    client = "kfetch-steady"
    with steady_data(brokers, name), running_query(brokers, name, client) as query:
        assert wait_until(lambda: is_steady(brokers, client), PATIENCE_S)
        seen = fetches(brokers, client)
        agents = agents_of(psutil.Process(query.pid))
        say(query, "stopped")
        assert wait_until(lambda: open_sessions(fetches(brokers, client)) == set(), PATIENCE_S)
        say(query, "over")
        assert wait_until(lambda: all_ended(agents), PATIENCE_S)

    assert 2 == len(agents)
    for node in brokers.nodes:
        here = [fetch for fetch in seen if fetch.node == node.node_id]
        assert len([fetch for fetch in here if fetch.opens]) <= 3
        assert len({fetch.connection for fetch in here}) <= 4


def is_steady(cluster: Cluster, client: str) -> bool:
    """Returns whether the sessions at each broker have been used for a while."""
    nodes = [fetch.node for fetch in fetches(cluster, client) if not fetch.opens]
    return all(nodes.count(node.node_id) >= ENOUGH for node in cluster.nodes)


def open_sessions(seen: list[Fetch]) -> set[tuple[int, int]]:
    """Returns the sessions that were opened and not closed, as (broker, session id)."""
    opened: set[tuple[int, int]] = set()
    for fetch in seen:
        if fetch.epoch <= 0:
            opened.discard((fetch.node, fetch.session))
        if fetch.opens:
            opened.add((fetch.node, fetch.replied_session))
    return opened


@pytest.mark.long  # shorter tests end Spark, and check that its agents end
@pytest.mark.parametrize("victim", ["executors", "driver"])
def test_agents_leave_with_a_killed_jvm(
    brokers: Cluster, topic: Callable[..., str], victim: str
) -> None:
    """Five seconds after SIGKILL of the executors, or of the driver, none of their agents lives."""
    name = topic(96, cluster=brokers)
    with steady_data(brokers, name), running_query(brokers, name, f"kfetch-{victim}") as query:
        agents = agents_of(psutil.Process(query.pid))
        assert agents
        for process in jvms(query, victim):
            process.kill()
        ended = wait_until(lambda: all_ended(agents), 5)

    assert ended


def jvms(query: subprocess.Popen[str], victim: str) -> list[psutil.Process]:
    """The executors' JVMs, or the driver's with the process that started it."""
    java = [p for p in psutil.Process(query.pid).children(recursive=True) if p.name() == "java"]
    executors = [p for p in java if "CoarseGrainedExecutorBackend" in " ".join(p.cmdline())]
    if victim == "executors":
        return executors
    return [psutil.Process(query.pid), *(p for p in java if p not in executors)]
