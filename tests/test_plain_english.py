"""The linter of documents: what a sentence is, and which rules it knows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.plain_english import RULES, problems, sentences

WORD = st.text("abcdefgh", min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("One two. Three four.", ["One two.", "Three four."]),
        ("One two. kfetch reads.", ["One two.", "kfetch reads."]),
        ("A line\nthat goes on.", ["A line that goes on."]),
        ("- one\n- two\n  goes on", ["one", "two goes on"]),
        ("1. one\n2. two", ["one", "two"]),
        ("See [the page](x.md#y) and `a b c`.", ["See the page and code."]),
        ("# Heading\n\nText.\n\n| a | b |\n\n![picture](x.png)", ["Text."]),
        ("Before.\n\n```python\nx = 1. Y = 2.\n```\n\nAfter.", ["Before.", "After."]),
        ("Before.\n\n    indented = code\n\nAfter.", ["Before.", "After."]),
        ("e.g. this goes on", ["e.g. this goes on"]),
    ],
)
def test_sentences(markdown: str, expected: list[str]) -> None:
    """Prose is split at the ends of sentences. Code, tables and headings are no prose."""
    assert expected == [sentence.text for sentence in sentences(markdown)]


def test_lines_are_those_of_the_paragraph() -> None:
    """A problem names the line where its paragraph starts."""
    assert [1, 4, 6] == [one.line for one in sentences("One.\n\n\nTwo\ngoes on.\n- Three.")]


@given(st.lists(WORD, min_size=1, max_size=80))
def test_long_sentences(words: list[str]) -> None:
    """A sentence is wrong exactly if it has more words than the rule."""
    found = [*problems(" ".join(words).capitalize() + ".", replace(RULES, words={}))]

    assert (len(words) > RULES.words_max) is bool(found)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("You utilize it.", "1: 'utilize': use"),
        ("In order to read.", "1: 'In order to': to"),
        ("Simply read it.", "1: 'Simply': leave the word out"),
        ("It shallow reads.", None),
        ("Call `utilize`.", None),
    ],
)
def test_words(text: str, advice: str | None) -> None:
    """A word with a simpler one is wrong in prose, whatever its case, and not within code."""
    assert ([advice] if advice else []) == [*problems(text)]


@pytest.mark.parametrize(("long", "wrong"), [(1, False), (2, True)])
def test_the_share_of_long_sentences(long: int, wrong: bool) -> None:
    """One of ten sentences may be long, and two may not. A short file has no share."""
    text = ["Short one here."] * (10 - long) + ["A" + " b" * 30 + "."] * long

    assert wrong is any("% of the sentences" in one for one in problems("\n\n".join(text)))
    assert [] == [*problems("A" + " b" * 30 + ".")]


def test_documents_follow_the_rules() -> None:
    """`make lint` finds nothing in the documents."""
    assert {} == {
        path: found for path in RULES.documents() if (found := [*problems(path.read_text())])
    }
