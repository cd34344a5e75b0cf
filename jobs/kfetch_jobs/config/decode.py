"""``source.decode``: a synonym for the options of the source that decode JSON."""

from __future__ import annotations

from collections.abc import Iterable

from kfetch.admin.query import needs_time_zone
from kfetch_jobs.config.field_types import Options
from kfetch_jobs.config.models import Decode, Source

KEYS = {
    "valueSchema": ("decode", "fields"),
    "valueMode": ("decode", "options", "mode"),
    "valueTimeZone": ("decode", "options", "timeZone"),
}
"""Options of the source, and the keys of a job's source that stand for them."""
NO_BYTES = (
    "with decode, the view has no column value, because kfetch decodes its bytes: select other "
    "columns, or remove decode and call from_json(string(value), '…') in the transform"
)
"""What an older job needs to know whose transform uses the bytes beside the decoded struct."""
_EITHER = ("valueformat", "valueschema", "valuefields")
"""Options that say what ``decode`` says, in lower case."""


def lacks_bytes(sources: Iterable[Source]) -> bool:
    """Returns whether a view has no column ``value``."""
    return any(one.decode and one.decode.into.lower() != "value" for one in sources)


def conflicts(options: Options) -> list[str]:
    """Returns the options that can't stand beside ``decode``."""
    return [name for name in options if name.lower() in _EITHER]


def with_decode(options: Options, decode: Decode, *, fails: bool, zone: str) -> Options:
    """Returns options of the source with those that ``decode`` stands for.

    ``fails``: whether a value that does not fit fails the job. ``zone``: the zone of Spark's
    session. Options that the job names itself stay as they are.
    """
    if conflicts(options):
        return options
    given = {name.lower(): text for name, text in decode.options.items()}
    mode = given.get("mode", "PERMISSIVE")
    fails = fails and mode.upper() == "PERMISSIVE"
    added = {"valueFormat": "json", "valueSchema": decode.fields}
    added["valueMode"] = "FAILFAST" if fails else mode
    if needs_time_zone(decode.fields):
        added["valueTimeZone"] = given.get("timezone", zone)
    named = {name.lower() for name in options}
    return options | {name: text for name, text in added.items() if name.lower() not in named}


def with_decode_names(sentence: str, kept: Iterable[str]) -> str:
    """Returns a sentence that names the fields of ``decode`` in place of the option.

    ``kept``: options that the job names itself.
    """
    own = {name.lower() for name in kept}
    return sentence if "valueschema" in own else sentence.replace("valueSchema", "decode.fields")
