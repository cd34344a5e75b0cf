"""Times of cron expressions around changes of the clocks."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tests.kfetch_jobs.supervise.job_files import cron

BERLIN = "Europe/Berlin"


def berlin(text: str, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(BERLIN), fold=fold).timestamp()


@pytest.mark.parametrize("ended", ["2026-10-25T02:00", "2026-10-25T02:03", "2026-10-25T02:29"])
def test_a_daily_time_comes_once_when_clocks_go_back(ended: str) -> None:
    """A run that ends in the repeated hour is due on the next day, not in the hour before."""
    assert berlin("2026-10-26T02:30") == cron("30 2 * * *", BERLIN).next_time(berlin(ended, fold=1))


def test_an_hourly_time_comes_in_both_hours() -> None:
    """The hour that comes twice has two runs of an hourly job."""
    first, second = berlin("2026-10-25T02:30"), berlin("2026-10-25T02:30", fold=1)

    assert first + 3600 == second
    assert second == cron("30 * * * *", BERLIN).next_time(first)


@pytest.mark.parametrize(
    ("zone", "change"),
    [
        (BERLIN, "2026-03-29T01:00"),
        (BERLIN, "2026-10-25T02:00"),
        ("America/New_York", "2026-11-01T01:00"),
        ("Australia/Lord_Howe", "2026-04-05T01:30"),  # by half an hour
    ],
)
@pytest.mark.parametrize("expression", ["30 2 * * *", "45 1 * * *", "*/20 2 * * *", "30 * * * *"])
def test_a_next_time_is_later_than_now(expression: str, zone: str, change: str) -> None:
    """No change of the clocks makes a time due that has passed: the job would run in a loop."""
    begin = datetime.fromisoformat(change).replace(tzinfo=ZoneInfo(zone)).timestamp()
    times = cron(expression, zone)

    for minutes in range(-60, 240, 5):
        now = begin + minutes * 60
        assert times.next_time(now) > now
