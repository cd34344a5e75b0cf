"""Text of bytes that are not UTF-8, as Java has it."""

from __future__ import annotations

import pytest

from kfetch.records.java_text import java_text
from tests.kfetch.records.java_texts import TEXTS


@pytest.mark.parametrize("data", TEXTS)
def test_text(data: bytes) -> None:
    """Java has one U+FFFD for half a surrogate pair, Python up to three."""
    assert TEXTS[data] == java_text(data)
