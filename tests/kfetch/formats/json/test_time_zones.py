"""The time zones that options name: which there are, and which a schema needs."""

from __future__ import annotations

import zoneinfo

import pytest

from kfetch.errors import OptionError
from kfetch.formats.json.time_zones import find_zone, zone_named
from kfetch.options.catalogue import no_effect
from kfetch.spark.schema import schema, with_schema
from tests.kfetch.spark.test_schema import BOTH, options, typed


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


@pytest.mark.parametrize(
    "name",
    [
        *("", "Europe", "Mars/Olympus", "../etc/passwd", "\0", "+19:00"),
        *("__init__/x", "x/" * 600, "localtime", "Factory"),
    ],
)
def test_what_is_no_zone(name: str) -> None:
    """The error names the option and an example."""
    assert find_zone(name) is None
    with pytest.raises(OptionError, match="use a name like Europe/Paris") as refused:
        zone_named(name, option="keyTimeZone")
    assert "keyTimeZone" == refused.value.option


@BOTH
@pytest.mark.parametrize(
    ("zone", "action"),
    [
        ("Europ/Paris", "did you mean Europe/Paris?"),
        ("europe/paris", "did you mean Europe/Paris?"),
        ("Europe", "use a name like Europe/Paris, or an offset like +01:00"),
        ("+25:00", "use a name like Europe/Paris, or an offset like +01:00"),
    ],
)
@pytest.mark.parametrize("fields", ["t TIMESTAMP", "id INT"])
def test_an_unknown_zone_is_an_error(name: str, zone: str, action: str, fields: str) -> None:
    """The driver refuses it, before any task starts. The error names the column's own option."""
    given = options(**typed(name, Schema=fields, TimeZone=zone))
    with pytest.raises(OptionError) as refused:
        schema(given)
    assert f"{name}TimeZone" == refused.value.option
    assert (
        f"option {name}TimeZone is {zone!r}, which is no known time zone: {action}"
    ) == refused.value.message


@BOTH
@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "+05:30", "GMT-3", "Europe/Paris", "CST"])
def test_zones_that_are_known(name: str, zone: str) -> None:
    """Regions, offsets, and the short names that Spark knows."""
    given = options(**typed(name, Schema="t TIMESTAMP", TimeZone=zone))
    assert ["t"] == schema(given)[name].dataType.names


@BOTH
@pytest.mark.parametrize(
    ("fields", "is_used"),
    [("id INT", False), ("t TIMESTAMP_NTZ, d DATE", False), ("a ARRAY<TIMESTAMP>", True)],
)
def test_a_zone_without_times_has_no_effect(name: str, fields: str, is_used: bool) -> None:
    """The source warns of it. It is no error, because from_json takes a zone with any schema."""
    given = options(**typed(name, Schema=fields, TimeZone="UTC"))
    read = with_schema(given, schema(given))

    option = f"{name}TimeZone"
    assert (() if is_used else (option,)) == read.ignored
    assert read == with_schema(read, schema(read))
    assert f"option {option} has no effect: {name}Schema has no TIMESTAMP" == no_effect(option)
