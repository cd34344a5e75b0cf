"""Simulated connections: the errors, the order and the deadlines of the real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from kfetch.errors import ConnectionLost, UnsupportedVersion
from kfetch.options import NetworkOptions
from simulation.cluster.cluster import Cluster
from simulation.cluster.releases import KAFKA_2_8
from simulation.kernel import Kernel, Process
from simulation.network import Network

OPTIONS = NetworkOptions(request_timeout_s=5.0, connect_timeout_s=5.0)
WAIT_S = 3.0


class Host:
    """A process with connections to a cluster of two brokers."""

    def __init__(self) -> None:
        self.kernel = Kernel(1)
        self.cluster = Cluster(2, self.kernel.random)
        self.cluster.create_topic("t", 1, 0.0)
        self.network = Network(self.kernel, self.cluster)
        self.process: Process = self.kernel.spawn("client")
        self.process.start(self.kernel.sleep, 1e9)  # so that it lives on

    def do(self, *calls: Callable[[], object]) -> list[Any]:
        """Returns what calls return or raise, within a thread, and how long each took."""
        results: list[Any] = []

        def run() -> None:
            for call in calls:
                began = self.kernel.now
                try:
                    result: object = call()
                except Exception as error:
                    result = error
                results.append((result, self.kernel.now - began))

        self.process.start(run)
        self.kernel.run(self.kernel.now + 100)
        return results

    def open(self, broker: int = 1) -> Any:
        """A new connection."""
        return self.network.connection_class.open(
            f"broker-{broker}", 9092, OPTIONS, self.kernel.now + WAIT_S
        )

    def ask(self, connection: Any) -> Any:
        """Ask for metadata."""
        return connection.call(metadata(), self.kernel.now + WAIT_S)

    def opened(self, broker: int = 1) -> Any:
        """A connection that stands."""
        ((connection, _),) = self.do(lambda: self.open(broker))
        return connection


def metadata() -> Any:
    """A question about all topics."""
    return MetadataRequest[12](topics=None, allow_auto_topic_creation=False)


def poll(wait_ms: int = 1000) -> Any:
    """A fetch of nothing that waits: it names no partition and is answered at once."""
    return FetchRequest[12](
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[],
        forgotten_topics_data=[],
        rack_id="",
    )


@pytest.fixture
def host() -> Host:
    """A fresh process."""
    return Host()


def words(result: tuple[Any, float]) -> str:
    """The text of an error."""
    assert isinstance(result[0], ConnectionLost)
    return result[0].message


def test_asks_and_closes(host: Host) -> None:
    """A question is answered within milliseconds. A closed connection says that it was closed."""
    found: list[Any] = []

    def main() -> None:
        found.append(host.open())
        found.append(host.ask(found[0]))
        found[0].close()
        host.ask(found[0])

    ((error, took_s),) = host.do(main)
    assert ["t"] == [topic.name for topic in found[1].topics]
    assert "the connection to broker-1:9092 is lost: it was closed" == error.message
    assert took_s < 0.05
    assert not host.network.connections


def test_agrees_on_versions(host: Host) -> None:
    """The version of a request is the newest of both sides."""
    host.cluster.brokers[1].release = KAFKA_2_8
    ((connection, _),) = host.do(host.open)

    assert 12 == connection.version(FetchRequest)
    assert not connection.speaks(FetchRequest, 13)
    with pytest.raises(UnsupportedVersion, match="no version in common"):
        connection.version(FetchRequest, lowest=13)


@pytest.mark.parametrize(
    ("fault", "text", "least_s"),
    [
        ("stopped", "no connection to broker-1:9092: [Errno 111] Connection refused", 0.0),
        ("refuses", "no connection to broker-1:9092: [Errno 111] Connection refused", 0.0),
        ("parted", "no connection to broker-1:9092: timed out", WAIT_S),
        ("hangs", "the connection to broker-1:9092 is lost: no reply within", WAIT_S),
    ],
)
def test_no_connection(host: Host, fault: str, text: str, least_s: float) -> None:
    """A broker that is down refuses at once. One that hangs costs the whole time."""
    if fault == "stopped":
        host.cluster.stop_broker(1, 0.0)
    else:
        setattr(host.network.links[1], fault, True)
    (result,) = host.do(host.open)

    assert words(result).startswith(text)
    assert least_s <= result[1] < least_s + 0.01


def test_an_unknown_host(host: Host) -> None:
    """A name that nobody knows is no connection."""
    (result,) = host.do(lambda: host.open(77))

    assert "Name or service not known" in words(result)


def test_a_reply_that_never_comes(host: Host) -> None:
    """A request whose reply does not come fails at its deadline, and so does each later one."""
    connection = host.opened()
    host.network.links[1].replies_to_swallow = 1
    first, second = host.do(lambda: host.ask(connection), lambda: host.ask(connection))

    assert words(first) == words(second)
    assert words(first).endswith("no reply within the deadline")
    assert (WAIT_S, 0.0) == (pytest.approx(first[1]), second[1])


def test_a_late_reply(host: Host) -> None:
    """A reply that comes after the caller gave up changes nothing."""
    connection = host.opened()
    link = host.network.links[1]
    link.replies_to_delay, link.delay_s = 1, WAIT_S + 1
    late, new = host.do(lambda: host.ask(connection), lambda: host.ask(host.open()))

    assert words(late).endswith("no reply within the deadline")
    assert ["t"] == [topic.name for topic in new[0].topics]


def test_a_reply_that_is_lost(host: Host) -> None:
    """A request is handled, and its reply is lost with the connection."""
    connection = host.opened()
    host.network.links[1].replies_to_cut = 1
    (result,) = host.do(lambda: host.ask(connection))

    assert words(result).endswith("Connection reset by peer")
    assert not connection.alive


def test_a_broker_that_ends(host: Host) -> None:
    """The end of a broker ends its connections, also while a request waits."""
    connection = host.opened()
    host.network.hang(1, True)

    def end() -> None:
        host.cluster.stop_broker(1, 0.0)
        host.network.stopped(1)

    host.kernel.after(1.0, end)
    (result,) = host.do(lambda: host.ask(connection))

    assert words(result).endswith("the broker closed it")
    assert 1.0 < result[1] < 1.1


def test_a_hang_that_ends(host: Host) -> None:
    """A process that goes on handles the requests that came meanwhile."""
    connection = host.opened()
    host.network.hang(1, True)
    host.kernel.after(1.0, host.network.hang, 1, False)
    ((reply, took_s),) = host.do(lambda: host.ask(connection))

    assert ["t"] == [topic.name for topic in reply.topics]
    assert 1.0 < took_s < 1.1


def test_a_partition_that_ends(host: Host) -> None:
    """Packets that were sent into a partition of the network arrive when it ends."""
    connection = host.opened()
    host.network.part(1, True)
    host.kernel.after(1.0, host.network.part, 1, False)
    ((reply, took_s),) = host.do(lambda: host.ask(connection))

    assert ["t"] == [topic.name for topic in reply.topics]
    assert 1.0 < took_s < 1.1


def test_replies_come_in_order(host: Host) -> None:
    """Two requests in flight are answered in their order."""
    connection = host.opened()

    def both() -> list[int]:
        connection.send(metadata())
        connection.send(poll())
        assert 2 == connection.in_flight
        deadline = host.kernel.now + WAIT_S
        first, second = connection._next(deadline), connection._next(deadline)
        return [first[0].request_api_version, len(second[1])]

    assert [12, 17] == host.do(both)[0][0]


def test_a_killed_process_has_no_connection(host: Host) -> None:
    """The connections of a process end with it."""
    other = host.kernel.spawn("other")
    other.start(lambda: (host.open(), host.kernel.sleep(50)))
    host.kernel.run(host.kernel.now + 1)
    assert 1 == host.network.open_of(other)

    other.kill()
    assert 0 == host.network.open_of(other)
    assert not host.network.connections
