"""The committed offsets of a consumer group: each version, errors, a coordinator that moves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from kfetch.errors import AccessRefused, BrokerError
from kfetch.model import TopicPartition
from kfetch.offsets import Position
from kfetch.wire.cluster import Cluster
from kfetch.wire.connection import Connection
from kfetch.wire.groups import (
    commit_offsets,
    committed_offsets,
    find_coordinator,
    send_commit,
    send_fetch,
)
from tests.kfetch.wire.coordinator import Coordinator
from tests.kfetch.wire.helpers import OPTIONS, T0, T1, soon
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close

U5 = TopicPartition("u", 5)


@pytest.fixture
def coordinator(kafka: LittleKafka) -> Coordinator:
    """The coordinator of the two nodes."""
    coordinator = Coordinator(kafka, node=2)
    coordinator.offsets["g"] = {T0: Position(7, 3), U5: Position(0)}
    return coordinator


@pytest.fixture
def one(request: pytest.FixtureRequest) -> Iterator[tuple[Coordinator, Connection]]:
    """A coordinator whose versions end with the parameter's, and a connection to it."""
    message, version = request.param
    with LittleKafka(1, {message: (0, version)}) as kafka:
        port = kafka.nodes[1].port
        connection = Connection.open("127.0.0.1", port, OPTIONS, soon())
        yield Coordinator(kafka), connection
        connection.close()


@pytest.mark.parametrize(
    "one",
    [(OffsetFetchRequest, v) for v in range(2, OffsetFetchRequest.max_version + 1)],
    indirect=True,
)
def test_fetch(one: tuple[Coordinator, Connection]) -> None:
    """Every version has the committed offsets, from v5 on with their leader epochs."""
    coordinator, connection = one
    coordinator.offsets["g"] = {T0: Position(7, 3), U5: Position(0)}
    positions = send_fetch(connection, "g", [T0, T1, U5], soon())
    version = coordinator.kafka.asked(OffsetFetchRequest)[-1].API_VERSION

    assert {T0: Position(7, 3 if version >= 5 else -1), U5: Position(0)} == positions
    assert version <= 7


@pytest.mark.parametrize(
    "one",
    [(OffsetCommitRequest, v) for v in range(2, OffsetCommitRequest.max_version + 1)],
    indirect=True,
)
def test_commit(one: tuple[Coordinator, Connection]) -> None:
    """Every version commits offsets, from v6 on with their leader epochs, and no generation."""
    coordinator, connection = one
    send_commit(connection, "g", {T0: Position(7, 3), U5: Position(9)}, soon())
    (request,) = coordinator.kafka.asked(OffsetCommitRequest)

    epoch = 3 if request.API_VERSION >= 6 else -1
    assert {T0: Position(7, epoch), U5: Position(9)} == coordinator.offsets["g"]
    assert (-1, "") == (request.generation_id_or_member_epoch, request.member_id)


@pytest.mark.parametrize(
    "one", [(FindCoordinatorRequest, 0), (FindCoordinatorRequest, 6)], indirect=True
)
def test_find_coordinator(one: tuple[Coordinator, Connection]) -> None:
    """The oldest and the newest broker name the coordinator."""
    coordinator, connection = one
    cluster = Cluster((("127.0.0.1", int(connection.peer.partition(":")[2])),), OPTIONS)
    coordinator.offsets["g"] = {T0: Position(7)}

    assert {T0: Position(7)} == committed_offsets(cluster, "g", [T0], soon())
    cluster.close()


def test_the_coordinator_is_asked(
    kafka: LittleKafka, cluster: Cluster, coordinator: Coordinator
) -> None:
    """Any broker names the coordinator, and only the coordinator is asked for offsets."""
    assert {T0: Position(7, 3)} == committed_offsets(cluster, "g", [T0, T1], soon())
    assert [0, 1] == [len(node.asked(OffsetFetchRequest)) for node in kafka.nodes.values()]


def test_a_coordinator_that_moves(
    kafka: LittleKafka, cluster: Cluster, coordinator: Coordinator
) -> None:
    """After NOT_COORDINATOR, or a lost connection, the coordinator is looked for again."""
    kafka.nodes[2].answer(OffsetFetchRequest, Close())

    def move(request: object) -> object:
        coordinator.node = 1
        return coordinator.fetch(2, request)

    kafka.nodes[2].answer(OffsetFetchRequest, move)

    assert {T0: Position(7, 3)} == committed_offsets(cluster, "g", [T0], soon())


@pytest.mark.parametrize("code", [14, 15, 88])
def test_answers_to_wait_for(cluster: Cluster, coordinator: Coordinator, code: int) -> None:
    """A coordinator that loads, and an open transaction, are waited for until the deadline."""
    coordinator.error = code
    with pytest.raises(BrokerError, match="asking for offsets of group g: no success in") as caught:
        committed_offsets(cluster, "g", [T0], soon(1))

    assert code == caught.value.code


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (30, AccessRefused, "don't let this user .* use group g: add Describe and Read with"),
        (25, BrokerError, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_final_errors(
    cluster: Cluster, coordinator: Coordinator, code: int, kind: type[BrokerError], words: str
) -> None:
    """An ACL, or a group with members, is an error at once that names the group."""
    coordinator.error = code
    began = time.monotonic()
    with pytest.raises(kind, match=words):
        commit_offsets(cluster, "g", {T0: Position(1)}, soon())

    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    "ask",
    [
        lambda connection: find_coordinator(connection, "g", soon()),
        lambda connection: send_fetch(connection, "g", [T0], soon()),
        lambda connection: send_commit(connection, "g", {T0: Position(1)}, soon()),
    ],
    ids=["coordinator", "fetch", "commit"],
)
def test_an_acls_error_names_the_user(
    kafka: LittleKafka,
    coordinator: Coordinator,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[Connection], object],
) -> None:
    """Each request's error says which user may not use the group, as kafka-acls.sh takes it."""
    monkeypatch.setattr(Connection, "user", "alice")
    coordinator.error = coordinator.error_of_finding = 30
    connection = Connection.open("127.0.0.1", kafka.nodes[2].port, OPTIONS, soon())
    with (
        closing(connection),
        pytest.raises(AccessRefused, match="don't let User:alice use group g: add") as refused,
    ):
        ask(connection)

    assert ("g", "alice") == (refused.value.group, refused.value.user)


def test_a_group_that_no_broker_knows(cluster: Cluster, coordinator: Coordinator) -> None:
    """GROUP_ID_NOT_FOUND means that nothing is committed."""
    coordinator.error = 69

    assert {} == committed_offsets(cluster, "g", [T0], soon())
