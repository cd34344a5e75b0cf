"""Opens the byte stream to a broker. TLS belongs here.

Only PLAINTEXT is built. ``options`` refuses the other protocols before kfetch connects.
"""

from __future__ import annotations

import socket
import time

from kfetch.errors import ConnectionLost
from kfetch.options import NetworkOptions
from kfetch.wire.addresses import connect


def open_stream(host: str, port: int, options: NetworkOptions, deadline: float) -> socket.socket:
    """Returns a connected blocking socket. ``deadline``: a time of ``time.monotonic``.

    Raises ConnectionLost with the cause.
    """
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
    # A Fetch request is small and must not wait for the acknowledgement of the last one.
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if options.receive_buffer_bytes > 0:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
    return stream
