"""Formats the values of ``kfetch.admin`` for the verbs: lines for people, JSON for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kfetch.admin.agents import QueryStatus, Status
from kfetch.admin.brokers import ClusterState
from kfetch.admin.query import Option
from kfetch.model import Topic

_TOPICS_MAX = 3  # more topics are only counted


def agent_json(status: Status, rates: Mapping[str, float]) -> dict[str, Any]:
    """Returns all fields of an agent. ``rates`` are records per second by the query's name."""
    document = asdict(status)
    for query in document["queries"]:
        query["records_per_second"] = rates.get(query["name"])
    return document


def agent_lines(status: Status, rates: Mapping[str, float]) -> Iterator[str]:
    """Yields the lines about an agent. ``rates`` are records per second by the query's name."""
    used, limit = status.memory_used / (1 << 20), status.memory_limit / (1 << 20)
    peak = status.memory_peak / (1 << 20)
    yield (
        f"agent {status.pid}: {status.workers} tasks read, {used:.0f} of {limit:.0f} MiB in use "
        f"(at most {peak:.0f})"
    )
    yield f"  log: {status.log}"
    for query in status.queries:
        yield from _query_lines(query, rates.get(query.name, 0.0))


def _query_lines(query: QueryStatus, rate: float) -> Iterator[str]:
    totals = query.totals
    requests = totals.full_requests + totals.incremental_requests
    yield f"  query {query.stream or query.name}: {_names(query.topics)}, {rate:,.0f} records/s"
    yield (
        f"    {totals.records:,} records, {requests:,} requests ({totals.full_requests} full), "
        f"{totals.reply_bytes / (1 << 20):,.1f} MiB, decoded in {totals.decode_s:.1f} s, "
        f"waited {totals.starved_s:.1f} s for memory, idle for {query.idle_s:.0f} s"
    )
    yield (
        f"    sessions: {totals.sessions_opened} opened, {totals.sessions_lost} lost, "
        f"{totals.sessions_refused} refused, {totals.sessions_closed} closed"
    )
    for session in query.sessions:
        rack = f" in rack {session.rack}" if session.rack else ""
        followed = f", {session.as_follower} of them as a follower" if session.as_follower else ""
        yield (
            f"    {session.broker}{rack}: session {session.session_id}, epoch {session.epoch}, "
            f"{session.partitions} partitions{followed} ({session.state})"
        )


def _names(topics: Sequence[str]) -> str:
    more = f" and {len(topics) - _TOPICS_MAX} more" if len(topics) > _TOPICS_MAX else ""
    return ", ".join(topics[:_TOPICS_MAX]) + more


def option_json(option: Option) -> dict[str, str]:
    """Returns all fields of an option."""
    return {
        "name": option.name,
        "default": option.default,
        "treatment": option.treatment.name.lower(),
        "meaning": option.meaning,
    }


def option_lines(options: Sequence[Option]) -> Iterator[str]:
    """Yields a line for each option: name, default and meaning.

    If kfetch does not read the option, a note before the meaning says what kfetch does instead.
    """
    name_width = max((len(option.name) for option in options), default=0)
    default_width = max((len(option.default) for option in options), default=0)
    for option in options:
        note = "" if option.treatment.name == "BUILT" else f"({option.treatment.value}) "
        columns = f"{option.name:<{name_width}}  {option.default:<{default_width}}"
        yield f"{columns}  {note}{option.meaning}"


def cluster_json(state: ClusterState) -> dict[str, Any]:
    """Returns all fields of a cluster's state. A topic that does not exist is null."""
    return {
        "cluster_id": state.cluster_id,
        "servers": state.servers,
        "fetch_sessions": state.fetch_sessions,
        "versions": {name: asdict(versions) for name, versions in state.versions.items()},
        "brokers": [
            {
                "id": member.broker.node_id,
                "host": member.broker.host,
                "port": member.broker.port,
                "rack": member.broker.rack,
                "reachable": not member.error,
                "error": member.error,
            }
            for member in state.brokers
        ],
        "topics": {name: topic and _topic_json(topic) for name, topic in state.topics.items()},
        "problems": [*state.problems],
    }


def _topic_json(topic: Topic) -> dict[str, Any]:
    return {
        "id": str(topic.topic_id) if topic.topic_id.int else None,
        "partitions": len(topic.leaders),
        "leaders": {
            str(number): leader and leader.broker.node_id
            for number, leader in topic.leaders.items()
        },
    }


def cluster_lines(state: ClusterState) -> Iterator[str]:
    """Yields the lines about a cluster: its id, API versions, brokers and topics."""
    yield f"cluster {state.cluster_id or 'without an id'}, at {state.servers}"
    for name, versions in state.versions.items():
        used = "none in common" if versions.used is None else f"kfetch uses v{versions.used}"
        supported = f"v{versions.lowest} to v{versions.highest}"
        yield f"  {name}: {supported if versions.highest >= 0 else 'not supported'}, {used}"
    sessions = "yes" if state.fetch_sessions else "no: kfetch names every partition in each request"
    yield f"  incremental fetch sessions: {sessions}"
    for member in state.brokers:
        yield f"{member.broker}: {member.error or 'reachable'}"
    for name, topic in state.topics.items():
        yield f"topic {name}: {_topic_text(topic)}"
    if not state.problems:
        yield _verdict([*state.topics])


def _verdict(topics: list[str]) -> str:
    if not topics:
        return "the connection works; --topic checks a topic, too"
    return f"kfetch can read {'topic' if len(topics) == 1 else 'topics'} {', '.join(topics)}"


def _topic_text(topic: Topic | None) -> str:
    if topic is None:
        return "does not exist"
    partition_counts: dict[str, int] = {}
    for leader in topic.leaders.values():
        name = "without a leader" if leader is None else f"led by broker {leader.broker.node_id}"
        partition_counts[name] = partition_counts.get(name, 0) + 1
    parts = [f"{number} {name}" for name, number in sorted(partition_counts.items())]
    return f"{len(topic.leaders)} partitions, {', '.join(parts)}"
