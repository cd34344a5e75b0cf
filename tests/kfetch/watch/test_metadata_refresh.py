"""The cost of finding new partitions, and that none is missed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.admin.topics import DescribeTopicPartitionsRequest as DESCRIBE
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from kfetch import losses
from kfetch.errors import PartitionGone, TopicRecreated
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets
from kfetch.options import NetworkOptions
from kfetch.watch.metadata_refresh import MetadataRefresh
from tests.kfetch.watch.helpers import ALWAYS, T0, at, logged, query
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close, Mangled

PARTITIONS = 8


def request_counts(kafka: LittleKafka) -> tuple[int, int]:
    """Returns the number of Metadata requests and of questions about growth."""
    return len(kafka.asked(MetadataRequest)), len(kafka.asked(DESCRIBE))


def requests_of(kafka: LittleKafka, look_up: Callable[[], object]) -> tuple[int, int]:
    """Returns the requests that a call sends."""
    before = request_counts(kafka)
    look_up()
    after = request_counts(kafka)
    return after[0] - before[0], after[1] - before[1]


def test_large_topics_get_a_growth_check() -> None:
    """Nine of ten refreshes ask whether a large topic has grown, the tenth asks for metadata."""
    with LittleKafka() as kafka:
        kafka.create("t", PARTITIONS)
        driver = query(kafka, **ALWAYS)
        end = logged(driver.next_end(logged(driver.initial_offsets()), None) or driver.log_ends)
        counts = [requests_of(kafka, lambda: driver.next_end(end, None)) for _ in range(20)]

    assert 2 == sum(metadata for metadata, _ in counts)
    assert 18 == sum(growth for _, growth in counts)


def test_a_new_partition_is_found() -> None:
    """A new partition is read from its beginning after the next refresh."""
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
    """A new partition without a leader is read as soon as it has one."""
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
    """If one of two brokers does not know a new partition yet, a few refreshes find it. The driver
    asks the broker that has reported it."""
    with LittleKafka(2) as kafka:
        logs = kafka.create("t", PARTITIONS)
        driver = query(kafka, **ALWAYS)
        logs[0].append(b"a")
        end = logged(driver.next_end(logged(driver.initial_offsets()), None))
        old = kafka.nodes[2].always
        for api, answer in ((MetadataRequest, kafka.metadata), (DESCRIBE, kafka.describe)):
            old(api, lambda request, answer=answer: behind(kafka, lambda: answer(request)))
        logs.append(type(logs[0])(leader=1))
        logs[-1].append(b"b")
        ends = [driver.next_end(end, None) for _ in range(4)]

    assert any(ends)


def behind(kafka: LittleKafka, answer: Callable[[], object]) -> object:
    """Returns an answer from before the last partition."""
    with kafka.lock:
        newest = kafka.topics["t"].logs.pop()
        try:
            return answer()
        finally:
            kafka.topics["t"].logs.append(newest)


class SlowRefresh(MetadataRefresh):
    """Metadata and log ends take five seconds, and repair nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **faults: object) -> None:
        network = NetworkOptions(retry_backoff_s=0.1, retry_backoff_max_s=1.0)
        watch: Any = SimpleNamespace(**{"needs_metadata": False, "out_of_range": [], **faults})
        super().__init__(network, cast(Any, None), watch)
        self.now = self._refresh_due = 100.0
        self.repairs = 0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr("kfetch.watch.metadata_refresh.time", clock)
        self._refresh_metadata()

    def _refresh_metadata(self) -> None:
        self._repair()
        self._refresh_due = self.now + 1000

    def refresh_log_ends(self, partitions: list[TopicPartition]) -> None:
        self._repair()

    def _repair(self) -> None:
        self.repairs += 1
        self.now += 5.0


@pytest.mark.parametrize("faults", [{"needs_metadata": True}, {"out_of_range": [T0]}])
def test_slow_repairs_have_pauses(
    monkeypatch: pytest.MonkeyPatch, faults: dict[str, object]
) -> None:
    """A planning right after a slow repair does not repair again."""
    refresh = SlowRefresh(monkeypatch, **faults)
    for _ in range(10):
        refresh.refresh_if_due(Offsets(positions={}))
        count = refresh.repairs
        refresh.refresh_if_due(Offsets(positions={}))
        assert count == refresh.repairs
        refresh.now += 1.3

    assert 11 == refresh.repairs


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
    """A growth check notices a deleted topic and a topic that was created again."""
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
def test_metadata_instead_of_growth_checks(partitions: int, given: dict[str, str]) -> None:
    """Small topics, topics of a pattern and many topics get metadata only."""
    with LittleKafka() as kafka:
        for n in range(9):
            kafka.create(f"t{n}", PARTITIONS)
        kafka.create("t", partitions)[0].append(b"a")
        driver = query(kafka, **given, **ALWAYS)
        end = logged(driver.next_end(logged(driver.initial_offsets()), None))

        assert (1, 0) == requests_of(kafka, lambda: driver.next_end(end, None))


def test_a_broker_that_can_not_tell() -> None:
    """A broker without DescribeTopicPartitions gets a metadata request every time."""
    with LittleKafka(1, {DESCRIBE: (0, -1)}) as kafka:
        kafka.create("t", PARTITIONS)[0].append(b"a")
        driver = query(kafka, **ALWAYS)
        end = logged(driver.next_end(logged(driver.initial_offsets()), None))

        assert (1, 0) == requests_of(kafka, lambda: driver.next_end(end, None))


def two_bytes_of(frame: bytes) -> bytes:
    """A frame with the right correlation id, and too short for any answer."""
    return struct.pack(">i", 6) + frame[4:10]


@pytest.mark.parametrize(
    "answer",
    [lambda kafka: Close(), lambda kafka: Mangled(kafka.describe, two_bytes_of)],
    ids=["hangs up", "nonsense"],
)
def test_a_question_that_gets_no_answer(answer: Callable[[LittleKafka], object]) -> None:
    """If a broker closes the connection or answers nonsense, the driver asks for metadata and the
    query continues."""
    with LittleKafka() as kafka:
        kafka.create("t", PARTITIONS)[0].append(b"a")
        driver = query(kafka, **ALWAYS)
        end = logged(driver.next_end(logged(driver.initial_offsets()), None))
        for _ in range(3):
            kafka.nodes[1].answer(DESCRIBE, answer(kafka))

        assert driver.next_end(end, None) is None


LONG_PAUSES = {"kafka__retry__backoff__ms": "60000", "kafka__retry__backoff__max__ms": "60000"}
"""Options: a retry that waits for its pause does not come within the test."""


@pytest.mark.parametrize(("error", "api"), [(6, MetadataRequest), (1, ListOffsetsRequest)])
def test_a_leader_that_keeps_refusing_is_looked_up_with_back_off(
    kafka: LittleKafka, error: int, api: type
) -> None:
    """If metadata and the leader disagree, the driver asks once at once, then after a pause.

    NOT_LEADER causes metadata requests, and OFFSET_OUT_OF_RANGE causes look-ups of log ends.
    """
    kafka.hints = False
    driver = query(kafka, **LONG_PAUSES)
    end = logged(driver.next_end(logged(driver.initial_offsets()), None))
    asked = len(kafka.asked(api))
    kafka.errors[T0] += [error] * 1000
    for _ in range(10):
        driver.next_end(end, None)

    assert 1 <= len(kafka.asked(api)) - asked <= 2


@pytest.mark.parametrize(
    ("message", "version", "warning"),
    [
        (MetadataRequest, 9, losses.NO_TOPIC_IDS),
        (MetadataRequest, 10, None),
        (FetchRequest, 11, losses.UNCHECKED_EPOCHS),
        (FetchRequest, 12, None),
    ],
)
def test_old_brokers_have_a_warning(
    caplog: pytest.LogCaptureFixture, message: Any, version: int, warning: str | None
) -> None:
    """A query says once what its brokers can't show: topic ids come with Metadata v10, and sessions
    check leader epochs from Fetch v12 on."""
    with LittleKafka(versions={message: (0, version)}) as kafka:
        kafka.create("t", 1)[0].append(b"a")
        driver = query(kafka, **ALWAYS)
        end = logged(driver.next_end(logged(driver.initial_offsets()), None))
        driver.next_end(end, None)

    expected = [f"kfetch: {warning}"] if warning else []
    assert expected == [text for text in caplog.messages if "notice a" in text]
