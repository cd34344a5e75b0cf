"""Brokers that refuse a job: it ends before Spark starts, after one log-in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka.protocol.sasl import SaslAuthenticateRequest

from kfetch.admin import sources
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.progress.reports import read_exit_report
from kfetch_jobs.run import runner
from tests.kfetch.wire.certificates import Authority, server_context
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.sasl.broker_side import LoginServer, plain_server
from tests.kfetch_jobs.commands import Command

BOTH = pytest.mark.parametrize("verb", ["run", "plan"])
PASSWORD = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "${env:PASSWORD}",
}


@pytest.fixture
def kafka(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleKafka]:
    """The cluster of the project: one node with the topic clicks. Spark must not start."""

    @contextmanager
    def no_spark(*_: object, **__: object) -> Iterator[None]:
        pytest.fail("Spark starts")
        yield

    monkeypatch.setattr(runner, "session", no_spark)
    with LittleKafka() as running:
        running.create("clicks")
        monkeypatch.setenv("SERVERS", running.bootstrap)
        monkeypatch.setenv("PASSWORD", "hush")
        yield running


def properties(**pairs: str) -> None:
    """Write the cluster's properties, whose names have _ for dots, into the project's file."""
    file = Path("conf/kfetch.yml")
    lines = [f"    {name.replace('_', '.')}: {text}\n" for name, text in pairs.items()]
    file.write_text(file.read_text() + "".join(lines))


@BOTH
def test_a_wrong_password(kafka: LittleKafka, kfetch: Command, verb: str) -> None:
    """The command ends at once with the broker's words and the cause's code. It names the options
    as the project's file does."""
    LoginServer(kafka.nodes[1], {"PLAIN": plain_server})
    properties(**PASSWORD)
    code, _, said = kfetch(verb, "clicks")

    assert 1 == code
    assert "refuses the log-in of user alice by PLAIN: SASL_AUTHENTICATION_FAILED (58): " in said
    assert said.endswith("Check the user and the password in sasl.* [AUTHENTICATION_FAILED]\n")
    assert "kfetch: job clicks" in said
    assert "hush" not in said
    assert 1 == len(kafka.nodes[1].asked(SaslAuthenticateRequest))


def test_the_supervisor_does_not_repeat_it(kafka: LittleKafka, kfetch: Command) -> None:
    """The exit report says that a person is needed: more log-ins might lock the account."""
    LoginServer(kafka.nodes[1], {"PLAIN": plain_server})
    properties(**PASSWORD)
    kfetch("run", "clicks", "--ending", "ending.json")
    report = read_exit_report(Path("ending.json"))

    assert ExitKind.AUTH is report.kind
    assert report.sentence.startswith("job clicks: 127.0.0.1:")


@BOTH
def test_an_expired_certificate(
    kafka: LittleKafka, kfetch: Command, tmp_path: Path, verb: str
) -> None:
    """It is a refusal, too."""
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.pem)
    kafka.nodes[1].tls = server_context(authority.issue("127.0.0.1", days=(-60, -1)), tmp_path)
    properties(security_protocol="SSL", ssl_truststore_location="../ca.pem")
    code, _, said = kfetch(verb, "clicks")

    assert 1 == code
    assert "expired" in said
    assert said.endswith(" [TLS_FAILED]\n")


def test_plan_has_the_code_of_each_cause(
    kafka: LittleKafka, kfetch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So has a broker that does not answer, which a run would wait for."""
    monkeypatch.setenv("SERVERS", "127.0.0.1:1")
    monkeypatch.setattr(sources, "LOOKUP_TIMEOUT_S", 0.3)
    code, _, said = kfetch("plan", "clicks")

    assert 1 == code
    assert said.endswith(" [CONNECTION_LOST]\n")
