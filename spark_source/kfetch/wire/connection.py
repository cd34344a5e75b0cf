"""One blocking connection to one broker, for every API.

The broker answers requests in order. ``send`` and ``receive`` are separate, so that a fetch can be
in flight while the caller decodes the last reply. Every wait has a deadline of ``time.monotonic``.
A connection that failed once stays dead: a late reply would otherwise pass for the answer to the
next request. Every later call raises its *first* cause.

Before the first replies nothing proves that the listener is a Kafka broker's, with the security of
the options. If such a connection fails, ``probes`` ask the address. The error then says what
listens there.

With SASL, a connection is open once it has logged in (``sasl``). If the log-in has a limited time,
the connection logs in again before a request, and never while another one is in flight.
"""

from __future__ import annotations

import io
import logging
import socket
import struct
import time
from collections import deque
from typing import Any, TypeVar

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from kfetch import codes
from kfetch._version import __version__
from kfetch.errors import (
    ConnectionLost,
    KfetchError,
    UnsupportedVersion,
    WireError,
    WrongListener,
)
from kfetch.options import NetworkOptions
from kfetch.reactions import Api, Reaction, reaction
from kfetch.wire import diagnosis, probes, tls_errors
from kfetch.wire.addresses import avoid
from kfetch.wire.frames import Allocate, BrokenFrame, Frames, NoFrame
from kfetch.wire.sasl.login import Login
from kfetch.wire.transport import has_ended, open_stream, pending_alert

log = logging.getLogger(__name__)

E = TypeVar("E", bound=KfetchError)
_CORRELATION = struct.Struct(">i")
_ERROR = struct.Struct(">h")
_NO_REPLY = "no reply within the deadline"
_FIRST_FRAME_BYTES_MAX = 1 << 20
"""The limit until ApiVersions is answered. A TLS alert reads as a frame of 352,518,912 bytes."""
_PROBE_AFTER_S = 2.0
"""How long a peer may say nothing at all before probes ask what it is."""
_SILENT_S = 5.0
"""How long a peer may say nothing at all before a warning names it."""
_SILENT_MIN_S = 1.0
"""A shorter silence up to the deadline says nothing about the peer."""


class Connection:
    """A connection with negotiated versions."""

    def __init__(
        self, stream: socket.socket, address: tuple[str, int], options: NetworkOptions
    ) -> None:
        self.peer = f"{address[0]}:{address[1]}"
        self._address = address
        self._options = options
        size_max = min(_FIRST_FRAME_BYTES_MAX, options.frame_bytes_max)
        self._frames = Frames(stream, size_max, secured=options.security.tls is not None)
        self._correlation_id = 0
        self._in_flight: deque[tuple[int, Any]] = deque()
        self._versions: dict[int, tuple[int, int]] = {}
        self._failure: KfetchError | None = None
        self._probe: probes.Probe | None = None if options.security.tls else probes.greeting
        """Asks what listens there if this connection fails. None after the first proper reply."""
        sasl = options.security.sasl
        self._login = Login(sasl, address[0]) if sasl else None

    @classmethod
    def open(cls, host: str, port: int, options: NetworkOptions, deadline: float) -> Connection:
        """Connects, negotiates versions and logs in.

        Raises ConnectionLost, also for a broker that answers ApiVersions with an error: it costs
        this broker, and never the caller's other brokers. Raises WrongListener if a probe finds
        TLS, plain text where TLS is wanted, HTTP or a controller; TlsFailed for a certificate or
        another disagreement; OptionError for a key store or trust store that can't be used;
        AuthenticationFailed if another try to log in can't help.
        """
        stream = open_stream(host, port, options, deadline, probes.plaintext)
        connection = cls(stream, (host, port), options)
        try:
            connection._negotiate(deadline)
            connection._log_in(deadline)
            connection._frames.size_max = options.frame_bytes_max
        except BaseException as failure:
            if isinstance(failure, ConnectionLost):
                avoid(connection._frames.peer_address)
            connection.close()
            raise
        return connection

    def version(self, message: Any, *, lowest: int = 0, highest: int | None = None) -> int:
        """Returns the newest version of a message that both sides speak, within the bounds.

        Raises UnsupportedVersion with the versions of both sides.
        """
        broker_min, broker_max = self._versions.get(message.API_KEY, (0, -1))
        newest = min(broker_max, message.max_version if highest is None else highest)
        if newest < max(broker_min, lowest):
            name = message.name
            spoken = f"no {name}" if broker_max < 0 else f"{name} v{broker_min} to v{broker_max}"
            raise UnsupportedVersion(
                f"the broker at {self.peer} speaks {spoken}, "
                f"kfetch v{lowest} to v{highest or message.max_version}: no version in common",
                api=message.name,
                peer=self.peer,
            )
        return newest

    def speaks(self, message: Any, version: int) -> bool:
        """Returns whether the broker speaks this version of a message, or a newer one."""
        return self._versions.get(message.API_KEY, (0, -1))[1] >= version

    @property
    def request_timeout_s(self) -> float:
        """The longest time of a request, in seconds."""
        return self._options.request_timeout_s

    @property
    def user(self) -> str:
        """The name of the user that logs in, for errors; empty if it is not known."""
        return self._options.security.user

    @property
    def login_is_due(self) -> bool:
        """Whether the next request waits for another log-in."""
        return self._login is not None and self._login.is_due()

    def call(self, request: Any, deadline: float) -> Any:
        """Sends a kafka-python request and returns its decoded response."""
        self.send(request, deadline)
        return self._decode(*self.receive(deadline))

    def send(self, request: Any, deadline: float = float("inf")) -> int:
        """Sends a request with a version, and returns the size of its frame in bytes.

        ``deadline``: of another log-in before it, beside the request timeout.
        """
        self._check_alive()
        self._renew_login(deadline)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        request.with_header(correlation_id=self._correlation_id, client_id=self._options.client_id)
        frame = request.encode(header=True, framed=True)
        deadline = time.monotonic() + self._options.request_timeout_s
        try:
            self._frames.send(frame, deadline)
        except OSError as cause:
            raise self._io_failure(f"sending {request.name}", cause, deadline) from None
        self._in_flight.append((self._correlation_id, request.header))
        return len(frame)

    def receive(self, deadline: float, allocate: Allocate | None = None) -> tuple[Any, memoryview]:
        """Returns the oldest request's header, and its reply's frame without the length.

        ``allocate``: returns the memory for a reply of so many bytes.
        """
        self._check_alive()
        if not self._in_flight:
            raise RuntimeError(f"no request to {self.peer} is waiting for a reply")
        try:
            frame = self._frames.receive(deadline, allocate)
        except NoFrame:
            raise self._bury(self._lost(_NO_REPLY)) from None
        except BrokenFrame as cause:
            raise self._fail(str(cause), deadline) from None
        except OSError as cause:
            raise self._io_failure("receiving", cause, deadline) from None
        correlation_id, header = self._in_flight.popleft()
        if _CORRELATION.unpack_from(frame)[0] != correlation_id:
            text = "a reply does not belong to the request that was sent first"
            raise self._fail(text, deadline)
        if self._versions:
            self._probe = None
        return header, frame

    @property
    def in_flight(self) -> int:
        """The number of requests without a reply yet."""
        return len(self._in_flight)

    @property
    def alive(self) -> bool:
        """Whether no call has failed so far. The broker may be gone all the same.

        Brokers close idle connections (``connections.max.idle.ms``). Such an end is no failure of a
        request, so it shows here.
        """
        if self._failure is None and not self._in_flight and has_ended(self._frames.stream):
            self._bury(self._lost("the broker closed it while it was idle"))
        return self._failure is None

    def close(self) -> None:
        """Closes the socket. Every later call raises ConnectionLost: it was closed."""
        if self._failure is None:
            self._bury(self._lost("it was closed"))

    def __repr__(self) -> str:
        failure = self._failure
        state = f"dead: {failure.where.get('cause', failure.what)}" if failure else "alive"
        return f"<Connection {self.peer}, {self.in_flight} in flight, {state}>"

    def _negotiate(self, deadline: float) -> None:
        # Version 3 carries kfetch's name. A broker before 2.4 answers it with UNSUPPORTED_VERSION.
        request = ApiVersionsRequest[3](
            client_software_name="kfetch", client_software_version=__version__
        )
        self.send(request)
        self._await_first_byte(deadline)
        error, versions = self._read_versions(deadline)
        if error and reaction(Api.API_VERSIONS, error) is Reaction.OLDER_VERSION:
            self.send(ApiVersionsRequest[0]())
            error, versions = self._read_versions(deadline)
        if error:
            raise self._bury(self._lost(f"it answered ApiVersions with {codes.name(error)}"))
        if verdict := diagnosis.of_api_keys(versions):
            raise self._bury(diagnosis.wrong_listener(verdict, *self._address))
        self._versions = versions
        # A log-in that fails says why itself.
        self._probe = None if self._login else probes.login

    def _log_in(self, deadline: float) -> None:
        if self._login is None:
            return
        try:
            self._login.run(self, deadline)
        except KfetchError as failure:
            raise self._bury(failure) from None
        except BaseException:
            self.close()
            raise

    def _renew_login(self, deadline: float) -> None:
        """Log in again if it is time. A request in flight goes first, as long as the log-in lasts.

        A fetch session is the broker's, and outlasts this and a new connection.
        """
        if self._login is None or not self.login_is_due:
            return
        if not self._in_flight:
            self._log_in(min(deadline, time.monotonic() + self._options.request_timeout_s))
        elif self._login.has_ended():
            raise self._bury(self._lost("its log-in has ended while a request was in flight"))

    def _read_versions(self, deadline: float) -> tuple[int, dict[int, tuple[int, int]]]:
        """Returns the error code and, without an error, the broker's versions by API key.

        Nothing behind an error code is read: brokers write it in the form of version 0, and
        librdkafka's mock cluster in the form of the request's version.
        """
        header, frame = self.receive(deadline)
        error: int = _ERROR.unpack(frame[4:6])[0] if len(frame) >= 6 else codes.NONE
        if error != codes.NONE:
            return error, {}
        try:
            reply = self._decode(header, frame)
        except WireError as cause:
            raise self._fail(cause.message, deadline) from None
        return error, {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}

    def _await_first_byte(self, deadline: float) -> None:
        """Wait for the first reply. If the peer says nothing, ask probes what it is, then warn.

        A slow broker has until the deadline all the same.
        """
        began = time.monotonic()
        if self._has_begun(min(deadline, began + _PROBE_AFTER_S), deadline):
            return
        if self._probe and (verdict := self._probe(self._address, self._options, deadline)):
            raise self._bury(diagnosis.wrong_listener(verdict, *self._address))
        if self._has_begun(min(deadline, began + _SILENT_S), deadline):
            return
        if time.monotonic() < deadline:
            log.warning("kfetch: %s", diagnosis.silent(*self._address, _SILENT_S).message)
            if self._has_begun(deadline, deadline):
                return
        if (waited_s := time.monotonic() - began) < _SILENT_MIN_S:
            raise self._bury(self._lost(_NO_REPLY))
        raise self._bury(diagnosis.silent(*self._address, waited_s))

    def _has_begun(self, until: float, deadline: float) -> bool:
        """Returns whether the peer sends a byte before ``until``."""
        try:
            return self._frames.starts_before(until)
        except BrokenFrame as cause:
            raise self._fail(str(cause), deadline) from None
        except OSError as cause:
            raise self._io_failure("receiving", cause, deadline) from None

    def _decode(self, header: Any, frame: memoryview) -> Any:
        response_type = header.get_response_class()
        body = io.BytesIO(frame)
        try:
            response_type.parse_header(body)
            return response_type.decode(
                body if issubclass(response_type[None], ApiVersionsResponse) else body.read()
            )
        except (ValueError, IndexError, struct.error) as cause:
            raise WireError(
                f"a reply of {self.peer} can't be decoded as {response_type.__name__}: {cause}",
                peer=self.peer,
            ) from None

    def _io_failure(self, action: str, cause: OSError, deadline: float) -> ConnectionLost:
        """Close the connection. Returns the cause, by the broker's own alert if it sends one."""
        if (tls := self._options.security.tls) is None:
            return self._fail(f"{action} failed: {cause}", deadline)
        if getattr(cause, "reason", None) is None:
            cause = pending_alert(self._frames.stream) or cause
        if failure := tls_errors.explain(cause, *self._address, tls):
            return self._bury(failure)
        return self._fail(f"{action} failed: {tls_errors.words(cause)}", deadline)

    def _check_alive(self) -> None:
        if (failure := self._failure) is not None:
            raise type(failure)(failure.what, action=failure.action, **failure.where)

    def _fail(self, cause: str, deadline: float) -> ConnectionLost:
        """Close the connection. Returns the cause, or what a probe finds if nothing is proven."""
        failure = self._bury(self._lost(cause))
        if self._probe and (verdict := self._probe(self._address, self._options, deadline)):
            failure = self._bury(diagnosis.wrong_listener(verdict, *self._address))
        return failure

    def _lost(self, cause: str) -> ConnectionLost:
        what = f"the connection to {self.peer} is lost: {cause}"
        return ConnectionLost(what, peer=self.peer, cause=cause)

    def _bury(self, failure: E) -> E:
        """Close the socket, and raise this failure from now on."""
        if isinstance(failure, WrongListener):
            avoid(self._frames.peer_address)
        self._failure = failure
        self._frames.stream.close()
        return failure
