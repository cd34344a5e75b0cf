"""Curves of lag and throughput: they neither lose nor invent rows, and their memory is bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs.progress.batch import Batch, RowsDeleted, RowsRestored
from kfetch_jobs.web.curve import BATCHES_MAX, WINDOWS, JobCurves
from tests.examples import examples

NOW = 1_700_000_000.0
BATCH = Batch(
    batch=1, started="", finished=NOW - 10, rows=600, seconds=2.0, end=10, latest=17, lag_s=1.0
)


def added(*batches: Batch) -> JobCurves:
    curves = JobCurves()
    for batch in batches:
        curves.add(batch, NOW)
    return curves


def test_rows_come_over_the_time_since_the_micro_batch_before() -> None:
    """600 rows in the 20 seconds since the last micro-batch are 30 per second, without spikes.
    Later rows are unknown until the next micro-batch, or for a minute."""
    curve = added(replace(BATCH, finished=NOW - 30, rows=0), BATCH).windows["15m"]

    assert [30.0] * 4 == curve.points(NOW)["rows_s"][-6:-2]
    assert [None, None] == curve.points(NOW)["rows_s"][-2:]
    assert 10.0 == curve.rate(NOW, 60.0)
    assert [0.0, 0.0] == curve.points(NOW + 51)["rows_s"][-3:-1]
    assert 0.0 == curve.rate(NOW + 120, 60.0)


def test_how_far_behind_is_known_where_a_micro_batch_ended() -> None:
    """A bin without a micro-batch has no lag and no rows. A window starts with the first known
    bin."""
    points = added(BATCH).windows["15m"].points(NOW)

    assert [7, None] == points["lag"][-2:]
    assert [2.0, None] == points["batch_s"][-2:]
    assert 14 == len(points["t"])
    assert NOW == points["t"][-1]
    assert {"t": [], "rows_s": [], "lag": [], "batch_s": []} == JobCurves().windows["3h"].points(
        NOW
    )


@pytest.mark.parametrize("finished", [0.0, -5.0, NOW + 3600, 1e300])
def test_impossible_times_are_skipped(finished: float) -> None:
    """A line with a time in the far future is skipped. It would empty the curves."""
    curves = added(BATCH, replace(BATCH, finished=finished), replace(BATCH, batch=2))

    assert [1, 2] == [batch.batch for batch in curves.batches]


@examples(35)
@given(
    st.lists(
        st.builds(
            lambda ago, rows, seconds: replace(
                BATCH, finished=NOW - ago, rows=rows, seconds=seconds
            ),
            st.floats(0, 800),
            st.integers(0, 10**12),
            st.floats(-1, 1e9),
        ),
        max_size=40,
    )
)
def test_all_rows_are_in_the_curve(batches: list[Batch]) -> None:
    """For any micro-batches in any order, a window has no more rows than they have. It has all rows
    of those that started inside it."""
    curves = added(*batches)
    points = curves.windows["24h"].points(NOW)
    total = sum(batch.rows for batch in batches)
    bins = curves.windows["24h"]._bins.values()

    assert sum(one.rows for one in bins) <= total * (1 + 1e-9) + 1e-6
    if all(batch.seconds < 3600 for batch in batches):
        assert sum(one.rows for one in bins) == pytest.approx(total)
    assert all(value is None or value >= 0 for value in points["rows_s"])


def test_memory_is_bounded() -> None:
    """After any number of micro-batches, a window has 180 bins and a job its last micro-batches."""
    curves = added(*(replace(BATCH, finished=NOW - ago) for ago in range(20_000, 0, -7)))

    assert all(len(curves.windows[name]._bins) <= 181 for name in WINDOWS)
    assert BATCHES_MAX == len(curves.batches)
    assert all(len(curves.windows[name].points(NOW)["t"]) <= 180 for name in WINDOWS)


def test_an_undone_replay_brings_the_dead_letters_back() -> None:
    """A replay deletes dead letters, and undoing it restores them: each replay its own. After a
    new micro-batch, a replay cannot be undone."""
    curves = added(*(replace(BATCH, batch=number, dead_letters=number) for number in (1, 2)))

    def letters() -> list[int]:
        return [batch.dead_letters for batch in curves.batches]

    curves.add(RowsDeleted(undone_from=2, move=3), NOW)
    curves.add(RowsDeleted(undone_from=1, move=4), NOW)
    assert [0, 0] == letters()
    curves.add(RowsRestored(restored=4), NOW)
    assert [1, 0] == letters()
    curves.add(RowsRestored(restored=3), NOW)
    assert [1, 2] == letters()
    curves.add(RowsDeleted(undone_from=1, move=3), NOW)
    curves.add(replace(BATCH, batch=5, dead_letters=5), NOW)
    curves.add(RowsRestored(restored=3), NOW)
    assert [0, 0, 5] == letters()
