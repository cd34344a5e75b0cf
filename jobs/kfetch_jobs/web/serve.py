"""The server beside a supervisor's loop: a thread of its own, and bounded in all that it takes."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from kfetch_jobs.config import Project
from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.web.address import DEFAULT, TOKEN_VARIABLE, Address
from kfetch_jobs.web.app import application

__all__ = ["listening", "serving"]

log = logging.getLogger("kfetch.web")

NOWHERE = "none"
_CONNECTIONS_MAX = 128
"""At one moment, and a browser has six of them for each of its tabs; others get 503."""
_SOCKETS_MAX = 2 * _CONNECTIONS_MAX
"""Others are closed at once: jobs need file descriptors too."""
_REQUEST_TIMEOUT_S = 10.0
"""From the connection, or the answer before, to the end of a request."""
_SHUTDOWN_TIMEOUT_S = 5.0


@contextmanager
def listening(listen: str | None) -> Iterator[tuple[socket.socket | None, str, str]]:
    """A socket at ``HOST:PORT``, the token of the environment, and an empty sentence; for ``none``
    no socket, and the sentence why.

    Without a word it is the default address, and no socket if that is taken: jobs run without it.
    The token is taken out of the environment, or every job would have it. Raises ConfigError for an
    address that can't be, SupervisorError for one that can't be had.
    """
    token = os.environ.pop(TOKEN_VARIABLE, "")
    if listen == NOWHERE:
        yield None, token, "--listen none"
        return
    address = Address.parse(listen or DEFAULT, token)
    try:
        bound = _bound(address)
    except OSError as cause:
        sentence = f"{address} cannot be listened on ({cause.strerror or cause})"
        if listen:
            raise SupervisorError(f"{sentence}: name another with --listen") from cause
        log.warning("%s: no page and no metrics; name another address with --listen", sentence)
        yield None, token, f"{sentence}: name another address with --listen"
        return
    with bound:
        yield bound, token, ""


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address.host, address.port))
        made.listen(_CONNECTIONS_MAX)
    except BaseException:
        made.close()
        raise
    return made


class _RequestDeadline(H11Protocol):
    """Waits for a request so long and no longer: anybody can connect, before any login."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _SOCKETS_MAX:
            transport.abort()
        else:
            self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_deadline()

    def handle_events(self) -> None:
        super().handle_events()
        if not self.cycle or self.cycle.response_complete or self.cycle.more_body:
            self._start_deadline()
        else:
            self._cancel_deadline()

    def _start_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(_REQUEST_TIMEOUT_S, self.transport.close)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


@contextmanager
def serving(
    project: Project, bound: socket.socket | None, token: str, stepped_s: Callable[[], float]
) -> Iterator[Address | None]:
    """Answer at the socket while the block runs; where that is. ``stepped_s``: the loop's pulse."""
    if bound is None:
        yield None
        return
    server = uvicorn.Server(
        uvicorn.Config(
            application(project, token, stepped_s),
            loop="asyncio",
            http=_RequestDeadline,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=_CONNECTIONS_MAX,
            timeout_graceful_shutdown=1,
        )
    )
    # A daemon: whatever becomes of it, the supervisor can end.
    thread = threading.Thread(target=server.run, args=([bound],), name="web", daemon=True)
    thread.start()
    address = Address(*bound.getsockname()[:2])
    log.info("page: http://%s/, metrics: http://%s/metrics", address, address)
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join(_SHUTDOWN_TIMEOUT_S)
