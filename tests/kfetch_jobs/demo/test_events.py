"""The demo's click events, read back with kafka-python."""

from __future__ import annotations

import json

import pytest
from kafka.record.memory_records import MemoryRecords

from kfetch_jobs.demo import events


def read_back(batches: dict[int, bytes]) -> dict[int, list[int]]:
    """The event ids in each partition, as kafka-python reads them."""
    ids: dict[int, list[int]] = {}
    for partition, data in batches.items():
        batch = MemoryRecords(data).next_batch()
        assert batch.validate_crc()
        ids[partition] = [json.loads(record.value)["event_id"] for record in batch]
    return ids


@pytest.mark.parametrize("event_ids", [range(0, 12), range(5, 100), range(7, 8), range(0, 0)])
def test_every_event_is_in_its_partition(event_ids: range) -> None:
    """An event's partition is its id modulo the partitions; none is missing, none twice."""
    by_partition = read_back(events.encode(event_ids, 12, now_ms=1))

    assert {n: [i for i in event_ids if i % 12 == n] for n in by_partition} == by_partition
    assert sorted(event_ids) == sorted(i for ids in by_partition.values() for i in ids)


def test_offsets_count_from_zero_within_a_batch() -> None:
    """A batch's offsets are consecutive: the broker only adds its base offset."""
    batch = MemoryRecords(events.encode(range(3, 40), 4, now_ms=5)[3]).next_batch()

    assert [(i, 5) for i in range(10)] == [(r.offset, r.timestamp) for r in batch]


def test_an_event_is_what_the_job_expects() -> None:
    """The JSON has the columns that the demo's job reads."""
    event = json.loads(events.value(1_000_003, now_ms=17))

    assert {"event_id", "user_id", "page", "action", "ts"} == set(event)
    assert (1_000_003, 17) == (event["event_id"], event["ts"])
    assert event["action"] in events.ACTIONS
