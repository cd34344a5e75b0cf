"""Metadata, ListOffsets and OffsetsForLeaderEpoch: every version, and error codes as values."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from kfetch import codes
from kfetch.errors import AccessRefused, BrokerError
from kfetch.model import NO_TOPIC_ID, TopicPartition
from kfetch.options import NetworkOptions
from kfetch.reactions import Api
from kfetch.wire import messages
from kfetch.wire.connection import Connection
from kfetch.wire.messages import EpochEnd, ListedOffset
from tests.kfetch.wire.little import DESCRIBE_ONLY, LittleKafka

T0, T1, GONE = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)


def soon() -> float:
    """A deadline."""
    return time.monotonic() + 60


class Talk:
    """A little Kafka and a connection to its first node."""

    def __init__(self, versions: Any = None) -> None:
        self.kafka = LittleKafka(1, versions)
        self.kafka.create("t", 2)
        self.kafka.log(T0).append(b"a", b"b")
        port = self.kafka.nodes[1].port
        self.connection = Connection.open("127.0.0.1", port, NetworkOptions(), soon())

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self.kafka.__exit__()


@pytest.fixture
def talk() -> Iterator[Talk]:
    """A talk with a broker of today."""
    with Talk() as talk:
        yield talk


@pytest.mark.parametrize("version", range(4, MetadataRequest.max_version + 1))
def test_metadata(version: int) -> None:
    """Every version tells brokers, topics and leaders; ids from v10, epochs from v9 on."""
    with Talk({MetadataRequest: (0, version)}) as talk:
        talk.kafka.elect(T0, 1)
        talk.kafka.elect(T1, None)
        talk.kafka.topics["t"].internal = True
        view = messages.metadata(talk.connection, ["t", "gone"], soon())

        node = talk.kafka.nodes[1].broker
        assert {1: node} == view.brokers
        assert ["t"] == list(view.topics)
        assert (UUID(int=1) if version >= 10 else NO_TOPIC_ID) == view.topics["t"].topic_id
        assert view.topics["t"].internal
        leader = view.leader(T0)
        assert leader is not None
        assert (node, 1 if version >= 9 else -1) == (leader.broker, leader.epoch)
        assert view.leader(T1) is None
        assert view.exists(T1)
        assert not view.exists(GONE)
        asked = talk.kafka.asked(MetadataRequest)[-1]
        assert asked.allow_auto_topic_creation is False


@pytest.mark.parametrize("version", [4, 9, 12, 13])
def test_all_topics(version: int) -> None:
    """None asks for every topic, an empty list for none of them."""
    with Talk({MetadataRequest: (0, version)}) as talk:
        talk.kafka.create("u")

        assert {"t", "u"} == set(messages.metadata(talk.connection, None, soon()).topics)
        assert set() == set(messages.metadata(talk.connection, [], soon()).topics)


@pytest.mark.parametrize(("code", "retriable"), [(29, False), (17, False), (5, True), (-1, True)])
def test_topic_that_cannot_be_told(talk: Talk, code: int, retriable: bool) -> None:
    """An error of a topic is no proof that it does not exist, nor that it has no partitions."""
    topic = MetadataResponse.MetadataResponseTopic
    talk.kafka.nodes[1].answer(
        MetadataRequest,
        MetadataResponse(
            brokers=[],
            cluster_id="c",
            controller_id=1,
            topics=[topic(version=13, error_code=code, name="t", partitions=[])],
        ),
    )
    with pytest.raises(BrokerError, match="asking for topic t: the broker answered") as caught:
        messages.metadata(talk.connection, ["t"], soon())

    assert (code, retriable) == (caught.value.code, caught.value.retriable)


@pytest.mark.parametrize("version", range(1, ListOffsetsRequest.max_version + 1))
def test_list_offsets(version: int) -> None:
    """Every version tells the ends, from v4 on with their leader epochs, and errors as codes."""
    with Talk({ListOffsetsRequest: (0, version)}) as talk:
        talk.kafka.log(T0).epoch = 3
        answers = messages.list_offsets(
            talk.connection, {T0: -1, T1: -2, GONE: -1}, {T0: 3}, soon()
        )

        epoch = 3 if version >= 4 else -1
        assert {
            T0: ListedOffset(0, 2, epoch),
            T1: ListedOffset(0, 0, 0 if version >= 4 else -1),
            GONE: ListedOffset(codes.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
        } == answers


@pytest.mark.parametrize("version", [3, 4])
def test_epoch_ends(version: int) -> None:
    """The end of an epoch's records, and the largest epoch not above the one asked for."""
    with Talk({OffsetForLeaderEpochRequest: (0, version)}) as talk:
        log = talk.kafka.log(T0)
        log.epoch = 4
        log.append(b"c")
        answers = messages.epoch_ends(talk.connection, {T0: 2, T1: 0, GONE: 0}, {}, soon())

        assert {
            T0: EpochEnd(0, 0, 2),
            T1: EpochEnd(0, 0, 0),
            GONE: EpochEnd(codes.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
        } == answers


@pytest.mark.parametrize("version", [0, 1, 2])
def test_epoch_ends_of_old_brokers(version: int) -> None:
    """A broker that answers this question to followers only is not asked (KAFKA-8422)."""
    with Talk({OffsetForLeaderEpochRequest: (0, version)}) as talk:
        assert messages.epoch_ends(talk.connection, {T0: 2}, {}, soon()) is None
        assert [] == talk.kafka.asked(OffsetForLeaderEpochRequest)


@pytest.mark.parametrize(
    ("code", "retriable"),
    [
        (1, False),
        (3, True),
        (5, True),
        (6, True),
        (9, True),
        (13, True),
        (17, False),
        (29, False),
        (35, False),
        (56, True),
        (74, True),
        (75, True),
        (100, True),
        (103, True),
        (2, True),
        (-1, True),
        (9999, True),
    ],
)
def test_codes(code: int, retriable: bool) -> None:
    """The recovery of each error code; an unknown code counts as UNKNOWN_SERVER_ERROR."""
    assert retriable is codes.retriable(code)
    error = codes.error(code, "fetching t-0", topic="t")
    assert str(error).startswith(f"fetching t-0: the broker answered {codes.name(code)}: ")
    assert (code, retriable, "t") == (error.code, error.retriable, error.topic)
    assert f"({code})" in codes.name(code)


@pytest.mark.parametrize("code", [29, 30, 31, 33, 34, 53, 58, 65])
def test_refusals_are_a_class_of_their_own(code: int) -> None:
    """Who may not ask is error so by class: nobody has to look for words in the sentence."""
    error = codes.error(code, "fetching t-0", topic="t")
    assert type(error) is AccessRefused
    assert not error.retriable


@pytest.mark.parametrize(
    ("api", "user", "sentence"),
    [
        (
            Api.FETCH,
            "alice",
            "its ACLs don't let User:alice read topic t: the operation READ is missing; add it "
            "with kafka-acls.sh",
        ),
        (
            Api.METADATA,
            "alice",
            "its ACLs don't let User:alice describe topic t: the operation DESCRIBE is missing; "
            "add it with kafka-acls.sh",
        ),
        (
            None,
            "",
            "its ACLs don't let this user (User:ANONYMOUS where there is no log-in) describe topic "
            "t: the operation DESCRIBE is missing; add it with kafka-acls.sh",
        ),
    ],
)
def test_a_denied_topic(api: Api | None, user: str, sentence: str) -> None:
    """The sentence has Kafka's own name for the error, the user, the topic and the operation."""
    assert codes.error(29, "watching t-0", api=api, topic="t", user=user).message == (
        f"watching t-0: the broker answered TOPIC_AUTHORIZATION_FAILED (29): {sentence}"
    )


def test_a_denied_cluster() -> None:
    """The sentence names the user, and no topic."""
    assert codes.error(31, "asking", user="alice").message == (
        "asking: the broker answered CLUSTER_AUTHORIZATION_FAILED (31): its ACLs don't let "
        "User:alice do this in the cluster: add the operation with kafka-acls.sh"
    )


@pytest.mark.parametrize(
    ("operations", "readable"),
    [(DESCRIBE_ONLY, False), ({3, 8}, True), (None, True), (set(), False)],
)
def test_topics_that_may_be_described_and_not_read(
    talk: Talk, operations: set[int] | None, readable: bool
) -> None:
    """The operations that the broker names decide. A broker that names none denies nothing."""
    if operations is not None:
        talk.kafka.operations["t"] = operations

    assert ([] if readable else [codes.unreadable("t", "")]) == messages.unreadable_topics(
        talk.connection, ["t", "gone"], soon()
    )
    assert talk.kafka.asked(MetadataRequest)[-1].include_topic_authorized_operations


def test_an_old_broker_cannot_tell_who_may_read() -> None:
    """Below Metadata v8 there is no question, and no topic counts as denied."""
    with Talk({MetadataRequest: (0, 7)}) as talk:
        assert [] == messages.unreadable_topics(talk.connection, ["t"], soon())
        assert [] == talk.kafka.asked(MetadataRequest)
