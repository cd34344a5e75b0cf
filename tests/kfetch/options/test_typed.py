"""The options that say how values become structs."""

from __future__ import annotations

import pytest

from kfetch.errors import NotBuilt, OptionError
from kfetch.options import JsonValues, parse

REQUIRED = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
JSON = {"valueFormat": "json", "valueSchema": "id BIGINT"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"valueFormat": "Binary"}, None),
        (JSON, JsonValues(schema="id BIGINT")),
        ({**JSON, "VALUEFORMAT": "JSON"}, JsonValues(schema="id BIGINT")),
        ({**JSON, "valueMode": "Permissive"}, JsonValues(schema="id BIGINT")),
        ({**JSON, "valueMode": "FAILFAST"}, JsonValues(schema="id BIGINT", mode="failfast")),
        (
            {**JSON, "valueTimeZone": "Europe/Paris"},
            JsonValues(schema="id BIGINT", time_zone="Europe/Paris"),
        ),
    ],
)
def test_meanings(options: dict[str, str], expected: JsonValues | None) -> None:
    """Without valueFormat=json values are bytes."""
    assert expected == parse({**REQUIRED, **options}).json_values


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"valueFormat": "xml"}, "option valueFormat is 'xml', but it must be binary or json"),
        ({"valueFormat": "string"}, 'for text, set columns to "value STRING"'),
        ({"valueFormat": "json"}, "valueFormat=json needs option valueSchema"),
        ({"valueSchema": "id INT"}, "option valueSchema has no effect without valueFormat=json"),
        ({"valueMode": "FAILFAST"}, "option valueMode has no effect without valueFormat=json"),
        (
            {"valueTimeZone": "UTC", "valueFormat": "binary"},
            "option valueTimeZone has no effect without valueFormat=json",
        ),
        ({**JSON, "valueMode": "strict"}, "option valueMode is 'strict', but it must be"),
    ],
)
def test_mistakes(options: dict[str, str], sentence: str) -> None:
    """The sentence names the option and what to do."""
    with pytest.raises(OptionError) as mistake:
        parse({**REQUIRED, **options})
    assert sentence in mistake.value.message
    assert not isinstance(mistake.value, NotBuilt)


@pytest.mark.parametrize(
    "options",
    [{"valueFormat": "avro"}, {"valueFormat": "Protobuf"}, {**JSON, "valueMode": "DROPMALFORMED"}],
)
def test_what_is_not_built_says_so(options: dict[str, str]) -> None:
    """Known formats and modes that are not there yet raise NotBuilt."""
    with pytest.raises(NotBuilt, match="is not built yet"):
        parse({**REQUIRED, **options})
