"""The Avro decoder against Spark's recorded results for edge cases."""

from __future__ import annotations

import pytest

from kfetch.errors import OptionError
from tests.kfetch.formats.avro.cases import GROUPS, Group, asks_for_java_text, comparable, decode
from tests.kfetch.formats.avro.cases import decoder as decoder_of
from tests.kfetch.formats.json.plain import plain


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_the_decoder_gives_the_rows_of_spark(group: Group) -> None:
    """Values and nulls are those of Spark 4.2. Pairs that never fit are an error before that."""
    try:
        using = decoder_of(group.writer, group.reader)
    except OptionError:
        rows = [row for row in group.rows if row is not None]
        assert all(value is None for row in rows for value in row.values())
        return
    values = decode(using, group.documents).values
    values.validate()
    java_text = asks_for_java_text([group.writer, group.reader])
    expected, actual = (
        [comparable(row, java_text=java_text) for row in rows]
        for rows in (group.rows, plain(values))
    )
    assert expected == actual
