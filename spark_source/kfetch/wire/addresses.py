"""Connects to a name that may have several addresses: each one gets its share of the time.

``socket.create_connection`` gives every address the whole time, so a name with three addresses that
are black holes would take three times the deadline.

An address that fails comes last for half a minute, or it would cost its share each time. It may
also accept connections although its broker is of no use: a load balancer without a healthy server
does that. So each failure before the end of the log-in counts. Java's client moves to the next
address, too (KIP-302).

``servers`` notes host names here that lost a connection, so that the process has one such memory.
"""

from __future__ import annotations

import socket
import time
from typing import Any

Address = tuple[str, int]
"""A host and a port."""

_SHARE_MIN_S = 2.0
"""The least time for one of many addresses, or half of what is left. A SYN that was lost is sent
again after one second (RFC 6298)."""
_AVOIDED_S = 30.0
_AVOIDED_MAX = 1000

_avoided_until: dict[object, float] = {}
"""Addresses that come last, with the end of that time in monotonic seconds."""


def avoid(address: object) -> None:
    """Try this address last for a while, where there are other ones. Any thread calls it.

    ``address``: a socket address as ``getpeername`` returns it, or a host and a port.
    """
    if len(_avoided_until) >= _AVOIDED_MAX:
        _avoided_until.clear()
    _avoided_until[address] = time.monotonic() + _AVOIDED_S


def is_avoided(address: object) -> bool:
    """Returns whether an address is to come last now."""
    return _avoided_until.get(address, 0.0) > time.monotonic()


def connect(host: str, port: int, timeout_s: float) -> socket.socket:
    """Returns a socket connected to the first address of ``host`` that accepts.

    Addresses are tried in the order of the system's resolver (RFC 6724), those to ``avoid`` last.
    Raises OSError with the first cause, or UnicodeError for a name that no DNS can hold.
    ``timeout_s`` limits all tries together, without the time of the resolver.
    """
    addresses = sorted(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), key=_comes_last)
    deadline = time.monotonic() + timeout_s
    first_cause: OSError | None = None
    while addresses:
        family, kind, protocol, _, address = addresses[0]
        left_s = deadline - time.monotonic()
        try:
            wait_s = max(0.001, share_s(left_s, len(addresses), _SHARE_MIN_S))
            return _connected(family, kind, protocol, address, wait_s)
        except OSError as cause:
            avoid(address)
            first_cause = first_cause or cause
        addresses = addresses[1:]
    raise first_cause or OSError(f"{host} has no address")


def has_fresh_address(host: str, port: int) -> bool:
    """Returns whether a name of several addresses has one that is not to ``avoid``."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return len(found) > 1 and not all(map(_comes_last, found))


def _comes_last(found: tuple[Any, ...]) -> bool:
    return is_avoided(found[4])


def share_s(left_s: float, addresses: int, least_s: float) -> float:
    """Returns the next address's share of the seconds left.

    It is ``least_s`` at least, or half of what is left.
    """
    return left_s if addresses == 1 else max(left_s / addresses, min(least_s, left_s / 2))


def _connected(family: int, kind: int, protocol: int, address: Any, wait_s: float) -> socket.socket:
    stream = socket.socket(family, kind, protocol)
    try:
        stream.settimeout(wait_s)
        stream.connect(address)
    except BaseException:
        stream.close()
        raise
    return stream
