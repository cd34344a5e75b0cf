"""One connection: versions, order, deadlines and limits. A dead one keeps its first error."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

from kfetch.errors import ConnectionLost, UnsupportedVersion, WireError, WrongListener
from kfetch.options import NetworkOptions
from kfetch.wire.connection import Connection
from kfetch.wire.frames import ReplyBuffer
from tests.kfetch.wire.scripted import Close, Mangled, Raw, ScriptedBroker, Silence, half, wrong_id

OPTIONS = NetworkOptions(request_timeout_s=60.0, connect_timeout_s=60.0, frame_bytes_max=1 << 20)
EMPTY = MetadataResponse(brokers=[], cluster_id="c", controller_id=1, topics=[])
LONG_S, SHORT_S = 60.0, 0.05


def soon(seconds: float = LONG_S) -> float:
    """The deadline in so many seconds, by ``time.monotonic``."""
    return time.monotonic() + seconds


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """A broker whose Metadata replies name no broker and no topic."""
    with ScriptedBroker() as scripted:
        scripted.always(MetadataRequest, lambda request: empty(request.API_VERSION))
        yield scripted


@pytest.fixture
def connection(broker: ScriptedBroker) -> Iterator[Connection]:
    """An open connection to the broker."""
    opened = Connection.open("127.0.0.1", broker.port, OPTIONS, soon())
    yield opened
    opened.close()


def empty(version: int, name: str = "c") -> Any:
    """A Metadata reply without brokers and topics."""
    return MetadataResponse(
        version=version, brokers=[], cluster_id=name, controller_id=1, topics=[]
    )


def ask() -> Any:
    """A small request for Metadata."""
    return MetadataRequest[9](topics=[])


def test_the_newest_common_version_is_used(connection: Connection) -> None:
    """The version of an API is the newest of both sides, within the caller's bounds."""
    assert 18 == connection.version(FetchRequest)
    assert 12 == connection.version(FetchRequest, highest=12)
    assert connection.speaks(FetchRequest, 18)


def needs_login(_: Any) -> Any:
    """The answer of a SASL listener to a mechanism that it does not have."""
    return SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN", "GSSAPI"])


def test_the_error_says_that_a_listener_wants_a_log_in(
    broker: ScriptedBroker, connection: Connection
) -> None:
    """A SASL listener answers ApiVersions and closes after the next request. The error says so."""
    broker.always(SaslHandshakeRequest, needs_login)
    broker.answer(MetadataRequest, Close())
    with pytest.raises(WrongListener, match=r"expects a log-in by SASL \(PLAIN, GSSAPI\)") as first:
        connection.call(ask(), soon())

    with pytest.raises(WrongListener) as again:
        connection.call(ask(), soon())
    assert str(first.value) == str(again.value)
    assert 1 == len(broker.asked(SaslHandshakeRequest))


def test_a_proven_connection_is_not_probed(broker: ScriptedBroker, connection: Connection) -> None:
    """A connection that has had a reply leads to a Kafka broker, so kfetch does not probe it."""
    connection.call(ask(), soon())
    broker.answer(MetadataRequest, Close())
    with pytest.raises(ConnectionLost, match="the broker closed it"):
        connection.call(ask(), soon())

    assert [] == broker.asked(SaslHandshakeRequest)


def test_closing_here_is_not_probed(broker: ScriptedBroker, connection: Connection) -> None:
    """kfetch does not probe the server of a new connection that kfetch itself closes."""
    connection.close()

    assert 1 == broker.connections


def test_the_error_says_that_a_listener_is_a_controllers() -> None:
    """A listener that registers brokers and has no Metadata is a KRaft controller's."""
    with ScriptedBroker() as controller:
        keys = [
            ApiVersionsResponse.ApiVersion(version=3, api_key=key, min_version=0, max_version=1)
            for key in (1, 18, 52, 62)
        ]
        controller.always(ApiVersionsRequest, ApiVersionsResponse[3](error_code=0, api_keys=keys))
        with pytest.raises(WrongListener, match="is the listener of a KRaft controller"):
            Connection.open("127.0.0.1", controller.port, OPTIONS, soon())


def test_a_slow_broker_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may answer after the probes and the warning. The connection then works."""
    monkeypatch.setattr("kfetch.wire.connection._PROBE_AFTER_S", 0.02)
    monkeypatch.setattr("kfetch.wire.connection._SILENT_S", 0.1)
    monkeypatch.setattr("kfetch.wire.probes._PROBE_S", 0.02)
    with ScriptedBroker() as broker:

        def answer_slowly(request: Any) -> Any:
            time.sleep(0.2)
            return broker.api_versions(request)

        broker.always(ApiVersionsRequest, answer_slowly)
        connection = Connection.open("127.0.0.1", broker.port, OPTIONS, soon())
        assert 18 == connection.version(FetchRequest)
        connection.close()


def test_a_refused_connection_says_where_and_why(closed_port: int) -> None:
    """A refused connection says where, why, and what to check."""
    refused = rf"no connection to 127.0.0.1:{closed_port}: .*refused"
    with pytest.raises(ConnectionLost, match=refused):
        Connection.open("127.0.0.1", closed_port, OPTIONS, soon())


def test_replies_in_order(broker: ScriptedBroker, connection: Connection) -> None:
    """Requests in flight are answered in the order in which they were sent."""
    names = ["one", "two", "three"]
    broker.answer(MetadataRequest, *(empty(9, name) for name in names))
    for _ in names:
        connection.send(ask())
    assert 3 == connection.in_flight

    names_received = [connection._decode(*connection.receive(soon())).cluster_id for _ in names]

    assert names == names_received
    assert 0 == connection.in_flight


def test_bytes_are_counted(broker: ScriptedBroker, connection: Connection) -> None:
    """``send`` returns the size of the whole frame, its length included."""
    size = connection.send(ask())
    connection.receive(soon())

    assert 4 + len(broker.frames[-1]) == size


def test_client_id_and_correlation(broker: ScriptedBroker, connection: Connection) -> None:
    """Requests carry the client id, and correlation ids that count up."""
    connection.call(ask(), soon())
    connection.call(ask(), soon())

    headers = [request.header for request in broker.requests]
    assert {"kfetch"} == {header.client_id for header in headers}
    assert [1, 2, 3] == [header.correlation_id for header in headers]


HOSTILE: list[tuple[str, Any, str]] = [
    ("close", Close(), "the broker closed it"),
    ("half a frame", half(EMPTY, close=True), "the broker closed it"),
    ("half a length", Raw(b"\0\0", close=True), "the broker closed it"),
    ("wrong id", wrong_id(EMPTY), "a reply does not belong to the request that was sent first"),
    ("huge length", Raw(b"\x7f\xff\xff\xff"), "a reply claims 2147483647 bytes"),
    ("over the limit", Raw(struct.pack(">i", (1 << 20) + 1)), "a reply claims 1048577 bytes"),
    (
        "negative length",
        Raw(b"\xff\xff\xff\xfe"),
        "a reply claims -2 bytes, where 4 to 1048576 are possible: is a Kafka broker listening "
        "there without TLS?",
    ),
    ("too short", Raw(b"\0\0\0\3abc"), "a reply claims 3 bytes"),
    ("TLS", Raw(b"\x15\x03\x03\0\2\2F"), "a reply claims 352518912 bytes"),
    ("HTTP", Raw(b"HTTP/1.1 400 Bad Request"), "a reply claims 1213486160 bytes"),
]


@pytest.mark.parametrize(("answer", "why"), [h[1:] for h in HOSTILE], ids=[h[0] for h in HOSTILE])
def test_hostile_replies(
    broker: ScriptedBroker, connection: Connection, answer: Any, why: str
) -> None:
    """A reply that breaks the stream kills the connection. The error names the broker and the
    cause."""
    broker.answer(MetadataRequest, answer)
    with pytest.raises(ConnectionLost) as caught:
        connection.call(ask(), soon())

    assert str(caught.value).startswith(f"the connection to 127.0.0.1:{broker.port} is lost: {why}")
    assert not connection.alive


def test_a_dead_connection_repeats_its_first_error(
    broker: ScriptedBroker, connection: Connection
) -> None:
    """Every later use of a dead connection raises the first error again, even after ``close``."""
    broker.answer(MetadataRequest, wrong_id(EMPTY))
    with pytest.raises(ConnectionLost) as first:
        connection.call(ask(), soon())
    connection.close()

    for use in (
        lambda: connection.send(ask()),
        lambda: connection.receive(soon()),
        lambda: connection.call(ask(), soon()),
    ):
        with pytest.raises(ConnectionLost) as again:
            use()
        assert str(first.value) == str(again.value)
        assert first.value.where == again.value.where
        assert first.value is not again.value
    assert "does not belong" in repr(connection)


def test_closed_here(connection: Connection) -> None:
    """The error of a connection that kfetch has closed says so."""
    connection.close()
    with pytest.raises(ConnectionLost, match="it was closed"):
        connection.send(ask())


@pytest.mark.parametrize("answer", [Silence(), half(EMPTY, close=False), Raw(b"\0")])
def test_deadline(broker: ScriptedBroker, connection: Connection, answer: Any) -> None:
    """kfetch waits for a missing or unfinished reply until the deadline, and then gives it up."""
    broker.answer(MetadataRequest, answer)
    began = time.monotonic()
    with pytest.raises(ConnectionLost, match="no reply within the deadline"):
        connection.call(ask(), soon(SHORT_S))

    assert SHORT_S <= time.monotonic() - began < LONG_S
    assert not connection.alive


def test_a_late_reply_answers_no_later_request(
    broker: ScriptedBroker, connection: Connection
) -> None:
    """After a missed deadline, the late reply does not answer a later request."""
    broker.answer(MetadataRequest, Silence())
    with pytest.raises(ConnectionLost):
        connection.call(ask(), soon(SHORT_S))

    with pytest.raises(ConnectionLost, match="no reply within the deadline"):
        connection.call(ask(), soon())
    assert 1 == len(broker.asked(MetadataRequest))


def test_a_silent_server_fails_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server accepts the connection and sends nothing. kfetch waits for it until the deadline."""
    monkeypatch.setattr("kfetch.wire.connection._SILENT_MIN_S", 60.0)
    with ScriptedBroker() as broker:
        broker.always(ApiVersionsRequest, Silence())
        with pytest.raises(ConnectionLost, match="no reply within the deadline"):
            Connection.open("127.0.0.1", broker.port, OPTIONS, soon(SHORT_S))


def test_undecodable_body(broker: ScriptedBroker, connection: Connection) -> None:
    """A whole frame whose body is too short raises WireError. The connection stays usable."""

    def shorten(frame: bytes) -> bytes:
        return struct.pack(">i", len(frame) - 4 - 3) + frame[4:-3]

    broker.answer(MetadataRequest, Mangled(EMPTY, shorten))
    with pytest.raises(WireError, match="can't be decoded as MetadataResponse"):
        connection.call(ask(), soon())

    assert connection.call(ask(), soon()).topics == []


def test_every_cut_of_a_body(broker: ScriptedBroker, connection: Connection) -> None:
    """However much of a reply's body is missing, the error is a WireError."""
    whole = MetadataResponse(
        version=9,
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                version=9, node_id=1, host="h", port=1, rack="r"
            )
        ],
        cluster_id="c",
        controller_id=1,
        topics=[],
    )
    whole.with_header(correlation_id=0)
    size = len(whole.encode(header=True, framed=True)) - 4

    def cut(keep: int) -> Any:
        return lambda frame: struct.pack(">i", keep) + frame[4 : 4 + keep]

    for keep in range(4, size):
        broker.answer(MetadataRequest, Mangled(whole, cut(keep)))
        with pytest.raises(WireError):
            connection.call(ask(), soon())


def test_receiving_without_a_request(connection: Connection) -> None:
    """``receive`` without a request in flight is a bug of kfetch: it raises RuntimeError."""
    with pytest.raises(RuntimeError, match="is waiting for a reply"):
        connection.receive(soon())


def test_reply_buffer_is_used_again(broker: ScriptedBroker, connection: Connection) -> None:
    """Replies are received into the caller's buffer, and the next reply uses it again."""
    buffer = ReplyBuffer()
    frames = []
    for _ in range(2):
        connection.send(ask())
        frames.append(connection.receive(soon(), buffer)[1])

    assert frames[0].obj is frames[1].obj


def test_reply_buffer_grows() -> None:
    """A larger reply makes the buffer grow. A smaller one gets a view of its own size."""
    buffer = ReplyBuffer()

    assert [10, 1 << 17, 10] == [len(buffer(size)) for size in (10, 1 << 17, 10)]


def test_an_api_that_the_broker_lacks() -> None:
    """kfetch has no common version of an API that the broker did not name."""
    with ScriptedBroker() as broker:
        del broker.versions[ListOffsetsRequest]
        connection = Connection.open("127.0.0.1", broker.port, OPTIONS, soon())
        assert not connection.speaks(ListOffsetsRequest, 0)
        with pytest.raises(UnsupportedVersion):
            connection.version(ListOffsetsRequest)
        connection.close()


def test_sending_into_a_full_pipe_has_a_deadline() -> None:
    """If the broker does not read a request, sending it fails after the request timeout."""
    with ScriptedBroker() as broker:
        impatient = replace(OPTIONS, request_timeout_s=SHORT_S)
        connection = Connection.open("127.0.0.1", broker.port, OPTIONS, soon())
        connection._options = impatient
        broker.always(MetadataRequest, _stall(broker))
        topic = MetadataRequest.MetadataRequestTopic(version=9, name="t" * 30_000)
        large = MetadataRequest[9](topics=[topic] * 400)
        with pytest.raises(ConnectionLost, match="sending MetadataRequest failed"):
            _flood(connection, large)
        broker.released.set()  # type: ignore[attr-defined]


def _flood(connection: Connection, request: Any) -> None:
    while True:
        connection.send(request)


def _stall(broker: Any) -> Any:
    import threading

    broker.released = threading.Event()

    def wait(_: Any) -> Any:
        broker.released.wait(LONG_S)
        return Close()

    return wait
