"""Stands between a client and a store, counts the requests, and injects faults: plain HTTP.

with proxied(store) as proxy:
    proxy.fault("PUT", "ck.lease", Fault.LOST_ANSWER)
    proxy.store.path("ck")  # paths whose requests go through the proxy
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from html import unescape
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.store import Store

_CODES = {429: "SlowDown", 501: "NotImplemented", 503: "SlowDown"}


class Fault(StrEnum):
    """What happens to a request."""

    BUSY = "503"
    """The store refuses it, and has done nothing."""
    TOO_MANY = "429"
    """The same, in Google's words: an object is written too often."""
    NOT_BUILT = "501"
    """The store does not know a header, such as If-None-Match."""
    CUT = "cut"
    """The connection ends before the store has it."""
    LOST_ANSWER = "lost answer"
    """The store does it, and the connection ends in place of the answer."""
    HALF_ANSWER = "half an answer"
    """The connection ends within the body."""
    SILENT = "silent"
    """The store does it, and the answer comes after a client of ten seconds has given up."""


@dataclass
class _Rule:
    method: str
    part: str
    fault: Fault
    times: int


@dataclass
class Proxy:
    """A running proxy."""

    store: Store
    """The store's settings and paths, with the proxy as endpoint."""
    delay_s: float = 0.0
    """How long each request waits, as on a way to a store."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path with query of each request so far, decoded."""
    remembers: bool = False
    """Whether a GET gets the answer that the store has given before."""
    faults: int = 0
    """How many requests had a fault so far."""
    _rules: list[_Rule] = field(default_factory=list)
    _answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, method: str, part: str, fault: Fault, times: int = 1) -> None:
        """Let the next requests fail whose path has this part. An empty method means all."""
        self._rules.append(_Rule(method, part, fault, times))

    def heal(self) -> None:
        """End all faults, and forget the requests."""
        with self._lock:
            self._rules.clear()
            self.requests.clear()

    def counted(self) -> dict[str, int]:
        """Returns how many requests there were, by method. A list is a method, too."""
        return dict(
            Counter(
                "LIST" if "list-type" in path or "comp=list" in path else m
                for m, path in self.requests
            )
        )

    def _next(self, method: str, path: str) -> Fault | None:
        with self._lock:
            self.requests.append((method, path))
            for rule in self._rules:
                if rule.times and rule.method in ("", method) and rule.part in path:
                    rule.times -= 1
                    self.faults += 1
                    return rule.fault
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, store: Store) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(store.endpoint)
        self.ended = threading.Event()
        self.proxy = Proxy(replace(store, endpoint=f"http://127.0.0.1:{self.server_address[1]}"))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that have gone."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.server.proxy._next(self.command, unquote(self.path))
        time.sleep(self.server.proxy.delay_s)
        if fault and fault.isdigit():
            self._answer(
                int(fault), {}, f"<Error><Code>{_CODES[int(fault)]}</Code></Error>".encode()
            )
            return
        answer = None if fault is Fault.CUT else self._remembered(body)
        if fault is Fault.SILENT:
            self.server.ended.wait(60)
        if answer is None or fault in (Fault.LOST_ANSWER, Fault.SILENT):
            self.close_connection = True
        else:
            self._answer(*answer, half=fault is Fault.HALF_ANSWER)

    def _remembered(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        proxy = self.server.proxy
        if not proxy.remembers or self.command != "GET":
            return self._asked(body)
        if self.path not in proxy._answers:
            proxy._answers[self.path] = self._asked(body)
        return proxy._answers[self.path]

    def _asked(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        target = self.server.target
        connection = HTTPConnection(str(target.hostname), target.port, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name != "Connection"}
        try:
            connection.request(self.command, self.path, body, headers)
            got = connection.getresponse()
            return got.status, dict(got.getheaders()), _listed_from(self.path, got.read())
        finally:
            connection.close()

    def _answer(
        self, status: int, headers: dict[str, str], body: bytes, half: bool = False
    ) -> None:
        left_out = {"connection", "transfer-encoding", "content-length", "server", "date"}
        lower = {name.lower(): value for name, value in headers.items()}  # Azurite's are
        length = len(body) if self.command != "HEAD" else lower.get("content-length", 0)
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in left_out:
                self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if half else body)
        self.close_connection = self.close_connection or half

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _listed_from(path: str, answer: bytes) -> bytes:
    """Azure begins a list at ``startFrom``. Azurite ignores that."""

    def kept(blob: re.Match[bytes]) -> bytes:
        return blob[0] if unescape(blob[1].decode()) >= begin[0] else b""

    begin = parse_qs(urlsplit(path).query).get("startFrom")
    return re.sub(rb"<Blob><Name>(.*?)</Name>.*?</Blob>", kept, answer) if begin else answer


@contextmanager
def proxied(store: Store) -> Iterator[Proxy]:
    """Start a proxy in front of a store, and stop it behind the block.

    Clients that are made in the block repeat a request after a millisecond.
    """
    with _Server(store) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr("kfetch.storage.open._FIRST_PAUSE_S", 0.001)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.proxy
        finally:
            server.ended.set()
            server.shutdown()
            thread.join(60)
