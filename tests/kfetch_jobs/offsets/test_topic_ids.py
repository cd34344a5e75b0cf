"""``offsets replay`` and ``undo`` of a topic that was deleted and created again.

The table has rows of both topics, and a filter may hide those of the earlier one from any count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kfetch_jobs import config
from kfetch_jobs.checkpoints import backup
from kfetch_jobs.checkpoints.backup import OffsetRange
from kfetch_jobs.checkpoints.checkpoint import read_checkpoint
from kfetch_jobs.checkpoints.origin import note_origin, noted_topic_ids
from kfetch_jobs.config import Job
from kfetch_jobs.errors import RecordsLost
from kfetch_jobs.offsets import execution, undo
from kfetch_jobs.run.query_recorder import QueryRecorder
from kfetch_jobs.run.start_checks import check_replay
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, committed, files, job, offset, planned
from tests.kfetch_jobs.offsets.test_table_rows import Tables, rows, target
from tests.kfetch_jobs.progress.test_spark_progress import TOLD
from tests.kfetch_jobs.projects import JOB

Ask = Callable[..., Any]
EARLIER = UUID(int=7)
NOTE = Path(f"{CHECKPOINT}.origin.json")


class RecreatedTables(Tables):
    """Somebody creates the topic again while Spark counts the rows."""

    kafka: LittleKafka | None = None

    def count(
        self, ranges: Sequence[OffsetRange], topics: Collection[str], query: str
    ) -> dict[str, dict[OffsetRange, int]]:
        if self.kafka:
            self.kafka.topics["clicks"].topic_id = EARLIER
        return super().count(ranges, topics, query)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> RecreatedTables:
    """The job's table has what it has read, by micro-batch 7."""
    made = RecreatedTables()
    monkeypatch.setattr(execution, "open_rows", made)
    monkeypatch.setattr(undo, "open_rows", made)
    made.write(target(), rows(6, 4))
    return made


def the_job() -> Job:
    return config.load(config.find(Path.cwd())).job("clicks")


def of_earlier(kafka: LittleKafka, *positions: int) -> dict[str, Any]:
    end = offset(kafka, *positions)
    end["topics"]["clicks"]["id"] = EARLIER.hex
    return end


def in_the_checkpoint(kafka: LittleKafka) -> None:
    planned(5, of_earlier(kafka, 9, 9))
    committed(5)


def in_a_backup(kafka: LittleKafka) -> None:
    """The job was reset past the loss, and has run a hundred times since."""
    in_the_checkpoint(kafka)
    made = backup.create_backup(read_checkpoint(CHECKPOINT), "reset", 6, (), 1.0)
    made.record_stage(backup.Stage.DONE)
    forgotten()


def in_the_note(kafka: LittleKafka) -> None:
    """A run has started since, and Spark has removed the old micro-batches."""
    in_the_checkpoint(kafka)
    note_origin(the_job(), {})
    forgotten()


def by_a_run(kafka: LittleKafka) -> None:
    """The topic changed within a run that went on for days."""
    note_origin(the_job(), {})
    recorder = QueryRecorder(the_job(), lambda _: None)
    for end in (of_earlier(kafka, 9, 9), offset(kafka, 6, 4)):
        sources = [{"endOffset": end, "latestOffset": end}]
        recorder.record_progress(TOLD | {"runId": "1", "id": "2", "sources": sources})


def as_left(kafka: LittleKafka) -> None:
    """The topic left the query, and came back as another one."""
    left = {"clicks": {"id": EARLIER.hex, "partitions": {"0": [9, 0, 1_700_000_000]}}}
    planned(8, offset(kafka, 6, 4, left=left))
    committed(8)


def forgotten() -> None:
    for log in ("offsets", "commits"):
        (CHECKPOINT / log / "5").unlink()


@pytest.mark.parametrize("trace", [in_the_checkpoint, in_a_backup, in_the_note, by_a_run, as_left])
def test_rows_of_an_earlier_topic(
    kafka: LittleKafka, asked: Ask, tables: Tables, trace: Callable[[LittleKafka], None]
) -> None:
    """The plan is refused already, and nothing changes. A reset does not change the table."""
    trace(kafka)
    before = files()
    for words in (["--to-earliest"], ["--to-earliest", "--several-rows", "--execute"]):
        said = asked("replay", *words, code=1)
        assert "topic clicks was deleted and created again, and the job has read the e" in said
        assert f"(id {EARLIER.hex}): a replay would delete its rows, and can't" in said
        assert "use kfetch offsets reset, which does not change the table" in said

    assert (before, rows(6, 4)) == (files(), tables[target()])
    asked("reset", "--to-earliest", "--execute")


def test_moves_that_delete_nothing(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """A merge replaces its rows, and no row of other offsets goes."""
    in_the_checkpoint(kafka)
    asked("replay", "--shift-by", "0", "--execute")
    job(JOB.replace("format: delta", "mode: merge\n  keys: key\n  latestBy: offset"))
    asked("replay", "--to-earliest", "--execute")


def test_the_move_keeps_the_ids(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """So the ranges of a replay belong to one topic for good."""
    asked("replay", "--to-earliest", "--execute")

    (move,) = backup.all_backups(CHECKPOINT)
    assert {"clicks": kafka.topics["clicks"].topic_id.hex} == move.topic_ids
    record = json.loads((move.path / "move.json").read_text())
    del record["topic_ids"]
    (move.path / "move.json").write_text(json.dumps(record))
    assert {} == backup.all_backups(CHECKPOINT)[0].topic_ids


def test_created_again_after_the_plan(
    kafka: LittleKafka, asked: Ask, tables: RecreatedTables
) -> None:
    """kfetch asks for the topic's id once more before it deletes, and deletes nothing."""
    tables.kafka, before = kafka, files()
    said = asked("replay", "--to-earliest", "--execute", code=1)

    assert "can't be read again, because the topic was deleted and created again" in said
    assert "Nothing has changed: " in said
    assert "--margin" not in said
    assert (before, rows(6, 4)) == (files(), tables[target()])


def test_created_again_before_the_run(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """With failOnDataLoss=false the source would begin the new one. An undo restores the rows."""
    job(JOB.replace("includeHeaders: true", "failOnDataLoss: false"))
    asked("replay", "--to-earliest", "--execute")
    check_replay(the_job())
    kafka.topics["clicks"].topic_id = EARLIER
    with pytest.raises(RecordsLost, match=r"created again .* The replay has .*offsets undo"):
        check_replay(the_job())

    asked("undo", "--execute")
    assert rows(6, 4) == tables[target()]


def test_a_note_that_somebody_changed(kafka: LittleKafka) -> None:
    """Anything but ids by topic counts as none."""
    note_origin(the_job(), {})
    present = kafka.topics["clicks"].topic_id.hex
    assert {"clicks": {present}} == noted_topic_ids(the_job())
    NOTE.write_text(json.dumps(json.loads(NOTE.read_text()) | {"topicIds": [1]}))
    assert {} == noted_topic_ids(the_job())


def test_partitions_that_the_job_has_not_read(
    kafka: LittleKafka, asked: Ask, tables: Tables
) -> None:
    """Another topic of the job does not matter: the replay deletes no row of it."""
    in_the_checkpoint(kafka)
    kafka.create("users")[0].append(b"u", b"v")
    job(JOB.replace("subscribe: clicks", "subscribe: clicks,users"))
    end = offset(kafka, 6, 4)
    users = kafka.topics["users"].topic_id.hex
    end["topics"]["users"] = {"id": users, "partitions": {"0": [2, 0]}}
    planned(8, end)
    committed(8)

    asked("replay", "--to-earliest", "--topic", "users")


def test_another_topic_of_the_job(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """A replay deletes each row above the job's position, also of a topic that does not move. Those
    of the earlier topic can't come again."""
    views = kafka.create("views", 1)[0]
    views.append(*[b"v"] * 20)
    job(JOB.replace("subscribe: clicks", "subscribe: clicks,views"))
    for number, id_, at in ((5, EARLIER, 15), (8, kafka.topics["views"].topic_id, 4)):
        end = offset(kafka, 6, 4)
        end["topics"]["views"] = {"id": id_.hex, "partitions": {"0": [at, 0]}}
        planned(number, end)
        committed(number)
    tables.write(target(), [("views", 0, at) for at in range(15)])
    before, after = files(), tables[target()]
    words = ["replay", "--to-earliest", "--topic", "clicks", "--several-rows", "--execute"]

    assert "topic views was deleted and created again" in asked(*words, code=1)
    assert (before, after) == (files(), tables[target()])
    tables.write(target(), [])
    tables.histories[target()][-1] = rows(6, 4)
    assert {target(): 10} == asked(*words)["deleted"]
