"""``offsets replay`` and ``undo`` beside retention: no row is deleted whose record may not come
again. The tables are those of test_table_rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from kfetch.model import TopicPartition
from kfetch_jobs import config
from kfetch_jobs.checkpoints import backup
from kfetch_jobs.checkpoints.backup import OffsetRange
from kfetch_jobs.errors import RecordsLost
from kfetch_jobs.offsets import execution, undo
from kfetch_jobs.run.start_checks import check_replay
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, committed, files, job, offset, planned
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.offsets.test_table_rows import Tables, rows, target
from tests.kfetch_jobs.projects import JOB

Ask = Callable[..., Any]
T0 = TopicPartition("clicks", 0)


class ShrinkingTables(Tables):
    """A log loses records while Spark counts or compares rows."""

    starts: dict[TopicPartition, int]

    def __init__(self, kafka: LittleKafka) -> None:
        super().__init__()
        self.kafka, self.starts = kafka, {}

    def shrink(self) -> None:
        for tp, start in self.starts.items():
            self.kafka.log(tp).start = start

    def count(
        self, ranges: Sequence[OffsetRange], topics: Collection[str], query: str
    ) -> dict[str, dict[OffsetRange, int]]:
        self.shrink()
        return super().count(ranges, topics, query)


@pytest.fixture
def tables(kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch) -> ShrinkingTables:
    """The job's table has what it has read, by micro-batch 7."""
    made = ShrinkingTables(kafka)
    monkeypatch.setattr(execution, "open_rows", made)
    monkeypatch.setattr(undo, "open_rows", made)
    made.write(target(), rows(6, 4))
    return made


def test_records_that_expire_after_the_plan(
    kafka: LittleKafka, asked: Ask, tables: ShrinkingTables
) -> None:
    """The replay names the offsets that could not be read again. Nothing has changed."""
    tables.starts = {T0: 3, TopicPartition("clicks", 1): 1}
    before = files()
    said = asked("replay", "--to-earliest", "--execute", code=1)

    assert (
        "offsets 0 to 2 of clicks-0 can't be read again, because retention has moved the " in said
    )
    assert "start to 3 (1 more partitions have such offsets). Nothing has changed: " in said
    assert (before, rows(6, 4)) == (files(), tables[target()])
    assert [] == backup.all_backups(CHECKPOINT)


def long_log(kafka: LittleKafka, tables: ShrinkingTables) -> None:
    """The job has read 2,000 offsets of a log that begins at 1,000: the margin is 10."""
    kafka.log(T0).append(*[b"a"] * 1990)
    kafka.log(T0).start = 1000
    planned(8, offset(kafka, 2000, 4))
    committed(8)
    tables.write(target(), rows(2000)[6:])


@pytest.mark.parametrize(("start", "code"), [(1005, 0), (1006, 1)])
def test_the_margin(
    kafka: LittleKafka, asked: Ask, tables: ShrinkingTables, start: int, code: int
) -> None:
    """The plan stays away from the log's start, and half of the margin is left at the deletion."""
    long_log(kafka, tables)
    plan = asked("replay", "--to-earliest", "--topic", "clicks:0")
    assert [(2000, 1010)] == [(one["from"], one["to"]) for one in plan["partitions"]]

    tables.starts = {T0: start}
    said = asked("replay", "--to-earliest", "--topic", "clicks:0", "--execute", code=code)
    if code:
        assert "offsets 1010 to 1010 of clicks-0 soon can't be read again, because retentio" in said
    else:
        assert {target(): 990} == said["deleted"]


def test_without_a_margin(kafka: LittleKafka, asked: Ask, tables: ShrinkingTables) -> None:
    """The user may take the risk. What is gone already is still refused."""
    long_log(kafka, tables)
    words = ["replay", "--to-earliest", "--margin", "0", "--topic", "clicks:0", "--execute"]
    tables.starts = {T0: 1001}
    assert "offsets 1000 to 1000 of clicks-0 can't be read again" in asked(*words, code=1)
    assert {target(): 999} == asked(*words)["deleted"]


def test_another_partition_near_its_start(
    kafka: LittleKafka, asked: Ask, tables: ShrinkingTables
) -> None:
    """A partition that does not move loses no rows, so its log start does not matter."""
    kafka.log(T0).start = 6
    asked("replay", "--to-earliest", "--topic", "clicks:1", "--execute")


def test_unread_records_that_expire(
    kafka: LittleKafka, asked: Ask, tables: ShrinkingTables
) -> None:
    """With failOnDataLoss=false they may go, and a replay of another partition changes nothing."""
    job(JOB.replace("includeHeaders: true", "failOnDataLoss: false"))
    asked("replay", "--to-earliest", "--topic", "clicks:1", "--execute")
    kafka.log(T0).start = 8

    check_replay(config.load(config.find(Path.cwd())).job("clicks"))


def test_rows_above_the_position_of_a_partition_that_does_not_move(
    kafka: LittleKafka, asked: Ask, tables: ShrinkingTables
) -> None:
    """A reset has left them, and a replay deletes them. So their records must be there, too."""
    asked("reset", "--to-earliest", "--topic", "clicks:0", "--execute")
    tables.starts = {T0: 4}
    said = asked("replay", "--to-earliest", "--topic", "clicks:1", "--execute", code=1)

    assert "of clicks-0 can't be read again, because retention has moved" in said
    assert rows(6, 4) == tables[target()]
    tables.starts = {}
    kafka.log(T0).start = 0
    asked("replay", "--to-earliest", "--topic", "clicks:1", "--execute")
    moved = backup.last_move(CHECKPOINT)
    assert moved is not None
    assert {0, 1} == {one.partition for one in moved.ranges}


def test_an_undo_before_a_run_needs_no_kafka(
    kafka: LittleKafka, asked: Ask, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job has read nothing since, so nothing comes again."""
    asked("replay", "--to-earliest", "--execute")
    monkeypatch.setenv("SERVERS", "127.0.0.1:1")

    assert asked("undo", "--execute")["executed"]
    assert rows(6, 4) == tables[target()]


@pytest.mark.parametrize(("lenient", "ran"), [(True, False), (True, True), (False, False)])
def test_records_that_expire_before_the_run(
    kafka: LittleKafka, asked: Ask, tables: Tables, lenient: bool, ran: bool
) -> None:
    """With failOnDataLoss=false, the first run after a replay refuses, and an undo restores the
    rows. With true the source refuses itself. A later run does not look."""
    job(JOB.replace("includeHeaders: true", f"failOnDataLoss: {str(not lenient).lower()}"))
    asked("replay", "--to-earliest", "--execute")
    if ran:
        planned(9, offset(kafka, 10, 4))
        committed(9)
    kafka.log(T0).start = 3
    the_job = config.load(config.find(Path.cwd())).job("clicks")
    if ran or not lenient:
        check_replay(the_job)
        return
    with pytest.raises(RecordsLost, match=r"offsets 0 to 2 of clicks-0 .*offsets undo clicks"):
        check_replay(the_job)
    asked("undo", "--execute")
    check_replay(the_job)
    assert rows(6, 4) == tables[target()]


def test_progress(kafka: LittleKafka, asked: Ask, tables: Tables, kfetch: Command) -> None:
    """Both print each step as it begins, to stderr."""
    said = kfetch("offsets", "replay", "clicks", "--to-earliest", "--execute")[2]
    assert [
        "kfetch: starting Spark, for the tables …",
        f"kfetch: counting the rows of these offsets in {target()} …",
        "kfetch: asking Kafka once more for the log starts …",
        f"kfetch: deleting 10 rows from {target()} …",
    ] == said.splitlines()

    said = kfetch("offsets", "undo", "clicks", "--execute")[2]
    assert [
        "kfetch: starting Spark, for the tables …",
        f"kfetch: restoring {target()} to version 1 …",
        "kfetch: restoring the checkpoint …",
    ] == said.splitlines()
