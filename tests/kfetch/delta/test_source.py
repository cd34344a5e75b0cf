"""The source of ``delta.stream`` without Spark's JVM: splits become files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

from kfetch import delta
from kfetch.agent import inline
from kfetch.delta.files import FILE_SCHEMA
from kfetch.delta.plan import plans_text
from kfetch.delta.source import PLANS, FilesDataSource, FilesReader
from kfetch.errors import NotBuilt, OptionError
from kfetch.model import TopicPartition
from kfetch.spark.options import parse
from kfetch.spark.source import KfetchDataSource
from kfetch.spark.versions import ReaderOfSpark41
from tests.kfetch.delta.tables import by_duckdb, plan_of
from tests.kfetch.spark.arrow import derived_schema
from tests.kfetch.wire.little import LittleKafka

T0 = TopicPartition("t", 0)


@pytest.fixture
def options() -> Iterator[dict[str, str]]:
    """The options of a stream over a topic with two records. The workers hold the sessions."""
    with LittleKafka() as kafka:
        kafka.create("t")
        kafka.log(T0).append(b"a", b"b")
        yield {
            "kafka.bootstrap.servers": kafka.bootstrap,
            "subscribe": "t",
            "startingOffsets": "earliest",
            "kfetch.agent": "inline",
        }
        inline.close_all()


def planned(options: dict[str, str], directory: Path) -> dict[str, str]:
    """The options with a plan for all columns."""
    schema = KfetchDataSource(dict(options)).schema()
    plan = plan_of(directory, schema.names, source_schema=schema.json())
    return {**options, PLANS: plans_text([plan])}


def reader_of(options: dict[str, str]) -> Any:
    """The reader on its way to an executor, with the calls of Spark 4.2."""
    source = FilesDataSource(dict(options))
    made = cloudpickle.loads(cloudpickle.dumps(source.streamReader(source.schema())))
    return made.inner if isinstance(made, ReaderOfSpark41) else made


def test_a_split_becomes_a_file(options: dict[str, str], tmp_path: Path) -> None:
    """Offsets and splits are kfetch's. The task yields one row, and the file has the records."""
    reader = reader_of(planned(options, tmp_path))
    start = reader.initialOffset()
    splits = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    rows = [row for split in splits for batch in reader.read(split) for row in batch.to_pylist()]
    reader.stop()

    assert isinstance(reader, FilesReader)
    (row,) = rows
    assert (2, {}) == (row["rows"], json.loads(row["partitions"]))
    assert 1 == json.loads(row["statistics"])["maxValues"]["offset"]
    found = by_duckdb(tmp_path, 'SELECT value, "offset" FROM files ORDER BY ALL')
    assert [(b"a", 0), (b"b", 1)] == found


def test_spark_expects_the_rows_of_files(options: dict[str, str], tmp_path: Path) -> None:
    """Spark compares each batch's schema with that of the source."""
    source = FilesDataSource(planned(options, tmp_path))

    assert FILE_SCHEMA.equals(derived_schema(source.schema()))


def test_the_plan_stays_whatever_a_registry_says_later(
    options: dict[str, str], tmp_path: Path
) -> None:
    """The reader gets the columns of the plan, not those of this moment."""
    given = {**options, "columns": "value,offset"}
    asked = planned(given, tmp_path) | {"columns": "value,offset"}
    (plan,) = json.loads(asked[PLANS])
    wrong = {**plan, "source_schema": KfetchDataSource(dict(options)).schema().json()}
    reader = reader_of({**asked, PLANS: json.dumps([wrong])})

    with pytest.raises(OptionError, match="columns"):
        reader.initialOffset()


def test_what_a_task_keeps(options: dict[str, str], tmp_path: Path) -> None:
    """The agent counts rows and uploads of each table."""
    plans = [plan_of(tmp_path, ["value"], row_group_bytes=5, upload_bytes=size) for size in (0, 3)]
    reader = FilesReader(parse(options), plans, {})

    assert 5 + 5 + 3 == reader._options.agent.worker_bytes


def test_the_source_needs_a_plan(options: dict[str, str]) -> None:
    """``format`` with its name is a mistake, and the error says what to call."""
    with pytest.raises(OptionError, match=r"kfetch\.delta\.stream"):
        FilesDataSource(options)


def test_spark_connect_is_refused(options: dict[str, str]) -> None:
    """A session of Spark Connect has no JVM in this process."""
    with pytest.raises(NotBuilt, match="Spark Connect"):
        delta.stream(SimpleNamespace(), options, table="/t", checkpoint="/c")  # type: ignore[arg-type]
