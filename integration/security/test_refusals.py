"""A secured broker says no: each reason has its own sentence, within ten seconds, without a secret.

``kfetch check`` asks here, as ``kfetch doctor`` and the source's driver do. One case goes through
Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from integration.secured import SecuredCluster
from integration.secured.certificates import Authority
from integration.security.access import options, read
from integration.streams import drain
from kfetch.admin import brokers
from kfetch.errors import AccessRefused, KfetchError

pytestmark = pytest.mark.integration
WITHIN_S = 10.0
WRONG = "wr0ng-password"
Change = Callable[[dict[str, str], Path], dict[str, str]]


def wrong_password(kafka: dict[str, str], _: Path) -> dict[str, str]:
    login = kafka["kafka.sasl.jaas.config"]
    password = login.split('password="')[1].split('"')[0]
    return kafka | {"kafka.sasl.jaas.config": login.replace(password, WRONG)}


def unknown_user(kafka: dict[str, str], _: Path) -> dict[str, str]:
    login = kafka["kafka.sasl.jaas.config"]
    return kafka | {"kafka.sasl.jaas.config": login.replace('"reader"', '"nobody"')}


def unknown_authority(kafka: dict[str, str], directory: Path) -> dict[str, str]:
    Authority.open(directory, "stranger")
    return kafka | {"kafka.ssl.truststore.location": str(directory / "stranger.pem")}


def foreign_certificate(kafka: dict[str, str], directory: Path) -> dict[str, str]:
    issued = Authority.open(directory, "stranger").provide("reader")
    return kafka | {"kafka.ssl.keystore.location": str(issued)}


def without_certificate(kafka: dict[str, str], _: Path) -> dict[str, str]:
    return {name: text for name, text in kafka.items() if "keystore" not in name}


def as_it_is(kafka: dict[str, str], _: Path) -> dict[str, str]:
    return kafka


def without_login(kafka: dict[str, str], _: Path) -> dict[str, str]:
    return kafka | {"kafka.security.protocol": "PLAINTEXT"}


def without_login_in_tls(kafka: dict[str, str], _: Path) -> dict[str, str]:
    return kafka | {"kafka.security.protocol": "SSL"}


def tls_at_plaintext(kafka: dict[str, str], directory: Path) -> dict[str, str]:
    return kafka | {"kafka.security.protocol": "SASL_SSL"}


def without_tls(kafka: dict[str, str], _: Path) -> dict[str, str]:
    return kafka | {"kafka.security.protocol": "PLAINTEXT"}


CASES: dict[str, tuple[str, str, Change, str]] = {
    "wrong password, SCRAM": (
        "SASL_SSL",
        "SCRAM-SHA-512",
        wrong_password,
        "refuses the log-in of user reader by SCRAM-SHA-512",
    ),
    "wrong password, PLAIN": (
        "SASL_PLAINTEXT",
        "PLAIN",
        wrong_password,
        "refuses the log-in of user reader by PLAIN",
    ),
    "unknown user": (
        "SASL_PLAINTEXT",
        "SCRAM-SHA-256",
        unknown_user,
        "refuses the log-in of user nobody by SCRAM-SHA-256",
    ),
    "unknown authority": (
        "SSL",
        "",
        unknown_authority,
        "has a certificate that no trusted authority has signed",
    ),
    "expired": ("EXPIRED", "", as_it_is, "has a certificate that has expired"),
    "other name": ("ELSEWHERE", "", as_it_is, "has a certificate for other names than 127.0.0.1"),
    "no certificate": ("MTLS", "", without_certificate, "requires a client certificate"),
    "foreign certificate": (
        "MTLS",
        "",
        foreign_certificate,
        "refuses the client certificate of kafka.ssl.keystore",
    ),
    "no log-in": ("SASL_PLAINTEXT", "PLAIN", without_login, "expects a log-in by SASL"),
    "no TLS": ("SSL", "", without_tls, "expects TLS"),
    "no log-in within TLS": ("SASL_SSL", "PLAIN", without_login_in_tls, "expects a log-in by SASL"),
    "TLS at a listener without": (
        "SASL_PLAINTEXT",
        "PLAIN",
        tls_at_plaintext,
        "is a Kafka listener without TLS",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_refusal_has_its_sentence(secured: SecuredCluster, tmp_path: Path, case: str) -> None:
    """The sentence says what the broker refuses and what to do, and has no password."""
    listener, mechanism, change, sentence = CASES[case]
    kafka = change(options(secured, listener, mechanism=mechanism or "PLAIN"), tmp_path)
    began = time.monotonic()
    with pytest.raises(KfetchError) as refused:
        brokers.check(kafka)

    assert sentence in refused.value.message
    assert refused.value.action
    assert time.monotonic() - began < WITHIN_S
    shown = f"{refused.value!r} {refused.value.where}"
    assert WRONG not in shown
    assert not any(password in shown for password in secured.credentials.passwords.values())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.long
def test_the_source_says_the_same(
    secured: SecuredCluster, secret_topic: str, tmp_path: Path, case: str
) -> None:
    """A query's driver fails with the same sentence as the check, in the same time."""
    listener, mechanism, change, sentence = CASES[case]
    kafka = change(options(secured, listener, mechanism=mechanism or "PLAIN"), tmp_path)
    began = time.monotonic()
    with pytest.raises(KfetchError) as refused:
        read(kafka, secret_topic)

    assert sentence in refused.value.message
    assert time.monotonic() - began < WITHIN_S


@pytest.mark.parametrize(
    ("listener", "principal"), [("SASL_PLAINTEXT", "User:denied"), ("MTLS", "this user")]
)
def test_a_denied_topic(
    secured: SecuredCluster, secret_topic: str, listener: str, principal: str
) -> None:
    """A user who may only describe: a read and a check name the user, operation and topic."""
    kafka = options(secured, listener, "denied")
    began = time.monotonic()
    with pytest.raises(AccessRefused) as refused:
        read(kafka, secret_topic)
    state = brokers.check(kafka, [secret_topic])

    assert f"ACLs don't let {principal}" in refused.value.message
    assert f"read topic {secret_topic}: the operation READ is missing" in refused.value.message
    (problem,) = state.problems
    assert problem.startswith(f"the ACLs of topic {secret_topic} let {principal}")
    assert problem.endswith(
        "describe it and not read it: add the operation READ with kafka-acls.sh"
    )
    assert time.monotonic() - began < WITHIN_S


def test_a_reader_has_no_problem(secured: SecuredCluster, secret_topic: str) -> None:
    """``kfetch check`` finds nothing for the user who may read."""
    assert () == brokers.check(options(secured, "SASL_SSL"), [secret_topic]).problems


def test_a_wrong_password_through_spark(
    spark: SparkSession, secured: SecuredCluster, secret_topic: str, tmp_path: Path
) -> None:
    """The query fails at once. Spark shows the sentence and no password."""
    kafka = wrong_password(options(secured, "SASL_SSL"), tmp_path)
    frame = (
        spark.readStream.format("kfetch")
        .options(**kafka, subscribe=secret_topic, startingOffsets="earliest")
        .load()
    )
    began = time.monotonic()
    with pytest.raises(StreamingQueryException) as failed:
        drain(frame, tmp_path / "checkpoint")

    assert "refuses the log-in of user reader by SCRAM-SHA-512" in str(failed.value)
    assert WRONG not in str(failed.value)
    assert time.monotonic() - began < WITHIN_S + 5  # Spark's own start and end of a query
