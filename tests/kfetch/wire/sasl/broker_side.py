"""The broker's side of a log-in, for scripted brokers: who may log in, and for how long."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Generator, Mapping
from typing import Any

from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from kfetch.options import NetworkOptions
from kfetch.options.sasl import PasswordLogin, SaslOptions
from kfetch.options.secret import Secret
from kfetch.options.security import SecurityOptions
from tests.kfetch.wire.scripted import ScriptedBroker

UNSUPPORTED_MECHANISM, REFUSED = 33, 58
ServerExchange = Generator[bytes, bytes, None]


class Refused(Exception):
    """The broker refuses the log-in. The text is its message."""


def alice(mechanism: str = "PLAIN", password: str = "wonder=,land") -> SaslOptions:
    """The options of a user of PLAIN or SCRAM."""
    return SaslOptions(
        mechanism=mechanism, login=PasswordLogin(user="alice", password=Secret(password))
    )


def network(sasl: SaslOptions, **options: Any) -> NetworkOptions:
    """The options of connections that log in."""
    defaults = {"request_timeout_s": 5.0, "connect_timeout_s": 5.0, "retry_backoff_s": 0.001}
    return NetworkOptions(security=SecurityOptions(sasl=sasl), **{**defaults, **options})


class LoginServer:
    """Lets a scripted broker ask for log-ins. It serves one connection at a time."""

    def __init__(
        self,
        broker: ScriptedBroker,
        exchanges: Mapping[str, Callable[[], ServerExchange]],
        lifetime_ms: int = 0,
    ) -> None:
        self.lifetime_ms = lifetime_ms
        self.logins = 0
        """Successful log-ins."""
        self._exchanges = exchanges
        self._exchange: ServerExchange | None = None
        broker.always(SaslHandshakeRequest, self._handshake)
        broker.always(SaslAuthenticateRequest, self._authenticate)

    def _handshake(self, request: Any) -> Any:
        start = self._exchanges.get(request.mechanism)
        if start is not None:
            self._exchange = start()
            next(self._exchange)
        return SaslHandshakeResponse(
            error_code=0 if start else UNSUPPORTED_MECHANISM, mechanisms=[*self._exchanges]
        )

    def _authenticate(self, request: Any) -> Any:
        assert self._exchange is not None, "a log-in without a handshake"
        try:
            answer = self._exchange.send(bytes(request.auth_bytes))
        except Refused as cause:
            return SaslAuthenticateResponse(
                error_code=REFUSED,
                error_message=str(cause),
                auth_bytes=b"",
                session_lifetime_ms=0,
            )
        done = self._exchange.gi_frame is None or _is_last(self._exchange)
        self.logins += done
        return SaslAuthenticateResponse(
            error_code=0,
            error_message=None,
            auth_bytes=answer,
            session_lifetime_ms=self.lifetime_ms if done else 0,
        )


def _is_last(exchange: ServerExchange) -> bool:
    return bool(exchange.gi_frame.f_locals.get("done"))


def plain_server(user: str = "alice", password: str = "wonder=,land") -> ServerExchange:
    """The broker's side of PLAIN."""
    message = yield b""
    if message.decode().split("\0") != ["", user, password]:
        raise Refused("Authentication failed: Invalid username or password")
    done = True  # noqa: F841 - the server reads it
    yield b""


def scram_server(
    digest: str = "sha256",
    user: str = "alice",
    password: str = "wonder=,land",
    iterations: int = 4096,
) -> ServerExchange:
    """The broker's side of SCRAM, written from RFC 5802 alone."""
    first = (yield b"").decode()
    assert first.startswith("n,,"), first
    name, nonce = (part[2:] for part in first[3:].split(","))
    if name.replace("=2C", ",").replace("=3D", "=") != user:
        raise Refused("no such user")
    salt, nonce = b"salt and pepper", nonce + "broker"
    challenge = f"r={nonce},s={base64.b64encode(salt).decode()},i={iterations}"
    final = (yield challenge.encode()).decode()
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    bare, _, proof = final.rpartition(",p=")
    message = f"{first[3:]},{challenge},{bare}".encode()
    client_key = hmac.new(salted, b"Client Key", digest).digest()
    stored = hashlib.new(digest, client_key).digest()
    signature = hmac.new(stored, message, digest).digest()
    if bytes(a ^ b for a, b in zip(client_key, signature, strict=True)) != base64.b64decode(proof):
        raise Refused("Authentication failed during authentication due to invalid credentials")
    server_key = hmac.new(salted, b"Server Key", digest).digest()
    done = True  # noqa: F841 - the server reads it
    yield b"v=" + base64.b64encode(hmac.new(server_key, message, digest).digest())


def bearer_server(token: str, extensions: str = "") -> ServerExchange:
    """The broker's side of OAUTHBEARER: JSON for a wrong token, then an error (RFC 7628)."""
    message = yield b""
    if message.decode() != f"n,,\1auth=Bearer {token}\1{extensions}\1":
        answer = yield b'{"status":"invalid_token"}'
        assert answer == b"\1"
        raise Refused('{"status":"invalid_token"}')
    done = True  # noqa: F841 - the server reads it
    yield b""
