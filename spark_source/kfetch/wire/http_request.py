"""One request by HTTP to a service beside Kafka: a token endpoint or a schema registry.

An answer is read up to a limit of bytes and of time, however slowly it comes. Redirections are not
followed, because a request may carry a secret, which is for one address only.
"""

from __future__ import annotations

import io
import re
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from typing import Any
from urllib.parse import urlsplit

from kfetch.wire import addresses

_OVERHEAD_BYTES = 1 << 20
"""Of headers, and of chunks' sizes."""
_WORDS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request and its limits. Times in seconds."""

    url: str = field(repr=False)
    """Of http or https. Its query may hold secrets."""
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0
    answer_bytes_max: int = 1 << 20


def exchange(
    request: Request, context: ssl.SSLContext | None, deadline: float
) -> tuple[int, bytes]:
    """Returns the status and the first bytes of the answer.

    ``context``: TLS for a URL of https. ``deadline``: a time of ``time.monotonic``. Raises OSError,
    HTTPException or UnicodeError, also for an answer that ends early.
    """
    parts = urlsplit(request.url)
    assert (context is None) == (parts.scheme == "http"), "TLS is for a URL of https alone"
    connect_s = max(0.001, min(request.connect_timeout_s, deadline - time.monotonic()))
    host = str(parts.hostname)
    if context is None:
        connection = HTTPConnection(host, parts.port)
    else:
        connection = HTTPSConnection(host, parts.port, context=context)
    with closing(connection):
        connection.sock = stream = addresses.connect(host, connection.port, connect_s)
        if context is not None:
            stream.settimeout(connect_s)
            connection.sock = context.wrap_socket(stream, server_hostname=host)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(request.method, path, request.body, dict(request.headers))
        until = min(deadline, time.monotonic() + request.read_timeout_s)
        limited = _Limited(connection.sock, until, request.answer_bytes_max + _OVERHEAD_BYTES)
        # Left to the garbage collector, it may find its file closed, and raise (Python 3.13).
        with closing(HTTPResponse(limited, method=request.method)) as response:  # type: ignore[arg-type]
            response.begin()
            return response.status, _body(response, request.answer_bytes_max)


def _body(response: HTTPResponse, bytes_max: int) -> bytes:
    """Returns the first bytes of the body. ``read`` with a limit accepts a body that is cut."""
    try:
        body = response.read(bytes_max)
    except ValueError as cause:  # a chunk of a size below 0
        raise HTTPException(f"the answer has a wrong chunk: {cause}") from None
    if len(body) < bytes_max and response.length:
        raise IncompleteRead(body, response.length)
    return body


def shown_url(url: str) -> str:
    """Returns the URL without its query, which may hold a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def server_words(text: str, secrets: Iterable[str]) -> str:
    """Returns a server's words for an error: without secrets, and without what is no text.

    A server may echo what it got. So each secret is hidden as it is, URL-encoded in any way, and as
    UTF-8 that somebody read as Latin-1.
    """
    longest_first = sorted(filter(None, secrets), key=len, reverse=True)
    if forms := "|".join("".join(map(_any_form, secret)) for secret in longest_first):
        text = re.sub(forms, "[hidden]", text, flags=re.IGNORECASE)
    return re.sub(r"[^\x20-\x7e]+", " ", text)[:_WORDS_MAX]


def _any_form(character: str) -> str:
    """Returns a pattern for a character of a secret."""
    encoded = character.encode("utf-8", "surrogatepass")
    forms = {character, encoded.decode("latin-1"), "".join(f"%{byte:02x}" for byte in encoded)}
    return f"(?:{'|'.join(map(re.escape, forms | ({'+'} if character == ' ' else set())))})"


class _Limited:
    """A socket for HTTPResponse that gives up at a time, and after a number of bytes."""

    def __init__(self, stream: socket.socket, until: float, bytes_max: int) -> None:
        self._reader = _LimitedReader(stream, until, bytes_max)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._reader)


class _LimitedReader(io.RawIOBase):
    def __init__(self, stream: socket.socket, until: float, bytes_max: int) -> None:
        self._stream, self._until, self._bytes_left = stream, until, bytes_max

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        remaining_s = self._until - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError("timed out")
        self._stream.settimeout(remaining_s)
        size = self._stream.recv_into(buffer)
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise HTTPException("the answer is too long")
        return size
