"""Text of bytes that are not UTF-8 is that of Java's String."""

from __future__ import annotations

import random

import pytest

from integration.interop.java import HERE, java
from kfetch.records.java_text import java_text
from tests.kfetch.records.java_texts import TEXTS

pytestmark = pytest.mark.integration

# Bytes on both sides of each border in the grammar of UTF-8.
_BORDERS = bytes.fromhex("41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff")


def test_the_text_is_javas() -> None:
    """The unit tests' table and 5,000 random strings have the characters that Java's String has."""
    rng = random.Random(28)
    strings = [bytes(rng.choices(_BORDERS, k=rng.randint(1, 8))) for _ in range(5_000)]
    strings += [bytes([0xED, *rng.choices(_BORDERS, k=3)]) for _ in range(500)]
    strings += TEXTS
    printed = java(HERE / "Texts.java", *[data.hex() for data in strings]).splitlines()
    texts = [bytes.fromhex(line).decode("utf-16-be") for line in printed]

    assert texts == [java_text(data) for data in strings]
    assert texts[-len(TEXTS) :] == [*TEXTS.values()]
