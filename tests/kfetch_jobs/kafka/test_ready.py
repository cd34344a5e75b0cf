"""Finding free ports, and asking the broker at a port which brokers it knows."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfetch_jobs.errors import PortTaken
from kfetch_jobs.kafka import Cluster, ready
from kfetch_jobs.kafka.state import load


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_the_error_of_a_taken_port(listener: int) -> None:
    """The error names the node and the port."""
    with pytest.raises(
        PortTaken, match=f"node 2 needs port {listener}, and another process uses it"
    ):
        ready.check_free(2, listener)


def test_a_refused_start_leaves_no_state(listener: int, tmp_path: Path) -> None:
    """A start that finds its port taken leaves only the lock file."""
    with pytest.raises(PortTaken, match="another process uses it"):
        Cluster.start(tmp_path / "here", port=listener)

    assert load(tmp_path / "here") is None
    assert ["start.lock"] == [path.name for path in (tmp_path / "here").iterdir()]


def test_free_ports_are_free_and_apart() -> None:
    """A server can listen on every port, and none is in the range of outgoing connections."""
    ports = ready.free_ports(6)
    assert len(set(ports)) == 6
    assert all(ready.is_free(port) and 20000 <= port < 32000 for port in ports)


# kafka-python's import uses functions that Python 3.11 deprecates (Python 3.13 no longer does).
@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
def test_a_port_without_a_broker(listener: int) -> None:
    """A closed port and a silent server name no brokers."""
    (closed,) = ready.free_ports(1)
    assert ready.known_brokers(closed, 0.1) == set()
    assert ready.known_brokers(listener, 0.1) == set()
