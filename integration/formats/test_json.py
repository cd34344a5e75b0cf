"""The JSON decoder against Spark's own ``from_json``, on random schemas and documents.

The decoder's rows must be Spark's, bit by bit, and the same records must be corrupt. Two kinds of
difference are allowed, and docs name them: digits of floating-point numbers in text columns, which
depend on the release of Java, and times without a date, which these documents don't have.
"""

from __future__ import annotations

import re
import zoneinfo
from datetime import tzinfo
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from integration.formats.oracle import CORRUPT, answers
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.columns.decoded import DecodedColumn
from kfetch.formats.json.decoder import JsonDecoder
from kfetch.formats.json.times import Zones
from kfetch.formats.loading import load
from tests.kfetch.formats.json.documents import ddl, document, schema
from tests.kfetch.formats.json.plain import plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.integration, pytest.mark.long]

_SCHEMAS, _DOCUMENTS = 50, 2_000
_ZONES = ["UTC", "America/New_York", "+05:30", "Europe/Berlin", "Australia/Lord_Howe"]
_FLOAT = re.compile(r"-?\d+\.\d+(?:E-?\d+)?")


def _find(name: str) -> tzinfo | None:
    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def _zones(zone: str) -> Zones:
    session = 19_800 if zone == "+05:30" else _find(zone)
    return Zones(session or 0, _find)


def _decoded(text: str, documents: list[bytes], zones: Zones) -> DecodedColumn:
    lengths = np.array([len(item) for item in documents], np.int32)
    positions = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    decoder = JsonDecoder(parse_schema(text), load("json"), zones)
    return decoder.decode(b"".join(documents), positions, lengths)


def _comparable(value: Any) -> Any:
    """Returns a value with the floating-point numbers in text as numbers."""
    if isinstance(value, dict):
        return {name: _comparable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    if isinstance(value, str):
        return [_FLOAT.split(value), [float(number) for number in _FLOAT.findall(value)]]
    return value


@pytest.mark.parametrize("seed", range(_SCHEMAS))
def test_random_documents_mean_what_spark_says(spark: SparkSession, seed: int) -> None:
    """Rows, nulls and corrupt records of 2,000 documents are those of Spark."""
    rng = Random(seed)
    kind = schema(rng)
    text = f"{ddl(kind)[:-1]}, {CORRUPT}: STRING>"
    documents = [document(rng, kind, rng.choice([0.0, 0.01, 0.05])) for _ in range(_DOCUMENTS)]
    zone = _ZONES[seed % len(_ZONES)]
    expected = plain(answers(spark, text, documents, zone=zone))
    actual = plain(_decoded(text, documents, _zones(zone)).values)
    for item, spark_row, row in zip(documents, expected, actual, strict=True):
        if spark_row != row:
            assert (_comparable(spark_row), item) == (_comparable(row), item)
