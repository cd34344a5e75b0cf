"""The server beside the supervisor's loop."""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError

import psutil
import pytest

from kfetch_jobs import config
from kfetch_jobs.errors import ConfigError, SupervisorError
from kfetch_jobs.supervise.store import supervisor_directory
from kfetch_jobs.web.address import TOKEN_VARIABLE, Address
from kfetch_jobs.web.login import Logins
from kfetch_jobs.web.serve import listening, serving
from tests.kfetch_jobs.pages import browser
from tests.kfetch_jobs.projects import ENVIRON
from tests.kfetch_jobs.stage import locked_database

TOKEN = "0123456789abcdef"


def _get(address: Address | None, **headers: str) -> tuple[int, str, str]:
    request = urllib.request.Request(f"http://{address}/metrics", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.headers.get("WWW-Authenticate", ""), error.read().decode()


def test_metrics_are_served(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Metrics come in the accepted format. After the block nobody listens at the address."""
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    caplog.set_level(logging.INFO)
    with listening("127.0.0.1:0") as (bound, token, _):
        with serving(loaded, bound, token, time.time) as address:
            status, form, text = _get(address)
            assert (200, True) == (status, form.startswith("text/plain; version="))
            assert 'kfetch_job_healthy{job_name="clicks"} 1.0' in text
            status, form, text = _get(address, Accept="application/openmetrics-text")
            assert (200, True) == (status, form.startswith("application/openmetrics-text"))
            assert text.endswith("# EOF\n")
            assert 421 == _get(address, Host="evil.example")[0]
        assert f"metrics: http://{address}/metrics" in caplog.text
        assert "web" not in {thread.name for thread in threading.enumerate()}
    assert address is not None
    # Another process may have the port by now.
    sockets = psutil.Process().net_connections()
    assert address.port not in {one.laddr.port for one in sockets if one.status == "LISTEN"}


def test_a_token_is_asked_for(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests need the token, and it is not in the environment that jobs inherit."""
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with (
        listening("127.0.0.1:0") as (bound, token, _),
        serving(loaded, bound, token, time.time) as address,
    ):
        assert TOKEN_VARIABLE not in os.environ
        assert (401, "Bearer") == _get(address)[:2]
        assert 200 == _get(address, Authorization=f"Bearer {TOKEN}")[0]


def test_the_token_for_metrics(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who scrapes the metrics sees no page and stops no job."""
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with (
        listening("127.0.0.1:0") as (bound, logins, _),
        serving(loaded, bound, logins, time.time),
    ):
        assert "give Prometheus a token of its own by KFETCH_METRICS_TOKEN" in caplog.text

    scraper = {"Authorization": f"Bearer {TOKEN[::-1]}"}
    with browser(loaded, TOKEN, metrics_token=TOKEN[::-1]) as client:
        assert 200 == client.get("/metrics", headers=scraper).status_code
        assert (
            200 == client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code
        )
        for path in ("/", "/jobs/clicks", "/jobs/clicks/log", "/metrics/", "/login"):
            assert 403 == client.get(path, headers=scraper).status_code, path
        refused = client.post("/jobs/clicks/stop", headers=scraper)
        assert (403, True) == (refused.status_code, "for /metrics alone" in refused.text)
        assert 403 == client.post("/login", data={"token": TOKEN[::-1]}).status_code


@pytest.mark.parametrize(
    ("token", "metrics_token", "sentence"),
    [
        (TOKEN, "short", "KFETCH_METRICS_TOKEN must have at least 16 characters"),
        (TOKEN, TOKEN, "KFETCH_METRICS_TOKEN is the token of KFETCH_TOKEN, which also stops jobs"),
        ("", TOKEN, "KFETCH_METRICS_TOKEN has no effect without KFETCH_TOKEN"),
    ],
)
def test_tokens_for_metrics_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, token: str, metrics_token: str, sentence: str
) -> None:
    """Each mistake has its own sentence. None shows a token, and no job inherits one."""
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    monkeypatch.setenv("KFETCH_METRICS_TOKEN", metrics_token)
    with pytest.raises(ConfigError, match=sentence) as raised, listening("127.0.0.1:0"):
        pass
    assert metrics_token not in str(raised.value)
    assert "KFETCH_METRICS_TOKEN" not in os.environ


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost:",
        b"GET /login HTTP/1.1\r\nHost: x\r\n\r\nGET",
        b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\ntoken",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\ntoken",
    ],
)
def test_who_sends_no_whole_request_is_left(
    project: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """The connection is closed after a while, though a byte comes now and then; others go on."""
    monkeypatch.setattr("kfetch_jobs.web.serve._REQUEST_TIMEOUT_S", 0.1)
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with (
        socket.create_server(("127.0.0.1", 0)) as bound,
        serving(loaded, bound, Logins(TOKEN), time.time) as address,
        socket.create_connection(bound.getsockname()) as slow,
    ):
        slow.sendall(sent)
        slow.settimeout(0.05)
        deadline, ended = time.monotonic() + 60, False
        while not ended:
            assert time.monotonic() < deadline
            try:
                slow.sendall(b"x" if sent else b"")
                ended = not slow.recv(65536)
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
        monkeypatch.setattr("kfetch_jobs.web.serve._REQUEST_TIMEOUT_S", 20.0)
        assert 200 == _get(address, Authorization=f"Bearer {TOKEN}")[0]


@pytest.mark.parametrize("requests", [1, 60])
def test_who_reads_no_answer_is_left(
    project: Path, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    """The connection of a client that reads nothing makes room for others after a while. The answer
    may wait in the server's memory, or beside it for room there."""
    monkeypatch.setattr("kfetch_jobs.web.serve._CONNECTIONS_MAX", 2)
    monkeypatch.setattr("kfetch_jobs.web.serve._REQUEST_TIMEOUT_S", 1.0)
    monkeypatch.setattr("kfetch_jobs.web.serve._ANSWER_TIMEOUT_S", 1.0)
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with (
        socket.create_server(("127.0.0.1", 0)) as bound,
        serving(loaded, bound, Logins(), time.time) as address,
        socket.socket() as idle,
    ):
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the smallest that there is
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        idle.connect(bound.getsockname())
        request = f" /static/uPlot-1.6.32.iife.min.js HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
        idle.sendall(b"HEAD" + request)
        assert idle.recv(65536).startswith(b"HTTP/1.1 200")
        idle.sendall((b"GET" + request) * requests)
        deadline = time.monotonic() + 20
        while not _answers(address):
            assert time.monotonic() < deadline


def test_who_asks_ahead_stays(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends the next request before it has read a response keeps its connection. Each
    response has a time of its own."""
    monkeypatch.setattr("kfetch_jobs.web.serve._ANSWER_TIMEOUT_S", 1.0)
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with (
        socket.create_server(("127.0.0.1", 0)) as bound,
        serving(loaded, bound, Logins(), time.time) as address,
        socket.create_connection(bound.getsockname(), timeout=20) as client,
    ):
        request = f"HEAD /static/uPlot-1.6.32.iife.min.js HTTP/1.1\r\nHost: {address}\r\n\r\n"
        answered, end = 20, time.monotonic() + 1.5
        while time.monotonic() < end:
            client.sendall(request.encode() * answered)
            answered = client.recv(65536).count(b"HTTP/1.1 200")
            assert answered > 0


def test_connections_are_bounded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle connections count too: the supervisor needs its file descriptors for jobs."""
    monkeypatch.setattr("kfetch_jobs.web.serve._SOCKETS_MAX", 3)
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with (
        ExitStack() as opened,
        socket.create_server(("127.0.0.1", 0)) as bound,
        serving(loaded, bound, Logins(), time.time) as address,
    ):
        kept = [
            opened.enter_context(socket.create_connection(bound.getsockname())) for _ in range(3)
        ]
        with socket.create_connection(bound.getsockname(), timeout=60) as more:
            assert b"" == more.recv(1)
        kept.pop().close()
        deadline = time.monotonic() + 60
        while not _answers(address):
            assert time.monotonic() < deadline


def _answers(address: Address | None) -> bool:
    try:
        return _get(address)[0] == 200
    except OSError:
        return False


def test_a_port_that_is_taken(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that was named is an error, the default one costs the metrics alone; none is none."""
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        with (
            pytest.raises(SupervisorError, match=f"cannot listen on {taken}"),
            listening(taken),
        ):
            pass
        monkeypatch.setattr("kfetch_jobs.web.serve.DEFAULT", taken)
        with (
            listening(None) as (bound, token, _),
            serving(loaded, bound, token, time.time) as address,
        ):
            assert address is None
    assert "no page and no metrics; name another address with --listen" in caplog.text
    with listening("none") as (bound, _, _):
        assert bound is None


def test_a_scrape_waits_for_no_writer(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While somebody writes to the supervisor's database, a scrape has all metrics, up to date."""
    monkeypatch.setattr("kfetch_jobs.util.cached_value._FRESH_S", 0.0)
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with (
        listening("127.0.0.1:0") as (bound, token, _),
        serving(loaded, bound, token, time.time) as address,
        locked_database(supervisor_directory(loaded.storage) / "kfetch.db"),
    ):
        first, second = (_get(address)[2] for _ in range(2))
    collected = re.compile(r"^kfetch_metrics_collected_time_seconds (.*)$", re.MULTILINE)
    assert float(collected.findall(first)[0]) < float(collected.findall(second)[0])
    assert 'errors_total{part="jobs"} 0.0' in second
