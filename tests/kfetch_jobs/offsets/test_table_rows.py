"""``offsets replay`` and ``undo`` beside tables: no row is there twice and none is lost, or they
refuse. A table here is its versions, each a list of rows; Delta's part is in integration/running.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kfetch.model import TopicPartition
from kfetch_jobs import config
from kfetch_jobs.checkpoints import backup
from kfetch_jobs.checkpoints.backup import OffsetRange, TableVersion
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.offsets import execution, undo
from kfetch_jobs.offsets.moves import Verb
from kfetch_jobs.offsets.plan import plan_move as plan_of
from kfetch_jobs.offsets.table_rows import place_columns
from kfetch_jobs.offsets.target import EARLIEST, shifted
from kfetch_jobs.progress.batch import Batch, RowsDeleted, RowsRestored, parse_line
from kfetch_jobs.progress.progress_file import append_entry
from kfetch_jobs.run.tables import unfenced
from kfetch_jobs.util.files import try_lock
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, committed, files, job, offset, planned, stands
from tests.kfetch_jobs.projects import JOB

Ask = Callable[..., Any]
Row = tuple[str, int, int]
"""Topic, partition, offset."""
DEAD = "  deadLetters:\n    path: ${storage}/dead\n"
BOTH = JOB.replace("trigger:", DEAD + "trigger:").replace(
    "  options:", "  decode: {fields: id BIGINT}\n  options:"
)


def rows(*counts: int, topic: str = "clicks") -> list[Row]:
    """One row for each offset of each partition below a count."""
    return [(topic, n, at) for n, count in enumerate(counts) for at in range(count)]


class Tables:
    """What ``table.Rows`` does with Delta's."""

    def __init__(self) -> None:
        self.histories: dict[str, list[list[Row]]] = {}
        self.foreign: list[Row] = []
        """Somebody adds them between a count and a deletion."""
        self.vacuumed: set[str] = set()
        self.queries: dict[str, dict[str, int]] = {}
        """The last micro-batch of each query that a log names, if not of this job alone."""
        self.misfit = ""
        """Why the table can't have the columns of the transform."""

    @contextmanager
    def __call__(self, job: Job) -> Iterator[Tables]:
        self.names = self.histories.keys() & {str(place) for place in job.appended_tables}
        yield self

    def write(self, name: str, more: Iterable[Row]) -> None:
        self.histories.setdefault(name, [[]]).append([*self[name], *more])

    def __getitem__(self, name: str) -> list[Row]:
        return self.histories.get(name, [[]])[-1]

    def check_result(self) -> None:
        if self.misfit:
            raise ConfigError(self.misfit)

    def has_rows(self, name: str) -> bool:
        return bool(self[name])

    def count(
        self, ranges: Sequence[OffsetRange], topics: Collection[str], query: str
    ) -> dict[str, dict[OffsetRange, int]]:
        read = topics, query
        counts = {
            name: {one: len(found) for one in ranges if (found := self._of(name, [one], *read))}
            for name in self.names
        }
        for name in self.names if self.foreign else ():
            self.write(name, self.foreign)
        return counts

    def versions(self, names: Collection[str]) -> list[TableVersion]:
        return [
            TableVersion(
                name=name,
                by_name=False,
                version=len(self.histories[name]) - 1,
                queries=self._queries(name),
            )
            for name in sorted(names)
        ]

    def queries_of(self, table: TableVersion) -> Mapping[str, int]:
        return self._queries(table.name)

    def _queries(self, name: str) -> Mapping[str, int]:
        return self.queries.get(name, {"": 7})

    def delete(
        self, ranges: Sequence[OffsetRange], topics: Collection[str], query: str, name: str
    ) -> int:
        gone = self._of(name, ranges, topics, query)
        self.histories[name].append([row for row in self[name] if row not in gone])
        return len(gone)

    def version(self, table: TableVersion) -> int:
        return len(self.histories[table.name]) - 1

    def restore(self, table: TableVersion, way_out: str) -> None:
        if table.name in self.vacuumed:
            raise JobsError(f"Delta refuses: a file of that version is gone: {way_out}")
        self.histories[table.name].append(self.histories[table.name][table.version])

    def _of(
        self, name: str, ranges: Sequence[OffsetRange], topics: Collection[str], query: str
    ) -> list[Row]:
        """The topic decides, unless all rows are known to be of one."""
        alone = len(topics) == 1 and [query] == [*self._queries(name)]
        return [
            (topic, partition, at)
            for topic, partition, at in self[name]
            if any(
                partition == each.partition
                and each.begin <= at < each.end
                and (alone or topic == each.topic)
                for each in ranges
            )
        ]


@pytest.fixture
def tables(kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch) -> Tables:
    """The job's table has what it has read, by micro-batch 7."""
    made = Tables()
    monkeypatch.setattr(execution, "open_rows", made)
    monkeypatch.setattr(undo, "open_rows", made)
    made.write(target(), rows(6, 4))
    return made


def target() -> str:
    return str(Path("data/clicks/table").resolve())


def dead() -> str:
    return str(Path("data/dead").resolve())


def the_project() -> config.Project:
    return config.load(config.find(Path.cwd()))


def to_come() -> set[Row]:
    """What the next run reads of the partitions that the checkpoint knows, far ahead."""
    return {
        ("clicks", tp.partition, at)
        for tp, (start, _) in stands().items()
        for at in range(start, 99)
    }


def ran(kafka: LittleKafka, number: int, *ends: int, done: bool = True) -> None:
    planned(number, offset(kafka, *ends))
    if done:
        committed(number)


def another_job(topic: str = "orders", dead_letters: str = "") -> None:
    """It writes to the same dead letters, perhaps by another text of their location."""
    text = BOTH.replace("clicks", "orders").replace("subscribe: orders", f"subscribe: {topic}")
    if dead_letters:
        text = text.replace("path: ${storage}/dead", f"path: '{dead_letters}'")
        assert dead_letters in text
    job(text, "orders")


def shared_dead_letters(tables: Tables, text: str = "") -> None:
    """Job orders has written three rows to the dead letters of clicks, and clicks has two there."""
    job(BOTH)
    another_job(dead_letters=text)
    tables.write(dead(), [*rows(2), *rows(3, topic="orders")])
    tables.queries[dead()] = {"": 7, "orders": 0}


def test_a_replay_forgets_the_dead_letters_that_it_deleted(
    kafka: LittleKafka, asked: Ask, tables: Tables
) -> None:
    """The progress file names the first micro-batch whose rows come again, for the page."""
    done = Batch(batch=6, started="", finished=1.0, rows=8, seconds=1.0, end=8, latest=10)
    progress = Path("data/clicks/progress.jsonl")
    for batch in (done, replace(done, batch=7, rows=2, end=10)):
        append_entry(progress.parent, batch)
    asked("replay", "--shift-by=-2", "--topic", "clicks:0", "--execute")

    line = progress.read_text().splitlines(keepends=True)[-1]
    deleted = parse_line(line)
    assert isinstance(deleted, RowsDeleted)
    assert 7 == deleted.undone_from
    asked("undo", "--execute")
    line = progress.read_text().splitlines(keepends=True)[-1]
    assert RowsRestored(restored=deleted.move) == parse_line(line)


@pytest.mark.parametrize(
    ("by_topic", "expected"),
    [(False, ("partition", "offset")), (True, ("topic", "partition", "offset"))],
)
def test_rows_are_found_by_what_is_needed(by_topic: bool, expected: tuple[str, ...]) -> None:
    """A column topic may be a field of the values: it is compared only where topics differ."""
    types = {"id": "long", "topic": "string", "partition": "integer", "offset": "long"}

    assert expected == place_columns("clicks", "table", types, by_topic)
    with pytest.raises(JobsError, match="table keeps no column offset of its records"):
        place_columns("clicks", "table", types | {"offset": "string"}, by_topic)


def test_a_result_that_does_not_fit_the_table(
    kafka: LittleKafka, asked: Ask, tables: Tables
) -> None:
    """The next run would fail. So a replay deletes no row, and moves nothing."""
    tables.misfit = "the table has other types than the transform gives: id is INT there"
    before = files()
    said = asked("replay", "--to-earliest", "--execute", code=2)

    assert "other types than the transform gives" in said
    assert rows(6, 4) == tables[target()]
    assert (before, []) == (files(), backup.all_backups(CHECKPOINT))


def test_no_row_is_found(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """Offsets that come again should have rows; a table that has others is not understood, and
    nothing is moved. An empty one has none to delete."""
    tables.write(target(), [])
    tables.histories[target()][-1] = [("clicks", 7, 1)]
    before = files()
    said = asked("replay", "--to-earliest", "--execute", code=1)
    assert "has not one row of theirs: either its columns" in said
    assert (before, []) == (files(), backup.all_backups(CHECKPOINT))

    tables.histories[target()][-1] = []
    assert {target(): 0} == asked("replay", "--to-earliest", "--execute")["deleted"]


def test_somebody_else_writes_meanwhile(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """What was deleted is not what was counted: the job isn't moved, and may not run."""
    tables.foreign = rows(1)
    said = asked("replay", "--to-earliest", "--execute", code=1)

    assert "had 10 rows to delete, and 11 were deleted: somebody else" in said
    assert (6, 0) == stands()[TopicPartition("clicks", 0)]
    with pytest.raises(JobsError, match="was interrupted"):
        backup.check_no_interrupted_move(the_project().job("clicks"))


def test_more_rows_than_offsets(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """Some may be of an earlier topic of the name, which would not come again: only if told so."""
    tables.write(target(), rows(10, 4))
    said = asked("replay", "--to-earliest", "--execute", code=1)
    assert f"{target()} has 16 rows of clicks-0, and 10 of its offsets come again" in said
    assert [] == backup.all_backups(CHECKPOINT)

    told = asked("replay", "--to-earliest", "--several-rows", "--execute")
    assert {target(): 24} == told["deleted"]


def test_more_rows_of_one_partition(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """A partition whose rows a filter drops does not make up for another one."""
    tables.write(target(), rows(0, 4))
    said = asked("replay", "--to-earliest", "--execute", code=1)

    assert f"{target()} has 8 rows of clicks-1, and 4 of its offsets come again" in said


def test_another_job_has_to_rest(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """It writes the same dead letters: the plan names it, and while it runs nothing is done. Rows
    of its topic stay."""
    shared_dead_letters(tables)
    assert ["orders"] == asked("replay", "--to-earliest")["shared_with"]
    with try_lock(Path("data/orders/lock")):
        said = asked("replay", "--to-earliest", "--execute", code=1)
        assert "job orders runs here already" in said
    told = asked("replay", "--to-earliest", "--execute")
    assert {target(): 10, dead(): 2} == told["deleted"]
    assert rows(3, topic="orders") == tables[dead()]

    assert ["orders"] == asked("undo")["shared_with"]
    with try_lock(Path("data/orders/lock")):
        assert "job orders runs here already" in asked("undo", "--execute", code=1)
    asked("undo", "--execute")
    assert [*rows(2), *rows(3, topic="orders")] == tables[dead()]


@pytest.mark.parametrize("text", ["file:{}", "file:///{}", "link/dead"])
def test_another_job_with_another_text_of_the_same_table(
    kafka: LittleKafka, asked: Ask, tables: Tables, text: str
) -> None:
    """A URI, a path and a way through a link are one table. Rows of the other job's topic stay."""
    Path("conf/link").symlink_to(Path("data").resolve())
    shared_dead_letters(tables, text.format(dead()))

    assert ["orders"] == asked("replay", "--to-earliest")["shared_with"]
    asked("replay", "--to-earliest", "--execute")
    assert rows(3, topic="orders") == tables[dead()]


def test_another_job_of_the_same_topic(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """Nobody can tell whose a row is: it would be deleted, and not come again."""
    job(BOTH)
    another_job("clicks")
    offsets = Path("data/orders/checkpoint/offsets")
    offsets.mkdir(parents=True)
    (offsets / "0").write_text((CHECKPOINT / "offsets" / "7").read_text())
    before = files()

    said = asked("replay", "--to-earliest", "--execute", code=1)
    assert "job orders writes rows of topic clicks to the same table" in said
    assert before == files()


def test_a_log_that_seems_shorter_than_what_was_read(
    kafka: LittleKafka, asked: Ask, tables: Tables
) -> None:
    """An open transaction hides records that the table has: they come again, and are deleted; a
    reset to the end does not go back."""
    job(JOB.replace("  options:", "  options:\n    kafka.isolation.level: read_committed"))
    kafka.log(TopicPartition("clicks", 0)).stable = 3
    latest = asked("reset", "--to-latest")["partitions"][0]
    assert (6, 6) == (latest["from"], latest["to"])
    ran(kafka, 8, 9, 4, done=False)
    tables.write(target(), rows(9)[6:])
    told = asked("replay", "--shift-by=-5", "--topic", "clicks:0", "--execute")

    assert (5, {target(): 8}) == (told["again"], told["deleted"])
    assert not to_come() & {*tables[target()]}


def test_a_new_partition_of_a_batch_without_its_commit(
    kafka: LittleKafka, asked: Ask, tables: Tables
) -> None:
    """A replay leaves it to the next run, but its first rows may be in the table already."""
    kafka.create("other", 1)
    kafka.topics["clicks"].logs += kafka.topics["other"].logs
    kafka.log(TopicPartition("clicks", 2)).append(b"n", b"n")
    ran(kafka, 8, 6, 4, 2, done=False)
    tables.write(target(), rows(0, 0, 2))

    the_job = the_project().job("clicks")
    plan = plan_of(the_job, Verb.REPLAY, shifted(0), [], margin_percent=1)
    expected = [
        OffsetRange(topic="clicks", partition=0, begin=6, end=10),
        OffsetRange(topic="clicks", partition=2, begin=0, end=2),
    ]
    assert expected == sorted(plan.ranges, key=lambda each: each.partition)
    assert {target(): 2} == asked("replay", "--shift-by", "0", "--execute")["deleted"]
    assert rows(6, 4) == tables[target()]


def test_a_version_that_can_not_be_restored(kafka: LittleKafka, asked: Ask, tables: Tables) -> None:
    """Nothing was undone, so the job may run as before; half undone it may not, and is told a way
    out."""
    job(BOTH)
    tables.write(dead(), rows(2))
    the_job = the_project().job("clicks")
    plan = plan_of(the_job, Verb.REPLAY, EARLIEST, [], margin_percent=1)
    moved = execution.execute(the_project(), the_job, plan, unfenced).backup
    first, second = (table.name for table in moved.tables)
    tables.vacuumed = {first}
    said = asked("undo", "--execute", code=1)
    assert "a file of that version is gone: let the job go on as it is" in said
    backup.check_no_interrupted_move(the_job)

    for tables.vacuumed in ({second}, {first}):
        said = asked("undo", "--execute", code=1)
        assert f"gone: put checkpoint and tables right by hand and move {moved.path} away" in said
        with pytest.raises(JobsError, match=rf"right by hand and move {moved.path} away"):
            backup.check_no_interrupted_move(the_job)
    tables.vacuumed = set()
    asked("undo", "--execute")
    assert (rows(6, 4), rows(2)) == (tables[target()], tables[dead()])
