"""The options of ``from_json`` as settings of the decoder.

Option names are case-insensitive, as in Spark. Raises OptionError for a wrong value or an unknown
option, and NotBuilt for an option whose value would change the meaning in a way that is not built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import tzinfo
from enum import Enum

from kfetch.errors import NotBuilt, OptionError
from kfetch.values.json_decoder import CORRUPT_COLUMN, JsonSettings
from kfetch.values.times import Zone, Zones, zone_of
from kfetch.values.types import Kind, ValueType

__all__ = ["Mode", "check_zone", "json_settings", "needs_zone"]


class Mode(Enum):
    """What happens to a record that is corrupt."""

    PERMISSIVE = "permissive"
    """It keeps the fields that fit. The others are null."""
    FAILFAST = "failfast"
    """The query fails."""
    DROPMALFORMED = "dropmalformed"
    """The record is dropped. Spark has this mode for files alone."""


_DEFAULTS = {
    "allowcomments": "false",
    "allowunquotedfieldnames": "false",
    "allownumericleadingzeros": "false",
    "allowbackslashescapinganycharacter": "false",
    "allowunquotedcontrolchars": "false",
    "enabledatetimeparsingfallback": "true",
    "locale": "en-us",
    "maxnestingdepth": "1000",
    "maxnumlen": "1000",
    "maxstringlen": "20000000",
}
"""Options that must have Spark's default."""
_FORMATS = ("dateformat", "timestampformat", "timestampntzformat", "timeformat")
_WITHOUT_EFFECT = (
    *("compression", "dropfieldifallnull", "encoding", "charset", "ignorenullfields"),
    *("infertimestamp", "linesep", "multiline", "prefersdate", "prefersdecimal", "pretty"),
    *("primitivesasstring", "samplingratio", "writenonasciicharacterascodepoint"),
)
"""Options that from_json reads and that change no row: they are for files, or for writing."""
_BOOLEAN = {"true": True, "false": False}


def json_settings(
    options: Mapping[str, str],
    *,
    session_zone: str = "UTC",
    find_zone: Callable[[str], tzinfo | None] = lambda name: None,
) -> tuple[JsonSettings, Mode]:
    """Returns the settings and the mode that options mean.

    ``session_zone``: the value of spark.sql.session.timeZone. ``find_zone``: returns the zone of a
    region, None if there is none.
    """
    chosen = {name.lower(): value for name, value in options.items()}
    for name, value in chosen.items():
        _check(name, value)
    zone_name = chosen.get("timezone", session_zone)
    settings = JsonSettings(
        zones=Zones(_zone(zone_name, find_zone), find_zone),
        single_quotes=_boolean("allowSingleQuotes", chosen),
        non_numeric=_boolean("allowNonNumericNumbers", chosen),
        corrupt_column=chosen.get("columnnameofcorruptrecord", CORRUPT_COLUMN),
    )
    return settings, _mode(chosen.get("mode", "permissive"))


_KNOWN = ("timezone", "allowsinglequotes", "allownonnumericnumbers", "columnnameofcorruptrecord",
          "mode", *_WITHOUT_EFFECT)  # fmt: skip


def check_zone(schema: ValueType, zone: str, *, column: str = "value") -> None:
    """Raises OptionError if the schema of a column has times that need a zone, and none is named.

    Spark takes the session's zone, which a source in Python can't see.
    """
    if not zone and needs_zone(schema):
        raise OptionError(
            f"{column}Schema has a TIMESTAMP, so option {column}TimeZone must name the zone of "
            "times without one",
            action="set it to the session's zone (spark.sql.session.timeZone), such as UTC",
            option=f"{column}TimeZone",
        )


def needs_zone(kind: ValueType) -> bool:
    """Returns whether a type has a TIMESTAMP. Text of one may lack a zone."""
    return kind.kind is Kind.TIMESTAMP or any(map(needs_zone, kind.children))


def _check(name: str, value: str) -> None:
    if name in _FORMATS:
        raise NotBuilt(
            f"{name} is not built yet",
            action="leave it out to read ISO 8601, or take the field as STRING and convert it "
            "in Spark",
            option=name,
        )
    if name in _DEFAULTS and value.lower() != _DEFAULTS[name]:
        raise NotBuilt(
            f"{name}={value} is not built yet",
            action=f"leave it out, which means {_DEFAULTS[name]}",
            option=name,
        )
    if name not in _DEFAULTS and name not in _KNOWN:
        raise OptionError(
            f"{name} is no option for JSON",
            action="leave it out",
            option=name,
        )


def _boolean(name: str, chosen: Mapping[str, str]) -> bool:
    value = chosen.get(name.lower(), "true")
    if value.lower() not in _BOOLEAN:
        raise OptionError(f"{name}={value} is wrong", action="use true or false", option=name)
    return _BOOLEAN[value.lower()]


def _mode(value: str) -> Mode:
    try:
        return Mode(value.lower())
    except ValueError:
        action = "use PERMISSIVE, FAILFAST or DROPMALFORMED"
        raise OptionError(f"mode={value} is wrong", action=action, option="mode") from None


def _zone(name: str, find: Callable[[str], tzinfo | None]) -> Zone:
    if re.fullmatch(r"Etc/(UTC|GMT)", name):
        return 0
    zone = zone_of(name, Zones(0, find))
    if zone is None:
        raise OptionError(
            f"the time zone {name} is unknown",
            action="use a name like Europe/Paris, or an offset like +01:00",
            option="timeZone",
        )
    return zone
