"""Times of cron expressions around changes of the clocks."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs.supervise.rules import CronTimes

BERLIN = "Europe/Berlin"


def berlin(text: str, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(BERLIN), fold=fold).timestamp()


@pytest.mark.parametrize("ended", ["2026-10-25T02:00", "2026-10-25T02:03", "2026-10-25T02:29"])
def test_a_daily_time_comes_once_when_clocks_go_back(ended: str) -> None:
    """A run that ends in the repeated hour is due on the next day, not in the hour before."""
    assert berlin("2026-10-26T02:30") == CronTimes("30 2 * * *", BERLIN).next(berlin(ended, fold=1))


def test_an_hourly_time_comes_in_both_hours() -> None:
    """The hour that comes twice has two runs of an hourly job."""
    first, second = berlin("2026-10-25T02:30"), berlin("2026-10-25T02:30", fold=1)

    assert first + 3600 == second
    assert second == CronTimes("30 * * * *", BERLIN).next(first)


CHANGES = ["2026-03-29T01:00", "2026-10-25T02:00", "2026-04-05T01:00", "2026-11-01T01:00"]


@given(
    expression=st.sampled_from(
        ["30 2 * * *", "0 2 * * *", "*/20 2 * * *", "30 * * * *", "0 1,2,3 * * 0", "59 1 * * *"]
    ),
    zone=st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "UTC"]),
    change=st.sampled_from(CHANGES),
    offset_s=st.integers(-7_200, 14_400),
)
def test_a_next_time_is_later_than_now(
    expression: str, zone: str, change: str, offset_s: int
) -> None:
    """No change of the clocks makes a time due that has passed: the job would run in a loop."""
    now = datetime.fromisoformat(change).replace(tzinfo=ZoneInfo(zone)).timestamp() + offset_s

    assert CronTimes(expression, zone).next(now) > now
