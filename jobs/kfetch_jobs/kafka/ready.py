"""Asks on loopback whether a node answers, and which ports are free."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Collection
from typing import Any

from kfetch_jobs.errors import PortTaken
from kfetch_jobs.kafka.settings import HOST

# Below the range that Linux (32768) and macOS (49152) take the ports of outgoing connections from:
# while a node is down, no client of anything can sit on its port.
_PORTS = range(20000, 32000)


def free_ports(count: int) -> list[int]:
    """Returns ``count`` ports on which nobody listens now."""
    ports: list[int] = []
    while len(ports) < count:
        # Not `random`: two test runs with one seed would choose the same ports.
        port = secrets.choice(_PORTS)
        if port not in ports and is_free(port):
            ports.append(port)
    return ports


def is_free(port: int) -> bool:
    """Whether a server could listen on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # A server sets this too: connections in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def check_free(node_id: int, *ports: int) -> None:
    """Raises PortTaken for the first port that is not free."""
    for port in ports:
        if not is_free(port):
            raise PortTaken(
                f"node {node_id} needs port {port}, and another process uses it: end that process, "
                "or start with another --port"
            )


def known_brokers(port: int, timeout_s: float) -> set[int]:
    """Returns the ids of the brokers that the broker on ``port`` knows; none if it does not answer.

    A broker answers its first request only after its own registration. If every broker returns all
    ids, the cluster is complete.
    """
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

    request = MetadataRequest[9](topics=[], allow_auto_topic_creation=False)
    try:
        with socket.create_connection((HOST, port), timeout=timeout_s) as connection:
            reply = exchange(connection, request, MetadataResponse[9])
    except OSError:
        return set()
    return {broker.node_id for broker in reply.brokers}


def exchange(connection: socket.socket, request: Any, response: Any) -> Any:
    """Send a request of kafka-python. Returns the broker's answer, of the class ``response``."""
    request.with_header(correlation_id=1, client_id="kfetch-jobs")
    connection.sendall(request.encode(header=True, framed=True))
    with connection.makefile("rb") as stream:
        length = int.from_bytes(stream.read(4))
        data = stream.read(length)
    if not data or len(data) < length:
        raise ConnectionResetError("the broker closed the connection")
    return response.decode(data, header=True)


def missing(expected: Collection[int], port: int) -> set[int]:
    """Returns the expected brokers that the broker on ``port`` does not know yet."""
    return set(expected) - known_brokers(port, timeout_s=2)
