"""Gets a token from an OIDC provider's token endpoint, with client credentials (KIP-768).

Codes that Kafka's HttpJwtRetriever does not retry are final here, too.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import time
from functools import partial
from http.client import HTTPException
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from kfetch.errors import AuthenticationFailed, OptionError, TokenUnavailable
from kfetch.options.oauth import ClientCredentials
from kfetch.wire.http_request import Request, exchange, server_words, shown_url
from kfetch.wire.retry import RetryPauses
from kfetch.wire.sasl import jwt
from kfetch.wire.tls import context_of

_FINAL_STATUS = frozenset({*range(300, 400), *range(400, 408), *range(409, 418), 501, 505})
"""Kafka's UNRETRYABLE_HTTP_CODES, and redirections: kfetch sends a secret to one address only."""
_UNKNOWN_LIFETIME_S = 300.0
_EXPIRES_IN_MAX_S = 10 * 365 * 86400.0


def request_token(source: ClientCredentials, deadline: float) -> tuple[str, float]:
    """Returns a token, and when it expires in seconds of Unix time.

    Retries up to ``deadline``, a time of ``time.monotonic``. Raises AuthenticationFailed if the
    endpoint refuses the client. Raises TokenUnavailable with the first cause if no try brings a
    token: the last try may have had no time.
    """
    pauses = RetryPauses(source.backoff_s, source.backoff_max_s)
    first_cause: TokenUnavailable | None = None
    while True:
        try:
            return _attempt(source, deadline)
        except TokenUnavailable as cause:
            first_cause = first_cause or cause
            if not pauses.wait(deadline):
                raise first_cause from None


def _attempt(source: ClientCredentials, deadline: float) -> tuple[str, float]:
    try:
        status, body = _post(source, deadline)
    except ssl.SSLCertVerificationError as cause:
        raise AuthenticationFailed(
            f"the certificate of the token endpoint {shown_url(source.url)} is not valid here: "
            f"{cause.verify_message.rstrip('.')}",
            action="Name its authority in ssl.truststore.certificates in kafka.sasl.jaas.config, "
            "or correct the URL",
            retriable=False,
        ) from None
    except (OSError, HTTPException, UnicodeError) as cause:
        text = str(cause) or type(cause).__name__
        raise _unavailable(source, f"gives no answer: {_clean(source, text)}") from None
    if status not in (200, 201):
        raise _refusal(source, status, body)
    return _token(source, body)


def _post(source: ClientCredentials, deadline: float) -> tuple[int, bytes]:
    """Returns the status and the first bytes of the answer. Raises OSError or HTTPException."""
    form = {"grant_type": "client_credentials"}
    if source.scope:
        form["scope"] = source.scope
    request = Request(
        url=source.url,
        method="POST",
        headers=_headers(source),
        body=urlencode(form).encode(),
        connect_timeout_s=source.connect_timeout_s,
        read_timeout_s=source.read_timeout_s,
    )
    is_secured = urlsplit(source.url).scheme == "https"
    return exchange(request, _trusting(source) if is_secured else None, deadline)


def _trusting(source: ClientCredentials) -> ssl.SSLContext:
    """Returns the context of the options; by default it trusts the system's authorities."""
    try:
        return context_of(source.tls)
    except OptionError as problem:
        within = partial(re.compile(r"\bkafka\.(?=ssl\.)").sub, "")
        raise AuthenticationFailed(
            f"TLS of the token endpoint {shown_url(source.url)}, in kafka.sasl.jaas.config: "
            f"{within(problem.what)}",
            action=within(problem.action),
            retriable=False,
        ) from None


def _headers(source: ClientCredentials) -> dict[str, str]:
    return {
        "Authorization": f"Basic {_credentials(source)}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
        "Cache-Control": "no-cache",
    }


def _credentials(source: ClientCredentials) -> str:
    user, password = source.client_id, source.client_secret.reveal()
    if source.urlencode:
        user, password = quote_plus(user), quote_plus(password)
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _token(source: ClientCredentials, body: bytes) -> tuple[str, float]:
    answer = _json(body)
    token = answer.get("access_token") or answer.get("id_token")
    if not isinstance(token, str) or not jwt.is_token(token):
        raise _unavailable(source, "answers without a token")
    now = time.time()
    expires_at = jwt.expiry(token)
    if expires_at is None:
        lifetime = answer.get("expires_in")
        known = isinstance(lifetime, int | float) and 0 < lifetime < _EXPIRES_IN_MAX_S
        expires_at = now + (float(lifetime or 0) if known else _UNKNOWN_LIFETIME_S)
    if expires_at <= now:
        raise _unavailable(source, "answers with an expired token; is this clock right?")
    return token, expires_at


def _refusal(
    source: ClientCredentials, status: int, body: bytes
) -> AuthenticationFailed | TokenUnavailable:
    answer = _json(body)
    named = [answer.get(key) for key in ("error", "error_description", "errorSummary")]
    reasons = [_clean(source, text) for text in named if isinstance(text, str) and text]
    what = f"answers with status {status}{': ' if reasons else ''}{', '.join(reasons)}"
    if status not in _FINAL_STATUS:
        return _unavailable(source, what)
    return AuthenticationFailed(
        f"the token endpoint {shown_url(source.url)} {what}",
        action="Check the client id, the client secret, the scope and the URL",
        retriable=False,
    )


def _unavailable(source: ClientCredentials, what: str) -> TokenUnavailable:
    return TokenUnavailable(f"the token endpoint {shown_url(source.url)} {what}")


def _json(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _clean(source: ClientCredentials, text: str) -> str:
    secret = source.client_secret.reveal()
    return server_words(text, (secret, _credentials(source), urlsplit(source.url).query))
