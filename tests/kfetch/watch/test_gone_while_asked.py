"""Topics that are deleted after the driver's metadata and before its question to a leader."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from kfetch import losses
from kfetch.errors import DataLoss, NoSuchPartition, PartitionGone, TopicRecreated
from kfetch.spark.options import parse
from kfetch.watch.batch_planning import plan_batch
from kfetch.watch.driver import Driver
from kfetch.watch.lookups import OffsetLookup
from kfetch.watch.watch import Watch
from tests.kfetch.watch.damage import Damage, Reader, deleted, recreated
from tests.kfetch.watch.helpers import ALWAYS, T0, U0, HandWatch, at, query
from tests.kfetch.wire.little import LittleKafka

QUESTIONS = ("epoch_ends", "log_starts", "log_ends")
Delete = Callable[[str], None]


@pytest.fixture
def delete(kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch) -> Delete:
    """Deletes topic u just before the driver asks its leader the next question of a name."""

    def before(question: str) -> None:
        honest = getattr(OffsetLookup, question)

        def late(lookup: OffsetLookup, *arguments: object) -> object:
            kafka.topics.pop("u", None)
            return honest(lookup, *arguments)

        monkeypatch.setattr(OffsetLookup, question, late)

    return before


def reader_of_both(kafka: LittleKafka, fail: str) -> Reader:
    """Returns a query over t and u that has read a record of each."""
    kafka.create("u")
    kafka.log(U0).append(b"u")
    reader = Reader(kafka, both(kafka, fail))
    reader.batch()
    assert U0 in reader.offsets.positions
    return reader


def both(kafka: LittleKafka, fail: str) -> Driver:
    """Returns a driver over t and u."""
    return query(kafka, subscribePattern=".", failOnDataLoss=fail, **ALWAYS)


def batches(reader: Reader, count: int = 3) -> None:
    """Plan and read micro-batches until the driver has looked at the metadata again."""
    for _ in range(count):
        reader.batch()


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_lenient_query_goes_on(kafka: LittleKafka, delete: Delete, question: str) -> None:
    """With failOnDataLoss=false the other topics are read on, also after a restart."""
    reader = reader_of_both(kafka, "false")
    kafka.log(T0).append(b"d")
    delete(question)
    reader.driver = both(kafka, "false")
    batches(reader)

    assert reader.values[-1] == b"d"
    assert U0 not in at(reader.offsets)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_strict_query_tells_the_loss(kafka: LittleKafka, delete: Delete, question: str) -> None:
    """Otherwise the query fails with PartitionGone, and not with the error of a look-up."""
    reader = reader_of_both(kafka, "true")
    delete(question)
    reader.driver = both(kafka, "true")
    with pytest.raises(PartitionGone, match="u-0 no longer exists"):
        batches(reader)


def test_it_waits_before_it_gives_a_partition_up(
    kafka: LittleKafka, delete: Delete, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that shows again after a moment is checked as ever."""
    monkeypatch.setattr(losses, "GONE_AFTER_S", 5.0)
    reader = reader_of_both(kafka, "true")
    topic, honest = kafka.topics["u"], kafka.metadata
    delete("epoch_ends")

    def late(request: object) -> object:
        hidden = "u" not in kafka.topics
        answer = honest(request)
        if hidden:
            kafka.topics["u"] = topic
        return answer

    monkeypatch.setattr(kafka, "metadata", late)
    for node in kafka.nodes.values():
        node.always(MetadataRequest, late)
    reader.driver = both(kafka, "true")
    reader.finish()

    assert U0 in at(reader.offsets)


@pytest.mark.parametrize("question", ["log_starts", "log_ends"])
@pytest.mark.parametrize("fail", [True, False])
def test_batch_read(kafka: LittleKafka, delete: Delete, question: str, fail: bool) -> None:
    """A batch read fails with PartitionGone, or goes on with the other topics."""
    kafka.create("u")
    kafka.log(U0).append(b"u")
    delete(question)
    options = parse(
        {
            "kafka.bootstrap.servers": kafka.bootstrap,
            "subscribe": "t,u",
            "failOnDataLoss": str(fail),
        },
        batch=True,
    )
    with closing(OffsetLookup(options)) as lookup:
        if fail:
            with pytest.raises(DataLoss, match="u-0 no longer exists"):
                plan_batch(options, lookup)
            return
        ranges = [item for split in plan_batch(options, lookup) for item in split.ranges]

    assert {"t"} == {item.tp.topic for item in ranges}


def test_batch_read_of_a_time(kafka: LittleKafka, delete: Delete) -> None:
    """A partition that is gone is not taken for one without a record as young as a time."""
    kafka.create("u")
    kafka.log(U0).append(b"u")
    delete("offsets_at_times")
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "t,u"}
    options = parse({**given, "startingTimestamp": "1"}, batch=True)
    with (
        closing(OffsetLookup(options)) as lookup,
        pytest.raises(NoSuchPartition, match="u-0"),
    ):
        plan_batch(options, lookup)


@pytest.mark.parametrize(
    ("afterwards", "kind"),
    [((), TopicRecreated), ((deleted,), PartitionGone)],
    ids=["once", "gone"],
)
def test_created_again_while_asked(
    kafka: LittleKafka,
    monkeypatch: pytest.MonkeyPatch,
    afterwards: tuple[Damage, ...],
    kind: type[DataLoss],
) -> None:
    """The leader of a topic that was created again since the metadata has another history.

    That is no truncation: the error says that the topic was created again. If the topic is deleted
    after the leader's answer, the error says that the partition is gone.
    """
    reader = Reader(kafka, query(kafka, **ALWAYS))
    reader.batch()
    reader.driver = query(kafka, **ALWAYS)
    honest = OffsetLookup.epoch_ends

    def late(lookup: OffsetLookup, *arguments: Any) -> Any:
        recreated(kafka)
        monkeypatch.setattr(OffsetLookup, "epoch_ends", honest)
        answer = honest(lookup, *arguments)
        for damage in afterwards:
            damage(kafka)
        return answer

    monkeypatch.setattr(OffsetLookup, "epoch_ends", late)
    with pytest.raises(kind):
        batches(reader)


@pytest.mark.parametrize("behind", [1, 2])
@pytest.mark.parametrize("available_now", [False, True])
@pytest.mark.parametrize("question", ["epoch_ends", "log_ends"])
def test_a_broker_that_still_names_the_old_topic(
    kafka: LittleKafka,
    monkeypatch: pytest.MonkeyPatch,
    question: str,
    available_now: bool,
    behind: int,
) -> None:
    """The leader has the new topic, and the other broker's metadata is some seconds old.

    That is no truncation either: the driver waits until the brokers agree.
    """
    monkeypatch.setattr(losses, "GONE_AFTER_S", 10.0)
    reader = Reader(kafka, query(kafka, **ALWAYS))
    reader.batch()
    outdated = dict(kafka.topics)
    honest = getattr(OffsetLookup, question)
    lagging = 3

    def old(request: object) -> object:
        nonlocal lagging
        lagging -= 1
        if lagging >= 0:
            return kafka.answer_with(outdated, kafka.metadata, request)
        return kafka.metadata(request)

    def late(lookup: OffsetLookup, *arguments: Any) -> Any:
        if kafka.topics["t"] is outdated["t"]:
            recreated(kafka)
            kafka.nodes[behind].always(MetadataRequest, old)
        return honest(lookup, *arguments)

    reader.driver = query(kafka, **ALWAYS)
    if available_now:
        reader.driver.prepare_available_now()
    monkeypatch.setattr(OffsetLookup, question, late)
    with pytest.raises(TopicRecreated):
        batches(reader, 9)


def test_a_new_topic_that_one_question_does_not_find(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new topic that is gone for the question about log starts, and back for the one about log
    ends, is read from its beginning. It has no position before offset 0."""
    reader = Reader(kafka, both(kafka, "true"))
    honest = OffsetLookup.log_starts

    def late(lookup: OffsetLookup, *arguments: Any) -> Any:
        monkeypatch.setattr(OffsetLookup, "log_starts", honest)
        topic = kafka.topics.pop("u")
        answer = honest(lookup, *arguments)
        kafka.topics["u"] = topic
        return answer

    kafka.create("u")
    kafka.log(U0).append(b"u", b"v")
    monkeypatch.setattr(OffsetLookup, "log_starts", late)
    monkeypatch.setattr(HandWatch, "take_changed", Watch.take_changed)  # no reply comes meanwhile
    starts = {}
    for _ in range(3):
        reader.batch()
        starts |= {tp: start for tp, (start, _) in reader.last.items()}

    assert 0 == starts[U0]
