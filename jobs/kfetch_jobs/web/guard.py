"""Checks every request before a page sees it, and adds security headers to every response.

A page loads nothing from other hosts, has no script or style in its HTML, and can't be framed. So
an error text or topic name that is HTML by mistake would still do no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kfetch_jobs.web.address import refusal
from kfetch_jobs.web.login import Logins, cookie_name, is_cross_site

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not no-referrer: with it a browser sends `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_OPEN = ("/login", "/static/")
"""Paths that need no log-in."""


class Guard:
    """Refuses requests that ``refusal`` names, and forms of other sites."""

    def __init__(self, app: ASGIApp, logins: Logins, clock: Callable[[], float] = time.time):
        self._app = app
        self._logins = logins
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        handler = self._refused(scope) or self._app
        await handler(scope, receive, _with_headers(send))

    def _refused(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        host = headers.get("host", "")
        refused = refusal(
            self._logins,
            self._clock(),
            host=host,
            authorization=headers.get("authorization", ""),
            path=path,
            cookie=cookie_parser(headers.get("cookie", "")).get(cookie_name(host), ""),
        )
        if refused is not None and not (refused[0] == 401 and path.startswith(_OPEN)):
            return _refusal(scope["method"], path, headers, *refused)
        if scope["method"] not in ("GET", "HEAD") and is_cross_site(
            host, headers.get("origin", ""), headers.get("sec-fetch-site", "")
        ):
            return PlainTextResponse("another site's page has sent this form\n", 403)
        return None


def _refusal(method: str, path: str, headers: Headers, status: int, sentence: str) -> Response:
    """Returns the refusal. It sends a browser to the log-in, and from there to its page."""
    if status == 401 and headers.get("hx-request"):
        return PlainTextResponse(f"{sentence}\n", status, {"HX-Redirect": "/login"})
    if status == 401 and method == "GET" and "text/html" in headers.get("accept", ""):
        return RedirectResponse(f"/login?next={quote(path, safe='')}", 303)
    challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return PlainTextResponse(f"{sentence}\n", status, challenge)


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
