"""``kfetch offsets reset``, ``replay`` and ``undo`` on a real Kafka, Spark and Delta: what is said
comes again, every table has each row once, and all of it can be undone.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from integration.checkpoints import batches, forget_commit
from integration.running.commands import Project
from integration.running.project import write
from integration.streams import finish
from kfetch.admin.cli import command
from kfetch_jobs.checkpoints import backup
from kfetch_jobs.errors import JobsError
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.offsets import execution, table_rows, undo
from kfetch_jobs.offsets.moves import Verb
from kfetch_jobs.offsets.plan import plan_move
from kfetch_jobs.offsets.target import shifted
from kfetch_jobs.run import delta_sink
from kfetch_jobs.run.tables import unfenced

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

T0 = 1_750_000_000_000
APPEND = """\
source:
  cluster: main
  subscribe: {topic}
  decode: {{fields: id BIGINT}}
  options: {{startingOffsets: earliest}}
transform:
  sql: SELECT event.id, partition, offset, {version} AS version FROM source
sink:
  path: table
  deadLetters: {{path: dead}}
trigger: availableNow
"""
MERGE = """\
source:
  cluster: main
  subscribe: {topic}
  options: {{startingOffsets: earliest}}
transform:
  sql: SELECT offset * 2 + partition AS id, partition, offset, {version} AS version FROM source
sink: {{path: table, mode: merge, keys: id, latestBy: offset}}
trigger: availableNow
"""
COUNTS = """\
source:
  cluster: main
  subscribe: {topic}
  options: {{startingOffsets: earliest}}
transform:
  sql: SELECT partition, count(*) AS seen FROM source GROUP BY partition
sink: {{path: table, mode: merge, keys: partition, latestBy: seen}}
trigger: availableNow
"""

STRAIGHT = """\
source:
  cluster: main
  subscribe: {topic}
  options: {{startingOffsets: earliest, valueFormat: json, valueSchema: id BIGINT}}
transform:
  sql: SELECT value.id, partition, offset, timestampType AS version FROM source
sink: {{path: table, write: straight}}
trigger: availableNow
"""


class Shop:
    """A project with one job, whose runs share the tests' Spark; commands are processes."""

    def __init__(self, directory: Path, kafka: Cluster, topic: str, spark: SparkSession) -> None:
        self.directory, self.kafka, self.topic, self.spark = directory, kafka, topic, spark
        self.produced = 0

    def produce(self, count: int, *, at_s: int) -> None:
        """Records of one time, by turns to both partitions; the first is no JSON."""
        producer = KafkaProducer(bootstrap_servers=self.kafka.bootstrap_servers)
        for number in range(self.produced, self.produced + count):
            value = b'{"id": %d}' % number if number > self.produced else b"broken"
            when = T0 + at_s * 1000
            producer.send(self.topic, value, partition=number % 2, timestamp_ms=when).get(30)
        producer.close()
        self.produced += count

    def run(self, text: str, version: int = 1) -> None:
        """The job over all that there is; its rows tell which version of it wrote them."""
        self.project = write(
            self.directory, self.kafka, one=text.format(topic=self.topic, version=version)
        )
        finish(delta_sink.start(self.spark, self.project.job("one"), unfenced))

    def offsets(self, *words: str, code: int = 0) -> Any:
        said = Project(self.directory, self.kafka).kfetch(
            "offsets", words[0], "one", *words[1:], "--json", code=code
        )
        return json.loads(said) if code == 0 else None

    def move(self, *words: str) -> Any:
        """``kfetch offsets`` in this process, which has the tests' Spark."""
        printed = io.StringIO()
        with contextlib.chdir(self.directory), contextlib.redirect_stdout(printed):
            command()(["offsets", words[0], "one", *words[1:], "--json"], standalone_mode=False)
        return json.loads(printed.getvalue())

    def rows(self, name: str = "table") -> list[tuple[Any, ...]]:
        rows = self.spark.read.format("delta").load(str(self.directory / name)).collect()
        if name == "dead":
            return sorted((row.partition, row.offset) for row in rows)
        return sorted((row.id, row.version) for row in rows)

    def places(self) -> list[tuple[int, int]]:
        """Partition and offset of all rows, as delta-rs reads them."""
        table = DeltaTable(str(self.directory / "table"))
        rows = table.to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
        return sorted((row["partition"], row["offset"]) for row in rows)

    @property
    def checkpoint(self) -> Path:
        return self.directory / "storage" / "one" / "checkpoint"

    def files(self) -> dict[str, bytes]:
        """The checkpoint, byte by byte."""
        return {
            str(file.relative_to(self.checkpoint)): file.read_bytes()
            for file in self.checkpoint.rglob("*")
            if file.is_file()
        }


@pytest.fixture
def shop(tmp_path: Path, kafka: Cluster, topic: Callable[..., str], spark: SparkSession) -> Shop:
    return Shop(tmp_path, kafka, topic(2, retention_ms=-1), spark)


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """What moves offsets in this process does it with the tests' Spark, not with one of its own."""

    @contextmanager
    def session(*_: object, **__: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(table_rows, "session", session)


def at(seconds: int) -> str:
    return datetime.fromtimestamp(T0 / 1000 + seconds, UTC).isoformat()


def places(count: int) -> list[tuple[int, int]]:
    """The places of so many records."""
    return sorted((number % 2, number // 2) for number in range(count))


@pytest.mark.long
def test_rows_that_tasks_wrote(shop: Shop, shared: None) -> None:
    """Rows that tasks wrote are deleted and come again, also an unfinished micro-batch. Undone, all
    is as it was."""
    shop.produce(6, at_s=0)
    shop.run(STRAIGHT)
    shop.produce(4, at_s=60)
    shop.run(STRAIGHT)
    forget_commit(shop.checkpoint, max(batches(shop.checkpoint, "commits")))
    done = shop.move("replay", "--to-datetime", at(60), "--execute")
    assert [4] == list(done["deleted"].values())
    assert places(6) == shop.places()
    shop.move("undo", "--execute")
    assert places(10) == shop.places()
    shop.move("replay", "--to-datetime", at(60), "--execute")
    shop.run(STRAIGHT)

    assert places(10) == shop.places()


def test_rows_come_again_and_all_is_undone(shop: Shop, shared: None) -> None:
    """From a time on: exactly those that the plan names, with their dead letters, each once in the
    table; undone before the next run, the table and the position are what they were."""
    shop.produce(12, at_s=0)
    shop.produce(8, at_s=60)
    shop.run(APPEND)
    first = [(n, 1) for n in range(20) if n not in (0, 12)]
    assert (first, [(0, 0), (0, 6)]) == (shop.rows(), shop.rows("dead"))

    done = shop.move("replay", "--to-datetime", at(60), "--execute")
    assert (8, 0, True) == (done["again"], done["skipped"], done["executed"])
    assert [(10, 6), (10, 6)] == [(each["from"], each["to"]) for each in done["partitions"]]
    assert {"table": 7, "dead": 1} == {Path(name).name: n for name, n in done["deleted"].items()}
    assert first[:11] == shop.rows()

    job = shop.project.job("one")
    undo.undo(job, undo.plan_undo(job), unfenced)
    assert (first, [(0, 0), (0, 6)]) == (shop.rows(), shop.rows("dead"))
    shop.move("replay", "--to-datetime", at(60), "--execute")
    shop.produce(2, at_s=120)
    shop.run(APPEND, version=2)
    assert first[:11] + [(n, 2) for n in range(13, 22) if n != 20] == shop.rows()
    assert [(0, 0), (0, 6), (0, 10)] == shop.rows("dead")
    with pytest.raises(JobsError, match="has run since a kfetch offsets replay"):
        undo.plan_undo(job)


@pytest.mark.long
def test_a_batch_that_nobody_knows_the_end_of(shop: Shop, shared: None) -> None:
    """Its rows are in the table, its commit is lost: a replay has them once; a reset, which would
    bring them twice, refuses. What is undone is as it was, to the byte. A field of the values that
    is called topic is none of Kafka's."""
    text = APPEND.replace("event.id", "event.id, 'mine' AS topic")
    shop.produce(4, at_s=0)
    shop.run(text)
    shop.produce(4, at_s=60)
    shop.run(text)
    forget_commit(shop.checkpoint, max(batches(shop.checkpoint, "commits")))
    before = shop.files()

    shop.offsets("reset", "--to-earliest", "--execute", code=2)
    shop.offsets("reset", "--to-earliest", "--execute", "--give-up-batch")
    assert before != shop.files()
    assert shop.offsets("undo", "--execute")["executed"]
    assert before == shop.files()

    job = shop.project.job("one")
    with execution.jobs_at_rest(shop.project, job):
        plan = plan_move(job, Verb.REPLAY, shifted(0), [], margin_percent=1)
        assert [3, 1] == [*execution.execute(shop.project, job, plan, unfenced).deleted.values()]
    shop.run(text, version=2)
    assert [(n, 1 if n < 4 else 2) for n in (1, 2, 3, 5, 6, 7)] == shop.rows()
    assert [(0, 0), (0, 2)] == shop.rows("dead")


def test_rows_that_can_not_be_told_apart(shop: Shop, shared: None) -> None:
    """Where a job that is gone has written the same table, a partition's number does not tell whose
    row it is: refused before anything is changed."""
    shop.produce(4, at_s=0)
    shop.run(APPEND)
    before, text = shop.files(), APPEND.format(topic=shop.topic, version=1)
    project = write(shop.directory, shop.kafka, one=text, two=text)
    finish(delta_sink.start(shop.spark, project.job("two"), unfenced))
    (shop.directory / "jobs" / "two.yml").unlink()
    job = project.job("one")
    with pytest.raises(JobsError, match="table keeps no column topic of its records"):
        execution.execute(
            project, job, plan_move(job, Verb.REPLAY, shifted(-1), [], margin_percent=1), unfenced
        )

    assert before == shop.files()
    assert [] == backup.all_backups(shop.checkpoint)


@pytest.mark.long
def test_a_merge_replaces_its_rows(shop: Shop) -> None:
    """Nothing is deleted, and no batch is passed over: all rows are of the new version, once."""
    shop.produce(6, at_s=0)
    shop.run(MERGE)
    assert {} == shop.offsets("replay", "--to-earliest", "--execute")["deleted"]
    shop.run(MERGE, version=2)
    assert [(n, 2) for n in range(6)] == shop.rows()

    assert 4 == shop.offsets("reset", "--shift-by", "-2", "--execute")["again"]
    shop.run(MERGE, version=3)
    assert [(n, 2 if n < 2 else 3) for n in range(6)] == shop.rows()


@pytest.mark.long  # the unit tests refuse this on a disk and in a store
def test_state_is_not_moved(shop: Shop) -> None:
    """Rows that come again would count twice in it."""
    shop.produce(6, at_s=0)
    shop.run(COUNTS)

    shop.offsets("reset", "--to-earliest", code=1)
    assert [(0, 3), (1, 3)] == sorted(
        (row.partition, row.seen)
        for row in shop.spark.read.format("delta").load(str(shop.directory / "table")).collect()
    )


def replayed(shop: Shop, **said: bool) -> dict[str, int]:
    """The last record of each partition is to come again; how many rows of each table went."""
    job = shop.project.job("one")
    with execution.jobs_at_rest(shop.project, job):
        plan = plan_move(job, Verb.REPLAY, shifted(-1), [], margin_percent=1)
        done = execution.execute(shop.project, job, plan, unfenced, **said)
    return {Path(name).name: count for name, count in done.deleted.items()}


def vacuum(shop: Shop, name: str) -> None:
    """Delta forgets all versions of a table but the last."""
    settings = {
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        # It lists directories with so many tasks: 10,000 of them take minutes.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    }
    for setting, value in settings.items():
        shop.spark.conf.set(setting, value)
    try:
        shop.spark.sql(f"VACUUM delta.`{shop.directory / name}` RETAIN 0 HOURS").collect()
    finally:
        for setting in settings:
            shop.spark.conf.unset(setting)


@pytest.mark.long
def test_a_version_that_a_vacuum_took_away(shop: Shop, shared: None) -> None:
    """Undoing is refused with the table and the reason, nothing is changed, and the job goes on."""
    shop.produce(6, at_s=0)
    shop.run(APPEND)
    assert {"table": 2, "dead": 0} == replayed(shop)
    vacuum(shop, "table")
    before, job = (shop.files(), shop.rows(), shop.rows("dead")), shop.project.job("one")

    with pytest.raises(JobsError) as refused:
        undo.undo(job, undo.plan_undo(job), unfenced)
    assert f"{shop.directory}/table has lost files of its version" in str(refused.value)
    assert "(VACUUM), so it can't go back to it: let the job go on as it is" in str(refused.value)
    assert before == (shop.files(), shop.rows(), shop.rows("dead"))
    shop.produce(2, at_s=60)
    shop.run(APPEND, version=2)
    assert [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (7, 2)] == shop.rows()


@pytest.mark.long
def test_a_table_of_several_jobs(
    shop: Shop, shared: None, topic: Callable[..., str], kafka: Cluster
) -> None:
    """Rows of another topic stay; once their job has written again, nothing of it is undone; and
    where another job reads the same topic, nothing is deleted."""
    text = APPEND.replace("event.id", "event.id, topic")
    other = Shop(shop.directory, kafka, topic(2, retention_ms=-1), shop.spark)
    for one in (shop, other):
        one.produce(4, at_s=0)
    jobs = {"one": shop.topic, "two": other.topic, "three": shop.topic}
    texts = {name: text.format(topic=read, version=1) for name, read in jobs.items()}
    shop.project = write(shop.directory, kafka, one=texts["one"], two=texts["two"])
    for name in ("one", "two"):
        finish(delta_sink.start(shop.spark, shop.project.job(name), unfenced))
    assert {"table": 2, "dead": 0} == replayed(shop)
    assert [(1, 1), (1, 1), (2, 1), (3, 1)] == shop.rows()

    other.produce(2, at_s=60)
    finish(delta_sink.start(shop.spark, shop.project.job("two"), unfenced))
    job = shop.project.job("one")
    with pytest.raises(JobsError, match=r"another query .* has written to .* would take th"):
        undo.undo(job, undo.plan_undo(job), unfenced)

    finish(delta_sink.start(shop.spark, job, unfenced))
    shop.project = write(shop.directory, kafka, three=texts["three"])
    finish(delta_sink.start(shop.spark, shop.project.job("three"), unfenced))
    before = shop.files(), shop.rows()
    with pytest.raises(JobsError, match=f"job three writes rows of topic {shop.topic} to the same"):
        replayed(shop)
    assert before == (shop.files(), shop.rows())


@pytest.mark.long
def test_several_rows_of_a_record(shop: Shop, shared: None) -> None:
    """More rows than offsets are deleted if that is said to be so, and not before."""
    text = APPEND.replace("event.id", "explode(array(event.id, event.id)) AS id")
    shop.produce(6, at_s=0)
    shop.run(text)
    before = shop.files(), shop.rows()
    with pytest.raises(JobsError, match=r"rows of .* of its offsets come again: .*--several-rows"):
        replayed(shop)
    assert before == (shop.files(), shop.rows())

    assert {"table": 4, "dead": 0} == replayed(shop, several_rows=True)
    shop.run(text, version=2)
    assert [(n, 2 if n > 3 else 1) for n in range(1, 6) for _ in range(2)] == shop.rows()
