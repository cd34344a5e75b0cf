"""The address on which a supervisor listens, and the requests that it refuses; pure.

On loopback every user of the machine may send requests, but no foreign web page may: the Host
header shows the name that a browser used. On other addresses each request needs a token, or the
cookie for it. A proxy must add TLS.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from kfetch_jobs.errors import ConfigError
from kfetch_jobs.web.login import Logins

DEFAULT = "127.0.0.1:4747"
TOKEN_VARIABLE = "KFETCH_TOKEN"  # noqa: S105 - the variable's name
METRICS_TOKEN_VARIABLE = "KFETCH_METRICS_TOKEN"  # noqa: S105 - the variable's name
METRICS_PATH = "/metrics"
_TOKEN_LENGTH_MIN = 16
_ANY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - how this machine reaches them


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port. Port 0 stands for any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, token: str = "") -> Address:
        """Parse ``HOST:PORT`` or ``[IPV6]:PORT``.

        Raises ConfigError for other texts, and for a missing or short token.
        """
        try:
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if not host or port is None or parts.netloc != text or "@" in text:
            raise ConfigError(f"--listen {text}: must be HOST:PORT, as in {DEFAULT}, or none")
        address = cls(host, port)
        if not address.local and not token:
            raise ConfigError(
                f"--listen {text}: other machines can reach it, so it needs a token: set the "
                f"environment variable {TOKEN_VARIABLE}, or listen on 127.0.0.1"
            )
        _check_token(TOKEN_VARIABLE, token)
        return address

    @property
    def local(self) -> bool:
        """Whether only this machine reaches it."""
        return _is_local(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def page_sentence(address: Address | None, *, token: bool, closed: str) -> str:
    """Returns a sentence for people: the page's address, or why there is no page.

    ``token``: whether people must log in. ``closed``: the reason if there is no address.
    """
    if address is None:
        return f"no page: {closed}"
    here = Address(_ANY_INTERFACE.get(address.host, address.host), address.port)
    others = f", from other machines at port {address.port} of this one"
    page = f"page: http://{here}/{others if address.host in _ANY_INTERFACE else ''}"
    return f"{page}; log in with the token of {TOKEN_VARIABLE}" if token else page


def check_tokens(logins: Logins) -> None:
    """Raises ConfigError for a token for metrics that is too short, or not needed, or no secret."""
    if not logins.metrics_token:
        return
    _check_token(METRICS_TOKEN_VARIABLE, logins.metrics_token)
    if not logins.token:
        raise ConfigError(
            f"{METRICS_TOKEN_VARIABLE} has no effect without {TOKEN_VARIABLE}: set both, or none"
        )
    if logins.matches_token(logins.metrics_token):
        raise ConfigError(
            f"{METRICS_TOKEN_VARIABLE} is the token of {TOKEN_VARIABLE}, which also stops jobs: "
            "give it a value of its own"
        )


def _check_token(variable: str, token: str) -> None:
    if token and (len(token) < _TOKEN_LENGTH_MIN or not token.isascii()):
        raise ConfigError(
            f"{variable} must have at least {_TOKEN_LENGTH_MIN} characters, all ASCII: "
            "openssl rand -hex 16 makes one"
        )


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def refusal(
    logins: Logins, now: float, *, host: str, authorization: str, cookie: str, path: str = "/"
) -> tuple[int, str] | None:
    """Returns status and sentence for a refused request; None if its headers are all right.

    ``now`` is in seconds since 1970.
    """
    if logins.token:
        scheme, _, credentials = authorization.partition(" ")
        token = credentials.strip() if scheme.lower() == "bearer" else ""
        if logins.matches_token(token) or logins.valid(cookie, now):
            return None
        if logins.matches_metrics_token(token):
            sentence = f"the token of {METRICS_TOKEN_VARIABLE} is for {METRICS_PATH} alone"
            return None if path == METRICS_PATH else (403, sentence)
        return (
            401,
            f"this needs the header Authorization: Bearer with the token of {TOKEN_VARIABLE}",
        )
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    if _is_local(name):
        return None
    return 421, "the request names another host than this machine: use 127.0.0.1"
