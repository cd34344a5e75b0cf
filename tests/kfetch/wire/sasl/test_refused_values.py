"""Tokens and keys that a broker refuses are fetched again, and any error closes the connection."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from kafka.protocol.sasl import SaslAuthenticateRequest

from kfetch.errors import AuthenticationFailed, ConnectionLost
from kfetch.options.oauth import OauthLogin, TokenProvider
from kfetch.options.sasl import AwsLogin, SaslOptions
from kfetch.options.secret import Secret
from kfetch.wire.connection import Connection
from kfetch.wire.sasl import aws, login
from kfetch.wire.sasl.aws import AwsKeys
from kfetch.wire.sasl.shared import Fetched
from kfetch.wire.sasl.tokens import TOKENS
from tests.kfetch.wire.helpers import soon
from tests.kfetch.wire.sasl.broker_side import (
    LoginServer,
    Refused,
    ServerExchange,
    alice,
    bearer_server,
    network,
    plain_server,
)
from tests.kfetch.wire.scripted import Close, ScriptedBroker

SOURCE = TokenProvider(module="kfetch_test_tokens", function="bearer")
BEARER = SaslOptions(mechanism="OAUTHBEARER", login=OauthLogin(source=SOURCE))
MSK = SaslOptions(mechanism="AWS_MSK_IAM", login=AwsLogin(region="eu-west-1"))


@pytest.fixture(autouse=True)
def no_old_values() -> Iterator[None]:
    """Each test fetches for itself."""
    TOKENS.clear()
    aws.KEYS.clear()
    yield
    TOKENS.clear()
    aws.KEYS.clear()


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """A broker."""
    with ScriptedBroker() as running:
        yield running


def log_in(broker: ScriptedBroker, sasl: SaslOptions) -> None:
    """Connect, log in and close."""
    Connection.open("127.0.0.1", broker.port, network(sasl), soon()).close()


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens that the provider has returned: token1, token2, …"""
    returned: list[str] = []

    def bearer() -> str:
        returned.append(f"token{len(returned) + 1}")
        return returned[-1]

    module: Any = ModuleType(SOURCE.module)
    module.bearer = bearer
    monkeypatch.setitem(sys.modules, SOURCE.module, module)
    return returned


def test_a_refused_token_is_fetched_again(broker: ScriptedBroker, tokens: list[str]) -> None:
    """A token that was revoked, or came too early, costs one log-in. The next one has another."""
    server = LoginServer(broker, {"OAUTHBEARER": lambda: bearer_server("token2")})
    with pytest.raises(AuthenticationFailed):
        log_in(broker, BEARER)
    log_in(broker, BEARER)
    log_in(broker, BEARER)

    assert (["token1", "token2"], 2) == (tokens, server.logins)


def test_a_token_stays_if_the_broker_closes(broker: ScriptedBroker, tokens: list[str]) -> None:
    """Only a refusal says something about a token."""
    server = LoginServer(broker, {"OAUTHBEARER": lambda: bearer_server("token1")})
    broker.answer(SaslAuthenticateRequest, Close())
    with pytest.raises(ConnectionLost):
        log_in(broker, BEARER)
    log_in(broker, BEARER)

    assert (["token1"], 1) == (tokens, server.logins)


def msk_server(access_key: str) -> Callable[[], ServerExchange]:
    """The broker's side of AWS_MSK_IAM: it knows one access key."""

    def exchange() -> ServerExchange:
        message = yield b""
        if f'"x-amz-credential":"{access_key}/'.encode() not in message:
            raise Refused("Access denied")
        done = True  # noqa: F841 - the server reads it
        yield b'{"version":"2020_10_22","request-id":"x"}'

    return exchange


def test_refused_keys_of_aws_are_fetched_again(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that were revoked or rotated cost one log-in."""
    fetches: list[aws.AwsKeySource] = []

    def fetch(source: aws.AwsKeySource) -> Fetched[tuple[AwsKeys, str]]:
        fetches.append(source)
        keys = AwsKeys(access_key=f"AKIA{len(fetches)}", secret_key=Secret("hush"))
        return Fetched(value=(keys, ""), renew_at=2e12, expires_at=2e12)

    monkeypatch.setattr(aws.AwsKeySource, "fetch", fetch)
    server = LoginServer(broker, {"AWS_MSK_IAM": msk_server("AKIA2")})
    with pytest.raises(AuthenticationFailed, match="Access denied"):
        log_in(broker, MSK)
    log_in(broker, MSK)
    log_in(broker, MSK)

    assert (2, 2) == (len(fetches), server.logins)


def test_any_error_of_a_log_in_closes_the_connection(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error that is not kfetch's, half a log-in must not pass for a connection."""
    LoginServer(broker, {"PLAIN": plain_server}, lifetime_ms=100_000)
    connection = Connection.open("127.0.0.1", broker.port, network(alice()), soon())

    def fail(*_: object) -> None:
        raise LookupError

    monkeypatch.setattr(login.Login, "run", fail)
    with pytest.raises(LookupError):
        connection._log_in(soon())

    assert not connection.alive
    with pytest.raises(ConnectionLost, match="it was closed"):
        connection._check_alive()
