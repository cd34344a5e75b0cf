"""Two users on one executor: connections, sessions and metadata belong to one user each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from integration.secured import SecuredCluster
from integration.security.access import VALUES, options
from kfetch.agent import inline, launch
from kfetch.errors import AccessRefused, AgentError
from kfetch.model import Split
from kfetch.options import SourceOptions
from kfetch.spark import worker
from kfetch.spark.options import parse
from kfetch.watch.driver import Driver

pytestmark = pytest.mark.integration


@pytest.fixture(params=["process", "inline"])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the sessions live: the executor's agent, or this process in place of a worker."""
    yield request.param
    inline.close_all()
    for process in launch._started:
        process.terminate()
        process.wait(20)


def test_one_user_may_read_and_the_other_not(
    secured: SecuredCluster, secret_topic: str, place: str
) -> None:
    """The denied user's query fails while the reader's goes on. No connection has two users."""
    allowed, denied = (
        parsed(secured, secret_topic, place, user, f"{place}-{user}")
        for user in ("reader", "denied")
    )
    (split,) = plan(allowed)
    stranger = replace(split, query=f"{split.query[::-1]}")

    for _ in range(2):
        assert VALUES == values(split, allowed)
        with pytest.raises(AccessRefused, match="don't let User:denied read topic secret-"):
            values(stranger, denied)
    assert VALUES == values(split, allowed)
    seen = requests(secured, place)
    assert {"User:reader", "User:denied"} == {one["principal"] for one in seen}
    assert {1} == {len(users) for users in by(seen, "connection").values()}
    assert {1} == {len(users) for session, users in sessions(seen).items() if session}


def test_a_querys_sessions_have_one_user(
    secured: SecuredCluster, secret_topic: str, place: str
) -> None:
    """A task that names a running query, and has other credentials, gets nothing of it."""
    allowed = parsed(secured, secret_topic, place, "reader", "known")
    denied = parsed(secured, secret_topic, place, "denied", "known")
    (split,) = plan(allowed)

    assert VALUES == values(split, allowed)
    with pytest.raises((AgentError, AccessRefused)):
        values(split, denied)


def parsed(
    cluster: SecuredCluster, topic: str, place: str, user: str, client: str
) -> SourceOptions:
    """Returns the options of a query of a user."""
    asked = {"subscribe": topic, "startingOffsets": "earliest", "kfetch.agent": place}
    return parse({**options(cluster, "SASL_PLAINTEXT", user), **asked, "kafka.client.id": client})


def plan(query: SourceOptions) -> list[Split]:
    """Returns the splits of a query's first micro-batch."""
    with closing(Driver(query)) as driver:
        start = driver.initial_offsets()
        driver.prepare_available_now()
        end = driver.next_end(start, None)
        assert end is not None
        return driver.splits(start, end)


def values(split: Split, query: SourceOptions) -> list[str]:
    """Returns the values that a task reads."""
    batches = worker.read(split, query)
    return [value.decode() for batch in batches for value in batch["value"].to_pylist()]


def requests(cluster: SecuredCluster, place: str) -> list[dict[str, Any]]:
    """Returns the broker's log of the requests of a test's clients."""
    log: Path = cluster.nodes[0].log.parent / "requests.log"
    entries = [json.loads(line[line.index("{") :]) for line in log.read_text().splitlines()]
    clients = {f"{place}-reader", f"{place}-denied"}
    return [entry for entry in entries if entry["requestHeader"]["clientId"] in clients]


def by(entries: list[dict[str, Any]], name: str) -> dict[str, set[str]]:
    """Returns the users of each value of a field. A log-in itself has no user yet."""
    users: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        if entry["requestHeader"]["requestApiKeyName"] in ("FETCH", "METADATA", "LIST_OFFSETS"):
            users[entry[name]].add(entry["principal"])
    return users


def sessions(entries: list[dict[str, Any]]) -> dict[int, set[str]]:
    """Returns the users of each fetch session."""
    users: dict[int, set[str]] = defaultdict(set)
    for entry in entries:
        if entry["requestHeader"]["requestApiKeyName"] == "FETCH":
            users[entry["response"]["sessionId"]].add(entry["principal"])
    return users
