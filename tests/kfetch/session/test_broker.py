"""The broker model itself, against what is known of Kafka's session cache."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from kfetch.model import NO_TOPIC_ID, TopicPartition
from kfetch.session.plan import FetchPlan
from kfetch.session.session import FetchSession
from tests.kfetch.session.broker import EVICTION_MS, SHARDS, Broker, Data, Response
from tests.kfetch.session.helpers import A0, A1, B0, ID_A, ID_B, at


def broker(slots: int = 1000) -> Broker:
    """A broker with topics a and b of many partitions."""
    made = Broker(slots)
    made.create_topic("a", ID_A, 20)
    made.create_topic("b", ID_B, 20)
    return made


def full(partitions: Collection[TopicPartition] = (A0,)) -> FetchPlan:
    """A full fetch by id that asks for a session."""
    return FetchSession().plan({tp: at(0, ID_A) for tp in partitions})


def parts(number: int) -> list[TopicPartition]:
    """Partitions of topic a."""
    return [TopicPartition("a", index) for index in range(number)]


def ids(answers: list[Response]) -> list[int]:
    """The session ids of responses."""
    return [answer.reply.session_id for answer in answers]


def following(response: Response, plan: FetchPlan, epoch: int = 1) -> FetchPlan:
    """An incremental fetch without changes after a full one."""
    metadata = replace(plan.metadata, session_id=response.reply.session_id, epoch=epoch)
    return replace(plan, metadata=metadata, send={})


@pytest.mark.parametrize(("slots", "sessions"), [(7, 0), (8, 8), (15, 8), (1000, 1000)])
def test_slots_are_divided_by_eight(slots: int, sessions: int) -> None:
    """Fewer than 8 slots hold no session at all, and a remainder is lost (KAFKA-9401)."""
    cluster = broker(slots)
    answers = [cluster.fetch(full()) for _ in range(slots + SHARDS)]

    assert sessions == sum(1 for session_id in ids(answers) if session_id)


def test_errors_in_order() -> None:
    """Unknown id, then epoch, then kind of key: 70, 71, 106, each without id or partitions."""
    cluster = broker()
    plan = full()
    opened = cluster.fetch(plan)
    by_name = replace(following(opened, plan, 5), uses_topic_ids=False)
    strange = replace(following(opened, plan), metadata=replace(plan.metadata, session_id=1))
    strange = replace(strange, metadata=replace(strange.metadata, epoch=1))
    requests = [strange, by_name, replace(by_name, metadata=following(opened, plan).metadata)]

    assert [70, 71, 106] == [cluster.fetch(request).reply.error for request in requests]
    assert 0 == cluster.fetch(following(opened, plan)).reply.error


def test_idle_session_is_evicted_by_a_newcomer() -> None:
    """A session idle for more than 120 s gives way to any newcomer of its shard."""
    cluster = broker(SHARDS)
    for _ in range(SHARDS):
        cluster.fetch(full(parts(5)))

    assert not cluster.fetch(full(), now_ms=EVICTION_MS).reply.session_id
    assert cluster.fetch(full(), now_ms=EVICTION_MS + 1).reply.session_id


@pytest.mark.parametrize(("size", "gets_in"), [(4, False), (5, False), (6, True)])
def test_old_busy_session_gives_way_to_a_larger_one(size: int, gets_in: bool) -> None:
    """A session that is old but in use gives way only to strictly more partitions."""
    cluster = broker(SHARDS)
    plan = full(parts(5))
    for opened in [cluster.fetch(plan) for _ in range(SHARDS)]:
        cluster.fetch(following(opened, plan), now_ms=EVICTION_MS + 1)

    assert gets_in is bool(
        cluster.fetch(full(parts(size)), now_ms=EVICTION_MS + 2).reply.session_id
    )


def test_only_changes_come_back() -> None:
    """A new partition is sent once, then only for records, a new high watermark, or an error."""
    cluster = broker()
    plan = full([A0, A1])
    opened = cluster.fetch(plan)

    assert {(ID_A, 0), (ID_A, 1)} == set(opened.data)
    assert {} == cluster.fetch(following(opened, plan, 1)).data
    cluster.append(A1, 3)

    assert {(ID_A, 1): Data(high_watermark=3, records=3)} == (
        cluster.fetch(following(opened, plan, 2)).data
    )


def test_error_and_recovery_come_back() -> None:
    """A partition with an error is in every reply, and once more when it has recovered."""
    cluster = broker()
    plan = full([A0])
    opened = cluster.fetch(plan)
    cluster.errors[ID_A, 0] = 6
    answers = [cluster.fetch(following(opened, plan, epoch)) for epoch in (1, 2)]
    cluster.errors.clear()
    answers += [cluster.fetch(following(opened, plan, epoch)) for epoch in (3, 4)]

    assert [[6], [6], [0], []] == [[d.error for d in answer.data.values()] for answer in answers]


def test_throttled_requests() -> None:
    """A throttled incremental fetch counts; a throttled full one opens nothing."""
    cluster = broker()
    plan = full()

    assert 0 == cluster.fetch(plan, throttle_ms=5).reply.session_id
    opened = cluster.fetch(plan)
    throttled = cluster.fetch(following(opened, plan, 1), throttle_ms=5)

    assert (opened.reply.session_id, ()) == (
        throttled.reply.session_id,
        throttled.reply.partitions,
    )
    assert 0 == cluster.fetch(following(opened, plan, 2)).reply.error


def test_adds_come_before_forgets() -> None:
    """Keyed by name, sending and forgetting one partition leaves it forgotten."""
    cluster = broker()
    plan = FetchSession().plan({A0: at(0), B0: at(0)})
    opened = cluster.fetch(plan)
    both = replace(following(opened, plan), send={A0: at(1)}, forget=((NO_TOPIC_ID, A0),))
    cluster.fetch(both)

    assert {("b", 0)} == set(cluster.served or ())


def test_emptied_session_dies() -> None:
    """Forgetting the last partition closes the session: id 0, and the id is unknown after."""
    cluster = broker()
    plan = full([A0])
    opened = cluster.fetch(plan)
    emptied = cluster.fetch(replace(following(opened, plan), forget=((ID_A, A0),)))

    assert (0, 0) == (emptied.reply.error, emptied.reply.session_id)
    assert 70 == cluster.fetch(following(opened, plan, 2)).reply.error
