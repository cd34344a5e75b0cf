"""Logs a connection in (KIP-43, KIP-152), and remembers when to do so again (KIP-368).

The broker may limit a log-in's time. Then the connection logs in again between two requests, at a
random point of 85 to 95 % of that time, as Kafka's clients do.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from kfetch import codes
from kfetch.errors import AuthenticationFailed, ConnectionLost, KfetchError
from kfetch.options.oauth import OauthLogin
from kfetch.options.sasl import AwsLogin, KerberosLogin, SaslOptions
from kfetch.reactions import Api, Reaction, reaction
from kfetch.wire.diagnosis import Listener, Verdict, wrong_listener
from kfetch.wire.http_request import server_words
from kfetch.wire.sasl.mechanisms import Exchange, ExchangeFailed, oauthbearer, plain, scram

_ROUNDS_MAX = 20
"""No mechanism needs more than five. GSSAPI's number is the broker's choice."""
_AGAIN_FROM, _AGAIN_TO = 0.85, 0.95
_AGAIN_MIN_S = 1.1
"""A broker refuses a second log-in within a second of the last one (KIP-368)."""
_NEVER = float("inf")
_MECHANISM_NAME = re.compile(r"[A-Z0-9_-]{1,20}")
_MECHANISMS_MAX = 10


class Caller(Protocol):
    """The part of a connection that a log-in needs."""

    peer: str

    def version(self, message: Any, *, lowest: int = 0, highest: int | None = None) -> int:
        """Returns the newest common version of a message."""

    def call(self, request: Any, deadline: float) -> Any:
        """Sends a request and returns its response."""


class Login:
    """The log-in of one connection."""

    def __init__(
        self, options: SaslOptions, host: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``host``: the broker's name, as it advertises it. ``clock``: in seconds."""
        self._options = options
        self._host = host
        self._clock = clock
        self._again_at = _NEVER
        self._ends_at = _NEVER
        self._succeeded = False
        self._secrets: tuple[str, ...] = ()
        """What this log-in sends, and a broker may repeat."""

    def is_due(self) -> bool:
        """Returns whether to log in again before the next request."""
        return self._clock() >= self._again_at

    def has_ended(self) -> bool:
        """Returns whether the broker closes the connection at the next request."""
        return self._clock() >= self._ends_at

    def run(self, connection: Caller, deadline: float) -> None:
        """Logs in, for the first time or again. ``deadline``: a time of ``time.monotonic``.

        Raises AuthenticationFailed if another try can't help. Otherwise raises ConnectionLost,
        TokenUnavailable or WrongListener, and the caller connects again.
        """
        self._again_at = self._ends_at = _NEVER
        self._shake_hands(connection, deadline)
        began = time.monotonic()
        exchange, forget = self._exchange(deadline)
        try:
            lifetime_ms = self._authenticate(connection, exchange, deadline)
        except ExchangeFailed as cause:
            forget(began)
            raise self._refused(connection, str(cause)) from None
        except AuthenticationFailed as cause:
            # A broker's refusal has a code. Its keys may have changed, or the clock: a fresh token
            # tells.
            if forget(began) and "code" in cause.where:
                raise ConnectionLost(cause.what, peer=connection.peer) from None
            raise
        finally:
            exchange.close()
        self._succeeded = True
        if lifetime_ms > 0:
            now, share = self._clock(), random.uniform(_AGAIN_FROM, _AGAIN_TO)  # noqa: S311
            self._again_at = now + max(_AGAIN_MIN_S, share * lifetime_ms / 1000)
            self._ends_at = now + lifetime_ms / 1000

    def _exchange(self, deadline: float) -> tuple[Exchange, Callable[[float], bool]]:
        """Returns the exchange, and what forgets its token or keys if the broker refuses them.

        The latter returns whether they are from before a time: then fresh ones may do.
        """
        login = self._options.login
        if isinstance(login, OauthLogin):
            from kfetch.wire.sasl import tokens

            text = tokens.token(login.source, deadline)
            self._secrets = (text,)
            forget = partial(tokens.forget, login.source, text)
            return oauthbearer(text, login.extensions), forget
        if isinstance(login, AwsLogin):
            from kfetch.wire.sasl import aws

            found = aws.aws_keys(login, deadline)
            token = found[0].session_token
            self._secrets = (token.reveal(),) if token else ()
            return aws.aws_msk_iam(login, self._host, found), partial(aws.forget, login, found)
        if isinstance(login, KerberosLogin):
            from kfetch.wire.sasl.kerberos import gssapi_exchange

            return gssapi_exchange(login, self._host, deadline), _nothing
        self._secrets = (login.password.reveal(),)
        if self._options.mechanism == "PLAIN":
            return plain(login), _nothing
        return scram(self._options.mechanism, login), _nothing

    def _shake_hands(self, connection: Caller, deadline: float) -> None:
        """Name the mechanism. Version 1 asks for SaslAuthenticate instead of bare bytes."""
        connection.version(SaslHandshakeRequest, lowest=1, highest=1)
        request = SaslHandshakeRequest[1](mechanism=self._options.mechanism)
        reply = self._call(connection, request, deadline)
        if reply.error_code == codes.ILLEGAL_SASL_STATE and not self._succeeded:
            host, _, port = connection.peer.rpartition(":")
            raise wrong_listener(Verdict(listener=Listener.NO_SASL), host, int(port))
        if reply.error_code == codes.UNSUPPORTED_SASL_MECHANISM:
            raise self._not_offered(connection, reply.mechanisms or ())
        self._check(connection, Api.SASL_HANDSHAKE, reply.error_code, "")

    def _authenticate(self, connection: Caller, exchange: Exchange, deadline: float) -> int:
        """Exchange the mechanism's bytes. Returns the log-in's time in ms, 0 for no limit."""
        version = connection.version(SaslAuthenticateRequest)
        data = next(exchange)
        for _ in range(_ROUNDS_MAX):
            request = SaslAuthenticateRequest[version](auth_bytes=data)
            reply = self._call(connection, request, deadline)
            message = reply.error_message or ""
            self._check(connection, Api.SASL_AUTHENTICATE, reply.error_code, message)
            try:
                data = exchange.send(bytes(reply.auth_bytes or b""))
            except StopIteration:
                return int(reply.session_lifetime_ms or 0) if version >= 1 else 0
        raise ExchangeFailed(f"the broker has not ended it after {_ROUNDS_MAX} messages")

    def _call(self, connection: Caller, request: Any, deadline: float) -> Any:
        try:
            return connection.call(request, deadline)
        except ConnectionLost as cause:
            # Some brokers close the connection instead of refusing a password.
            raise cause.prefixed(
                f"logging in{self._as_user()} by {self._options.mechanism}"
            ) from None

    def _check(self, connection: Caller, api: Api, code: int, message: str) -> None:
        if code == codes.NONE:
            return
        text = server_words(message, self._secrets).strip() or codes.description(code)
        if reaction(api, code) is Reaction.FAIL and not (
            self._succeeded and code == codes.ILLEGAL_SASL_STATE
        ):
            raise self._refused(connection, f"{codes.name(code)}: {text}", code)
        sentence = f"{connection.peer} can't log in a user now: {codes.name(code)}: {text}"
        raise ConnectionLost(sentence, peer=connection.peer)

    def _refused(self, connection: Caller, reason: str, code: int | None = None) -> KfetchError:
        sentence = (
            f"{connection.peer} refuses the log-in{self._as_user()} by {self._options.mechanism}: "
            f"{reason}"
        )
        where = {} if code is None else {"code": code}
        return AuthenticationFailed(
            sentence,
            action=self._advice(),
            peer=connection.peer,
            cause=sentence,
            retriable=False,
            **where,
        )

    def _advice(self) -> str:
        if isinstance(self._options.login, OauthLogin):
            return "Check the source of tokens, the scope and the extensions in kafka.sasl.*"
        if isinstance(self._options.login, AwsLogin):
            return "Check the rights kafka-cluster:Connect of the AWS user, and the region"
        if isinstance(self._options.login, KerberosLogin):
            return "Check the principal and kafka.sasl.kerberos.service.name"
        return "Check the user and the password in kafka.sasl.*"

    def _as_user(self) -> str:
        return f" of user {self._options.user}" if self._options.user else ""

    def _not_offered(self, connection: Caller, offered: Any) -> AuthenticationFailed:
        names = [str(name) for name in offered if _MECHANISM_NAME.fullmatch(str(name))]
        known = ", ".join(names[:_MECHANISMS_MAX]) or "others"
        sentence = (
            f"{connection.peer} offers no log-in by {self._options.mechanism}, but by {known}"
        )
        return AuthenticationFailed(
            sentence,
            action="Set kafka.sasl.mechanism to one of them, or name another listener",
            peer=connection.peer,
            cause=sentence,
            retriable=False,
            code=codes.UNSUPPORTED_SASL_MECHANISM,
        )


def _nothing(since: float) -> bool:
    """Forgets nothing: a password or a ticket comes from its own place at each log-in."""
    return False
