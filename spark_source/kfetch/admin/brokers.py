"""Whether a Kafka cluster can be used: what its brokers speak, and whether each can be reached."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kfetch.errors import ConnectionLost, KfetchError, UnsupportedVersion
from kfetch.model import Broker, Topic
from kfetch.options import SourceOptions, parse

if TYPE_CHECKING:
    from kfetch.wire.cluster import Cluster
    from kfetch.wire.connection import Connection

__all__ = ["WAIT_S", "ApiVersions", "BrokerState", "ClusterState", "check"]

WAIT_S = 10.0
"""Somebody waits at the terminal: each question to a broker takes no longer."""
_NEEDED = ("Metadata", "ListOffsets", "Fetch")
"""Without epochs (OffsetForLeaderEpoch), truncated logs are found by their ends alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersions:
    """An API that kfetch uses: the versions that the broker speaks, and the one that is used."""

    lowest: int
    highest: int
    used: int | None
    """None: the broker and kfetch have no version in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A broker at the address that it gives to clients."""

    broker: Broker
    error: str = ""
    """Why it cannot be reached; empty if it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """What a cluster answers."""

    servers: str
    """The bootstrap servers that were asked: ``host:port,host:port``."""
    cluster_id: str
    """Empty if the brokers have none."""
    versions: Mapping[str, ApiVersions]
    """By the name of the API; of the broker that answered first."""
    fetch_sessions: bool
    """Whether that broker has incremental fetch sessions (KIP-227)."""
    brokers: tuple[BrokerState, ...]
    topics: Mapping[str, Topic | None]
    """The topics that were asked for; None for one that does not exist."""

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each thing that keeps a query from reading; empty if all is well."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        for api, versions in self.versions.items():
            if versions.used is None and api in _NEEDED:
                theirs = f"v{versions.lowest} to v{versions.highest}"
                yield (
                    f"{self.servers} speaks {api} {theirs}, and kfetch none of these: use brokers "
                    "of Kafka 0.11 or newer"
                )
        for state in self.brokers:
            if state.error:
                yield (
                    f"{state.broker} cannot be reached ({state.error}): its advertised.listeners "
                    "must name an address that this machine can reach"
                )
        for name, topic in self.topics.items():
            yield from _topic_problems(name, topic)


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
    """Ask a cluster as a source would, and connect to each of its brokers.

    ``kafka`` are options ``kafka.*``; ``topics`` are looked up by name. Each question takes
    ``wait_s`` seconds at most. Raises OptionError for the options, ConnectionLost if no bootstrap
    server answers, BrokerError if one refuses, WireError if one does not speak Kafka's protocol.
    """
    from kfetch.wire.cluster import Cluster

    options = parse({**kafka, "subscribe": ",".join(topics) or "none"})
    with closing(Cluster(options.bootstrap, options.network)) as cluster:
        view = cluster.view(topics, time.monotonic() + wait_s)
        states = [_broker_state(cluster, each, wait_s) for each in view.brokers.values()]
    with closing(_first_connection(options, wait_s)) as first:
        versions = _versions(first, time.monotonic() + wait_s)
        cluster_id = _cluster_id(first, time.monotonic() + wait_s)
    return ClusterState(
        servers=",".join(f"{host}:{port}" for host, port in options.bootstrap),
        cluster_id=cluster_id,
        versions=versions,
        fetch_sessions=_has_sessions(versions),
        brokers=tuple(states),
        topics={name: view.topics.get(name) for name in topics},
    )


def _broker_state(cluster: Cluster, broker: Broker, wait_s: float) -> BrokerState:
    try:
        cluster.connection(broker, time.monotonic() + wait_s)
    except KfetchError as cause:
        return BrokerState(broker=broker, error=cause.message)
    return BrokerState(broker=broker)


def _first_connection(options: SourceOptions, wait_s: float) -> Connection:
    """A connection to the first bootstrap server that answers."""
    from kfetch.wire.connection import Connection

    first: ConnectionLost | None = None
    for host, port in options.bootstrap:
        try:
            return Connection.open(host, port, options.network, time.monotonic() + wait_s)
        except ConnectionLost as cause:
            first = first or cause
    assert first is not None, "options without a bootstrap server"
    raise first


def _versions(connection: Connection, deadline: float) -> dict[str, ApiVersions]:
    """What the broker speaks of the APIs that kfetch uses."""
    from kafka.protocol.consumer import (
        FetchRequest,
        ListOffsetsRequest,
        OffsetForLeaderEpochRequest,
    )
    from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

    from kfetch.wire import fetch

    reply = connection.call(ApiVersionsRequest[0](), deadline)
    theirs = {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}
    # The bounds are those of kfetch.wire, which asks with them.
    spoken = {
        "Metadata": (MetadataRequest, 4, None),
        "ListOffsets": (ListOffsetsRequest, 1, None),
        "OffsetForLeaderEpoch": (OffsetForLeaderEpochRequest, 3, None),
        "Fetch": (FetchRequest, fetch.LOWEST_VERSION, fetch.HIGHEST_VERSION),
    }
    versions = {}
    for name, (message, lowest, highest) in spoken.items():
        try:
            used = connection.version(message, lowest=lowest, highest=highest)
        except UnsupportedVersion:
            used = None
        low, high = theirs.get(message.API_KEY, (0, -1))
        versions[name] = ApiVersions(lowest=low, highest=high, used=used)
    return versions


def _has_sessions(versions: Mapping[str, ApiVersions]) -> bool:
    from kfetch.wire.fetch import SESSION_VERSION

    return (versions["Fetch"].used or 0) >= SESSION_VERSION


def _cluster_id(connection: Connection, deadline: float) -> str:
    from kafka.protocol.metadata import MetadataRequest

    version = connection.version(MetadataRequest, lowest=4)
    request = MetadataRequest[version](topics=[], allow_auto_topic_creation=False)
    return connection.call(request, deadline).cluster_id or ""
