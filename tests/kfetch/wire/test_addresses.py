"""Names with several addresses, and IPv6."""

from __future__ import annotations

import socket
import time
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

from kfetch.errors import ConnectionLost, WrongListener
from kfetch.spark.options import parse
from kfetch.wire import addresses
from kfetch.wire.addresses import connect
from kfetch.wire.cluster import Cluster
from kfetch.wire.transport import open_stream
from tests.kfetch.wire.helpers import OPTIONS, T0, soon
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close, ScriptedBroker
from tests.kfetch.wire.tls_helpers import Start
from tests.kfetch.wire.tls_helpers import connect as tls_connect

NETWORK = parse({"kafka.bootstrap.servers": "a:1", "subscribe": "t"}).network
BLACK_HOLE = "192.0.2.1"  # TEST-NET-1 (RFC 5737)


def resolver(monkeypatch: pytest.MonkeyPatch, *hosts: tuple[str, int]) -> None:
    """Let every name have these addresses."""
    found = [
        (
            socket.AF_INET6 if ":" in host else socket.AF_INET,
            socket.SOCK_STREAM,
            6,
            "",
            (host, port),
        )
        for host, port in hosts
    ]
    monkeypatch.setattr(addresses.socket, "getaddrinfo", lambda *_, **__: found)


def test_each_address_is_tried(
    kafka: LittleKafka, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the first address of a name refuses, the next one is used."""
    live = kafka.nodes[1].port
    resolver(monkeypatch, ("127.0.0.1", closed_port), ("127.0.0.1", live))
    with closing(Cluster((("kafka.example", 9092),), OPTIONS)) as cluster:
        assert cluster.view(["t"], soon()).exists(T0)


def test_an_address_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that drops packets costs its share of the time once, and the next one is used."""

    class Stuck(socket.socket):
        def connect(self, address: tuple[str, int]) -> None:
            if address[0] != BLACK_HOLE:
                return super().connect(address)
            waits.append(self.gettimeout())
            raise TimeoutError("timed out")

    waits: list[float | None] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        resolver(monkeypatch, (BLACK_HOLE, port), ("127.0.0.1", port))
        monkeypatch.setattr(addresses.socket, "socket", Stuck)
        for _ in range(2):
            with connect("kafka.example", 9092, 8.0) as stream:
                assert ("127.0.0.1", port) == stream.getpeername()

    assert [pytest.approx(4.0, abs=0.1)] == waits


def test_an_address_that_closes_every_connection(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that accepts and then closes, as a load balancer does, does not stay the first."""
    live = kafka.nodes[1].port
    with ScriptedBroker() as useless:
        useless.always(ApiVersionsRequest, Close())
        resolver(monkeypatch, ("127.0.0.1", useless.port), ("127.0.0.1", live))
        with closing(Cluster((("kafka.example", 9092),), OPTIONS)) as cluster:
            assert cluster.view(["t"], soon()).exists(T0)


@pytest.mark.parametrize("serves", [True, False])
def test_an_address_with_a_wrong_listener(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch, serves: bool
) -> None:
    """The first question goes to the name's other addresses. If none serves, it fails at once."""
    live = ("127.0.0.1", kafka.nodes[1].port)
    with ScriptedBroker() as wrong, ScriptedBroker() as too:
        for listener in (wrong, too):
            handshake = SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"])
            listener.always(SaslHandshakeRequest, handshake)
        other = live if serves else ("127.0.0.1", too.port)
        resolver(monkeypatch, ("127.0.0.1", wrong.port), other)
        with closing(Cluster((("kafka.example", 9092),), OPTIONS, patient=False)) as cluster:
            if serves:
                assert cluster.view(["t"], soon()).exists(T0)
                return
            began = time.monotonic()
            with pytest.raises(WrongListener, match=r"by SASL \(PLAIN\)"):
                cluster.view(["t"], soon())
            assert time.monotonic() - began < 30


def test_an_address_without_tls(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for an address whose TLS handshake fails."""
    broker = start()
    with ScriptedBroker() as useless:
        resolver(monkeypatch, ("127.0.0.1", useless.port), ("127.0.0.1", broker.port))
        with pytest.raises(ConnectionLost):
            tls_connect(9092, host="localhost")
        with closing(tls_connect(9092, host="localhost")) as connection:
            assert connection.alive


def test_an_avoided_address_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """After half a minute it has its place again."""

    def first() -> object:
        with connect("kafka.example", 9092, 5.0) as stream:
            return stream.getpeername()

    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        resolver(monkeypatch, one.getsockname(), two.getsockname())
        assert one.getsockname() == first()
        addresses.avoid(one.getsockname())
        assert two.getsockname() == first()
        addresses.avoid(two.getsockname())
        assert one.getsockname() == first()
        monkeypatch.setattr(addresses, "_AVOIDED_S", 0.0)
        addresses.avoid(one.getsockname())
        assert one.getsockname() == first()


@given(st.floats(0, 100), st.integers(1, 50))
def test_shares(left_s: float, count: int) -> None:
    """No address gets more than what is left, and all but the last leave time for the next."""
    share_s = addresses.share_s(left_s, count, 2.0)

    assert 0.0 <= share_s <= left_s
    if count > 1 and left_s > 1:
        assert share_s <= left_s / 2


def test_the_first_cause_is_reported(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no address accepts, the error has the first cause and the name."""
    resolver(monkeypatch, *[("127.0.0.1", closed_port)] * 2)
    with pytest.raises(ConnectionLost, match=r"no connection to kafka\.example:9092: .*refused"):
        open_stream("kafka.example", 9092, NETWORK, time.monotonic() + 5)


def test_a_name_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that finds nothing is an error with the name in it."""
    resolver(monkeypatch)
    with pytest.raises(ConnectionLost, match=r"kafka\.example has no address"):
        open_stream("kafka.example", 9092, NETWORK, time.monotonic() + 5)


def test_ipv6() -> None:
    """A broker at ``[::1]:port`` is reached."""
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server:
        servers = f"[::1]:{server.getsockname()[1]}"
        ((host, port),) = parse({"kafka.bootstrap.servers": servers, "subscribe": "t"}).bootstrap
        with open_stream(host, port, NETWORK, time.monotonic() + 5) as stream:
            assert ("::1", port) == stream.getpeername()[:2]
