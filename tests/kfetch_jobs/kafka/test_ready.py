"""Ports, and brokers that answer."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kfetch_jobs.errors import PortTaken
from kfetch_jobs.kafka import Cluster, ready
from kfetch_jobs.kafka.state import NodeState, State, load, save


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_taken_port(listener: int) -> None:
    """The sentence names the node and the port."""
    with pytest.raises(
        PortTaken, match=f"node 2 needs port {listener}, and another process uses it"
    ):
        ready.check_free(2, listener)


def test_a_port_of_a_kafka_of_another_directory(listener: int, tmp_path: Path) -> None:
    """The error names the directory of kfetch's broker, unless its state names another process.
    A refused start leaves no state."""
    there = tmp_path / "there"
    mark = f"-Dkfetch.logs={there / 'node-1' / 'logs'}"
    told = f"node 1 needs port {listener}, and kfetch's broker of {there} uses it: use that one"
    command = [sys.executable, "-c", "print(flush=True); input()", mark]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()  # until then, its command line may be that of this process
        there.mkdir()
        began = psutil.Process(other.pid).create_time()
        node = NodeState(node_id=1, port=listener, controller_port=1, pid=other.pid, started=began)
        save(there, State(cluster_id="abc", nodes=(node,)))
        with pytest.raises(PortTaken, match=re.escape(told)):
            Cluster.start(tmp_path / "here", port=listener)
        save(there, State(cluster_id="abc", nodes=(replace(node, pid=1),)))
        with pytest.raises(PortTaken, match="another process uses it"):
            Cluster.start(tmp_path / "here", port=listener)
        other.communicate(b"\n")

    assert load(tmp_path / "here") is None
    assert ["start.lock"] == [path.name for path in (tmp_path / "here").iterdir()]


def test_free_ports_are_free_and_apart() -> None:
    """A server can listen on every port, and none is in the range of outgoing connections."""
    ports = ready.free_ports(6)
    assert len(set(ports)) == 6
    assert all(ready.is_free(port) and 20000 <= port < 32000 for port in ports)


# kafka-python's import uses functions that Python 3.11 deprecates (3.13 takes that back).
@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
def test_a_port_without_a_broker_knows_none(listener: int) -> None:
    """Neither a closed port nor a silent server counts as a broker."""
    (closed,) = ready.free_ports(1)
    assert ready.known_brokers(closed, 0.1) == set()
    assert ready.known_brokers(listener, 0.1) == set()
