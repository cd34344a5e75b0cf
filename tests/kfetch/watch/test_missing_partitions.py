"""Partitions that metadata does not name for a while, and partitions that leave and return."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataRequest

from kfetch import losses
from kfetch.errors import PartitionGone
from kfetch.model import NO_TOPIC_ID, ClusterView, TopicPartition
from kfetch.model import Topic as MetadataTopic
from kfetch.offsets import Offsets
from kfetch.watch import missing_partitions
from kfetch.watch.driver import Driver
from tests.examples import examples
from tests.kfetch.watch.damage import Reader
from tests.kfetch.watch.helpers import (
    ALWAYS,
    T0,
    T1,
    U0,
    at,
    fill,
    logged,
    loss_counts,
    opened,
    query,
)
from tests.kfetch.wire.little import LittleKafka, Topic

UNAUTHORIZED = 29


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that decides when a missing partition is gone: after ten seconds."""
    made = Clock()
    monkeypatch.setattr(missing_partitions, "time", made)
    monkeypatch.setattr(losses, "GONE_AFTER_S", 10.0)
    return made


def hide(kafka: LittleKafka, name: str = "t") -> Topic:
    """Hide a topic from metadata, as an ACL does. Its leaders still know it."""
    topic = kafka.topics[name]
    for broker in kafka.nodes.values():

        def without(request: Any, answer: Any = broker.handlers[MetadataRequest]) -> Any:
            reply = answer(request)
            for entry in reply.topics:
                if entry.name == name:
                    entry.error_code, entry.partitions = UNAUTHORIZED, []
            if request.topics is None:
                reply.topics = [entry for entry in reply.topics if entry.name != name]
            return reply

        broker.always(MetadataRequest, without)
    return topic


def show(kafka: LittleKafka) -> None:
    """Let every broker tell all of its metadata again."""
    for broker in kafka.nodes.values():
        broker.always(MetadataRequest, kafka.metadata)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_one_broker_without_the_topic(kafka: LittleKafka, fail: str) -> None:
    """A topic that the only connected broker does not know is not gone while another knows it."""
    (log,) = kafka.create("u")
    reader = Reader(kafka, query(kafka, subscribe="u", failOnDataLoss=fail, **ALWAYS))
    log.append(b"a")
    reader.batch()
    kafka.nodes[1].always(MetadataRequest, lambda request: _without_topics(kafka, request))
    for n in range(4):
        log.append(b"%d" % n)
        reader.batch()

    assert [b"a", b"0", b"1", b"2", b"3"] == reader.values
    assert not loss_counts(reader.driver)


def _without_topics(kafka: LittleKafka, request: Any) -> Any:
    """Returns the metadata of a broker that knows all brokers and no topic."""
    with kafka.lock:
        topics, kafka.topics = kafka.topics, {}
        try:
            return kafka.metadata(request)
        finally:
            kafka.topics = topics


@pytest.mark.parametrize("fail", ["true", "false"])
def test_hidden_for_a_moment(kafka: LittleKafka, clock: Clock, fail: str) -> None:
    """A topic of a pattern that an ACL hides for less than ten seconds is not gone."""
    reader = Reader(kafka, query(kafka, subscribePattern="^t", failOnDataLoss=fail, **ALWAYS))
    reader.batch()
    for seconds in (2, 5, 9.5):
        clock.now = 100.0
        hide(kafka)
        reader.batch()
        clock.now += seconds
        reader.batch()
        show(kafka)
        kafka.log(T0).append(b"after %g" % seconds)
        reader.finish()

    assert [b"after 2", b"after 5", b"after 9.5"] == reader.values[4:]
    assert not loss_counts(reader.driver)


@pytest.mark.parametrize("restart", [False, True])
def test_gone_after_ten_seconds(kafka: LittleKafka, clock: Clock, restart: bool) -> None:
    """A topic that no broker names for ten seconds is gone. A new run waits as long."""
    reader = Reader(kafka, query(kafka, **ALWAYS))
    reader.batch()
    del kafka.topics["t"]
    if restart:
        reader.driver = query(kafka)
    else:
        assert reader.batch() is None
        clock.now += 9.9
        assert reader.batch() is None
        clock.now += 0.1
    with pytest.raises(PartitionGone, match="t-0 no longer exists"):
        reader.batch()

    assert 110.0 <= clock.now < 112.0


def test_the_others_do_not_wait(kafka: LittleKafka, clock: Clock) -> None:
    """While one topic is missing, the records of the others are read."""
    kafka.create("u")
    reader = Reader(kafka, query(kafka, subscribe="t,u", failOnDataLoss="false", **ALWAYS))
    reader.batch()
    del kafka.topics["t"]
    kafka.log(U0).append(b"u")
    reader.batch()

    assert {U0: (0, 1)} == reader.last
    assert T0 in reader.offsets.positions
    assert 100.0 == clock.now


@pytest.mark.parametrize("restart", [False, True])
def test_a_topic_that_returns(kafka: LittleKafka, restart: bool) -> None:
    """A topic that comes back under its id is read on where the query left it."""
    options = {"subscribePattern": "^[tu]", "failOnDataLoss": "false", **ALWAYS}
    kafka.create("u")
    reader = Reader(kafka, query(kafka, **options))
    reader.finish()
    topic = kafka.topics.pop("t")
    kafka.log(U0).append(b"meanwhile")
    reader.finish()
    assert {U0: 1} == at(reader.offsets)
    if restart:
        reader.driver = query(kafka, **options)
    kafka.topics["t"] = topic
    reader.finish()
    kafka.log(T0).append(b"d")
    reader.finish()

    assert [b"meanwhile", b"d"] == reader.values[4:]
    assert {T0: 4, T1: 1, U0: 1} == at(reader.offsets)
    assert not reader.offsets.left


class OneBroker:
    """The lookup of a cluster of one broker: no other completes its metadata."""

    def completed(self, view: ClusterView, *_: Any) -> ClusterView:
        return view

    def is_subscribed(self, _: TopicPartition) -> bool:
        return True


def test_hidden_again_after_a_return(clock: Clock) -> None:
    """A partition that was gone and came back has its ten seconds again."""
    lookup: Any = OneBroker()
    missing = missing_partitions.MissingPartitions(lookup)
    empty = ClusterView(brokers={}, topics={})
    topic = MetadataTopic(name="t", topic_id=NO_TOPIC_ID, internal=False, leaders={0: None})
    missing.look(empty, [T0], {})
    clock.now += 10
    missing.look(empty, [T0], {})
    assert not missing.hidden
    missing.look(replace(empty, topics={"t": topic}), [], {})  # gone, so nobody expects it
    clock.now += 300
    missing.look(empty, [T0], {})

    assert {T0} == missing.hidden


def test_another_topic_of_that_name(kafka: LittleKafka) -> None:
    """A topic that comes back under another id is a new topic, read from its beginning."""
    reader = _at_the_end_of_two_topics(kafka)
    del kafka.topics["t"]
    reader.finish()
    assert {T0, T1} == set(reader.offsets.left)
    fill(kafka)
    reader.finish()

    assert [b"a", b"b", b"c", b"x"] == reader.values[4:]
    assert not reader.offsets.left


@pytest.mark.parametrize("restart", [False, True])
def test_a_broker_with_the_deleted_topic(kafka: LittleKafka, restart: bool) -> None:
    """A broker that still names the topic before a deleted one does not take the query back."""
    kafka.isolate(1)
    kafka.nodes[1].always(MetadataRequest, kafka.metadata)
    old = kafka.topics["t"]
    fill(kafka)
    for log in kafka.topics["t"].logs:
        log.leader = 2
    reader = Reader(kafka, _lenient(kafka))
    reader.finish()

    def outdated(request: Any) -> Any:
        return kafka.answer_with({"t": old}, kafka.metadata, request)

    kafka.nodes[1].always(MetadataRequest, outdated)
    if restart:
        reader.driver = _lenient(kafka)
    for n in range(4):
        kafka.log(T0).append(b"%d" % n)
        reader.finish()

    assert [b"0", b"1", b"2", b"3"] == reader.values[4:]
    assert not loss_counts(reader.driver)


def test_a_subscription_that_narrows_and_widens(kafka: LittleKafka) -> None:
    """A partition that the options leave out for a while is read on where the query left it."""
    options = {"failOnDataLoss": "false", **ALWAYS}
    reader = Reader(kafka, query(kafka, **options))
    reader.finish()
    reader.driver = query(kafka, assign='{"t":[0]}', **options)
    kafka.log(T1).append(b"unseen")
    reader.finish()
    assert {T0: 3} == at(reader.offsets)
    reader.driver = query(kafka, **options)
    reader.finish()

    assert [b"unseen"] == reader.values[4:]


def test_expired_while_away(kafka: LittleKafka) -> None:
    """Records that expired while their partition was away are a loss, and none comes twice."""
    reader = _at_the_end_of_two_topics(kafka)
    topic = kafka.topics.pop("t")
    reader.finish()
    topic.logs[0].append(b"d", b"e")
    topic.logs[0].append(b"f")
    topic.logs[0].expire(5)
    kafka.topics["t"] = topic
    reader.finish()

    assert [b"f"] == reader.values[4:]
    assert 1 == loss_counts(reader.driver)["RecordsExpired"]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("planned", [False, True], ids=["before the next planning", "after it"])
def test_a_micro_batch_that_could_not_be_read(
    kafka: LittleKafka, restart: bool, planned: bool
) -> None:
    """If a partition leaves between planning and reading, the query returns to what it skipped.

    It does so also if the partition is back before the next planning."""
    reader = _at_the_end_of_two_topics(kafka)
    kafka.log(T0).append(b"d")
    start, end = _planned(reader)
    topic = kafka.topics.pop("t")
    if restart:
        reader.driver = _lenient(kafka)
    reader.take(start, end)
    reader.offsets = end
    if planned:
        reader.finish()
    kafka.topics["t"] = topic
    reader.finish()
    kafka.log(T0).append(b"e")
    reader.finish()

    assert [b"d", b"e"] == reader.values[4:]
    assert {T0: 5, T1: 1, U0: 0} == at(reader.offsets)


def test_a_skipped_range_that_is_lost(kafka: LittleKafka) -> None:
    """If the partition comes back without the records, it leaves the offsets only once."""
    reader = _at_the_end_of_two_topics(kafka)
    kafka.log(T0).append(b"d")
    start, end = _planned(reader)
    topic = kafka.topics.pop("t")
    reader.take(start, end)
    topic.logs[0].truncate(3)
    kafka.topics["t"] = topic
    reader.offsets = end
    positions = []
    for _ in range(3):
        kafka.log(U0).append(b"u")
        reader.batch()
        positions.append(at(reader.offsets).get(T0))

    assert [None, 3, 3] == positions
    assert reader.batch() is None


def test_a_new_partition_that_could_not_be_read(kafka: LittleKafka) -> None:
    """A new topic that leaves before its first micro-batch is read from its beginning later."""
    reader = Reader(kafka, _lenient(kafka))
    reader.finish()
    kafka.create("u")[0].append(b"u")
    start, end = _planned(reader)
    topic = kafka.topics.pop("u")
    reader.take(start, end)
    reader.offsets = end
    kafka.topics["u"] = topic
    reader.finish()

    assert [b"u"] == reader.values[4:]


@pytest.mark.parametrize("planned", [False, True], ids=["before the next planning", "after it"])
def test_a_recreated_topic_that_could_not_be_read(kafka: LittleKafka, planned: bool) -> None:
    """A position of the former topic never counts for the topic of now."""
    reader = _at_the_end_of_two_topics(kafka)
    fill(kafka)
    start, end = _planned(reader)
    assert start.topic_ids["t"] != end.topic_ids["t"]
    topic = kafka.topics.pop("t")
    reader.take(start, end)
    reader.offsets = end
    if planned:
        reader.finish()
    kafka.topics["t"] = topic
    reader.finish()

    assert [b"a", b"b", b"c", b"x"] == reader.values[4:]


def test_a_topic_that_was_skipped_and_created_again(kafka: LittleKafka) -> None:
    """A skipped range of a topic that does not come back is lost with the topic."""
    reader = _at_the_end_of_two_topics(kafka)
    kafka.log(T0).append(b"d")
    start, end = _planned(reader)
    del kafka.topics["t"]
    reader.take(start, end)
    reader.offsets = end
    fill(kafka)
    reader.finish()

    assert [b"a", b"b", b"c", b"x"] == reader.values[4:]


CHANGES = st.lists(st.sampled_from(["hide", "show", "t", "u", "batch", "restart"]), max_size=12)


@pytest.mark.connector_case(
    "KafkaSourceStressSuite", "stress test with multiple topics and partitions"
)
@pytest.mark.connector_case(
    "KafkaSourceStressForDontFailOnDataLossSuite",
    "stress test for failOnDataLoss=false",
)
@examples(5)
@given(CHANGES)
def test_every_record_once(changes: list[str]) -> None:
    """Whatever leaves and returns, and whenever the query restarts: each record comes once."""
    with LittleKafka(1) as kafka:
        fill(kafka)
        kafka.create("u")
        topic = kafka.topics["t"]
        reader = Reader(kafka, _lenient(kafka))
        for n, change in enumerate(changes):
            if change == "hide":
                kafka.topics.pop("t", None)
            elif change == "show":
                kafka.topics["t"] = topic
            elif change == "restart":
                opened.remove(reader.driver)
                reader.driver.close()
                reader.driver = _lenient(kafka)
            elif change == "batch":
                reader.batch()
            else:
                (topic if change == "t" else kafka.topics["u"]).logs[0].append(b"%d" % n)
        kafka.topics["t"] = topic
        reader.finish()
        while opened:
            opened.pop().close()
        written = [*topic.logs[0].values.values(), *topic.logs[1].values.values()]

    assert sorted([*written, *kafka.log(U0).values.values()]) == sorted(reader.values)


def _at_the_end_of_two_topics(kafka: LittleKafka) -> Reader:
    """A reader of t and of the new topic u, which has read everything."""
    kafka.create("u")
    reader = Reader(kafka, _lenient(kafka))
    reader.finish()
    return reader


def _planned(reader: Reader) -> tuple[Offsets, Offsets]:
    """Start and end of the reader's next micro-batch, which it has not read."""
    return reader.offsets, logged(reader.driver.next_end(reader.offsets, None))


def _lenient(kafka: LittleKafka) -> Driver:
    return query(kafka, subscribePattern="^[tu]", failOnDataLoss="false", **ALWAYS)


def test_each_loss_of_a_topic_that_returns_counts(kafka: LittleKafka) -> None:
    """A topic that is made anew each day, with as many records as before, is lost each time."""
    reader = _at_the_end_of_two_topics(kafka)
    for day in (1, 2, 3):
        del kafka.topics["t"]
        reader.finish()
        assert 2 * day == loss_counts(reader.driver)["PartitionGone"]
        fill(kafka)
        reader.finish()
