"""A restart from the checkpoint: open batches, offsets of the connector."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from kfetch.errors import CheckpointError
from kfetch.offsets import from_json
from kfetch.watch.driver import Driver
from tests.kfetch.watch.helpers import T0, T1, at, fill, logged, query, read
from tests.kfetch.wire.little import LittleKafka


def test_first_batch_tells_where_it_starts(kafka: LittleKafka, driver: Driver) -> None:
    """The end of batch 0 carries ``from``, later ones do not."""
    start = logged(driver.initial_offsets())
    first = logged(driver.next_end(start, None))
    kafka.log(T0).append(b"d")
    second = logged(driver.next_end(first, None))

    assert start.positions == first.first_batch
    assert second.first_batch is None


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "(de)serialization of initial offsets",
)
def test_retried_first_batch(kafka: LittleKafka) -> None:
    """After a crash in batch 0, the batch starts at its ``from``, not at the current ``latest``."""
    before = query(kafka, startingOffsets="latest")
    start = logged(before.initial_offsets())
    kafka.log(T0).append(b"d", b"e")
    end = logged(before.next_end(start, None))
    kafka.log(T0).append(b"f", b"g")

    after = query(kafka, startingOffsets="latest")
    anew = logged(after.initial_offsets())
    assert {T0: 7, T1: 1} == at(anew)

    assert {T0: (3, 5)} == read(after, anew, end)


def test_splits_first_after_a_restart(kafka: LittleKafka, driver: Driver) -> None:
    """An uncommitted batch is planned by a new driver from its two offsets alone."""
    start = logged(driver.initial_offsets())
    end = logged(driver.next_end(start, None))
    kafka.log(T0).append(b"d")
    after = query(kafka)

    assert {T0: (0, 3), T1: (0, 1)} == read(after, start, end)


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "maxOffsetsPerTrigger",
)
def test_limit_survives_a_restart(kafka: LittleKafka, driver: Driver) -> None:
    """A limited batch that is planned again by a new driver reads the same offsets."""
    start = logged(driver.initial_offsets())
    end = logged(driver.next_end(start, 2))
    expected = read(driver, start, end)
    after = query(kafka)

    assert expected == read(after, start, end)


def test_connector_checkpoint(kafka: LittleKafka, driver: Driver) -> None:
    """A query continues a checkpoint of Spark's connector and adds topic ids to it."""
    plain = from_json({"t": {"0": 3, "1": 1}})
    upgraded = logged(driver.next_end(plain, None))

    assert at(plain) == at(upgraded)
    assert {"t": kafka.topics["t"].topic_id} == upgraded.topic_ids
    assert {} == read(driver, plain, upgraded)
    assert driver.next_end(upgraded, None) is None


def test_connector_checkpoint_goes_on(kafka: LittleKafka, driver: Driver) -> None:
    """From a connector's checkpoint the query reads exactly the records since."""
    plain = from_json({"t": {"0": 1, "1": 1}})

    assert {T0: (1, 3)} == read(driver, plain, logged(driver.next_end(plain, None)))


@pytest.mark.parametrize("starting", ["latest", '{"t": {"0": 1, "1": -1}}'])
def test_connector_batch_0_with_a_start_that_has_moved(kafka: LittleKafka, starting: str) -> None:
    """The connector planned batch 0 and did not finish it. ``latest`` of now lies behind the batch,
    whose records would be lost silently."""
    after = query(kafka, startingOffsets=starting)
    anew = logged(after.initial_offsets())

    with pytest.raises(CheckpointError, match="kfetch cannot tell where it starts"):
        after.splits(anew, from_json({"t": {"0": 2, "1": 1}}))


@pytest.mark.parametrize("starting", ["earliest", '{"t": {"0": 0, "1": -2}}'])
def test_connector_batch_0_with_a_start_that_stays(kafka: LittleKafka, starting: str) -> None:
    """From ``earliest``, or from the connector's own start, the batch has the same records."""
    after = query(kafka, startingOffsets=starting)
    anew = logged(after.initial_offsets())

    assert {T0: (0, 2), T1: (0, 1)} == read(after, anew, from_json({"t": {"0": 2, "1": 1}}))


@pytest.mark.parametrize("starting", ["earliest", '{"t": {"0": 0, "1": "latest"}}'])
def test_connector_batch_0_without_a_later_partition(kafka: LittleKafka, starting: str) -> None:
    """A partition that the batch does not have may start anywhere: the next batch adds it."""
    kafka.log(T1).expire(1)
    after = query(kafka, startingOffsets=starting)
    anew = logged(after.initial_offsets())
    assert {T0: 0, T1: 1} == at(anew)

    assert {T0: (0, 2)} == read(after, anew, from_json({"t": {"0": 2}}))


@pytest.mark.parametrize(
    "options",
    [{"startingOffsets": "earliest"}, {"startingTimestamp": "1"}, {"failOnDataLoss": "false"}],
)
def test_connector_batch_0_whose_first_records_have_expired(
    kafka: LittleKafka, options: dict[str, str]
) -> None:
    """The log start and a fixed time are at later records now. kfetch would not read the expired
    ones, and no error would tell it."""
    kafka.log(T0).append(b"d")
    kafka.log(T0).expire(3)
    after = query(kafka, **options)
    anew = logged(after.initial_offsets())
    assert 3 == at(anew)[T0]

    with pytest.raises(CheckpointError, match="kfetch cannot tell where it starts"):
        after.splits(anew, from_json({"t": {"0": 4, "1": 1}}))


def test_connector_batch_0_of_old_brokers() -> None:
    """Old brokers tell neither topic ids nor epochs. So ``latest`` of now equals the batch's end if
    nobody has written since, and the batch does not look empty for that."""
    old = {MetadataRequest: (0, 6), OffsetForLeaderEpochRequest: (0, 1)}
    with LittleKafka(2, {**old, ListOffsetsRequest: (0, 2), FetchRequest: (0, 7)}) as kafka:
        fill(kafka)
        after = query(kafka, startingOffsets="latest")
        anew = logged(after.initial_offsets())
        end = from_json({"t": {"0": 3, "1": 1}})
        assert [] == after.splits(end, end)
        assert anew == end

        with pytest.raises(CheckpointError, match="kfetch cannot tell where it starts"):
            after.splits(anew, end)


def test_an_empty_batch_0_is_no_batch_of_the_connector(kafka: LittleKafka) -> None:
    """kfetch logs an empty batch 0 without ``from``. After a crash in it, ``latest`` of now lies
    behind its end. The batch stays empty, and the next one reads what came since."""
    before = query(kafka, startingOffsets="latest")
    end = logged(before.initial_offsets())
    kafka.log(T0).append(b"d")
    after = query(kafka, startingOffsets="latest")
    anew = logged(after.initial_offsets())

    assert {} == read(after, anew, end)
    assert {T0: (3, 4)} == read(after, end, logged(after.next_end(end, None)))


def test_connector_batch_that_is_not_the_first(kafka: LittleKafka) -> None:
    """A later batch has its start in the checkpoint, whatever startingOffsets says."""
    after = query(kafka, startingOffsets="latest")
    start, end = from_json({"t": {"0": 1, "1": 0}}), from_json({"t": {"0": 3, "1": 1}})

    assert {T0: (1, 3), T1: (0, 1)} == read(after, start, end)
