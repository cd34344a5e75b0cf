"""The time zones that options name."""

from __future__ import annotations

import zoneinfo

import pytest

from kfetch.errors import OptionError
from kfetch.time_zones import find_zone, zone_named


@pytest.mark.parametrize(
    ("name", "expected"),
    [("UTC", 0), ("Etc/UTC", 0), ("Etc/GMT", 0), ("+05:30", 19_800), ("GMT-3", -10_800)],
)
def test_fixed_zones(name: str, expected: int) -> None:
    """A zone without rules is a number of seconds."""
    assert expected == zone_named(name, option="valueTimeZone")


def test_regions() -> None:
    """They have rules."""
    paris = zoneinfo.ZoneInfo("Europe/Paris")
    assert paris == find_zone("Europe/Paris") == zone_named("Europe/Paris", option="valueTimeZone")


@pytest.mark.parametrize("name", ["", "Europe", "Mars/Olympus", "../etc/passwd", "\0", "+19:00"])
def test_what_is_no_zone(name: str) -> None:
    """The error names the option and an example."""
    assert find_zone(name) is None
    with pytest.raises(OptionError, match="use a name like Europe/Paris") as refused:
        zone_named(name, option="keyTimeZone")
    assert "keyTimeZone" == refused.value.option
