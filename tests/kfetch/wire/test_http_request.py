"""One request by HTTP: answers that are cut, damaged or far too long."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from http.client import HTTPException, IncompleteRead

import pytest

from kfetch.wire import http_request
from kfetch.wire.http_request import Request, exchange

_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


def _answered(answer: bytes) -> tuple[int, bytes]:
    """What a client gets of an answer, which may have 4 bytes. Then the server hangs up."""

    def serve() -> None:
        stream, _ = server.accept()
        with stream:
            stream.recv(1 << 16)
            with suppress(OSError):  # the client hangs up first
                stream.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/a"
            request = Request(url=url, answer_bytes_max=4)
            return exchange(request, None, time.monotonic() + 60)
        finally:
            thread.join(60)


def test_each_address_has_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of three addresses that drop packets takes no longer than one."""

    class BlackHole(socket.socket):
        def connect(self, address: object) -> None:
            waits.append(self.gettimeout() or 0.0)
            raise TimeoutError("timed out")

    waits: list[float] = []
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"192.0.2.{n}", 80)) for n in (1, 2, 3)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "socket", BlackHole)
    request = Request(url="http://registry.example/a", connect_timeout_s=30.0)

    with pytest.raises(TimeoutError):
        exchange(request, None, time.monotonic() + 60)
    assert [10.0, 15.0, 30.0] == [pytest.approx(wait, abs=0.1) for wait in waits]


@pytest.mark.parametrize("answer", [_SIZED + b"abcde", _CHUNKED + b"5\r\nabcde\r\n0\r\n\r\n"])
def test_an_answer_is_read_up_to_its_limit(answer: bytes) -> None:
    """The rest is not read."""
    assert (200, b"abcd") == _answered(answer)


@pytest.mark.parametrize(
    "answer", [_SIZED + b"abc", _CHUNKED + b"5\r\nabc", _CHUNKED + b"3\r\nabc"]
)
def test_a_cut_answer_is_an_error(answer: bytes) -> None:
    """It must not look like a short one: another try may help."""
    with pytest.raises(IncompleteRead):
        _answered(answer)


def test_a_chunk_of_a_size_below_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error of HTTP. Python reads ``-1`` as all bytes, up to the limit of the client."""
    monkeypatch.setattr(http_request, "_OVERHEAD_BYTES", 1000)
    with pytest.raises(HTTPException):
        _answered(_CHUNKED + b"-5\r\nabc")
    with pytest.raises(HTTPException, match="too long"):
        _answered(_CHUNKED + b"-1\r\n" + bytes(20_000))
