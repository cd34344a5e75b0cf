"""Names and texts beyond Jackson's limits, as ``from_json`` of Spark 4.2.0 answers."""

from __future__ import annotations

from typing import Any

import pytest

from kfetch.formats.json import tokens
from tests.kfetch.formats.vectors import decode, decoder

_NAME = 50_000
_TEXT = 20_000_000
_BUFFER = 20_054_016
_EMOJI = "\U0001f600"  # two of Java's characters

_NAMES: dict[str, tuple[str, str]] = {
    "key": ("m MAP<STRING, INT>, b INT", '{"b":1,"m":{"j":1,"%s":2}}'),
    "unknown": ("b INT, c INT", '{"c":3,"%s":2,"b":1}'),
    "nested": ("s STRUCT<x: INT>, b INT", '{"s":{"%s":2,"x":7},"b":1}'),
    "skipped": ("b INT", '{"s":{"%s":2,"x":7},"b":1}'),
    "copied": ("a STRING, b INT", '{"a":{"%s":2},"b":1}'),
}
"""Schemas and documents. A name that is too long makes the whole row null."""


@pytest.mark.parametrize("of", ["kk", _EMOJI])
@pytest.mark.parametrize("end", ["}", "} "])
@pytest.mark.parametrize("name", _NAMES)
def test_names(name: str, end: str, of: str) -> None:
    """A name has up to 50,000 characters of Java. One more makes the whole row null."""
    schema, document = _NAMES[name]
    using = decoder(schema)
    good = (document % (of * (_NAME // 2)))[:-1] + end
    bad = (document % (of * (_NAME // 2) + "k"))[:-1] + end
    result = decode(using, [good.encode(), bad.encode()])
    rows = result.values.to_pylist()

    assert [1] == result.corrupt.tolist()
    assert 1 == rows[0]["b"]
    assert dict.fromkeys(rows[1]) == rows[1]
    problem = using.problem(bad.encode())
    assert problem is not None
    assert "a name has more than 50000 characters" == problem.what


def test_a_name_of_the_schema() -> None:
    """A field of the schema whose name is too long makes each row with it null."""
    good, bad = "n" * _NAME, "n" * (_NAME + 1)
    using = decoder(f"`{good}` INT, `{bad}` INT")
    documents = [f'{{"{name}":2}}'.encode() for name in (good, bad)]
    result = decode(using, [*documents, None])

    assert [1] == result.corrupt.tolist()
    assert [(2, None), (None, None)] == [
        tuple(row.values()) for row in result.values.to_pylist()[:2]
    ]


_TEXTS: list[tuple[str, int, Any]] = [
    ("x", _TEXT, "good"),
    ("x", _TEXT + 1, {"a": None, "b": 1}),
    ("\xe9xxxxxxxxx", _TEXT // 10, "good"),  # with more bytes than characters
    ("x", _BUFFER, {"a": None, "b": 1}),
    ("x", _BUFFER + 1, {"a": None, "b": None}),
]
"""What a text repeats and how often, and Spark's row if it is corrupt."""


@pytest.mark.parametrize(("of", "count", "expected"), _TEXTS)
def test_texts(of: str, count: int, expected: Any) -> None:
    """A text has up to 20,000,000 characters of Java. With more, its field is null.

    Jackson reads 306 buffers of 64 Ki before it looks. It stops inside of a longer text. There
    Spark finds no comma, and the whole row is null.
    """
    _check("a STRING, b INT", '{"a":"%s","b":1}' % (of * count), expected, _TEXT)


def test_a_text_that_no_column_reads() -> None:
    """It has no limit."""
    _check("b INT", '{"a":"%s","b":1}' % ("x" * (_BUFFER + 1)), "good", _TEXT)


_FEW = 2000
_FEW_BUFFER = 3000

_PLACES: list[tuple[str, str, str, int, Any]] = [
    ("a STRING, b INT", """{'b':1,"a":"%s"}""", "x", _FEW, "good"),
    ("a STRING, b INT", """{'b':1,"a":"%s"}""", "x", _FEW + 1, {"a": None, "b": 1}),
    ("a STRING, b INT", """{'b':1,"a":"%s"}""", "x", _FEW_BUFFER + 1, {"a": None, "b": None}),
    ("a STRING, b INT", """{"a":"%s",'b':1}""", _EMOJI, _FEW // 2, "good"),
    ("a STRING, b INT", """{"a":"%s",'b':1}""", _EMOJI, _FEW // 2 + 1, {"a": None, "b": 1}),
    ("a STRING, b INT", """{"a":["%s"],'b':1}""", "x", _FEW + 1, {"a": None, "b": 1}),
    ("a STRING, b INT", """{"a":["%s"],'b':1}""", "x", _FEW_BUFFER + 1, {"a": None, "b": None}),
    ("a ARRAY<STRING>, b INT", """{"a":["k","%s"],'b':1}""", "x", _FEW + 1, {"a": None, "b": 1}),
    (
        "a STRUCT<c: STRING, d: INT>, b INT",
        """{"a":{"c":"%s","d":2},'b':1}""",
        "x",
        _FEW + 1,
        {"a": {"c": None, "d": 2}, "b": 1},
    ),
    ("a BOOLEAN, b INT", """{"a":"%s",'b':1}""", "x", _FEW_BUFFER, {"a": None, "b": 1}),
    ("a BOOLEAN, b INT", """{"a":"%s",'b':1}""", "x", _FEW_BUFFER + 1, {"a": None, "b": None}),
    (
        "a STRUCT<c: INT>, b INT",
        """{"a":"%s",'b':1}""",
        "x",
        _FEW_BUFFER + 1,
        {"a": None, "b": None},
    ),
    ("a STRING, b INT", "{'a':'%s','b':1}", "x", _FEW + 1, {"a": None, "b": 1}),
    ("a STRING, b INT", "{'a':'%s','b':1}", "x", _FEW_BUFFER + 1, {"a": None, "b": None}),
    ("b INT", "{'a':'%s','b':1}", "x", _FEW_BUFFER, "good"),
    ("b INT", "{'a':'%s','b':1}", "x", _FEW_BUFFER + 1, {"b": None}),
    ("b INT", """{"a":"%s",'b':1}""", "x", _FEW_BUFFER + 1, "good"),
    ("a BINARY, b INT", """{"a":"%s",'b':1}""", "xxxx", _FEW_BUFFER // 4 + 1, "good"),
]
"""Schema, document, what its text repeats and how often, and Spark's row if it is corrupt.

Each has a single quote: the loops leave it to Python, as they leave a text that may be too long.
"""


@pytest.mark.parametrize(("schema", "document", "of", "count", "expected"), _PLACES)
def test_places_of_texts(
    schema: str, document: str, of: str, count: int, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits hold wherever a column reads a text, here with smaller ones than Jackson's."""
    monkeypatch.setattr(tokens, "STRING_LENGTH_MAX", _FEW)
    monkeypatch.setattr(tokens, "_READ_LENGTH_MAX", _FEW_BUFFER)
    _check(schema, document % (of * count), expected, _FEW)


def _check(schema: str, document: str, expected: Any, limit: int) -> None:
    """Checks the row of a document, and what is wrong with it."""
    using = decoder(schema)
    value = document.encode()
    result = decode(using, [value, b"{}"])
    row = result.values[0].as_py()

    assert result.corrupt.tolist() == [0] * (expected != "good")
    if expected == "good":
        assert 1 == row["b"]
        assert None not in row.values()
    else:
        assert expected == row
        problem = using.problem(value)
        assert problem is not None
        assert f"a string has more than {limit} characters" == problem.what
