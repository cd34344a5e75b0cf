"""``offsets replay`` and ``undo`` beside rows of other topics, queries and jobs: those rows stay.

The tables are those of test_table_rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kfetch_jobs.checkpoints import backup
from kfetch_jobs.checkpoints.backup import Stage
from kfetch_jobs.checkpoints.origin import note_origin
from kfetch_jobs.offsets.table_rows import needs_topic
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, committed, files, job, planned
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.offsets.test_table_rows import (
    BOTH,
    Tables,
    another_job,
    dead,
    rows,
    shared_dead_letters,
    target,
    the_project,
)
from tests.kfetch_jobs.offsets.test_table_rows import tables as tables

Ask = Callable[..., Any]
OLD = UUID(int=77)
SECRET = "  options:\n    kafka.sasl.password: ${env:ORDERS_PASSWORD}\n"
ORDERS = Path("data/orders/checkpoint")


def half(topic: str) -> list[tuple[str, int, int]]:
    """Every other row: a filter drops the rest. So no count shows the rows of two topics."""
    return [row for row in rows(6, 4, topic=topic) if row[2] % 2 == 0]


def test_a_job_whose_file_can_not_be_read(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """It may write to the same table, and may run. The error names the job and the mistake. A reset
    and a merge delete nothing."""
    another_job()
    orders = Path("conf/jobs/orders.yml")
    readable = orders.read_text()
    asked("replay", "--to-earliest", "--execute")
    orders.write_text(readable.replace("  options:\n", SECRET))
    before = files()
    for words in (["replay", "--shift-by=-1"], ["replay", "--shift-by=-1", "--execute"], ["undo"]):
        said = asked(*words, code=1)
        assert "nobody can tell whether job orders writes to the same table: " in said
        assert "ORDERS_PASSWORD" in said

    assert before == files()
    asked("reset", "--to-latest")
    merge = BOTH.replace("format: delta", "mode: merge\n  keys: key\n  latestBy: offset")
    job(merge.replace("  deadLetters:\n    path: ${storage}/dead\n", ""))
    asked("replay", "--shift-by=-1")


def an_earlier_topic(kafka: LittleKafka, tables: Tables) -> None:
    """The job has read topic ``old``, and its file names ``clicks`` by now."""
    parts = {"0": [6, 0], "1": [4, 0]}
    planned(5, {"version": 1, "topics": {"old": {"id": OLD.hex, "partitions": parts}}})
    committed(5)


def an_earlier_topic_without_id(kafka: LittleKafka, tables: Tables) -> None:
    """Its broker was older than Kafka 2.8. Only the note of the runs has it by now."""
    planned(5, {"old": {"0": 6, "1": 4}})
    committed(5)
    note_origin(the_project().job("clicks"), {})
    for log in ("offsets", "commits"):
        (CHECKPOINT / log / "5").unlink()


def a_job_that_is_gone(kafka: LittleKafka, tables: Tables) -> None:
    """The file of a job that wrote to the same table was deleted."""
    tables.queries[target()] = {"": 7, "another": 3}


def a_table_of_unknown_origin(kafka: LittleKafka, tables: Tables) -> None:
    """A copy of a table records no queries."""
    tables.queries[target()] = {}


@pytest.mark.parametrize(
    "origin",
    [
        an_earlier_topic,
        an_earlier_topic_without_id,
        a_job_that_is_gone,
        a_table_of_unknown_origin,
    ],
)
def test_rows_of_another_topic(
    kafka: LittleKafka,
    asked: Ask,
    tables: Tables,
    origin: Callable[[LittleKafka, Tables], None],
) -> None:
    """They stay, though the job does not read that topic now."""
    origin(kafka, tables)
    tables.histories[target()] = [[], half("clicks") + half("old")]
    told = asked("replay", "--to-earliest", "--execute")

    assert {target(): 5} == told["deleted"]
    assert half("old") == tables[target()]


def test_rows_of_another_query(
    kafka: LittleKafka, kfetch: Command, asked: Ask, tables: Tables
) -> None:
    """Nobody can tell them apart if topic and offsets are the same. The plan says so, and the move
    says how many queries have written before it deletes anything. The job goes on."""
    words = ("offsets", "replay", "clicks", "--to-earliest")
    assert f"these offsets in {target()}, whichever query wrote them" in kfetch(*words)[1]
    a_job_that_is_gone(kafka, tables)
    code, _, steps = kfetch(*words, "--execute")

    first, then = (steps.index(word) for word in (f"{target()} also has", "deleting"))
    said = f"{target()} also has rows of 1 other query: those of these topics and offsets go too"
    assert (0, True, True) == (code, said in steps, first < then)
    tables.write(target(), rows(6, 4))
    assert {target(): ["another"]} == asked("replay", "--to-earliest", "--execute")["other_queries"]


@pytest.mark.parametrize(
    ("topics", "queries", "needed"),
    [
        ({"clicks"}, {"q"}, False),
        ({"clicks"}, {"q", "r"}, True),
        ({"clicks"}, {"r"}, True),
        ({"clicks"}, set(), True),
        ({"clicks", "old"}, {"q"}, True),
    ],
)
def test_when_the_topic_decides(topics: set[str], queries: set[str], needed: bool) -> None:
    """A table without a column topic can be replayed if it has one query's one topic."""
    assert needed == needs_topic(topics, queries, "q")


def orders_wrote(tables: Tables) -> None:
    """Job orders goes on, by a clock that is far behind."""
    tables.write(dead(), [("orders", 0, 3)])
    tables.queries[dead()] = {"": 7, "orders": 1}
    for log in ("offsets", "commits"):
        (ORDERS / log).mkdir(parents=True)
        (ORDERS / log / "1").touch()
        os.utime(ORDERS / log / "1", (1.0, 1.0))


def test_another_job_wrote_since(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """An undo would take its rows away. The table's log tells, and no clock matters."""
    shared_dead_letters(tables)
    asked("replay", "--to-earliest", "--execute")
    orders_wrote(tables)
    after = tables[dead()]

    said = asked("undo", "--execute", code=1)
    assert f"another query than this job's has written to {dead()} since" in said
    assert "would take those rows away: let the job go on as it is, or restore its rows" in said
    backup.all_backups(CHECKPOINT)[-1].record_stage(Stage.UNDOING)
    assert "take those rows away: restore its rows" in asked("undo", "--execute", code=1)
    assert after == tables[dead()]


@pytest.mark.parametrize(("queries", "code"), [({"": 7}, 0), ({"": 7, "orders": 0}, 1)])
def test_the_record_of_an_older_kfetch(
    kafka: LittleKafka, asked: Ask, tables: Tables, queries: dict[str, int], code: int
) -> None:
    """It does not say who wrote before. So a table of one job goes back, and a shared one does not
    without a look."""
    asked("replay", "--to-earliest", "--execute")
    (move,) = backup.all_backups(CHECKPOINT)
    record = json.loads((move.path / "move.json").read_text())
    assert {"": 7} == record["tables"][0].pop("queries")
    (move.path / "move.json").write_text(json.dumps(record))

    tables.queries[target()] = queries
    said = asked("undo", "--execute", code=code)
    may = f"may have written to {target()} since (the record of the move does not say who wrote bef"
    assert not code or may in said
    assert ([] if code else rows(6, 4)) == tables[target()]


def test_another_job_that_has_read_the_topic(
    kafka: LittleKafka, asked: Ask, tables: Tables
) -> None:
    """Its rows may be of a topic that it does not read any more. Nobody can tell whose they are."""
    job(BOTH)
    another_job()
    log = ORDERS / "offsets"
    log.mkdir(parents=True)
    text = (CHECKPOINT / "offsets" / "7").read_text()
    (log / "0").write_text(text)
    (log / "1").write_text(text.replace("clicks", "orders"))

    said = asked("replay", "--to-earliest", "--execute", code=1)
    assert "job orders writes rows of topic clicks to the same table" in said
