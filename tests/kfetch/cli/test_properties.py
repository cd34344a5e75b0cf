"""Files of properties, as Java's ``Properties.load`` reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.cli.properties import parse_properties
from kfetch.options.catalogue import lookup


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a=b", {"kafka.a": "b"}),
        ("kafka.a=b\nkfetch.c=d", {"kafka.a": "b", "kfetch.c": "d"}),
        ("a : b=c", {"kafka.a": "b=c"}),
        ("a b", {"kafka.a": "b"}),
        ("a", {"kafka.a": ""}),
        ("a=", {"kafka.a": ""}),
        ("# a=b\n! c=d\n\n  e=f  ", {"kafka.e": "f  "}),
        ("a=b \\\n   c", {"kafka.a": "b c"}),
        ("a=b\\\\\nc=d", {"kafka.a": "b\\", "kafka.c": "d"}),
        ("a=b\\", {"kafka.a": "b"}),
        ("a\\:b=\\u00e9\\n\\t\\=", {"kafka.a:b": "é\n\t="}),
        ("a=\\ud83d\\ude00 \\uD83D!", {"kafka.a": "\U0001f600 \ufffd!"}),
        ('jaas=x required u="a=b";', {"kafka.jaas": 'x required u="a=b";'}),
        ("a=1\r\na=2", {"kafka.a": "2"}),
        ("subscribe=t\nstartingOffsets=latest", {"subscribe": "t", "startingOffsets": "latest"}),
    ],
)
def test_forms(text: str, options: dict[str, str]) -> None:
    """Separators, comments, long lines and escapes are Java's.

    Names of Kafka's properties get ``kafka.`` in front, and options of the source stay.
    """
    assert options == parse_properties(text)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """No text is an error: a line without a separator is a name without a value."""
    names = parse_properties(text)
    assert all(name.startswith(("kafka.", "kfetch.")) or lookup(name) for name in names)


@given(st.text(alphabet=st.characters(exclude_categories=["C", "Z"]), min_size=1))
def test_values_come_back(value: str) -> None:
    """A value survives when its backslashes are doubled, as Java writes them."""
    assert {"kafka.a": value} == parse_properties("a=" + value.replace("\\", "\\\\"))
