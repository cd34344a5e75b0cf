"""What it costs to look for new partitions, and that none is missed."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from kafka.protocol.admin.topics import DescribeTopicPartitionsRequest as DESCRIBE
from kafka.protocol.metadata import MetadataRequest

from kfetch.errors import PartitionGone, TopicRecreated
from kfetch.model import TopicPartition
from tests.kfetch.watch.helpers import ALWAYS, at, logged, query
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close, Mangled

PARTITIONS = 8


def looks(kafka: LittleKafka) -> tuple[int, int]:
    """How often all metadata was asked for, and how often what is new."""
    return len(kafka.asked(MetadataRequest)), len(kafka.asked(DESCRIBE))


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
        end = logged(
            driver.next_end(logged(driver.initial_offsets()), None) or driver.known_log_ends()
        )
        looked = [more(kafka, lambda: driver.next_end(end, None)) for _ in range(20)]

    assert 2 == sum(metadata for metadata, _ in looked)
    assert 18 == sum(new for _, new in looked)


def test_a_new_partition_is_found() -> None:
    """A partition more is read from its beginning, at the next look."""
    with LittleKafka() as kafka:
        logs = kafka.create("t", PARTITIONS)
        driver = query(kafka, **ALWAYS)
        logs[0].append(b"a")
        end = logged(driver.next_end(logged(driver.initial_offsets()), None))
        assert driver.next_end(end, None) is None
        logs.append(type(logs[0])(leader=1))
        logs[-1].append(b"b", b"c")

        assert 2 == at(driver.next_end(end, None))[TopicPartition("t", PARTITIONS)]


def test_a_new_partition_without_a_leader_is_found() -> None:
    """One that has no leader yet when it is first seen is read as soon as it has one."""
    with LittleKafka() as kafka:
        logs = kafka.create("t", PARTITIONS)
        driver = query(kafka, **ALWAYS)
        logs[0].append(b"a")
        end = logged(driver.next_end(logged(driver.initial_offsets()), None))
        logs.append(type(logs[0])(leader=None))
        assert driver.next_end(end, None) is None
        logs[-1].leader = 1
        logs[-1].append(b"b")

        assert 1 == at(driver.next_end(end, None))[TopicPartition("t", PARTITIONS)]


def test_a_broker_that_lags_behind_hides_nothing() -> None:
    """With one broker that knows of a new partition and one that does not, it is found within a
    few looks: who has said that there is one is asked for it."""
    with LittleKafka(2) as kafka:
        logs = kafka.create("t", PARTITIONS)
        driver = query(kafka, **ALWAYS)
        logs[0].append(b"a")
        end = logged(driver.next_end(logged(driver.initial_offsets()), None))
        old = kafka.nodes[2].always
        for api, answer in ((MetadataRequest, kafka._metadata), (DESCRIBE, kafka._describe)):
            old(api, lambda request, answer=answer: behind(kafka, lambda: answer(request)))
        logs.append(type(logs[0])(leader=1))
        logs[-1].append(b"b")
        found = [driver.next_end(end, None) for _ in range(4)]

    assert any(found)


def behind(kafka: LittleKafka, answer: Callable[[], object]) -> object:
    """An answer of before the last partition."""
    with kafka.lock:
        newest = kafka.topics["t"].logs.pop()
        try:
            return answer()
        finally:
            kafka.topics["t"].logs.append(newest)


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
        end = logged(driver.next_end(logged(driver.initial_offsets()), None))
        change(kafka)

        with pytest.raises(error):
            driver.next_end(end, None)


@pytest.mark.parametrize(
    ("partitions", "given"),
    [
        (PARTITIONS - 1, {}),
        (PARTITIONS, {"subscribePattern": "t"}),
        (PARTITIONS, {"subscribe": ",".join(f"t{n}" for n in range(9)) + ",t"}),
    ],
    ids=["small", "pattern", "many"],
)
def test_metadata_where_it_is_cheaper_or_tells_more(partitions: int, given: dict[str, str]) -> None:
    """Small topics, those of a pattern, and many, are looked for by metadata alone."""
    with LittleKafka() as kafka:
        for n in range(9):
            kafka.create(f"t{n}", PARTITIONS)
        kafka.create("t", partitions)[0].append(b"a")
        driver = query(kafka, **given, **ALWAYS)
        end = logged(driver.next_end(logged(driver.initial_offsets()), None))

        assert (1, 0) == more(kafka, lambda: driver.next_end(end, None))


def test_a_broker_that_can_not_tell() -> None:
    """A broker before DescribeTopicPartitions is asked for metadata, every time."""
    with LittleKafka(1, {DESCRIBE: (0, -1)}) as kafka:
        kafka.create("t", PARTITIONS)[0].append(b"a")
        driver = query(kafka, **ALWAYS)
        end = logged(driver.next_end(logged(driver.initial_offsets()), None))

        assert (1, 0) == more(kafka, lambda: driver.next_end(end, None))


def two_bytes_of(frame: bytes) -> bytes:
    """A frame with the right correlation id, and too short for any answer."""
    return struct.pack(">i", 6) + frame[4:10]


@pytest.mark.parametrize(
    "answer",
    [lambda kafka: Close(), lambda kafka: Mangled(kafka._describe, two_bytes_of)],
    ids=["hangs up", "nonsense"],
)
def test_a_question_that_gets_no_answer(answer: Callable[[LittleKafka], object]) -> None:
    """A broker that hangs up at the question, or answers nonsense, is asked for metadata, and the
    query goes on."""
    with LittleKafka() as kafka:
        kafka.create("t", PARTITIONS)[0].append(b"a")
        driver = query(kafka, **ALWAYS)
        end = logged(driver.next_end(logged(driver.initial_offsets()), None))
        for _ in range(3):
            kafka.nodes[1].answer(DESCRIBE, answer(kafka))

        assert driver.next_end(end, None) is None
