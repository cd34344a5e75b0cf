"""One little Kafka, one query, a budget for them, the two ends of a channel, and an executor."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kfetch.agent import home, launch
from kfetch.agent.budget import Budget
from kfetch.agent.channel import Channel
from kfetch.agent.home import AgentFiles, ProcessIdentity
from kfetch.agent.shared_query import SharedQuery
from tests.kfetch.agent.helpers import BATCHES, T0, T1, options
from tests.kfetch.wire.little import LittleKafka


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """One node; two partitions of six batches with two records each."""
    with LittleKafka(1) as running:
        running.create("t", 2)
        for tp in (T0, T1):
            for n in range(BATCHES):
                running.log(tp).append(b"%d %da" % (tp.partition, n), b"b")
        yield running


@pytest.fixture
def budget() -> Budget:
    """More than the tests need."""
    return Budget(64 << 20)


@pytest.fixture
def query(kafka: LittleKafka, budget: Budget) -> Iterator[SharedQuery]:
    """A query that tasks share."""
    with closing(SharedQuery("q", options(kafka), budget)) as shared:
        yield shared


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    """The worker's and the agent's end of a channel."""
    worker, agent = (Channel(end, 5.0) for end in socket.socketpair(socket.AF_UNIX))
    yield worker, agent
    worker.close()
    agent.close()


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process that plays the executor, and a runtime directory of the test's own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with subprocess.Popen(["sleep", "120"]) as process:
        yield process
        process.kill()
    for agent in launch._started:
        agent.wait(60)


@pytest.fixture
def owner(executor: subprocess.Popen[bytes]) -> ProcessIdentity:
    """The executor as its agent knows it."""
    return ProcessIdentity.of(executor.pid)


@pytest.fixture
def files(owner: ProcessIdentity) -> AgentFiles:
    """The files of the owner's agent."""
    return home.files_of(owner)
