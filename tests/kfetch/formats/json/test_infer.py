"""Schemas of samples: the types that Spark's ``spark.read.json`` infers."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.formats.columns.ddl import fields_text, parse_schema
from kfetch.formats.json import reference
from kfetch.formats.json.characters import BadDocument
from kfetch.formats.json.infer import NO_TYPE, inferred_type, merged, schema_of
from kfetch.formats.json.times import Zones
from tests.kfetch.formats.json import documents


def objects(shortest_text: int) -> st.SearchStrategy[dict[str, Any]]:
    """Returns JSON objects, whose strings have at least so many characters."""
    values = st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(1 << 70), 1 << 70)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(min_size=shortest_text, max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "b", "not", "ü", "a`b", ""]), inner, max_size=3)
        ),
        max_leaves=8,
    )
    return st.dictionaries(st.sampled_from(["a", "b", "c", "x y"]), values, max_size=4)


def inferred(*values: Any) -> str:
    """Returns the DDL of JSON values."""
    return fields_text(
        schema_of(merged(inferred_type(json.dumps(value).encode()) for value in values))
    )


@pytest.mark.parametrize(
    ("values", "ddl"),
    [
        ([{"a": 1}], "a BIGINT"),
        ([{"b": 1, "a": "x"}], "a STRING, b BIGINT"),
        ([{"a": 1}, {"a": 1.5}], "a DOUBLE"),
        ([{"a": 1}, {"a": True}], "a STRING"),
        ([{"a": 1}, {"a": "x"}], "a STRING"),
        ([{"a": 1}, {"a": ""}], "a BIGINT"),
        ([{"a": None}], "a STRING"),
        ([{"a": None}, {"a": False}], "a BOOLEAN"),
        ([{"a": (1 << 63) - 1}], "a BIGINT"),
        ([{"a": 1 << 63}], "a DECIMAL(19,0)"),
        ([{"a": 1 << 63}, {"a": 1}], "a DECIMAL(20,0)"),
        ([{"a": 10**22}, {"a": 1}], "a DECIMAL(23,0)"),
        ([{"a": 10**40}], "a DOUBLE"),
        ([{"a": 10**22}, {"a": 0.5}], "a DOUBLE"),
        ([{"a": []}], "a ARRAY<STRING>"),
        ([{"a": []}, {"a": [1, 2.5]}], "a ARRAY<DOUBLE>"),
        ([{"a": [1, "x"]}], "a ARRAY<STRING>"),
        ([{"a": [{"x": 1}, {"y": 2}]}], "a ARRAY<STRUCT<x: BIGINT, y: BIGINT>>"),
        ([{"a": {"x": 1}}, {"a": 1}], "a STRING"),
        ([{"a": {"x": 1}}, {"a": {"x": 0.5, "b": True}}], "a STRUCT<b: BOOLEAN, x: DOUBLE>"),
        ([{"a": {}, "b": 1}], "b BIGINT"),
        ([{"a": [{}], "b": 1}], "b BIGINT"),
        ([{"not": 1, "a b": 1, "a`b": 1}], "`a b` BIGINT, `a``b` BIGINT, `not` BIGINT"),
        ([{"größe 😀": 1}], "`größe 😀` BIGINT"),
        ([{"": 1, "half\ud83d": 1, "a": 1}], "a BIGINT"),
        ([3], ""),
        ([{}], ""),
    ],
)
def test_types(values: list[Any], ddl: str) -> None:
    """Each pair of types has the type of Spark's JsonInferSchema."""
    assert ddl == inferred(*values)


@pytest.mark.parametrize(
    "text", [b"{", b"[1,", b"x", b'{"a" 1}', b'{"a":1', b'{"a":tru}', b'"abc', b"}"]
)
def test_no_json(text: bytes) -> None:
    """Bytes that are no JSON have no type."""
    with pytest.raises(BadDocument):
        inferred_type(text)


@pytest.mark.parametrize("number", ["9" * 5000, "0." + "1" * 5000, "1e" + "1" * 5000])
def test_numbers_of_many_digits(number: str) -> None:
    """Spark refuses numbers of more than 1,000 digits, so their documents have no type."""
    with pytest.raises(BadDocument, match="a number has more than 1000 digits"):
        inferred_type(f'{{"n":{number}}}'.encode())


@pytest.mark.parametrize("text", [b"", b"  ", b"null"])
def test_nothing(text: bytes) -> None:
    """Empty values say nothing."""
    assert NO_TYPE == inferred_type(text)


@given(st.lists(objects(1), min_size=1, max_size=5))
def test_the_sample_fits_its_schema(values: list[Any]) -> None:
    """The schema is DDL that kfetch reads, and no document of the sample is corrupt under it.

    Empty strings may be: Spark takes "" for a null when it infers, and for text when it reads.
    """
    ddl = inferred(*values)
    if not ddl:
        return
    schema = parse_schema(ddl)
    for value in values:
        decoded = reference.decode(json.dumps(value).encode(), schema, Zones())
        assert decoded.problem is None, (ddl, value, decoded.problem)


@given(st.lists(objects(0), max_size=5), st.randoms())
def test_order_does_not_matter(values: list[Any], order: Random) -> None:
    """The order of the documents changes nothing."""
    shuffled = [*values]
    order.shuffle(shuffled)

    assert inferred(*values) == inferred(*shuffled)


@given(st.integers(0, 1 << 32))
def test_text_of_any_schema(seed: int) -> None:
    """Any schema reads back from its text."""
    schema = documents.schema(Random(seed))

    assert schema == parse_schema(fields_text(schema))
