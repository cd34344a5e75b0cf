"""Where a supervisor listens, and who may ask it; pure.

On loopback anyone on the machine may ask, but no web page of somebody else's: a browser that was
led here under another name says so in Host. Elsewhere a token is a must, or the cookie that a
browser gets for it, and TLS is a proxy's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from kfetch_jobs.errors import ConfigError
from kfetch_jobs.web.login import Logins

__all__ = ["DEFAULT", "TOKEN_VARIABLE", "Address", "refusal"]

DEFAULT = "127.0.0.1:4747"
TOKEN_VARIABLE = "KFETCH_TOKEN"  # noqa: S105 - the variable's name
_TOKEN_LENGTH_MIN = 16


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; port 0 is any that is free."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, token: str = "") -> Address:
        """From ``HOST:PORT``, ``[IPV6]:PORT``. Raises ConfigError, also if a token is missing."""
        try:
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if not host or port is None or parts.netloc != text or "@" in text:
            raise ConfigError(f"--listen {text}: must be HOST:PORT, as in {DEFAULT}, or none")
        made = cls(host, port)
        if not made.local and not token:
            raise ConfigError(
                f"--listen {text}: others than this machine reach it, so it needs a token: put one "
                f"into the environment variable {TOKEN_VARIABLE}, or listen on 127.0.0.1"
            )
        if token and (len(token) < _TOKEN_LENGTH_MIN or not token.isascii()):
            raise ConfigError(
                f"{TOKEN_VARIABLE} must have at least {_TOKEN_LENGTH_MIN} characters, all ASCII: "
                "openssl rand -hex 16 makes one"
            )
        return made

    @property
    def local(self) -> bool:
        """Whether only this machine reaches it."""
        return _is_local(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def refusal(
    logins: Logins, now: float, *, host: str, authorization: str, cookie: str
) -> tuple[int, str] | None:
    """The status and sentence that a request gets by its headers; None: it may pass."""
    if logins.token:
        scheme, _, given = authorization.partition(" ")
        bearer = scheme.lower() == "bearer" and logins.matches_token(given.strip())
        if bearer or logins.valid(cookie, now):
            return None
        return 401, f"this needs the header Authorization: Bearer, with what is in {TOKEN_VARIABLE}"
    try:
        asked = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        asked = ""
    if _is_local(asked):
        return None
    return 421, "this is asked under a name that is not this machine's: use 127.0.0.1"
