"""The tokens of damaged documents: what the parser returns after an error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.formats.json.characters import BadDocument
from kfetch.formats.json.tokens import Token, Tokens

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def _all(text: str) -> list[str]:
    """Returns the names of all tokens, and "!" for each error, up to the second one."""
    tokens, read, errors = Tokens(text), [], 0
    while errors < 2:
        try:
            token = tokens.next()
        except BadDocument:
            read.append("!")
            errors += 1
            continue
        if token is None:
            break
        read.append(token.name)
    return read


@given(_VALUES, st.sampled_from([None, 1]), st.booleans())
def test_every_json_document_is_read_to_its_end(
    value: object, indent: int, ascii_only: bool
) -> None:
    """What Python writes has no error, and its scopes are closed."""
    read = _all(json.dumps(value, indent=indent, ensure_ascii=ascii_only))
    assert "!" not in read
    assert read.count("START_OBJECT") == read.count("END_OBJECT")
    assert read.count("START_ARRAY") == read.count("END_ARRAY")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        # An error in the value behind a name: the next token is none, as at the end.
        ('{"a":tru,"b":1}', ["START_OBJECT", "!"]),
        # An error in an array: the parser goes on behind the unknown word.
        ("[1,tru,2]", ["START_ARRAY", "INTEGER", "!", "INTEGER", "END_ARRAY"]),
        ("[1,2", ["START_ARRAY", "INTEGER", "INTEGER", "!", "!"]),
        ("[1}", ["START_ARRAY", "INTEGER", "!", "!"]),
        ("[01]", ["START_ARRAY", "!", "!"]),
        ("", []),
        ("1 2", ["INTEGER", "INTEGER"]),
    ],
)
def test_errors_leave_the_state_of_jackson(text: str, read: list[str]) -> None:
    """Spark reads on after some errors, so the state behind them counts."""
    assert read == _all(text)


@pytest.mark.parametrize("depth", [1000, 1001])
def test_more_than_1000_levels_are_an_error(depth: int) -> None:
    """Spark's default of maxNestingDepth is 1000."""
    assert (depth > 1000) == ("!" in _all("[" * depth + "]" * depth))


def test_skipping_children_ends_at_the_end_of_the_scope() -> None:
    """Behind it the next entry follows."""
    tokens = Tokens('{"a":[{"b":[]},2],"c":3}')
    read = [tokens.next() for _ in range(3)]
    tokens.skip_children()
    assert [Token.START_OBJECT, Token.NAME, Token.START_ARRAY] == read
    assert (Token.END_ARRAY, "a", Token.NAME) == (tokens.token, tokens.name, tokens.next())
    assert "c" == tokens.name
