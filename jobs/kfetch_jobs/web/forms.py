"""Log-in and log-out, and the secret key that proves a form to be this supervisor's."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kfetch_jobs.web.html import page
from kfetch_jobs.web.login import LOGIN_LIFETIME_S, Logins, cookie_name, local_path, parse_form

_BODY_BYTES_MAX = 4096
_WITHIN_S = 5.0
"""The limit for a form. A browser sends it whole."""


@dataclass(frozen=True, slots=True)
class Forms:
    """The parts that all forms of a supervisor share."""

    logins: Logins
    clock: Callable[[], float] = time.time
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """A hidden field of each form. Other sites can't read it. It changes with each supervisor."""

    async def read_issued(self, request: Request) -> dict[str, str]:
        """Returns the fields of a form. Raises HTTPException unless a page here has had it."""
        form = await read_form(request)
        if not hmac.compare_digest(form.get("key", "").encode(), self.key.encode()):
            raise HTTPException(
                403, "This form belongs to an earlier supervisor. Reload the page, and try again."
            )
        return form

    def routes(self) -> list[Route]:
        """Returns the routes of log-in and log-out."""
        return [
            Route("/login", self._show),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]

    def _show(self, request: Request) -> Response:
        target = local_path(request.query_params.get("next", "/"))
        if not self.logins.token:
            return RedirectResponse(target, 303)
        return page("login.html", wrong=False, target=target)

    async def _log_in(self, request: Request) -> Response:
        # There is no limit for guesses: a token has at least 16 characters. With a limit, anybody
        # could lock people out.
        form = await read_form(request)
        target = local_path(form.get("next", "/"))
        if not self.logins.matches_token(form.get("token", "").strip()):
            return page("login.html", 403, wrong=True, target=target)
        response = RedirectResponse(target, 303)
        response.set_cookie(
            _cookie(request),
            self.logins.cookie(self.clock()),
            max_age=LOGIN_LIFETIME_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def _log_out(self, request: Request) -> Response:
        await self.read_issued(request)
        response = RedirectResponse("/login", 303)
        response.delete_cookie(_cookie(request), httponly=True, samesite="strict")
        return response


def _cookie(request: Request) -> str:
    return cookie_name(request.headers.get("host", ""))


async def read_form(request: Request) -> dict[str, str]:
    """Returns the fields of a form. Raises HTTPException for a large (413) or slow one (408)."""
    body = b""
    try:
        async with asyncio.timeout(_WITHIN_S):
            async for part in request.stream():
                body += part
                if len(body) > _BODY_BYTES_MAX:
                    raise HTTPException(413, "This is larger than any form of this page.")
    except (TimeoutError, ClientDisconnect):
        raise HTTPException(408, "The form did not arrive in time: send it again.") from None
    return parse_form(body)
