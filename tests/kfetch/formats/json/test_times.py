"""Dates, times and time zones from text. tests/vectors/json has Spark's answers about odd ones."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.formats.json.time_zones import zone_rules
from kfetch.formats.json.times import Zones, date_of, days_of, timestamp_of
from tests.kfetch.formats.vectors import find_zone

_EPOCH = date(1970, 1, 1)
_ZONES = ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]


@given(st.dates())
def test_dates_are_counted_from_1970(day: date) -> None:
    """Every date of Python's calendar has the same number of days."""
    assert (day - _EPOCH).days == days_of(day.year, day.month, day.day) == date_of(str(day))


@cache
def zone_with_rules(name: str) -> tuple[tzinfo, Any]:
    """A time zone and its table."""
    zone = find_zone(name)
    assert zone is not None
    return zone, zone_rules(zone)


@given(st.datetimes(datetime(1901, 1, 1), datetime(2099, 12, 30)), st.sampled_from(_ZONES))
def test_a_zone_s_table_has_its_offsets(time: datetime, name: str) -> None:
    """At every local time the table has the offset that holds, the earlier one if two fit."""
    zone, rules = zone_with_rules(name)
    second = (time - datetime(1970, 1, 1)) // timedelta(seconds=1)
    row = np.searchsorted(rules[:, 0], second, side="right") - 1
    assert time.replace(tzinfo=zone).utcoffset() == timedelta(seconds=int(rules[row, 1]))


@given(st.datetimes(datetime(1000, 1, 1), datetime(9998, 12, 30)), st.sampled_from(_ZONES))
def test_local_times_are_those_of_python(time: datetime, name: str) -> None:
    """A time without a zone is a time in the session's zone."""
    zone = find_zone(name)
    assert zone is not None
    expected = (time.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )
    assert expected == timestamp_of(str(time), Zones(zone, find_zone))


@pytest.mark.parametrize("text", ["12:30", "T12:30", "12:30:15Z"])
def test_times_without_a_date_are_refused(text: str) -> None:
    """Spark would add the day on which it reads them."""
    assert timestamp_of(text, Zones()) is None
