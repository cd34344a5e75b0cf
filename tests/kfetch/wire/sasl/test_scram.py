"""SCRAM: RFC 7677's example to the byte, a broker written from RFC 5802, and hostile brokers."""

from __future__ import annotations

import base64
import time
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfetch.options.sasl import PasswordLogin
from kfetch.options.secret import Secret
from kfetch.wire.sasl.mechanisms import Exchange, ExchangeFailed, scram
from tests.kfetch.wire.sasl.broker_side import Refused, scram_server

PENCIL = PasswordLogin(user="user", password=Secret("pencil"))
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def begun() -> Exchange:
    """The exchange of RFC 7677, behind its first message."""
    exchange = scram("SCRAM-SHA-256", PENCIL)
    with patch("secrets.token_urlsafe", lambda _size: NONCE):
        assert b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO" == next(exchange)
    return exchange


def test_the_example_of_the_rfc() -> None:
    """The messages of RFC 7677, section 3."""
    exchange = begun()
    final = exchange.send(SERVER_FIRST.encode())

    assert final.decode() == (
        f"c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL.encode())


HOSTILE_FIRST = [
    ("", "nonce"),
    ("e=unknown-user", "the broker says unknown-user"),
    ("e=\x1b[2Jx", "no reason that can be shown"),
    (f"m=ext,{SERVER_FIRST}", "extension"),
    (SERVER_FIRST.replace("rOp", "xOp"), "nonce"),
    (SERVER_FIRST.replace(SERVER_NONCE, NONCE), "nonce"),
    (SERVER_FIRST.replace("s=W22ZaJ0SNY7soEsUEjb6gQ==,", ""), "no salt"),
    (SERVER_FIRST.replace("W22Z", "W2 Z"), "no salt"),
    (SERVER_FIRST.replace("4096", "4095"), "iterations outside of 4096 to 1000000"),
    (SERVER_FIRST.replace("4096", "-4096"), "iterations"),
    (SERVER_FIRST.replace("4096", "1000001"), "iterations"),
    (SERVER_FIRST.replace("4096", "9" * 5000), "iterations"),
    (SERVER_FIRST.replace("4096", "x"), "iterations"),
    (SERVER_FIRST.replace(",i=4096", ""), "iterations"),
]


@pytest.mark.parametrize(("first", "problem"), HOSTILE_FIRST)
def test_a_wrong_challenge_ends_the_exchange(first: str, problem: str) -> None:
    """A challenge without a fresh nonce, a salt or sane work gets no proof, and costs no time."""
    exchange, began = begun(), time.process_time()
    with pytest.raises(ExchangeFailed, match=problem):
        exchange.send(first.encode())

    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("final", "problem"),
    [
        ("", "does not prove"),
        ("v=", "does not prove"),
        ("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "does not prove"),
        ("v=!!!!", "does not prove"),
        ("e=invalid-proof", "the broker says invalid-proof"),
        (f"e=other-error,{SERVER_FINAL}", "the broker says other-error"),
    ],
)
def test_a_broker_must_prove_itself(final: str, problem: str) -> None:
    """A broker that does not know the password does not get as far as a request."""
    exchange = begun()
    exchange.send(SERVER_FIRST.encode())
    with pytest.raises(ExchangeFailed, match=problem):
        exchange.send(final.encode())


@given(st.binary(max_size=60), st.binary(max_size=60))
@settings(max_examples=30)
def test_any_answers(first: bytes, final: bytes) -> None:
    """No bytes of a broker raise anything but ExchangeFailed, and none are accepted."""
    exchange = begun()
    with pytest.raises(ExchangeFailed):
        exchange.send(first)
    exchange = begun()
    exchange.send(SERVER_FIRST.encode())
    with pytest.raises(ExchangeFailed):
        exchange.send(final)


@pytest.mark.parametrize("digest", ["sha256", "sha512"])
@pytest.mark.parametrize("user", ["alice", "a,b=c", "=2C", "é,ß", "日本"])
@pytest.mark.parametrize("password", ["wonder=,land", "pa ss", "ªé\u0301"])
def test_against_a_broker(digest: str, user: str, password: str) -> None:
    """Every name and password arrives as it was written: Kafka prepares neither."""
    login = PasswordLogin(user=user, password=Secret(password))
    client = scram(f"SCRAM-SHA-{digest[3:]}", login)
    server = scram_server(digest, user, password)
    next(server)
    message = server.send(client.send(server.send(next(client))))

    with pytest.raises(StopIteration):
        client.send(message)


def test_a_wrong_password_is_refused() -> None:
    """The proof of another password does not pass."""
    client, server = scram("SCRAM-SHA-256", PENCIL), scram_server("sha256", "user", "pen")
    next(server)
    final = client.send(server.send(next(client)))
    with pytest.raises(Refused):
        server.send(final)


def test_nonces_differ() -> None:
    """Each exchange has a nonce of its own."""
    nonces = {next(scram("SCRAM-SHA-256", PENCIL)) for _ in range(20)}

    assert 20 == len(nonces)
    assert all(len(base64.urlsafe_b64decode(n.decode().partition("r=")[2])) >= 18 for n in nonces)
