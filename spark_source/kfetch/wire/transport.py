"""The byte stream to a broker: a TCP connection, and TLS over it if the options say so."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from kfetch.errors import ConnectionLost
from kfetch.options import NetworkOptions
from kfetch.wire.addresses import avoid, connect

if TYPE_CHECKING:
    from kfetch.wire.tls import Identify

_TLS_WANTS_READ = 2
"""The errno of ssl.SSLWantReadError. Without TLS, nobody imports ``ssl``."""
_ALERT_S = 0.1
"""How long to wait for the reason why a broker closes a connection of TLS."""


def open_stream(
    host: str,
    port: int,
    options: NetworkOptions,
    deadline: float,
    identify: Identify | None = None,
) -> socket.socket:
    """Returns a connected blocking socket. ``deadline``: a time of ``time.monotonic``.

    ``identify``: asked what listens there, if TLS is wanted and the peer does not speak it.

    Raises ConnectionLost with the cause, for TLS also TlsFailed, WrongListener or OptionError.
    """
    if options.security.tls is None:
        return open_tcp(host, port, options, deadline)
    from kfetch.wire import tls  # only who needs TLS pays for its import

    tls.context_of(options.security.tls)  # an unusable store costs no connection
    stream = open_tcp(host, port, options, deadline)
    address = peer_address(stream)
    try:
        return tls.secure(stream, host, port, options, deadline, identify)
    except ConnectionLost:
        avoid(address)
        raise


def peer_address(stream: socket.socket) -> object:
    """Returns the socket address of the other side, for ``avoid``. None if it is gone already."""
    try:
        return stream.getpeername()
    except OSError:
        return None


def open_tcp(host: str, port: int, options: NetworkOptions, deadline: float) -> socket.socket:
    """Returns a connected blocking socket without TLS. Raises ConnectionLost with the cause."""
    wait_s = min(options.connect_timeout_s, deadline - time.monotonic())
    try:
        stream = connect(host, port, wait_s)
    except (OSError, UnicodeError) as cause:  # UnicodeError: a name that no DNS can hold
        raise ConnectionLost(
            f"no connection to {host}:{port}: {cause} (is the broker up, and is this the "
            "address it advertises?)",
            host=host,
            port=port,
            cause=str(cause),
        ) from None
    try:
        _configure(stream, options)
    except OSError as cause:  # macOS refuses options of a socket whose peer is gone already
        stream.close()
        raise ConnectionLost(
            f"the connection to {host}:{port} can't be configured: {cause}",
            host=host,
            port=port,
            cause=str(cause),
        ) from None
    return stream


def _configure(stream: socket.socket, options: NetworkOptions) -> None:
    # A Fetch request is small and must not wait for the acknowledgement of the last one.
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if options.receive_buffer_bytes > 0:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)


def has_ended(stream: socket.socket) -> bool:
    """Returns whether the broker has closed a stream, while no byte of it is expected.

    It never waits. A byte that comes unasked counts as an end, too, and is lost.
    """
    try:
        stream.settimeout(0.0)
        stream.recv(1)
    except OSError as cause:
        return not isinstance(cause, BlockingIOError) and cause.errno != _TLS_WANTS_READ
    return True


def pending_alert(stream: socket.socket) -> OSError | None:
    """Returns the broker's alert if it came before a request could be sent, else None."""
    try:
        stream.settimeout(_ALERT_S)
        stream.recv(1)
    except OSError as cause:
        return cause if getattr(cause, "reason", None) else None
    return None
