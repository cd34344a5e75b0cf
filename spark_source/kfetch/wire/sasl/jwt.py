"""JSON Web Tokens: reading when one expires, and making one without a signature.

kfetch checks no signature. The broker does.
"""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

from kfetch.options.oauth import UnsecuredToken

_B64TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750, section 2.1."""


def is_token(text: object) -> bool:
    """Returns whether this is the text of a bearer token."""
    return isinstance(text, str) and _B64TOKEN.fullmatch(text) is not None


def expiry(token: str) -> float | None:
    """Returns the claim ``exp`` in seconds of Unix time; None if the token has no readable one."""
    try:
        text = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        moment = float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    return moment if math.isfinite(moment) else None


def unsecured(source: UnsecuredToken, now: float) -> tuple[str, float]:
    """Returns a token without a signature and its expiry in seconds, as Kafka's handler makes them.

    Its times are whole milliseconds, as in Java. The broker rounds a finer time up, and it refuses
    a token from the future.
    """
    issued_at = math.floor(now * 1000) / 1000
    expires_at = issued_at + source.lifetime_s
    claims = {"iat": issued_at, "exp": expires_at, **dict(source.claims)}
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}.", expires_at


def _encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
