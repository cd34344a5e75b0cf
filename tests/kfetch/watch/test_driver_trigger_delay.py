"""minOffsetsPerTrigger and maxTriggerDelay over a little Kafka: which micro-batches wait."""

from __future__ import annotations

import pytest

from kfetch.model import TopicPartition
from kfetch.offsets import Offsets
from kfetch.watch import driver as driving
from kfetch.watch.driver import Driver
from tests.kfetch.watch.helpers import ALWAYS, T0, T1, at, logged, query
from tests.kfetch.wire.little import LittleKafka

T2 = TopicPartition("t", 2)


class Clock:
    """A steady clock that the test moves."""

    now = 0.0

    def monotonic(self) -> float:
        """Returns the clock's time in seconds."""
        return self.now

    def time(self) -> float:
        """Returns the time of day, in seconds since 1970."""
        return 1_700_000_000 + self.now

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The driver's clock."""
    monkeypatch.setattr(driving, "time", made := Clock())
    return made


@pytest.fixture
def begun(kafka: LittleKafka, clock: Clock) -> tuple[Driver, Offsets]:
    """A query with maxTriggerDelay=5s that has planned its first batch."""
    driver = query(kafka, maxTriggerDelay="5s", **ALWAYS)
    return driver, logged(driver.next_end(logged(driver.initial_offsets()), None, 10))


def test_the_first_batch_does_not_wait(begun: tuple[Driver, Offsets]) -> None:
    """The first batch of a query does not wait for ``minOffsetsPerTrigger``."""
    assert {T0: 3, T1: 1} == at(begun[1])


def test_few_offsets_wait_for_more(
    kafka: LittleKafka, clock: Clock, begun: tuple[Driver, Offsets]
) -> None:
    """Fewer offsets than the minimum make no batch. With enough of them, all are delivered."""
    driver, start = begun
    kafka.log(T0).append(*[b"v"] * 5)
    assert driver.next_end(start, None, 10) is None
    kafka.log(T1).append(*[b"v"] * 5)

    assert {T0: 8, T1: 6} == at(driver.next_end(start, None, 10))
    assert clock.now < 5


def test_after_the_delay_a_batch_starts(
    kafka: LittleKafka, clock: Clock, begun: tuple[Driver, Offsets]
) -> None:
    """After maxTriggerDelay one offset is enough. Then the next batch waits again."""
    driver, start = begun
    kafka.log(T0).append(b"v")
    clock.now = 4.8
    assert driver.next_end(start, None, 10) is None
    clock.now = 5.0
    second = logged(driver.next_end(start, None, 10))
    kafka.log(T0).append(b"v")

    assert {T0: 4, T1: 1} == at(second)
    assert driver.next_end(second, None, 10) is None


def test_a_restart_begins_anew(
    kafka: LittleKafka, clock: Clock, begun: tuple[Driver, Offsets]
) -> None:
    """After a restart the waiting offsets are read at once, as in the connector."""
    driver, start = begun
    kafka.log(T0).append(b"v")
    assert driver.next_end(start, None, 10) is None

    assert {T0: 4, T1: 1} == at(query(kafka).next_end(start, None, 10))


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "compositeReadLimit",
)
def test_both_limits(kafka: LittleKafka, clock: Clock, begun: tuple[Driver, Offsets]) -> None:
    """With both limits, batches have at least the minimum and at most the maximum (15 and 20)."""
    driver, at_first = begun
    kafka.log(T0).append(*[b"v"] * 50)
    ends = [at_first]
    while (end := driver.next_end(ends[-1], 20, 15)) is not None:
        ends.append(logged(end))
    clock.now += 5
    ends.append(logged(driver.next_end(ends[-1], 20, 15)))

    assert [3, 23, 43, 53] == [at(end)[T0] for end in ends]


def test_trigger_once_does_not_wait(kafka: LittleKafka, begun: tuple[Driver, Offsets]) -> None:
    """Without a minimum the batch starts at once, also during a wait."""
    driver, start = begun
    kafka.log(T0).append(b"v")
    assert driver.next_end(start, None, 10) is None

    assert {T0: 4, T1: 1} == at(driver.next_end(start, None))


def test_available_now_does_not_wait(kafka: LittleKafka, clock: Clock) -> None:
    """An AvailableNow query reads to its end, also the last offsets below the minimum."""
    driver = query(kafka)
    driver.prepare_available_now()
    ends = [logged(driver.initial_offsets())]
    while (end := driver.next_end(ends[-1], 3, 3)) is not None:
        ends.append(logged(end))

    assert {T0: 3, T1: 1} == at(ends[-1])
    assert len(ends) > 2


def test_a_loss_does_not_wait(
    kafka: LittleKafka, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """With failOnDataLoss=false the position after a loss enters the checkpoint at once. So the
    loss is logged once."""
    driver = query(kafka, failOnDataLoss="false")
    start = logged(driver.next_end(logged(driver.initial_offsets()), None, 10))
    kafka.log(T0).truncate(1)
    end = logged(driver.next_end(start, None, 10))
    assert driver.next_end(end, None, 10) is None

    assert 0 == at(end)[T0]
    assert 1 == sum("t-0" in record.message for record in caplog.records)


def test_a_new_partition_does_not_wait(kafka: LittleKafka, begun: tuple[Driver, Offsets]) -> None:
    """The first record of a partition that is added during a wait is read at once."""
    driver, start = begun
    kafka.topics["t"].logs.append(type(kafka.log(T0))(leader=1))
    kafka.log(T2).append(b"first")

    assert {T0: 3, T1: 1, T2: 1} == at(driver.next_end(start, None, 10))
