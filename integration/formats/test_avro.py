"""The Avro decoder against Spark's own ``from_avro``, on random schemas, readers and records.

The rows must be Spark's, bit by bit. docs/how-to/avro.md has a table of the differences that are
allowed.
KFETCH_AVRO_DOCUMENTS is the number of records, 20,000 without it.
"""

from __future__ import annotations

import json
import os
import re
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from integration.formats.avro_oracle import avro_answers, prepare
from integration.sparks import Feature, has
from kfetch.errors import OptionError
from tests.kfetch.formats.avro.cases import asks_for_java_text, comparable, decode, decoder
from tests.kfetch.formats.avro.records import aliased, damaged, evolved, record, schema
from tests.kfetch.formats.json.plain import plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.integration, pytest.mark.long]

_RECORDS = 100  # of each pair of schemas
_PAIRS = 20  # in each test
_ALLOWED = ("its length is negative", "elements without bytes")
"""Problems of damaged records to which from_avro gives a row: see the table."""
_DOUBLE = re.compile("[0-9a-f]{16}")
"""A double in a plain value: its bits."""
_TESTS = int(os.environ.get("KFETCH_AVRO_DOCUMENTS", "20000")) // (_RECORDS * _PAIRS)


def _pair(rng: Random) -> tuple[Any, Any]:
    writer = schema(rng)
    if rng.random() < 0.2:
        return aliased(rng, writer), None
    reader = evolved(rng, writer) if rng.random() < 0.75 else None
    return writer, aliased(rng, reader or writer) if rng.random() < 0.3 else reader


@pytest.mark.parametrize("number", range(_TESTS))
def test_random_records_mean_what_spark_says(spark: SparkSession, number: int) -> None:
    """Rows and nulls of 100 records for each of 20 pairs of schemas are those of Spark."""
    prepare(spark)
    for seed in range(number * _PAIRS, (number + 1) * _PAIRS):
        rng = Random(10_000 + seed)
        writer, reader = _pair(rng)
        items = [record(rng, writer) for _ in range(_RECORDS)]
        items = [damaged(rng, item) if rng.random() < 0.2 else item for item in items]
        expected = plain(avro_answers(spark, writer, reader, items))
        _check(writer, reader, items, expected)


def _check(writer: Any, reader: Any, items: list[bytes], expected: list[Any]) -> None:
    try:
        using = decoder(writer, reader)
    except OptionError:  # before the query; from_avro finds it out with each record
        assert all(value is None for row in expected for value in row.values())
        return
    java_text = asks_for_java_text([writer, reader])
    actual = plain(decode(using, list(items)).values)
    for item, spark_row, row in zip(items, expected, actual, strict=True):
        ours, theirs = (comparable(one, java_text=java_text) for one in (row, spark_row))
        if not has(Feature.EXACT_AVRO_ARRAYS):
            ours, theirs = _with_floats(ours), _with_floats(theirs)
        if ours != theirs:
            problem = using.problem(item)
            if problem is None or not problem.what.endswith(_ALLOWED):
                assert (spark_row, item, json.dumps([writer, reader])) == (row, item, problem)


def _with_floats(value: Any, *, is_listed: bool = False) -> Any:
    """Returns a plain value with the doubles of its lists as floats."""
    if isinstance(value, dict):
        return {name: _with_floats(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_floats(item, is_listed=True) for item in value]
    if is_listed and isinstance(value, str) and _DOUBLE.fullmatch(value):
        return float(np.frombuffer(bytes.fromhex(value), ">f8").astype(np.float32)[0])
    return value
