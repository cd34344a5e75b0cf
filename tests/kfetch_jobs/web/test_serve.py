"""A supervisor's HTTP: who may ask, from where, and that files for Prometheus and Grafana fit."""

from __future__ import annotations

import json
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

import promql_parser
import pytest
import yaml

from kfetch_jobs import config
from kfetch_jobs.errors import ConfigError, SupervisorError
from kfetch_jobs.metrics.table import METRICS
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.web.address import TOKEN_VARIABLE, Address, refusal
from kfetch_jobs.web.login import Logins
from kfetch_jobs.web.serve import listening, serving
from tests.kfetch_jobs.projects import ENVIRON

ROOT = Path(__file__).parents[3]
TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "token", "sentence"),
    [
        ("4747", "", "--listen 4747: must be HOST:PORT, as in 127.0.0.1:4747, or none"),
        ("a:b", "", "must be HOST:PORT"),
        ("h:70000", "", "must be HOST:PORT"),
        ("u@127.0.0.1:1", "", "must be HOST:PORT"),
        ("127.0.0.1:1/x", "", "must be HOST:PORT"),
        ("[::1:1", "", "must be HOST:PORT"),
        (":4747", "", "must be HOST:PORT"),
        ("0.0.0.0:1", "", "needs a token: set the environment variable KFETCH_TOKEN"),
        ("[::]:1", "", "needs a token"),
        ("example.org:1", "", "needs a token"),
        ("127.0.0.1:1", "short", "KFETCH_TOKEN must have at least 16 characters"),
        ("127.0.0.1:1", "äääääääääääääääää", "all ASCII"),
    ],
)
def test_addresses_that_cannot_be(text: str, token: str, sentence: str) -> None:
    """Each mistake has its sentence, and none shows the token."""
    with pytest.raises(ConfigError, match=re.escape(sentence)) as error:
        Address.parse(text, token)
    assert not token or token not in str(error.value)


@pytest.mark.parametrize(
    ("text", "token"),
    [("127.0.0.1:0", ""), ("localhost:80", ""), ("[::1]:80", ""), ("0.0.0.0:80", TOKEN)],
)
def test_addresses_that_can_be(text: str, token: str) -> None:
    """They are told as they were written."""
    assert text == str(Address.parse(text, token))


COOKIE = Logins(TOKEN).cookie(1000.0)


@pytest.mark.parametrize(
    ("token", "host", "authorization", "cookie", "status"),
    [
        ("", "127.0.0.1:4747", "", "", None),
        ("", "localhost", "", "", None),
        ("", "[::1]:4747", "", "", None),
        ("", "evil.example:4747", "", "", 421),
        ("", "127.0.0.1.evil.example", "", "", 421),
        ("", "", "", "", 421),
        ("", "[", "", "", 421),
        ("", "evil.example", "", COOKIE, 421),
        (TOKEN, "anything", f"Bearer {TOKEN}", "", None),
        (TOKEN, "anything", f"bearer  {TOKEN}", "", None),
        (TOKEN, "anything", "", COOKIE, None),
        (TOKEN, "127.0.0.1", "", "", 401),
        (TOKEN, "127.0.0.1", f"Bearer {TOKEN}0", "", 401),
        (TOKEN, "127.0.0.1", f"Basic {TOKEN}", "", 401),
        (TOKEN, "127.0.0.1", "Bearer ä", "", 401),
        (TOKEN, "127.0.0.1", "", TOKEN, 401),
    ],
)
def test_who_may_ask(
    token: str, host: str, authorization: str, cookie: str, status: int | None
) -> None:
    """Without a token under a name of this machine, with one for it or its cookie alone."""
    told = refusal(Logins(token), 1000.0, host=host, authorization=authorization, cookie=cookie)

    assert status == (told and told[0])


def _get(address: Address | None, **headers: str) -> tuple[int, str, str]:
    request = urllib.request.Request(f"http://{address}/metrics", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.headers.get("WWW-Authenticate", ""), error.read().decode()


def test_metrics_are_served(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In the form that is asked for, to who may ask; afterwards nobody listens there."""
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
    with socket.socket() as probe:
        assert 0 != probe.connect_ex((address.host, address.port))


def test_a_token_is_asked_for(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests need it, and the jobs that are started don't find it in their environment."""
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with (
        listening("127.0.0.1:0") as (bound, token, _),
        serving(loaded, bound, token, time.time) as address,
    ):
        assert TOKEN_VARIABLE not in os.environ
        assert (401, "Bearer") == _get(address)[:2]
        assert 200 == _get(address, Authorization=f"Bearer {TOKEN}")[0]


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
    monkeypatch.setattr("kfetch_jobs.web.serve._REQUEST_TIMEOUT_S", 0.3)
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with (
        socket.create_server(("127.0.0.1", 0)) as bound,
        serving(loaded, bound, TOKEN, time.time) as address,
        socket.create_connection(bound.getsockname()) as slow,
    ):
        slow.sendall(sent)
        slow.settimeout(0.05)
        deadline, ended = time.monotonic() + 20, False
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


def test_connections_are_bounded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that ask for nothing: the supervisor needs its file descriptors for jobs."""
    monkeypatch.setattr("kfetch_jobs.web.serve._SOCKETS_MAX", 3)
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with (
        ExitStack() as opened,
        socket.create_server(("127.0.0.1", 0)) as bound,
        serving(loaded, bound, "", time.time) as address,
    ):
        kept = [
            opened.enter_context(socket.create_connection(bound.getsockname())) for _ in range(3)
        ]
        with socket.create_connection(bound.getsockname(), timeout=20) as more:
            assert b"" == more.recv(1)
        kept.pop().close()
        deadline = time.monotonic() + 20
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
    """While somebody writes to the supervisor's database, a scrape has all of its figures, new."""
    monkeypatch.setattr("kfetch_jobs.util.newest._FRESH_S", 0.0)
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with (
        listening("127.0.0.1:0") as (bound, token, _),
        serving(loaded, bound, token, time.time) as address,
        Store.of(loaded.storage) as store,
        store._together(),
    ):
        first, second = (_get(address)[2] for _ in range(2))
    collected = re.compile(r"^kfetch_metrics_collected_time_seconds (.*)$", re.MULTILINE)
    assert float(collected.findall(first)[0]) < float(collected.findall(second)[0])
    assert 'errors_total{part="jobs"} 0.0' in second


_RULES = yaml.safe_load((ROOT / "conf" / "prometheus" / "alerts.yml").read_text())["groups"]
_ALERTS = [rule for group in _RULES for rule in group["rules"]]
_BOARD = json.loads((ROOT / "conf" / "grafana" / "kfetch.json").read_text())
_PANELS = [
    (panel["title"], target["expr"], target["legendFormat"])
    for panel in _BOARD["panels"]
    for target in panel["targets"]
]
_SERIES = {name: entry for entry in METRICS.values() for name in entry.samples}
_TARGET_LABELS = {"instance", "le"}


def _check(expression: str, told: set[str]) -> None:
    """It parses; its metrics exist; the labels that it names, and those told, are theirs."""
    whole = expression.replace("$__rate_interval", "1m")
    promql_parser.parse(whole)
    used = set(re.findall(r"\bkfetch_\w+", whole))
    assert used
    assert used <= set(_SERIES)
    known = {label for name in used for label in _SERIES[name].labels} | _TARGET_LABELS
    matched = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", whole))
    grouped = re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", whole)
    assert told | matched | {label.strip() for group in grouped for label in group.split(",")} <= (
        known
    )


@pytest.mark.parametrize("rule", _ALERTS, ids=[rule["alert"] for rule in _ALERTS])
def test_alerts_use_what_there_is(rule: dict[str, str]) -> None:
    """Every alert's expression is PromQL over metrics and labels of the table."""
    _check(rule["expr"], set(re.findall(r"\$labels\.(\w+)", json.dumps(rule))))


def test_the_dashboard_uses_what_there_is() -> None:
    """Every panel's and variable's expression is PromQL over metrics and labels of the table."""
    assert len(_PANELS) > 20
    for _, expression, legend in _PANELS:
        _check(expression, set(re.findall(r"{{(\w+)}}", legend)))
    asked = [one["definition"] for one in _BOARD["templating"]["list"] if "definition" in one]
    for series, label in (re.findall(r"\((.*), (\w+)\)", text)[0] for text in asked):
        _check(series, {label})


def test_every_metric_of_the_jobs_is_seen() -> None:
    """What nobody looks at is not worth its time series: a job's counters are on the dashboard."""
    shown = json.dumps([*_PANELS, *(rule["expr"] for rule in _ALERTS)])
    unseen = [name for name, entry in METRICS.items() if entry.kind == "counter"]

    assert ["kfetch_job_fetch_records_total", "kfetch_job_fetch_connections_opened_total"] == [
        name for name in unseen if name not in shown
    ]
