"""The pages of a supervisor, as a Starlette application: so far ``/metrics``."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.metrics.collect import Looks
from jobs.web.address import refusal

__all__ = ["application"]


class _Guard:
    """Lets those pass that ``refusal`` does not name."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        told = refusal(self._token, headers.get("host", ""), headers.get("authorization", ""))
        if told is None:
            await self._app(scope, receive, send)
            return
        status, sentence = told
        challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        await PlainTextResponse(f"{sentence}\n", status, challenge)(scope, receive, send)


def application(looks: Looks, token: str) -> Starlette:
    """All pages, behind the guard; with an empty token, for whoever is on this machine."""

    def metrics(request: Request) -> Response:  # not async: it may wait for a look
        registry = CollectorRegistry(auto_describe=False)
        registry.register(looks.newest())
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"Content-Type": content_type})

    return Starlette(
        routes=[Route("/metrics", metrics)], middleware=[Middleware(_Guard, token=token)]
    )
