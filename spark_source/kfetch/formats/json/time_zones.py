"""Finds the time zones that options name, with the rules of the machine or of Python's tzdata."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from datetime import tzinfo

from kfetch.errors import OptionError
from kfetch.formats.json.times import Zone, Zones, zone_of

__all__ = ["find_zone", "zone_named"]


def zone_named(name: str, *, option: str) -> Zone:
    """Return the zone of an option's text. Raises OptionError if there is none."""
    if re.fullmatch(r"Etc/(UTC|GMT)", name):
        return 0
    zone = zone_of(name, Zones(0, find_zone))
    if zone is None:
        raise OptionError(
            f"option {option} is {name!r}, which is no known time zone",
            action=_advice(name),
            option=option,
        )
    return zone


def find_zone(name: str) -> tzinfo | None:
    """Return the time zone of a region, None if there is none."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def _advice(name: str) -> str:
    known = {region.lower(): region for region in zoneinfo.available_timezones()}
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75)
    if near:
        return f"did you mean {known[near[0]]}?"
    return "use a name like Europe/Paris, or an offset like +01:00"
