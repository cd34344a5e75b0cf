"""What is said of fields in Spark's DDL without Spark: only what is certainly wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types

from kfetch_jobs.config.ddl import TYPES, mistake
from tests.examples import examples

RIGHT = (
    "id BIGINT",
    "id bigint NOT NULL COMMENT 'a, b <c> d', page String",
    "`a b` INT, `c``d` DECIMAL(10, 2)",
    "id: BIGINT, s STRUCT<a INT, b: ARRAY<STRING>>",
    "a STRUCT<>, b MAP<STRING, ARRAY<STRUCT<x INT>>>, c INT",
    "a STRING COLLATE UNICODE, b INTERVAL DAY TO SECOND, c TIMESTAMP WITHOUT TIME ZONE",
    "select INT, 1a INT",
)
"""Spark takes them (run)."""

SPARKS = (
    "",
    "STRUCT<a: INT>",
    "a-b INT",
    "a INT -- b CHR",
    "a /* , */ INT",
    "a INT) , b (INTT",
    '{"type": "struct"}',
    f"a {'ARRAY<' * 5000}INTT{'>' * 5000}",
)
"""Spark has the word: some are right."""


@pytest.mark.parametrize("fields", RIGHT + SPARKS)
def test_what_may_be_right_passes(fields: str) -> None:
    """A form that is not known here is left to Spark, which looks when the job runs."""
    assert mistake(fields) is None


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ("id BIGINTT", "BIGINTT is no type of Spark: did you mean BIGINT?"),
        ("a INT, b: ARRAY<strng>", "strng is no type of Spark: did you mean STRING?"),
        ("a STRUCT<x INT, y: DUBLE>", "DUBLE is no type of Spark: did you mean DOUBLE?"),
        ("a DECIMAL(3, 1), b TEXT", "TEXT is no type of Spark: known here: ARRAY, BIGINT, "),
        ("a INT COMMENT 'x', b", "b has no type: give it one, as in b STRING"),
        ("a, b INT", "a has no type: give it one, as in a STRING"),
        ("a STRUCT<b>, c INT", "b has no type: give it one, as in b STRING"),
    ],
)
def test_what_no_spark_takes(fields: str, wrong: str) -> None:
    """A word that is no type where one has to be, also within types."""
    assert (mistake(fields) or "").startswith(wrong)


def test_every_type_of_pyspark_is_known() -> None:
    """A type that a new Spark brings must not become a mistake."""
    kinds = [getattr(types, name) for name in types.__all__ if name.endswith("Type")]
    names = {kind.typeName().upper() for kind in kinds if kind is not types.DataType}

    # Intervals are one word and more, as in INTERVAL DAY TO SECOND.
    assert {"DAYTIMEINTERVAL", "YEARMONTHINTERVAL"} == names - TYPES


@examples(120)
@given(st.text("aI<>,(): `'\"/-*{}\n", max_size=30))
def test_any_text_has_an_answer(fields: str) -> None:
    """Whatever stands there, it is judged or left alone."""
    assert mistake(fields) is None or "type" in str(mistake(fields))
