"""The demo's pure parts: events, arithmetic, curves. The whole of it is in integration/."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kafka.record.memory_records import MemoryRecords

from kfetch.fetch.stats import FetchStats
from kfetch_jobs.demo import chart, events
from kfetch_jobs.demo.curve import Interval, curves
from kfetch_jobs.demo.scenario import batch_in_flight
from kfetch_jobs.demo.summary import Counts, Kill, Summary
from kfetch_jobs.progress.history import Batch


def read_back(batches: dict[int, bytes]) -> dict[int, list[int]]:
    """The event ids in each partition, as another reader finds them."""
    found: dict[int, list[int]] = {}
    for partition, data in batches.items():
        batch = MemoryRecords(data).next_batch()
        assert batch.validate_crc()
        found[partition] = [json.loads(record.value)["event_id"] for record in batch]
    return found


@pytest.mark.parametrize("wanted", [range(0, 12), range(5, 100), range(7, 8), range(0, 0)])
def test_every_event_is_in_its_partition(wanted: range) -> None:
    """An event's partition is its id modulo the partitions; none is missing, none twice."""
    found = read_back(events.encode(wanted, 12, now_ms=1))

    assert {n: [i for i in wanted if i % 12 == n] for n in found} == found
    assert sorted(wanted) == sorted(i for ids in found.values() for i in ids)


def test_offsets_count_from_zero_within_a_batch() -> None:
    """A batch's offsets are consecutive: the broker only adds its base offset."""
    batch = MemoryRecords(events.encode(range(3, 40), 4, now_ms=5)[3]).next_batch()

    assert [(i, 5) for i in range(10)] == [(r.offset, r.timestamp) for r in batch]


def test_an_event_is_what_the_job_expects() -> None:
    """The JSON has the columns that conf/jobs/clicks.yml names."""
    event = json.loads(events.value(1_000_003, now_ms=17))

    assert {"event_id", "user_id", "page", "action", "ts"} == set(event)
    assert (1_000_003, 17) == (event["event_id"], event["ts"])
    assert event["action"] in events.ACTIONS


def counts(**changed: int) -> Counts:
    same = {"produced": 100, "in_log": 100, "rows": 100, "positions": 100, "events": 100}
    return Counts(**(same | changed))


@pytest.mark.parametrize(
    ("found", "lost", "duplicated", "exact"),
    [
        (counts(), 0, 0, True),
        (counts(rows=97, positions=97, events=97), 3, 0, False),
        (counts(rows=105), 0, 5, False),
        # Three lost and three twice: the sum is right, and nothing else.
        (counts(positions=97, events=97), 3, 3, False),
        # One event in two offsets: the producer's doing, still not once.
        (counts(in_log=101, rows=101, positions=101), 0, 1, False),
        # A row whose JSON did not parse has no event_id.
        (counts(events=99), 1, 1, False),
        # In the log without acknowledgement, and in the table.
        (counts(in_log=110, rows=110, positions=110), 0, 10, False),
        (counts(produced=0, in_log=0, rows=0, positions=0, events=0), 0, 0, True),
    ],
)
def test_lost_and_duplicated(found: Counts, lost: int, duplicated: int, exact: bool) -> None:
    """Losses can't hide behind duplicates, nor events behind offsets."""
    assert (lost, duplicated, exact) == (found.lost, found.duplicated, found.exact)


def summary(**changed: object) -> Summary:
    given: dict[str, object] = {
        "counts": counts(),
        "fetches": FetchStats(
            full_requests=2,
            full_request_bytes=600,
            incremental_requests=4,
            incremental_request_bytes=100,
        ),
        "kill": Kill(at=110.0, restarted=111.0, processes=7, batch=3),
        "producing_s": 10.0,
        "landing_s": 20.0,
        "total_s": 30.0,
        "picture": "clicks.png",
        "kept_directory": None,
    }
    return Summary(**(given | changed))  # type: ignore[arg-type]


def test_rates_and_means() -> None:
    """Rates are over the time they took, sizes are means per request."""
    told = summary().to_json()

    assert (10, 5) == (told["produced_per_s"], told["landed_per_s"])
    assert 6 == told["fetch_requests"]
    assert (300, 25) == (
        told["full_request_bytes_mean"],
        told["incremental_request_bytes_mean"],
    )


def test_nothing_fetched_is_no_division_by_zero() -> None:
    """A run without requests or time has zeros."""
    told = summary(fetches=FetchStats(), producing_s=0.0, landing_s=0.0).to_json()

    assert (0, 0, 0) == (
        told["produced_per_s"],
        told["landed_per_s"],
        told["full_request_bytes_mean"],
    )


def test_the_table_says_when_the_kill_came() -> None:
    """The table names the batch, or says that there was none."""
    between = summary(kill=Kill(at=0, restarted=1, processes=7, batch=None))

    assert ("processes killed", "7 in batch 3") in summary().rows()
    assert ("processes killed", "7 between two batches") in between.rows()


def batch(number: int, finished: float, end: int) -> Batch:
    return Batch(
        batch=number, started="", finished=finished, rows=1, seconds=1, end=end, latest=end
    )


PRODUCED = [(100.0, 12), (101.0, 32), (102.0, 52), (112.0, 252)]
BATCHES = [batch(0, 99.0, 12), batch(1, 102.5, 32), batch(2, 114.0, 252)]
KILL = Kill(at=104.0, restarted=104.5, processes=7, batch=2)


def test_landed_rows_are_told_from_the_restart_on() -> None:
    """A bar's area is its rows, and none reaches over the time in which nothing ran."""
    drawn = curves(PRODUCED, BATCHES, KILL)

    assert [Interval(0.0, 2.5, 20), Interval(4.5, 14.0, 220)] == drawn.landed
    assert [8.0, 220 / 9.5] == [interval.rate for interval in drawn.landed]
    assert (4.0, 4.5, 14.0) == (drawn.killed, drawn.restarted, drawn.recovered)


def test_produced_rows_add_up() -> None:
    """The intervals of the producer's curve cover every event after the first few."""
    drawn = curves(PRODUCED, BATCHES, KILL)

    assert 240 == sum(interval.rows for interval in drawn.produced)


def test_lag_is_produced_minus_landed() -> None:
    """Lag starts at nothing, falls in a step with each batch, and ends at nothing."""
    lag = curves(PRODUCED, BATCHES, KILL).lag

    assert (0.0, 0) == lag[0]
    assert [40, 20] == [value for at, value in lag if at == 2.5]
    assert (14.0, 0) == lag[-1]


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    """Drawing needs no screen, and makes the directory."""
    path = tmp_path / "new" / "clicks.png"
    chart.draw(curves(PRODUCED, BATCHES, KILL), "title", path)

    assert b"\x89PNG" == path.read_bytes()[:4]


def test_a_batch_in_flight_is_planned_and_not_committed(tmp_path: Path) -> None:
    """The checkpoint says which batch runs: an offset without a commit."""
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    assert batch_in_flight(tmp_path) is None

    (tmp_path / "offsets" / "9").touch()
    (tmp_path / "commits" / ".8.crc").touch()
    assert 9 == batch_in_flight(tmp_path)

    (tmp_path / "offsets" / "10").touch()
    (tmp_path / "commits" / "9").touch()
    assert 10 == batch_in_flight(tmp_path)

    (tmp_path / "commits" / "10").touch()
    assert batch_in_flight(tmp_path) is None
