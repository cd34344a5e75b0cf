"""The Starlette application of a supervisor: pages, static files and ``/metrics``."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kfetch_jobs.config import Project
from kfetch_jobs.metrics.collect import MetricsCollector
from kfetch_jobs.util.cached_value import CachedValue
from kfetch_jobs.web.address import METRICS_PATH
from kfetch_jobs.web.forms import Forms
from kfetch_jobs.web.guard import Guard
from kfetch_jobs.web.html import page
from kfetch_jobs.web.login import Logins
from kfetch_jobs.web.pages import Pages

log = logging.getLogger("kfetch_jobs.web")


def application(project: Project, logins: Logins, stepped_s: Callable[[], float]) -> Starlette:
    """Returns the application, behind the guard.

    With an empty token, every user of this machine may use it. ``stepped_s`` returns the time of
    the supervisor loop's last step, in seconds since 1970.
    """
    collector = MetricsCollector(project, stepped_s)
    newest = CachedValue(collector.collect_now, collector.collect_now(), "metrics")
    forms = Forms(logins)

    def metrics(request: Request) -> Response:  # not async: it may wait for a collection
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(newest.get()), headers={"Content-Type": content_type})

    return Starlette(
        routes=[
            Route(METRICS_PATH, metrics),
            *forms.routes(),
            *Pages(project, stepped_s, forms).routes(),
            Mount("/static", _Static(directory=Path(__file__).parent / "static")),
        ],
        middleware=[Middleware(Guard, logins=forms.logins), Middleware(_ErrorSentence)],
        exception_handlers={HTTPException: _http_error},
    )


class _ErrorSentence:
    """Answers a request that has hit a bug with a sentence, and logs the traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception:
            if scope["type"] != "http":
                raise
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not started:
                sentence = "This page has failed. The supervisor's log has the reason."
                await _sentence(Headers(scope=scope), 500, sentence)(scope, receive, send)


class _Static(StaticFiles):
    """Static files. A browser caches them, and asks each time whether they have changed."""

    def file_response(
        self, full_path: str | os.PathLike[str], *args: object, **more: object
    ) -> Response:
        response: Response = super().file_response(full_path, *args, **more)  # type: ignore[arg-type]
        response.headers["Cache-Control"] = "no-cache"
        return response


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _sentence(request.headers, error.status_code, error.detail)


def _sentence(headers: Headers, status: int, sentence: str) -> Response:
    """Returns a page for browsers, or a line of text for programs."""
    whole = "text/html" in headers.get("accept", "")
    if whole and "hx-request" not in headers:
        title = HTTPStatus(status).phrase
        return page("sentence.html", status, title=title, sentence=sentence)
    return PlainTextResponse(f"{sentence}\n", status)
