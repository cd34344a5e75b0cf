"""The options that say how values become columns: ``valueFormat`` and those that it needs."""

from __future__ import annotations

from kfetch.errors import NotBuilt, OptionError
from kfetch.options.reader import OptionReader
from kfetch.options.values import JsonValues

__all__ = ["json_values"]

_NEEDED = ("valueSchema", "valueMode", "valueTimeZone")
_NOT_BUILT = ("avro", "protobuf")


def json_values(read: OptionReader) -> JsonValues | None:
    """Return how values are decoded, None for bytes. Raises OptionError or NotBuilt."""
    given = {name: read(name, str, "") for name in _NEEDED}
    if not _is_json(read("valueFormat", str.lower, "binary")):
        unused = [name for name, text in given.items() if text]
        if unused:
            raise OptionError(
                f"option {unused[0]} has no effect without valueFormat=json",
                action="set valueFormat=json, or remove it",
                option=unused[0],
            )
        return None
    if not given["valueSchema"]:
        raise OptionError(
            "valueFormat=json needs option valueSchema",
            action='set it to the fields, such as "id BIGINT, name STRING"',
            option="valueSchema",
        )
    mode = _mode(given["valueMode"] or "PERMISSIVE")
    return JsonValues(schema=given["valueSchema"], mode=mode, time_zone=given["valueTimeZone"])


def _is_json(text: str) -> bool:
    if text in ("binary", "json"):
        return text == "json"
    if text in _NOT_BUILT:
        raise NotBuilt(
            f"valueFormat={text} is not built yet",
            action="leave it out, and decode the value in the DataFrame",
            option="valueFormat",
        )
    raise OptionError(
        f"option valueFormat is {text!r}, but it must be binary or json",
        action='for text, set columns to "value STRING" and the other columns',
        option="valueFormat",
    )


def _mode(text: str) -> str:
    mode = text.lower()
    if mode in ("permissive", "failfast"):
        return mode
    if mode == "dropmalformed":
        raise NotBuilt(
            f"valueMode={text} is not built yet",
            action="use PERMISSIVE with a field _corrupt_record STRING, and filter by it",
            option="valueMode",
        )
    raise OptionError(
        f"option valueMode is {text!r}, but it must be PERMISSIVE or FAILFAST", option="valueMode"
    )
