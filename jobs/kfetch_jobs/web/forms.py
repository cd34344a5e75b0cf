"""Logging in and out, and the secret by which we know our own forms."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kfetch_jobs.web.html import page
from kfetch_jobs.web.login import LOGIN_LIFETIME_S, Logins, cookie_name, local_path, parse_form

__all__ = ["Forms", "read_form"]

_BODY_BYTES_MAX = 4096
_WITHIN_S = 5.0
"""Nobody types meanwhile: a form is sent whole."""


@dataclass(frozen=True, slots=True)
class Forms:
    """What all forms of a supervisor share."""

    logins: Logins
    clock: Callable[[], float] = time.time
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """In each form; another site's page can't read it. It ends with the supervisor."""

    def issued(self, given: Mapping[str, str]) -> bool:
        """Whether a form came from a page of this supervisor."""
        return hmac.compare_digest(given.get("key", "").encode(), self.key.encode())

    def routes(self) -> list[Route]:
        """The login and the logout."""
        return [
            Route("/login", self._show),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]

    def _show(self, request: Request) -> Response:
        on = local_path(request.query_params.get("next", "/"))
        if not self.logins.token:
            return RedirectResponse(on, 303)
        return page("login.html", wrong=False, on=on)

    async def _log_in(self, request: Request) -> Response:
        # Guesses are not counted: a token has 16 characters at least, and a limit would be a way
        # to lock people out.
        given = await read_form(request)
        on = local_path(given.get("next", "/"))
        if not self.logins.matches_token(given.get("token", "").strip()):
            return page("login.html", 403, wrong=True, on=on)
        answer = RedirectResponse(on, 303)
        answer.set_cookie(
            _cookie(request),
            self.logins.cookie(self.clock()),
            max_age=LOGIN_LIFETIME_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _log_out(self, request: Request) -> Response:
        if not self.issued(await read_form(request)):
            raise HTTPException(403, "This form is not from a page of this supervisor.")
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(_cookie(request), httponly=True, samesite="strict")
        return answer


def _cookie(request: Request) -> str:
    return cookie_name(request.headers.get("host", ""))


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a small form. Raises HTTPException (413, 408) for a large or a slow one."""
    body = b""
    try:
        async with asyncio.timeout(_WITHIN_S):
            async for part in request.stream():
                body += part
                if len(body) > _BODY_BYTES_MAX:
                    raise HTTPException(413, "This is larger than any form of this page.")
    except (TimeoutError, ClientDisconnect):
        raise HTTPException(408, "The form has not come in time: send it again.") from None
    return parse_form(body)
