"""read_committed: a position above the last stable offset waits, and is no loss."""

from __future__ import annotations

import pytest

from tests.kfetch.watch.helpers import T0, T1, at, logged, query, read
from tests.kfetch.wire.little import LittleKafka


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_position_above_the_last_stable_offset(kafka: LittleKafka, fail: str) -> None:
    """A formerly read_uncommitted query may have a position above an open transaction. It loses no
    record and reads none twice. It continues when the transaction has ended."""
    before = query(kafka)
    start = before.initial_offsets()
    end = logged(before.next_end(start, None))
    driver = query(kafka, kafka__isolation__level="read_committed", failOnDataLoss=fail)
    kafka.log(T0).stable = 1

    assert driver.next_end(end, None) is None
    kafka.log(T1).append(b"y")
    after = logged(driver.next_end(end, None))
    assert {T0: 3, T1: 2} == at(after)
    assert {T1: (1, 2)} == read(driver, end, after)
    kafka.log(T0).append(b"d")
    kafka.log(T0).stable = None
    last = logged(driver.next_end(after, None))
    assert {T0: (3, 4)} == read(driver, after, last)


def test_available_now_from_above_the_last_stable_offset(kafka: LittleKafka) -> None:
    """An AvailableNow query whose end lies below its start has nothing to read, and ends. Records
    that become readable later are for the next query."""
    before = query(kafka)
    end = logged(before.next_end(before.initial_offsets(), None))
    driver = query(kafka, kafka__isolation__level="read_committed")
    driver.prepare_available_now()
    kafka.log(T0).stable = 1

    assert driver.next_end(end, None) is None
    kafka.log(T0).append(b"d")
    kafka.log(T0).stable = None
    assert driver.next_end(end, None) is None
