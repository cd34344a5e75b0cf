"""The modes of ``from_json`` that a Spark session has, against the decoder's corrupt records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.formats.edge_cases import GROUPS
from integration.formats.oracle import CORRUPT, answers
from tests.kfetch.formats.json.plain import plain
from tests.kfetch.formats.vectors import decode, decoder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.integration, pytest.mark.long]

_DOCUMENTS = next(group for group in GROUPS if group.name == "nested")
_ITEMS = [item.encode() if isinstance(item, str) else item for item in _DOCUMENTS.documents]


def _corrupt() -> list[int]:
    return decode(decoder(_DOCUMENTS.schema), list(_ITEMS)).corrupt.tolist()


def test_failfast_accepts_the_records_that_are_not_corrupt(spark: SparkSession) -> None:
    """With mode=FAILFAST Spark reads all the others without an error, to the same rows."""
    good = [item for number, item in enumerate(_ITEMS) if number not in _corrupt()]
    expected = answers(spark, _DOCUMENTS.schema, good, options={"mode": "FAILFAST"})
    actual = decode(decoder(_DOCUMENTS.schema), list(good))
    assert plain(expected) == plain(actual.values)


def test_failfast_refuses_each_corrupt_record(spark: SparkSession) -> None:
    """With mode=FAILFAST each of the corrupt records fails the query."""
    from py4j.protocol import Py4JJavaError  # toArrow passes the error on as it is

    for number in _corrupt():
        with pytest.raises(Py4JJavaError, match="MALFORMED_RECORD_IN_PARSING"):
            answers(spark, _DOCUMENTS.schema, [_ITEMS[number]], options={"mode": "FAILFAST"})


def test_dropmalformed_is_kfetch_s_own(spark: SparkSession) -> None:
    """Spark refuses mode=DROPMALFORMED in from_json. There is nothing to compare with."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="DROPMALFORMED"):
        answers(spark, _DOCUMENTS.schema, _ITEMS[:1], options={"mode": "DROPMALFORMED"})


@pytest.mark.parametrize("place", ["first", "last"])
def test_the_corrupt_column_stands_where_the_schema_has_it(spark: SparkSession, place: str) -> None:
    """Rows with the corrupt record column are equal, bytes that are no UTF-8 included."""
    column = f"{CORRUPT} STRING"
    schema = f"{column}, b INT" if place == "first" else f"b INT, {column}"
    items = [b'{"b":1}', b'{"b":"x"}', b"", b"\xff\xfe", b'{"b":1', b"[]", b'{"_corrupt_record":1}']
    expected = answers(spark, schema, items)
    assert plain(expected) == plain(decode(decoder(schema), list(items)).values)
