"""How a browser shows that it may: a cookie in place of the token; and that a form is ours. Pure.

A browser can't send ``Authorization: Bearer``, so whoever has the token gets a cookie for it, which
says until when and is signed with the token: nothing has to be remembered, and another token ends
all of them. What changes something also has to come from our own page (OWASP's cross-site request
forgery cheat sheet): the browser says where a request comes from, and the form has a secret that
another site's page can't read.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

__all__ = ["LOGIN_LIFETIME_S", "Logins", "cookie_name", "is_cross_site", "local_path", "parse_form"]

LOGIN_LIFETIME_S = 12 * 3600
_FIELDS_MAX = 8
_PORT = re.compile(r":(\d{1,5})")
_LOCAL_PATH = re.compile(r"/(?:jobs/[A-Za-z0-9_-]+)?")


@dataclass(frozen=True, slots=True, repr=False)
class Logins:
    """Makes and checks cookies. An empty token: nobody has to log in."""

    token: str

    def matches_token(self, text: str) -> bool:
        """Whether this is the token."""
        return bool(self.token) and _same(text, self.token)

    def cookie(self, now: float) -> str:
        """The value for who has shown the token."""
        until = str(int(now) + LOGIN_LIFETIME_S)
        return f"{until}.{self._signed(until)}"

    def valid(self, cookie: str, now: float) -> bool:
        """Whether we made this, and it has not run out."""
        until, _, signature = cookie.partition(".")
        if not self.token or not _same(signature, self._signed(until)):
            return False
        return now < int(until)  # it was signed, so it is a number

    def _signed(self, until: str) -> str:
        text = f"kfetch page until {until}".encode(errors="replace")
        return hmac.digest(self.token.encode(), text, "sha256").hex()


def cookie_name(host: str) -> str:
    """The cookie's name for a ``Host`` header: a browser keeps cookies of all its ports together,
    and two supervisors there would log each other's users out."""
    port = _PORT.fullmatch(host[host.rfind(":") :])
    return f"kfetch_login_{port[1]}" if port else "kfetch_login"


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())


def is_cross_site(host: str, origin: str, fetch_site: str) -> bool:
    """Whether a request that changes something comes from another site, by its headers.

    Browsers send Sec-Fetch-Site wherever they trust the connection, and Origin with every POST; a
    program that sends neither is no browser.
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
    """What a form has sent; nothing if it is no form."""
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=_FIELDS_MAX))
    except ValueError:
        return {}


def local_path(path: str) -> str:
    """A page of ours, to go on to after the login: other addresses lead to the first page."""
    return path if _LOCAL_PATH.fullmatch(path) else "/"
