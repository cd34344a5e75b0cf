"""Tokens for OAUTHBEARER: from an endpoint, a function, a file, or the options themselves."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from kfetch.errors import AuthenticationFailed, TokenUnavailable
from kfetch.options.oauth import (
    ClientCredentials,
    StaticToken,
    TokenFile,
    TokenProvider,
    TokenSource,
)
from kfetch.options.secret import Secret
from kfetch.wire.sasl import jwt
from kfetch.wire.sasl.shared import Fetched, Shared

TOKENS = Shared[Secret]("a token for OAUTHBEARER")
"""The tokens of this process."""
_RENEW_AFTER = 0.8
"""The share of its lifetime after which a token is renewed, as in Kafka's clients."""
_UNKNOWN_LIFETIME_S = 300.0
_MILLISECONDS_FROM = 1e11
"""A larger expiry is in milliseconds, as AWS's signer returns it."""
_FILE_BYTES_MAX = 1 << 20


def token(source: TokenSource, deadline: float) -> str:
    """Returns a valid token. ``deadline``: a time of ``time.monotonic``.

    Raises TokenUnavailable if there is none now, and AuthenticationFailed if there never will be.
    """
    if isinstance(source, StaticToken):
        return source.token.reveal()
    if isinstance(source, TokenFile):
        return _from_file(source)
    if isinstance(source, ClientCredentials):
        return TOKENS.get(source, lambda until: _from_endpoint(source, until), deadline).reveal()
    if isinstance(source, TokenProvider):
        return TOKENS.get(source, lambda _until: _from_function(source), deadline).reveal()
    return jwt.unsecured(source, time.time())[0]


def forget(source: TokenSource, text: str, since: float) -> bool:
    """Forgets a token that a broker refuses, so that the next log-in fetches another one.

    Returns whether it was fetched before ``since``; see ``Shared.forget``.
    """
    return TOKENS.forget(source, Secret(text), since)


def _fetched(text: str, expires_at: float, began: float) -> Fetched[Secret]:
    renew_at = began + _RENEW_AFTER * (expires_at - began)
    return Fetched(value=Secret(text), renew_at=renew_at, expires_at=expires_at)


def _from_endpoint(source: ClientCredentials, deadline: float) -> Fetched[Secret]:
    # Most queries need neither HTTP nor TLS, so only this one imports them.
    from kfetch.wire.sasl.endpoint import request_token

    began = time.time()
    return _fetched(*request_token(source, deadline), began)


def _from_file(source: TokenFile) -> str:
    try:
        with Path(source.path).open("rb") as file:
            text = file.read(_FILE_BYTES_MAX).decode("ascii", "replace").strip()
    except OSError as cause:
        what = f"the token file {source.path} can't be read: {cause.strerror}"
        raise TokenUnavailable(what, file=source.path) from None
    if not jwt.is_token(text):
        raise TokenUnavailable(f"the token file {source.path} holds no token", file=source.path)
    return text


def _from_function(source: TokenProvider) -> Fetched[Secret]:
    name, began = f"{source.module}:{source.function}", time.time()
    function = _function(source, name)
    try:
        result = function()
    except (Exception, SystemExit) as cause:
        # A thread that SystemExit ends says nothing. The text may hold a secret.
        what = f"the token provider {name} raised {type(cause).__name__}{_line(cause)}"
        raise TokenUnavailable(what) from None
    text, expires_at = _result(result, name, began)
    return _fetched(text, expires_at, began)


def _function(source: TokenProvider, name: str) -> Callable[[], Any]:
    try:
        function = getattr(importlib.import_module(source.module), source.function)
    except (ImportError, AttributeError) as cause:
        missing = "module" if isinstance(cause, ImportError) else "function"
        raise AuthenticationFailed(
            f"the token provider {name} can't be imported here: there is no such {missing}, or it "
            "imports one that is missing",
            action="Correct kfetch.oauth.provider, and send the module to driver and executors "
            "with spark.submit.pyFiles. An agent keeps the modules' path of its first query: call "
            "sc.addPyFile before the first query on an executor, or install the module there",
            retriable=False,
        ) from None
    except (Exception, SystemExit) as cause:
        raise AuthenticationFailed(
            f"importing the token provider {name} raised {type(cause).__name__}{_line(cause)}",
            retriable=False,
        ) from None
    return function  # type: ignore[no-any-return]


def _line(cause: BaseException) -> str:
    """Returns where an error was raised, in words."""
    frame = cause.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return ""
    return f" at {frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}"


def _result(result: object, name: str, now: float) -> tuple[str, float]:
    """Returns the token and its expiry from what a provider returned."""
    text, expiry = result, None
    if isinstance(result, tuple) and len(result) >= 2:
        text, expiry = result[:2]
    if not isinstance(text, str) or not jwt.is_token(text):
        raise _bad_result(name, "no token: a text, or a tuple of a text and its expiry")
    expires_at = jwt.expiry(text) if expiry is None else _moment(expiry)
    if expires_at is None:
        if expiry is not None:
            raise _bad_result(name, "no expiry: seconds of Unix time, or a datetime")
        expires_at = now + _UNKNOWN_LIFETIME_S
    if expires_at <= now:
        raise TokenUnavailable(f"the token provider {name} returned an expired token")
    return text, expires_at


def _moment(expiry: object) -> float | None:
    if isinstance(expiry, datetime):
        return expiry.timestamp()
    if isinstance(expiry, bool) or not isinstance(expiry, int | float):
        return None
    return expiry / 1000 if expiry > _MILLISECONDS_FROM else float(expiry)


def _bad_result(name: str, problem: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"the token provider {name} returned {problem}",
        action="Correct the function",
        retriable=False,
    )
