"""A micro-batch that a run wrote in part, and that the next run decodes in another way.

Dead letters commit before rows, and Spark's commit comes last. Each record must be in one of the
two tables, once, whatever happened between those commits.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from pyspark.sql import SparkSession

from integration.delta_columns import column
from integration.running.project import job
from integration.running.sinks import drain, forget_last_commit, produce
from integration.streams import PATIENCE_S
from kfetch_jobs.config import TableLocation
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.run.spark_errors import job_error
from kfetch_jobs.run.tables import existing_table, has_batch

pytestmark = pytest.mark.integration

_DECODED = """\
  decode: {{fields: 'id BIGINT, amount {type}', into: value}}
  options: {{startingOffsets: earliest}}
"""
_TYPED = """\
  options:
    startingOffsets: earliest
    valueFormat: json
    valueSchema: id BIGINT, amount {type}
"""
_JOB = """\
source:
  cluster: main
  subscribe: {topic}
{source}transform: {{sql: "{sql}"}}
sink: {{path: table, deadLetters: {{path: dead}}{sink}}}
trigger: availableNow
"""
_CAST = "SELECT CAST(value.amount AS INT) AS amount, offset FROM source"
_PLAIN = "SELECT CAST(value.amount AS STRING) AS amount, offset FROM source"
_MERGE = ", mode: merge, keys: offset, latestBy: offset"
_LATEST = "SELECT max(CAST(value.amount AS STRING)) AS amount, offset FROM source GROUP BY offset"
_VALUES = [b"not json", b'{"id": 1, "amount": 12}', b'{"id": 2, "amount": "abc"}']


class _Tables:
    """The job's two tables, as a reader without Spark sees them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def rows(self) -> list[object]:
        return self._offsets("table")

    @property
    def letters(self) -> list[object]:
        return self._offsets("dead")

    def _offsets(self, name: str) -> list[object]:
        table = self._directory / name
        return sorted(column(table, "offset"), key=int) if table.exists() else []  # type: ignore[call-overload]


def _text(topic: str, kind: str, sql: str, sink: str = "", source: str = _TYPED) -> str:
    return _JOB.format(topic=topic, source=source.format(type=kind), sql=sql, sink=sink)


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        pytest.param(_TYPED, "", id="valueFormat-append"),
        pytest.param(_TYPED, _MERGE, id="valueFormat-merge", marks=pytest.mark.long),
        pytest.param(_DECODED, "", id="decode-append", marks=pytest.mark.long),
        pytest.param(_DECODED, _MERGE, id="decode-merge", marks=pytest.mark.long),
    ],
)
def test_tighter_decoding_after_failed_rows(
    kafka: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    source: str,
    sink: str,
) -> None:
    """The SQL's CAST fails after the letters' commit, and the user declares the column as INT. The
    letters of the micro-batch are replaced, so the record of the CAST becomes one of them."""
    name, tables = topic(1), _Tables(tmp_path)
    produce(kafka, name, *_VALUES)
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        drain(spark, job(tmp_path, kafka, _text(name, "STRING", _CAST, sink, source)))
    assert ([], [0]) == (tables.rows, tables.letters)
    drain(spark, job(tmp_path, kafka, _text(name, "INT", _CAST, sink, source)))

    assert ([1], [0, 2]) == (tables.rows, tables.letters)


@pytest.mark.long
def test_looser_decoding_after_failed_rows(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """The rows fail twice, each time with another decoding, and then succeed with a third one. A
    letter of the first two that can be decoded now is a row, and no letter any more."""
    name, tables = topic(1), _Tables(tmp_path)
    produce(kafka, name, *_VALUES)
    failing = "SELECT CAST('x' AS INT) AS amount, offset FROM source"
    for kind, letters in (("INT", [0, 2]), ("STRING", [0]), ("INT", [0, 2])):
        with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
            drain(spark, job(tmp_path, kafka, _text(name, kind, failing)))
        assert letters == tables.letters
    drain(spark, job(tmp_path, kafka, _text(name, "STRING", _PLAIN)))

    assert ([1, 2], [0]) == (tables.rows, tables.letters)


@pytest.mark.parametrize(
    ("before", "after", "sink"),
    [
        pytest.param("STRING", "INT", "", id="tighter-append"),
        pytest.param("STRING", "INT", _MERGE, id="tighter-merge"),
        pytest.param("INT", "STRING", "", id="looser-append"),
        pytest.param("INT", "STRING", _MERGE, id="looser-merge"),
    ],
)
@pytest.mark.long
def test_another_decoding_after_committed_rows(
    kafka: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    before: str,
    after: str,
    sink: str,
) -> None:
    """If the rows of the micro-batch are committed, its letters stay as well."""
    name, tables = topic(1), _Tables(tmp_path)
    produce(kafka, name, *_VALUES)
    made = job(tmp_path, kafka, _text(name, before, _PLAIN, sink))
    drain(spark, made)
    written = tables.rows, tables.letters
    forget_last_commit(made)
    drain(spark, job(tmp_path, kafka, _text(name, after, _PLAIN, sink)))

    assert written == (tables.rows, tables.letters)
    assert [0, 1, 2] == sorted(written[0] + written[1], key=int)  # type: ignore[call-overload]


@pytest.mark.long
@pytest.mark.parametrize("second", ["letters", "rows"])
@pytest.mark.parametrize("first", ["letters", "rows"])
def test_killed_between_two_commits(
    kafka: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    first: str,
    second: str,
) -> None:
    """Two processes are killed after the commit of letters or of rows, each with another decoding.
    The rows that a commit has are right, and the run after the kills gives every record a place."""
    name, tables = topic(1), _Tables(tmp_path)
    produce(kafka, name, *_VALUES)
    for kind, commit in (("INT", first), ("STRING", second)):
        job(tmp_path, kafka, _text(name, kind, _PLAIN))
        command = [sys.executable, "-m", "integration.running.killed_write", str(tmp_path), commit]
        assert (
            -signal.SIGKILL == subprocess.run(command, timeout=PATIENCE_S, check=False).returncode
        )
        found = tables.rows, tables.letters
        assert not {*found[0]} & {*found[1]}
    drain(spark, job(tmp_path, kafka, _text(name, "INT", _PLAIN)))

    loose = first == "letters" and second == "rows"
    assert (([1, 2], [0]) if loose else ([1], [0, 2])) == (tables.rows, tables.letters)


@pytest.mark.long
def test_letters_of_others_stay(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Letters of other records stay, also those of an earlier topic at the same offsets."""
    name, tables = topic(1), _Tables(tmp_path)
    produce(kafka, name, *_VALUES)
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        drain(spark, job(tmp_path, kafka, _text(name, "INT", _CAST.replace("value.amount", "'x'"))))
    dead = spark.read.format("delta").load(str(tmp_path / "dead"))
    others = dead.selectExpr(
        "topic", "partition", "offset", "timestamp - INTERVAL 1 HOUR AS timestamp",
        "error", "key", "value",
    )  # fmt: skip
    others.write.format("delta").mode("append").save(str(tmp_path / "dead"))
    drain(spark, job(tmp_path, kafka, _text(name, "STRING", _PLAIN)))

    assert ([1, 2], [0, 0, 2]) == (tables.rows, tables.letters)


@pytest.mark.long
def test_beside_state(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Beside state, letters are replaced while rows are not committed. Afterwards, another decoding
    would put other records into the state, so the job says what to do."""
    name, tables = topic(1), _Tables(tmp_path)
    produce(kafka, name, *_VALUES)
    failing = _MERGE + ", deleteWhen: CAST(amount AS INT) < 0"
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        drain(spark, job(tmp_path, kafka, _text(name, "STRING", _LATEST, failing)))
    assert ([], [0]) == (tables.rows, tables.letters)
    tight = job(tmp_path, kafka, _text(name, "INT", _LATEST, _MERGE))
    for _ in range(2):
        drain(spark, tight)
        assert ([1], [0, 2]) == (tables.rows, tables.letters)
        forget_last_commit(tight)
    with pytest.raises(Exception, match="was written with another decoding") as failure:
        drain(spark, job(tmp_path, kafka, _text(name, "STRING", _LATEST, _MERGE)))
    told = job_error(failure.value, "job one failed", tmp_path / "spark.log")
    assert isinstance(told, ConfigError)
    assert told.message.startswith("job one failed: micro-batch 0 was written with another")
    assert ([1], [0, 2]) == (tables.rows, tables.letters)


def test_commits_of_other_processes_are_seen(spark: SparkSession, tmp_path: Path) -> None:
    """A run that was asleep may commit after this one has looked: Spark keeps what it knew."""
    location = TableLocation(path=str(tmp_path / "table"), table=None)
    spark.range(3).write.format("delta").save(str(location.path))
    table = existing_table(spark, location)
    assert not has_batch(table, "query", 0)
    other = DeltaTable(str(location.path))
    properties = CommitProperties(app_transactions=[Transaction("query", 0)])
    other.create_write_transaction([], "append", other.schema(), commit_properties=properties)

    assert has_batch(table, "query", 0)
    assert has_batch(existing_table(spark, location), "query", 0)
