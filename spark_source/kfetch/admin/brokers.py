"""Checks a Kafka cluster: its brokers, their addresses and API versions, and topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kfetch.errors import KfetchError, UnsupportedVersion
from kfetch.model import Broker, Topic
from kfetch.options import SourceOptions
from kfetch.options.catalogue import no_effect
from kfetch.spark.options import parse

if TYPE_CHECKING:
    from kfetch.wire.cluster import Cluster
    from kfetch.wire.connection import Connection

log = logging.getLogger(__name__)

__all__ = ["WAIT_S", "ApiVersions", "BrokerState", "ClusterState", "check", "cluster_id"]

WAIT_S = 10.0
"""The limit for one request. It is short, because a user waits at the terminal."""
_NEEDED = ("Metadata", "ListOffsets", "Fetch")
"""kfetch can't read without these APIs. Without OffsetForLeaderEpoch it can: it then recognises a
truncated log only by its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersions:
    """The versions of one API that the broker supports, and the one that kfetch uses."""

    lowest: int
    highest: int
    used: int | None
    """None if the broker and kfetch have no version in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A broker at the address that it gives to clients."""

    broker: Broker
    error: str = ""
    """The reason why this machine cannot reach it; empty if it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The answers of a cluster."""

    servers: str
    """The bootstrap servers: ``host:port,host:port``."""
    cluster_id: str
    """Empty if the brokers have none."""
    versions: Mapping[str, ApiVersions]
    """By the API's name. They come from the broker that answered first."""
    fetch_sessions: bool
    """Whether that broker has incremental fetch sessions (KIP-227)."""
    brokers: tuple[BrokerState, ...]
    topics: Mapping[str, Topic | None]
    """The requested topics by name; None for a topic that does not exist."""
    unreadable: tuple[str, ...] = ()
    """A sentence for each requested topic that the user may describe and not read."""

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each problem that prevents a query from reading."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        for api, versions in self.versions.items():
            if versions.used is None and api in _NEEDED:
                yield (
                    f"{self.servers} supports {api} v{versions.lowest} to v{versions.highest}, and "
                    "kfetch supports none of these: use brokers of Kafka 0.11 or newer"
                )
        for state in self.brokers:
            if state.error:
                yield (
                    f"{state.broker} cannot be reached ({state.error}): its advertised.listeners "
                    "must name an address that this machine can reach"
                )
        for name, topic in self.topics.items():
            yield from _topic_problems(name, topic)
        yield from self.unreadable


def _topic_problems(name: str, topic: Topic | None) -> Iterator[str]:
    if topic is None:
        yield f"topic {name} does not exist: create it, or check its name"
        return
    leaderless = [number for number, leader in topic.leaders.items() if leader is None]
    if leaderless:
        more = f" and {len(leaderless) - 1} more" if len(leaderless) > 1 else ""
        yield (
            f"{name}-{leaderless[0]}{more} has no leader: start its brokers, or wait for an "
            "election"
        )


def check(
    kafka: Mapping[str, str], topics: Collection[str] = (), wait_s: float = WAIT_S
) -> ClusterState:
    """Ask a cluster for its state, and connect to each of its brokers.

    ``kafka`` has the options ``kafka.*`` of a source. ``topics`` are names. Each request takes
    ``wait_s`` seconds at most. Logs a warning for each option without effect.

    Raises OptionError for the options, ConnectionLost if no bootstrap server answers, WrongListener
    if kfetch can read from none of them, BrokerError for an error code, and WireError for a reply
    that is not Kafka's.
    """
    options = parse({**kafka, "subscribe": ",".join(topics) or "none"})
    for name in options.ignored:
        log.warning("kfetch: %s", no_effect(name))
    with closing(_cluster(options)) as cluster:
        view = cluster.view(topics, time.monotonic() + wait_s)
        unreadable = cluster.unreadable(view.topics, time.monotonic() + wait_s)
        states = [_broker_state(cluster, broker, wait_s) for broker in view.brokers.values()]
        versions, id_ = cluster.ask_any(_versions_and_id, time.monotonic() + wait_s)
    return ClusterState(
        servers=",".join(f"{host}:{port}" for host, port in options.bootstrap),
        cluster_id=id_,
        versions=versions,
        fetch_sessions=_has_sessions(versions),
        brokers=tuple(states),
        topics={name: view.topics.get(name) for name in topics},
        unreadable=tuple(unreadable),
    )


def cluster_id(options: SourceOptions, wait_s: float = WAIT_S) -> str:
    """Returns the id of a source's cluster; empty if its brokers have none.

    Takes ``wait_s`` seconds at most. Raises ConnectionLost if no bootstrap server answers.
    """
    from kfetch.wire import messages

    with closing(_cluster(options)) as cluster:
        return cluster.ask_any(messages.cluster_id, time.monotonic() + wait_s)


def _cluster(options: SourceOptions) -> Cluster:
    from kfetch.wire.cluster import Cluster

    return Cluster(options.bootstrap, options.network, patient=False)


def _broker_state(cluster: Cluster, broker: Broker, wait_s: float) -> BrokerState:
    try:
        cluster.connection(broker, time.monotonic() + wait_s)
    except KfetchError as cause:
        return BrokerState(broker=broker, error=cause.message)
    return BrokerState(broker=broker)


def _versions_and_id(connection: Connection, deadline: float) -> tuple[dict[str, ApiVersions], str]:
    from kfetch.wire import messages

    return _versions(connection, deadline), messages.cluster_id(connection, deadline)


def _versions(connection: Connection, deadline: float) -> dict[str, ApiVersions]:
    """Returns the broker's versions of the APIs that kfetch uses."""
    from kafka.protocol.consumer import (
        FetchRequest,
        ListOffsetsRequest,
        OffsetForLeaderEpochRequest,
    )
    from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

    from kfetch.wire import fetch

    reply = connection.call(ApiVersionsRequest[0](), deadline)
    supported = {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}
    # kfetch.wire sends its requests with the same bounds.
    bounds = {
        "Metadata": (MetadataRequest, 4, None),
        "ListOffsets": (ListOffsetsRequest, 1, None),
        "OffsetForLeaderEpoch": (OffsetForLeaderEpochRequest, 3, None),
        "Fetch": (FetchRequest, fetch.LOWEST_VERSION, fetch.HIGHEST_VERSION),
    }
    versions = {}
    for name, (message, lowest, highest) in bounds.items():
        try:
            used = connection.version(message, lowest=lowest, highest=highest)
        except UnsupportedVersion:
            used = None
        low, high = supported.get(message.API_KEY, (0, -1))
        versions[name] = ApiVersions(lowest=low, highest=high, used=used)
    return versions


def _has_sessions(versions: Mapping[str, ApiVersions]) -> bool:
    from kfetch.wire.fetch import SESSION_VERSION

    return (versions["Fetch"].used or 0) >= SESSION_VERSION
