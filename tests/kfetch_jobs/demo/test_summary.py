"""What the demo makes of its counts: lost, duplicated, rates."""

from __future__ import annotations

import pytest

from kfetch.fetch.stats import FetchStats
from kfetch_jobs.demo.summary import Counts, Kill, Summary


def counts(**changed: int) -> Counts:
    same = {"produced": 100, "in_log": 100, "rows": 100, "positions": 100, "events": 100}
    return Counts(**(same | changed))


@pytest.mark.parametrize(
    ("result", "lost", "duplicated", "exact"),
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
def test_lost_and_duplicated(result: Counts, lost: int, duplicated: int, exact: bool) -> None:
    """Losses can't hide behind duplicates, nor events behind offsets."""
    assert (lost, duplicated, exact) == (result.lost, result.duplicated, result.exact)


def summary(**changed: object) -> Summary:
    values: dict[str, object] = {
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
        "kept_directory": None,
    }
    return Summary(**(values | changed))  # type: ignore[arg-type]


def test_rates_and_means() -> None:
    """Rates are over the time they took, sizes are means per request."""
    json_object = summary().to_json()

    assert (10, 5) == (json_object["produced_per_s"], json_object["landed_per_s"])
    assert 6 == json_object["fetch_requests"]
    assert (300, 25) == (
        json_object["full_request_bytes_mean"],
        json_object["incremental_request_bytes_mean"],
    )


def test_nothing_fetched_is_no_division_by_zero() -> None:
    """A run without requests or time has zeros."""
    json_object = summary(fetches=FetchStats(), producing_s=0.0, landing_s=0.0).to_json()

    assert (0, 0, 0) == (
        json_object["produced_per_s"],
        json_object["landed_per_s"],
        json_object["full_request_bytes_mean"],
    )


def test_the_table_says_when_the_kill_came() -> None:
    """The table names the batch, or says that there was none."""
    between = summary(kill=Kill(at=0, restarted=1, processes=7, batch=None))

    assert ("processes killed", "7 in batch 3") in summary().rows()
    assert ("processes killed", "7 between two batches") in between.rows()
