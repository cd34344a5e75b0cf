"""A scripted broker: a real TCP server whose answers, honest or hostile, are written by the test.

Replies are encoded by kafka-python's response classes. Every wait has a deadline; nothing sleeps.
"""

from __future__ import annotations

import contextlib
import io
import socket
import ssl
import struct
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin.topics import DescribeTopicPartitionsRequest
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    MetadataRequest,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from kfetch.model import Broker

PATIENCE_S = 60.0
REQUEST_BYTES_MAX = 100 << 20  # Kafka's default for socket.request.max.bytes
ILLEGAL_SASL_STATE, UNSUPPORTED_VERSION = 34, 35

REQUESTS = (
    FetchRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    MetadataRequest,
    ApiVersionsRequest,
    DescribeTopicPartitionsRequest,
    SaslHandshakeRequest,
    FindCoordinatorRequest,
    OffsetFetchRequest,
    OffsetCommitRequest,
    SaslAuthenticateRequest,
)
_BY_KEY = {message.API_KEY: message for message in REQUESTS}
NEWEST = {message: (0, message.max_version) for message in REQUESTS}


class Silence:
    """No answer, and the connection stays open."""


class Close:
    """No answer: the connection is closed."""


@dataclass(frozen=True)
class Raw:
    """These bytes instead of a frame."""

    data: bytes
    close: bool = False


@dataclass(frozen=True)
class Mangled:
    """The honest frame (with its length), changed on its way out."""

    answer: Any
    change: Callable[[bytes], bytes]
    close: bool = False


def wrong_id(answer: Any) -> Mangled:
    """The answer under another correlation id."""
    return Mangled(answer, lambda frame: frame[:4] + struct.pack(">i", 99_999) + frame[8:])


def half(answer: Any, *, close: bool) -> Mangled:
    """The first half of the answer's frame."""
    return Mangled(answer, lambda frame: frame[: len(frame) // 2], close=close)


class ScriptedBroker:
    """Listens on 127.0.0.1 from its making on; ``with`` closes it.

    ``answer`` queues answers of an API, each given once; ``always`` is given when none is queued.
    An answer is a response object, one of the acts above, or a function from request to answer.
    """

    def __init__(
        self,
        node_id: int = 1,
        versions: Mapping[Any, tuple[int, int]] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.node_id = node_id
        self.tls = tls
        self.versions = NEWEST | dict(versions or {})
        self.requests: list[Any] = []
        self.frames: list[bytes] = []
        self.connections = 0
        self.rack: str | None = None
        self._queued: dict[Any, deque[Any]] = defaultdict(deque)
        self.handlers: dict[Any, Any] = {
            ApiVersionsRequest: self.api_versions,
            # As every listener without SASL does.
            SaslHandshakeRequest: SaslHandshakeResponse(
                error_code=ILLEGAL_SASL_STATE, mechanisms=[]
            ),
        }
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self.streams: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._kept_port: socket.socket
        """While the broker is stopped, nobody else gets its port, and who connects is refused."""
        self.port: int
        self._take_port()
        self.start()

    @property
    def broker(self) -> Broker:
        """The address, as Metadata gives it."""
        return Broker(node_id=self.node_id, host="127.0.0.1", port=self.port, rack=self.rack)

    def answer(self, api: Any, *answers: Any) -> None:
        """Queue answers to the next requests of an API."""
        self._queued[api].extend(answers)

    def always(self, api: Any, answer: Any) -> None:
        """Answer every request of an API so, when no answer is queued."""
        self.handlers[api] = answer

    def asked(self, api: Any) -> list[Any]:
        """The requests of an API so far."""
        with self._changed:
            return [request for request in self.requests if isinstance(request, api)]

    def wait_asked(self, api: Any, count: int) -> list[Any]:
        """Wait until an API was asked so often; the requests."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self.asked(api)) >= count, PATIENCE_S)
        assert arrived, f"{count} requests of {api.name} were expected"
        return self.asked(api)

    def _take_port(self) -> None:
        self._kept_port = socket.socket()
        self._kept_port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._kept_port.bind(("127.0.0.1", 0))
        self.port = self._kept_port.getsockname()[1]

    def move(self) -> None:
        """Leave the port for another one. The broker must be stopped."""
        with self._kept_port:
            self._take_port()

    def start(self) -> None:
        """Listen (again), on the same port as before."""
        self._listener = socket.create_server(("127.0.0.1", self.port), reuse_port=True)
        self._spawn(self._accept, self._listener)

    def stop(self) -> None:
        """Die: the listener and every connection are closed."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        # A connection that is just accepted must not outlive ``drop``: accepting ends first.
        self._join(self._threads[:1])
        self.drop()
        self._join(self._threads)
        self._threads.clear()

    def close(self) -> None:
        """Stop for good."""
        self.stop()
        self._kept_port.close()

    def _join(self, threads: Iterable[threading.Thread]) -> None:
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(PATIENCE_S)

    def drop(self) -> None:
        """Close every connection; the listener stays."""
        for stream in list(self.streams):
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> ScriptedBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _spawn(self, target: Callable[[Any], None], argument: Any) -> None:
        thread = threading.Thread(target=target, args=(argument,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            self.streams.add(stream)
            self._spawn(self._serve, stream)

    def _serve(self, stream: socket.socket) -> None:
        with contextlib.suppress(OSError), self._secured(stream) as stream:
            while (frame := _frame(stream)) is not None:
                request = self._note(frame)
                if not self._reply(stream, request, self._next(request)):
                    break
        self.streams.discard(stream)

    def _secured(self, stream: socket.socket) -> socket.socket:
        """The stream, behind TLS if there is a context."""
        if self.tls is None:
            return stream
        self.streams.discard(stream)
        secured = self.tls.wrap_socket(stream, server_side=True, do_handshake_on_connect=False)
        self.streams.add(secured)
        try:
            secured.do_handshake()
        except OSError:
            self.streams.discard(secured)
            secured.close()
            raise
        return secured

    def _note(self, frame: bytes) -> Any:
        request = decode_request(frame)
        with self._changed:
            self.frames.append(frame)
            self.requests.append(request)
            self._changed.notify_all()
        return request

    def _next(self, request: Any) -> Any:
        api = _BY_KEY[request.API_KEY]
        return self._queued[api].popleft() if self._queued[api] else self.handlers.get(api, Close())

    def _reply(self, stream: socket.socket, request: Any, answer: Any) -> bool:
        """Answer one request; False to close the connection."""
        while callable(answer):
            answer = answer(request)
        if isinstance(answer, Silence):
            return True
        if isinstance(answer, Close):
            return False
        if isinstance(answer, Raw):
            stream.sendall(answer.data)
            return not answer.close
        mangled = answer if isinstance(answer, Mangled) else Mangled(answer, bytes)
        honest = mangled.answer(request) if callable(mangled.answer) else mangled.answer
        stream.sendall(mangled.change(encode_reply(honest, request)))
        return not mangled.close

    def api_versions(self, request: Any) -> Any:
        """The ranges of ``versions``; a version that the broker does not know is answered as v0."""
        low, high = self.versions[ApiVersionsRequest]
        supported = low <= request.API_VERSION <= high
        version = request.API_VERSION if supported else 0
        return ApiVersionsResponse[version](
            error_code=0 if supported else UNSUPPORTED_VERSION,
            api_keys=[
                ApiVersionsResponse.ApiVersion(
                    version=version, api_key=api.API_KEY, min_version=least, max_version=most
                )
                for api, (least, most) in self.versions.items()
            ],
            throttle_time_ms=0,
        )


def decode_request(frame: bytes) -> Any:
    """A request's frame (behind its length), by kafka-python."""
    key, version = struct.unpack_from(">hh", frame)
    message = _BY_KEY[key]
    body = io.BytesIO(frame)
    header = RequestHeader.decode(body, flexible=message.flexible_version_q(version))
    request = message[version].decode(body.read())
    request._header = header
    request.API_VERSION = version
    return request


def _compile_messages() -> None:
    """Compile the code of kafka-python's messages: once, and not in each fork of the tests."""
    for message in REQUESTS:
        request = message[message.max_version]()
        request.with_header(correlation_id=0)
        request = decode_request(bytes(request.encode(header=True, framed=True))[4:])
        answer = getattr(sys.modules[message.__module__], message.name.replace("quest", "sponse"))
        encode_reply(answer(), request)


def encode_reply(response: Any, request: Any) -> bytes:
    """The framed reply to a request, in its version unless the response has its own."""
    if response.API_VERSION is None:
        response.API_VERSION = request.API_VERSION
    response.with_header(correlation_id=request.header.correlation_id)
    encoded: bytes = bytes(response.encode(header=True, framed=True))
    return encoded


def _frame(stream: socket.socket) -> bytes | None:
    prefix = _exactly(stream, 4)
    if prefix is None or (size := struct.unpack(">i", prefix)[0]) > REQUEST_BYTES_MAX:
        return None
    return _exactly(stream, size)


def _exactly(stream: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            return None
        data += more
    return data


_compile_messages()
