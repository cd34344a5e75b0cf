"""A local Kafka of one node with secured listeners."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from integration.secured.credentials import SAMPLE_MECHANISM, Credentials, add_users
from integration.secured.listeners import network_properties
from kfetch_jobs.kafka import Cluster, ready, state
from kfetch_jobs.kafka.settings import HOST

__all__ = ["SecuredCluster"]

_START_S = 60.0


class SecuredCluster(Cluster):
    """One node. Its PLAINTEXT listener stays open, and its user may do everything."""

    credentials: Credentials
    """The certificates and passwords of the secured listeners."""
    secure_listeners: dict[str, str]
    """The addresses of the secured listeners by name, in the form of ``bootstrap.servers``."""

    @classmethod
    def start_secured(
        cls,
        directory: Path,
        listeners: Iterable[str],
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> SecuredCluster:
        """Start a node with listeners of ``listeners.LISTENERS``, and give it its users.

        ``properties`` are more lines of server.properties.
        """
        names = [*listeners]
        port, controller_port, *free = ready.free_ports(2 + len(names))
        ports = dict(zip(names, free, strict=True))
        addresses = {name: f"{HOST}:{number}" for name, number in ports.items()}
        directory.mkdir(parents=True, exist_ok=True)
        credentials = Credentials(directory / "secure")
        credentials.provide(addresses)
        network = network_properties(port, controller_port, ports)
        _choose_ports(directory, port, controller_port)
        cluster = cls.start(
            directory,
            properties=network | credentials.server_properties(names) | dict(properties),
            timeout_s=_START_S,
        )
        cluster.credentials, cluster.secure_listeners = credentials, addresses
        try:
            add_users([cluster.bootstrap_servers], credentials, time.monotonic() + _START_S)
        except BaseException:
            cluster.kill()
            raise
        return cluster

    def client(
        self, listener: str, user: str = "reader", mechanism: str = SAMPLE_MECHANISM
    ) -> dict[str, str]:
        """Returns the properties with which a client of Kafka uses a secured listener as a user."""
        return self.credentials.client(listener, self.secure_listeners[listener], user, mechanism)


def _choose_ports(directory: Path, port: int, controller_port: int) -> None:
    """Write the state of a cluster that has never run: the properties name its ports."""
    # An id that starts with a dash would look like an option.
    cluster_id = "s" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:].rstrip("=")
    node = state.NodeState(node_id=1, port=port, controller_port=controller_port)
    state.save(directory, state.State(cluster_id=cluster_id, nodes=(node,)))
