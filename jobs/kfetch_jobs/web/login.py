"""Cookies that replace the token in a browser, and checks of forms. Pure.

A browser can't send ``Authorization: Bearer``. A person who knows the token gets a cookie. It has
an end time and is signed with the token, so the supervisor stores nothing. A new token ends all
cookies. A request that changes something must come from a page of this supervisor (OWASP's
cross-site request forgery cheat sheet): the browser's headers name the origin, and the form has a
secret that other sites can't read.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

LOGIN_LIFETIME_S = 12 * 3600
_FIELDS_MAX = 8
_PORT = re.compile(r":(\d{1,5})")
_LOCAL_PATH = re.compile(r"/(?:jobs/[A-Za-z0-9_-]+)?")


@dataclass(frozen=True, slots=True, repr=False)
class Logins:
    """Makes and checks cookies and tokens. With an empty token nobody must log in."""

    token: str = ""
    """For everything: pages, orders and metrics."""
    metrics_token: str = ""
    """For the metrics alone. It opens no page and gives no order."""

    def matches_token(self, text: str) -> bool:
        """Returns whether the text is the token."""
        return bool(self.token) and _same(text, self.token)

    def matches_metrics_token(self, text: str) -> bool:
        """Returns whether the text is the token for metrics."""
        return bool(self.metrics_token) and _same(text, self.metrics_token)

    def cookie(self, now: float) -> str:
        """Returns a cookie for a person who knows the token. ``now``: seconds since 1970."""
        until = str(int(now) + LOGIN_LIFETIME_S)
        return f"{until}.{self._signed(until)}"

    def valid(self, cookie: str, now: float) -> bool:
        """Returns whether this supervisor's token signed the cookie, and it has not ended."""
        until, _, signature = cookie.partition(".")
        if not self.token or not _same(signature, self._signed(until)):
            return False
        return now < int(until)  # it is signed, so it is a number

    def _signed(self, until: str) -> str:
        text = f"kfetch page until {until}".encode(errors="replace")
        return hmac.digest(self.token.encode(), text, "sha256").hex()


def cookie_name(host: str) -> str:
    """Returns the cookie's name for a ``Host`` header.

    The name has the port: a browser shares cookies among all ports of a host. Otherwise two
    supervisors would log each other's users out.
    """
    port = _PORT.fullmatch(host[host.rfind(":") :])
    return f"kfetch_login_{port[1]}" if port else "kfetch_login"


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())


def is_cross_site(host: str, origin: str, fetch_site: str) -> bool:
    """Returns whether another site has sent a request that changes something, by its headers.

    Browsers send Sec-Fetch-Site on trusted connections, and Origin with every POST. A program that
    sends neither is no browser.
    """
    if fetch_site:
        return fetch_site != "same-origin"
    if not origin:
        return False
    try:
        return not host or urlsplit(origin).netloc.lower() != host.lower()
    except ValueError:
        return True


def parse_form(body: bytes) -> dict[str, str]:
    """Returns the fields of a form; none if the body is no form."""
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=_FIELDS_MAX))
    except ValueError:
        return {}


def local_path(path: str) -> str:
    """Returns the path if it is a page of this supervisor, and else the first page."""
    return path if _LOCAL_PATH.fullmatch(path) else "/"
