"""Asks an address what listens there, after a first connection to it has failed.

Each question goes over a connection of its own. ``diagnosis`` judges the answers. Retries must not
flood the brokers' logs, so a process asks an address again only after some seconds.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress

from kfetch.errors import ConnectionLost
from kfetch.options import NetworkOptions
from kfetch.wire import diagnosis
from kfetch.wire.addresses import Address
from kfetch.wire.diagnosis import Verdict
from kfetch.wire.transport import open_stream, open_tcp

_PROBE_S = 1.5
"""The longest time of a probe. A listener answers one within milliseconds."""
_PROBE_MIN_S = 0.3
"""With less time there is no probe: it would find nothing for want of time."""
_VERDICT_VALID_S = 30.0
_DOUBT_VALID_S = 10.0
"""How long a probe without a verdict is not repeated."""
_ADDRESSES_MAX = 1000
_ANSWER_BYTES = 256
"""The first bytes of an answer, enough for SASL's mechanisms."""
_REST_S = 0.05
"""How long to wait for the rest of an answer that has begun."""

Probe = Callable[[Address, NetworkOptions, float], Verdict | None]
"""Returns what listens at an address, None if the probe can't tell. The last argument: a deadline
of ``time.monotonic``."""


class CachedProbe:
    """A probe that remembers its verdicts for a while. It forgets all when it is full."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._verdicts: dict[Address, tuple[float, Verdict | None]] = {}

    def __call__(
        self, address: Address, options: NetworkOptions, deadline: float
    ) -> Verdict | None:
        """Returns the last verdict if it is fresh, else that of a new probe if there is time."""
        valid_until, verdict = self._verdicts.get(address, (0.0, None))
        now = time.monotonic()
        if now < valid_until:
            return verdict
        if deadline - now < _PROBE_MIN_S:
            return None
        verdict = self._probe(address, options, min(deadline, now + _PROBE_S))
        if len(self._verdicts) >= _ADDRESSES_MAX:
            self._verdicts.clear()
        valid_s = _VERDICT_VALID_S if verdict else _DOUBT_VALID_S
        self._verdicts[address] = time.monotonic() + valid_s, verdict
        return verdict


def _greeting(address: Address, options: NetworkOptions, deadline: float) -> Verdict | None:
    # Both leave at once, because a silent peer takes the whole time of the first one.
    questions = [diagnosis.CLIENT_HELLO, diagnosis.HTTP_REQUEST]
    verdicts = map(diagnosis.of_greeting, _answers(address, questions, options, deadline, open_tcp))
    return next(filter(None, verdicts), None)


def _plaintext(address: Address, options: NetworkOptions, deadline: float) -> Verdict | None:
    questions = [diagnosis.API_VERSIONS, diagnosis.HTTP_REQUEST]
    answers = _answers(address, questions, options, deadline, open_tcp)
    return next(filter(None, map(diagnosis.of_plaintext, answers)), None)


def _login(address: Address, options: NetworkOptions, deadline: float) -> Verdict | None:
    answers = _answers(address, [diagnosis.SASL_HANDSHAKE], options, deadline, open_stream)
    return diagnosis.of_sasl_handshake(next(answers))


def _answers(
    address: Address,
    questions: Sequence[bytes],
    options: NetworkOptions,
    deadline: float,
    connect: Callable[[str, int, NetworkOptions, float], socket.socket],
) -> Iterator[bytes]:
    """Yields the first bytes of each answer; none if there was no connection or no answer."""
    with ExitStack() as streams:
        asked: list[socket.socket | None] = []
        for question in questions:
            asked.append(None)
            with suppress(ConnectionLost, OSError):
                stream = streams.enter_context(connect(*address, options, deadline))
                stream.settimeout(max(0.001, deadline - time.monotonic()))
                stream.sendall(question)
                asked[-1] = stream
        for stream_or_none in asked:
            yield b"" if stream_or_none is None else _first_bytes(stream_or_none, deadline)


def _first_bytes(stream: socket.socket, deadline: float) -> bytes:
    data, until = b"", deadline
    with suppress(OSError):
        while len(data) < _ANSWER_BYTES:
            stream.settimeout(max(0.001, until - time.monotonic()))
            more = stream.recv(_ANSWER_BYTES - len(data))
            if not more:
                break
            data += more
            until = min(deadline, time.monotonic() + _REST_S)
    return data


greeting = CachedProbe(_greeting)
"""Finds TLS and HTTP. For a listener that does not answer ApiVersions."""
plaintext = CachedProbe(_plaintext)
"""Finds a Kafka broker without TLS, and HTTP. For a listener that does not answer TLS."""
login = CachedProbe(_login)
"""Finds SASL. For a listener that answers ApiVersions, and closes the connection after it."""
