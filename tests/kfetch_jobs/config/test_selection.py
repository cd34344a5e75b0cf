"""Which SQL tasks can do without Spark, and the first clause that needs it."""

from __future__ import annotations

from typing import Any

import pytest

from kfetch_jobs.config.selection import NeedsSpark, read_select, resolved
from tests.kfetch.delta.tables import field

_ROW: Any = {"type": "struct", "fields": [field("id"), field("at", "timestamp")]}
COLUMNS = {
    "event": field("value", {"type": "struct", "fields": [field("row", _ROW), field("x")]}),
    "Offset": field("offset"),
    "timestamp": field("timestamp", "timestamp"),
}


def selected(sql: str) -> dict[str, str]:
    """What a query over the view ``source`` selects."""
    alias, items = read_select(sql, "source")
    return resolved(items, alias, COLUMNS)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("*", {"event": "value", "Offset": "offset", "timestamp": "timestamp"}),
        ("event.*, offset", {"row": "value.row", "x": "value.x", "offset": "offset"}),
        ("event.row.*", {"id": "value.row.id", "at": "value.row.at"}),
        ("source.EVENT.row.ID", {"ID": "value.row.ID"}),
        ("s.offset o FROM source AS s", {"o": "offset"}),
        ("`event`.`row`.id AS `key` -- a word\n", {"key": "value.row.id"}),
        ("source.*", {"event": "value", "Offset": "offset", "timestamp": "timestamp"}),
        (
            "date(timestamp) AS a, to_date(timestamp) b, CAST(event.row.at AS DATE) c",
            {"a": "date(timestamp)", "b": "date(timestamp)", "c": "date(value.row.at)"},
        ),
        (
            "year(timestamp) AS y, month(timestamp) m, hour(event.row.at) AS h",
            {"y": "year(timestamp)", "m": "month(timestamp)", "h": "hour(value.row.at)"},
        ),
    ],
)
def test_what_tasks_can_do(sql: str, expected: dict[str, str]) -> None:
    """Columns, fields of structs, stars, other names, and four functions of times. A name is
    written as in the query, as Spark does."""
    sql = sql if "FROM" in sql else f"{sql} FROM source"

    assert expected == selected(f"SELECT {sql}")
    assert [*expected] == [*selected(f"select {sql};")]


@pytest.mark.parametrize(
    ("sql", "clause"),
    [
        ("SELECT offset FROM source WHERE offset > 1", "WHERE"),
        ("SELECT DISTINCT offset FROM source", "DISTINCT"),
        ("SELECT offset FROM source LIMIT 1", "LIMIT"),
        ("SELECT offset FROM source ORDER BY 1", "ORDER"),
        ("SELECT offset FROM source GROUP BY ALL", "GROUP"),
        ("SELECT offset FROM source HAVING offset > 1", "HAVING"),
        ("SELECT offset FROM source, other", "JOINS"),
        ("SELECT offset FROM source JOIN users USING (id)", "JOINS"),
        ("SELECT offset FROM source LATERAL VIEW explode(x) t AS c", "LATERALS"),
        ("SELECT /*+ REPARTITION(3) */ offset FROM source", "HINT"),
        ("WITH t AS (SELECT 1) SELECT offset FROM source", "WITH"),
        ("SELECT offset FROM source TABLESAMPLE (1 PERCENT)", "SAMPLE"),
        ("SELECT offset FROM source AS s(a, b)", "COLUMNS"),
        ("SELECT offset FROM (SELECT * FROM source)", "FROM (SELECT * FROM source)"),
        ("SELECT offset FROM users", "FROM users"),
        ("SELECT offset FROM lake.source", "DB"),
        ("SELECT 1", "a SELECT without FROM"),
        ("SELECT * FROM source UNION ALL SELECT * FROM source", "SQL that is no plain SELECT"),
        ("FROM source SELECT offset; SELECT 1", "SQL that is no plain SELECT"),
        ("VALUES (1)", "SQL that is no plain SELECT"),
        ("SELECT offset FROM", "SQL that kfetch does not read"),
        ("SELECT 'a FROM source", "SQL that kfetch does not read"),
        ("SELECT * EXCEPT (offset) FROM source", "EXCEPT"),
        ("SELECT upper(offset) AS o FROM source", "UPPER(offset)"),
        ("SELECT offset + 1 AS o FROM source", "offset + 1"),
        ("SELECT 'x' AS o FROM source", "'x'"),
        ("SELECT event['x'] AS o FROM source", "event['x']"),
        ("SELECT CAST(offset AS INT) o FROM source", "CAST(offset AS INT)"),
        ("SELECT to_date(timestamp, 'yyyy') o FROM source", "TO_DATE(timestamp, 'yyyy')"),
        ("SELECT date(timestamp) FROM source", "CAST(timestamp AS DATE) without a name"),
        ("SELECT date(upper(offset)) d FROM source", "UPPER(offset)"),
        ("SELECT minute(timestamp) m FROM source", "MINUTE(timestamp)"),
        ("SELECT offset AS `a b` FROM source", "the name `a b`"),
        ("SELECT event:x FROM source", "the name :x"),
        ("SELECT event.`a.b` FROM source", "the name `a.b`"),
        ("SELECT key FROM source", "the name key"),
        ("SELECT source FROM source", "the name source"),
        ("SELECT event.offset FROM source event", "the name event, of the view and of a column"),
        ("SELECT offset, Offset FROM source", "two columns named Offset"),
        ("SELECT offset.* FROM source", "a star behind what is no struct"),
        ("SELECT event.rows.* FROM source", "a star behind what is no struct"),
        ("SELECT current_date() AS d FROM source", "CURRENT_DATE"),
    ],
)
def test_what_needs_spark(sql: str, clause: str) -> None:
    """The clause is the first one that tasks can't do."""
    with pytest.raises(NeedsSpark) as caught:
        selected(sql)

    assert clause in str(caught.value)


@pytest.mark.parametrize("name", ["user.id", "user\u00a0"])
@pytest.mark.parametrize("star", ["*", "value.*"])
def test_a_name_that_stands_for_another_path(star: str, name: str) -> None:
    """A star may bring a name with a dot, or with a blank that kfetch leaves out. As text, it would
    be the path of another field."""
    user = {"type": "struct", "fields": [field("id")]}
    fields = [field(name), field("user", user)]
    row = {"value": field("value", {"type": "struct", "fields": fields})}
    columns = {one["name"]: one for one in fields} if star == "*" else row

    with pytest.raises(NeedsSpark, match=f"the name .*{name}"):
        resolved(read_select(f"SELECT {star} FROM source", "source")[1], "source", columns)
