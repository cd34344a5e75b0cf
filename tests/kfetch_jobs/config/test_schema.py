"""The JSON Schema that editors show while somebody writes YAML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kfetch_jobs.config.schema import KINDS, schema


def objects(part: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a schema."""
    if isinstance(part, dict):
        yield part
    for inside in (
        part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    ):
        yield from objects(inside)


@pytest.mark.parametrize("kind", KINDS)
def test_editors_show_no_invented_names(kind: str) -> None:
    """A key has no title such as Lagrecords: editors would show it in place of lagRecords."""
    generated = schema(kind)
    keys = [key for part in objects(generated) for key in part.get("properties", {}).values()]
    assert keys
    assert not [key["title"] for key in keys if "title" in key]


@pytest.mark.parametrize("kind", KINDS)
def test_descriptions_are_markdown(kind: str) -> None:
    """Code in a description stands between single back-quotes."""
    texts = [str(part.get("description", "")) for part in objects(schema(kind))]
    assert any("`" in text for text in texts)
    assert not [text for text in texts if "``" in text]
