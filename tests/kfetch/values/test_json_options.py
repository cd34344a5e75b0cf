"""Options of ``from_json`` as settings of the decoder."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import pytest

from kfetch.errors import NotBuilt, OptionError
from kfetch.values.json_options import Mode, json_settings
from tests.kfetch.values.vectors import decode, decoder, find_zone


def test_without_options_the_settings_are_spark_s_defaults() -> None:
    """PERMISSIVE, single quotes, NaN, _corrupt_record and UTC."""
    settings, mode = json_settings({})
    assert mode is Mode.PERMISSIVE
    assert (True, True, "_corrupt_record", 0) == (
        settings.single_quotes,
        settings.non_numeric,
        settings.corrupt_column,
        settings.zones.session,
    )


@pytest.mark.parametrize(
    ("options", "attribute", "value"),
    [
        ({"allowSingleQuotes": "FALSE"}, "single_quotes", False),
        ({"ALLOWNONNUMERICNUMBERS": "false"}, "non_numeric", False),
        ({"columnNameOfCorruptRecord": "Bad"}, "corrupt_column", "Bad"),
        ({"primitivesAsString": "true", "maxNumLen": "1000"}, "single_quotes", True),
    ],
)
def test_an_option_changes_its_setting(options: dict[str, str], attribute: str, value: Any) -> None:
    """Names of options may have any case. Options without effect on rows are accepted."""
    assert value == getattr(json_settings(options)[0], attribute)


@pytest.mark.parametrize("mode", list(Mode))
def test_modes_have_spark_s_names(mode: Mode) -> None:
    """Upper and lower case are the same."""
    assert mode is json_settings({"mode": mode.name})[1] is json_settings({"Mode": mode.value})[1]


@pytest.mark.parametrize(
    ("name", "expected"), [("UTC", 0), ("Etc/UTC", 0), ("+05:30", 19_800), ("GMT-3", -10_800)]
)
def test_fixed_zones(name: str, expected: int) -> None:
    """The session's zone is a number of seconds where it has no rules."""
    assert expected == json_settings({}, session_zone=name)[0].zones.session


def test_the_option_s_zone_comes_before_the_session_s() -> None:
    """``timeZone`` is for times without a zone of their own."""
    options = {"timeZone": "Europe/Berlin"}
    settings, _ = json_settings(options, session_zone="Asia/Tokyo", find_zone=find_zone)
    assert isinstance(settings.zones.session, tzinfo)
    result = decode(decoder("t TIMESTAMP", settings), [b'{"t":"2024-07-01T12:00:00"}'])
    assert "2024-07-01 10:00:00+00:00" == str(result.values.field("t")[0].as_py())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "maybe"}, "mode=maybe is wrong"),
        ({"allowSingleQuotes": "1"}, "allowSingleQuotes=1 is wrong"),
        ({"timeZone": "Mars/Olympus"}, "the time zone Mars/Olympus is unknown"),
        ({"quote": "'"}, "quote is no option for JSON"),
    ],
)
def test_mistakes_are_named(options: dict[str, str], words: str) -> None:
    """The sentence names the option and its value."""
    with pytest.raises(OptionError, match=words):
        json_settings(options, find_zone=find_zone)


@pytest.mark.parametrize(
    "options", [{"timestampFormat": "yyyy"}, {"allowComments": "true"}, {"maxNumLen": "5"}]
)
def test_what_is_not_built_says_so(options: dict[str, str]) -> None:
    """An option that would change rows is never ignored."""
    with pytest.raises(NotBuilt, match="is not built yet"):
        json_settings(options)
