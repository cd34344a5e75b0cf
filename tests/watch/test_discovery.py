"""What it costs to look for new partitions, and that none is missed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka.protocol.admin.topics import DescribeTopicPartitionsRequest
from kafka.protocol.metadata import MetadataRequest
from wire.little import LittleKafka
from wire.scripted import Close

from spark_source.errors import PartitionGone, TopicRecreated
from spark_source.model import TopicPartition

from .helpers import ALWAYS, at, logged, query

PARTITIONS = 8


def looks(kafka: LittleKafka) -> tuple[int, int]:
    """How often all metadata was asked for, and how often what is new."""
    return len(kafka.asked(MetadataRequest)), len(kafka.asked(DescribeTopicPartitionsRequest))


def more(kafka: LittleKafka, looked: Callable[[], object]) -> tuple[int, int]:
    """The looks that something takes."""
    before = looks(kafka)
    looked()
    after = looks(kafka)
    return after[0] - before[0], after[1] - before[1]


def test_a_large_topic_is_asked_what_is_new() -> None:
    """Nine looks of ten ask a large topic whether it has grown, and the tenth for all metadata."""
    with LittleKafka() as kafka:
        kafka.create("t", PARTITIONS)
        driver = query(kafka, **ALWAYS)
        end = logged(driver.latest(logged(driver.initial()), None) or driver.last_known())
        looked = [more(kafka, lambda: driver.latest(end, None)) for _ in range(20)]

    assert 2 == sum(metadata for metadata, _ in looked)
    assert 18 == sum(new for _, new in looked)


def test_a_new_partition_is_found() -> None:
    """A partition more is read from its beginning, at the next look."""
    with LittleKafka() as kafka:
        logs = kafka.create("t", PARTITIONS)
        driver = query(kafka, **ALWAYS)
        logs[0].append(b"a")
        end = logged(driver.latest(logged(driver.initial()), None))
        assert driver.latest(end, None) is None
        logs.append(type(logs[0])(leader=1))
        logs[-1].append(b"b", b"c")

        assert 2 == at(driver.latest(end, None))[TopicPartition("t", PARTITIONS)]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda kafka: kafka.topics.pop("t"), PartitionGone),
        (lambda kafka: kafka.create("t", PARTITIONS), TopicRecreated),
    ],
    ids=["deleted", "created again"],
)
def test_a_topic_that_goes_is_noticed(
    change: Callable[[LittleKafka], object], error: type[Exception]
) -> None:
    """A topic that is deleted, or another one of its name, is no topic without news."""
    with LittleKafka() as kafka:
        kafka.create("t", PARTITIONS)[0].append(b"a")
        driver = query(kafka, **ALWAYS)
        end = logged(driver.latest(logged(driver.initial()), None))
        change(kafka)

        with pytest.raises(error):
            driver.latest(end, None)


@pytest.mark.parametrize(
    ("partitions", "given"),
    [(PARTITIONS - 1, {}), (PARTITIONS, {"subscribePattern": "t"})],
    ids=["small", "pattern"],
)
def test_metadata_where_it_is_cheaper_or_tells_more(partitions: int, given: dict[str, str]) -> None:
    """Small topics, and those of a pattern, are looked for by metadata alone."""
    with LittleKafka() as kafka:
        kafka.create("t", partitions)[0].append(b"a")
        driver = query(kafka, **given, **ALWAYS)
        end = logged(driver.latest(logged(driver.initial()), None))

        assert (1, 0) == more(kafka, lambda: driver.latest(end, None))


def test_a_broker_that_can_not_tell() -> None:
    """A broker before DescribeTopicPartitions is asked for metadata, every time."""
    with LittleKafka(1, {DescribeTopicPartitionsRequest: (0, -1)}) as kafka:
        kafka.create("t", PARTITIONS)[0].append(b"a")
        driver = query(kafka, **ALWAYS)
        end = logged(driver.latest(logged(driver.initial()), None))

        assert (1, 0) == more(kafka, lambda: driver.latest(end, None))


def test_a_question_that_gets_no_answer() -> None:
    """A broker that hangs up at the question is asked for metadata, and the query goes on."""
    with LittleKafka() as kafka:
        kafka.create("t", PARTITIONS)[0].append(b"a")
        driver = query(kafka, **ALWAYS)
        end = logged(driver.latest(logged(driver.initial()), None))
        for _ in range(3):
            kafka.nodes[1].answer(DescribeTopicPartitionsRequest, Close())

        assert driver.latest(end, None) is None
