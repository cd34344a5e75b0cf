"""The HTTP server of a supervisor: a thread of its own, with limits for connections and times."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from kfetch_jobs.config import Project
from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.web.address import (
    DEFAULT,
    METRICS_TOKEN_VARIABLE,
    TOKEN_VARIABLE,
    Address,
    check_tokens,
)
from kfetch_jobs.web.app import application
from kfetch_jobs.web.login import Logins

log = logging.getLogger("kfetch_jobs.web")

NOWHERE = "none"
_CONNECTIONS_MAX = 128
"""The most requests at a time; further ones get 503. A browser opens six connections per tab."""
_SOCKETS_MAX = 2 * _CONNECTIONS_MAX
"""The server closes further connections at once, because jobs need file descriptors too."""
_REQUEST_TIMEOUT_S = 10.0
"""The limit for a whole request, from the connection or the last response on."""
_ANSWER_TIMEOUT_S = 60.0
"""The limit for a response, from the request until the client has read it."""
_SHUTDOWN_TIMEOUT_S = 5.0


@contextmanager
def listening(listen: str | None) -> Iterator[tuple[socket.socket | None, Logins, str]]:
    """Yields a listening socket, the tokens of the environment, and an empty text.

    Without a socket it yields None, the tokens, and the reason: ``none`` was asked for, or another
    process uses the default address. Jobs run without a page. It removes the tokens from the
    environment, or every job would inherit them. Raises ConfigError for an invalid address or
    token, and SupervisorError if it can't listen on an address that the user has named.
    """
    logins = Logins(os.environ.pop(TOKEN_VARIABLE, ""), os.environ.pop(METRICS_TOKEN_VARIABLE, ""))
    if listen == NOWHERE:
        yield None, logins, "--listen none"
        return
    address = Address.parse(listen or DEFAULT, logins.token)
    check_tokens(logins)
    try:
        listener = _bound(address)
    except OSError as cause:
        sentence = f"cannot listen on {address} ({cause.strerror or cause})"
        if listen:
            raise SupervisorError(f"{sentence}: name another with --listen") from cause
        log.warning("%s: no page and no metrics; name another address with --listen", sentence)
        yield None, logins, f"{sentence}: name another address with --listen"
        return
    with listener:
        yield listener, logins, ""


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(_CONNECTIONS_MAX)
    except BaseException:
        listener.close()
        raise
    return listener


class _Deadlines(H11Protocol):
    """Ends a connection that sends no complete request in time, or does not read the response.

    Anybody can connect: the log-in comes later.
    """

    _deadline: asyncio.TimerHandle
    _awaited: RequestResponseCycle | None = None
    """The whole request whose response is not complete."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(_REQUEST_TIMEOUT_S, self._close)
        if len(self.connections) > _SOCKETS_MAX:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._deadline.cancel()

    def handle_events(self) -> None:
        super().handle_events()
        cycle = self.cycle
        awaited = None if cycle is None or cycle.response_complete or cycle.more_body else cycle
        if awaited is not self._awaited:
            self._awaited = awaited
            self._deadline.cancel()
            if awaited:
                self._deadline = self.loop.call_later(_ANSWER_TIMEOUT_S, self.transport.abort)
            else:
                self._deadline = self.loop.call_later(_REQUEST_TIMEOUT_S, self._close)

    def _close(self) -> None:
        """Close the connection once the client has read the end of the last response."""
        self.transport.close()
        self._deadline = self.loop.call_later(_ANSWER_TIMEOUT_S, self.transport.abort)


@contextmanager
def serving(
    project: Project, listener: socket.socket | None, logins: Logins, stepped_s: Callable[[], float]
) -> Iterator[Address | None]:
    """Serve at the socket while the block runs. Yields the address.

    ``stepped_s`` returns the time of the supervisor loop's last step, in seconds since 1970.
    """
    if listener is None:
        yield None
        return
    server = uvicorn.Server(
        uvicorn.Config(
            application(project, logins, stepped_s),
            loop="asyncio",
            http=_Deadlines,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=_CONNECTIONS_MAX,
            timeout_graceful_shutdown=1,
        )
    )
    # A daemon thread: it can't keep the supervisor from ending.
    thread = threading.Thread(target=server.run, args=([listener],), name="web", daemon=True)
    thread.start()
    address = Address(*listener.getsockname()[:2])
    if logins.token and not logins.metrics_token:
        log.warning(
            "a client that scrapes the metrics can stop jobs too: "
            "give Prometheus a token of its own by %s",
            METRICS_TOKEN_VARIABLE,
        )
    log.info("page: http://%s/, metrics: http://%s/metrics", address, address)
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join(_SHUTDOWN_TIMEOUT_S)
