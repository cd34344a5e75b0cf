"""The tables of kfetch.delta are those that Spark writes, and Spark goes on with them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructField, TimestampType

from integration.conftest import TopicFactory
from integration.delta.readers import by_duckdb, places
from integration.records import producer, write
from integration.sessions import needs_delta
from integration.spark.test_documents import REPLACED, code
from integration.streams import finish
from kfetch import delta
from kfetch.delta.source import FilesDataSource
from kfetch.errors import NotBuilt, OptionError, TableRefused
from kfetch.spark.lag import LagHistory
from kfetch.spark.versions import reports_log_ends
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, needs_delta()]

_SCHEMA = (
    "flag BOOLEAN, b TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, t STRING, "
    "day DATE, at TIMESTAMP, clock TIMESTAMP_NTZ, small DECIMAL(5,2), large DECIMAL(38,10), "
    "tags ARRAY<STRING>, list ARRAY<STRUCT<x: INT, y: STRING>>, m MAP<STRING, BIGINT>, "
    "n STRUCT<a: INT, o: STRUCT<c: DOUBLE, z: STRING>>"
)
_START = datetime(2026, 6, 24, 21, 30, tzinfo=UTC)


def document(number: int) -> bytes:
    """A record with a value of each type."""
    return json.dumps(
        {
            "flag": number % 2 == 0,
            "b": number % 256 - 128,
            "s": number - 300,
            "i": -number,
            "l": 2**62 + number,
            "f": number / 3,
            "d": number / 7,
            "t": "😀" * (number % 40) + str(number),
            "day": f"{1900 + number % 200}-02-28",
            "at": f"{1950 + number % 100}-06-15T12:00:00.{number:06}Z",
            "clock": f"2026-11-25T00:00:{number % 60:02}",
            "small": number / 100,
            "large": number + 0.5,
            "tags": ["a", None, ""][: number % 4],
            "list": [{"x": number, "y": None}, None],
            "m": {"k": number, "": None},
            "n": {"a": None, "o": {"c": float(number), "z": "z"}} if number % 3 else None,
        }
    ).encode()


def fill(cluster: Cluster, name: str, count: int = 600) -> None:
    """Records of all types over three days, nulls, documents without fields, keys and headers."""
    with producer(cluster, linger_ms=5) as sender:
        for number in range(count):
            moment = _START + timedelta(minutes=10 * number)
            value = [document(number), b"{}", None][0 if number % 10 else number // 10 % 3]
            sender.send(
                name,
                value,
                key=None if number % 5 == 1 else f"k{number}".encode(),
                headers=[("h", b"1"), ("h", b"")] if number % 2 else [],
                partition=number % 2,
                timestamp_ms=int(moment.timestamp() * 1000),
            )


def options_of(cluster: Cluster, name: str, **more: str) -> dict[str, str]:
    """The options of a stream over the whole topic."""
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": name}
    return {**servers, "startingOffsets": "earliest", **more}


def straight(
    spark: SparkSession, options: dict[str, str], directory: Path, **more: Any
) -> StreamingQuery:
    """Copy all that is there into ``table`` below a directory."""
    query = delta.stream(
        spark,
        options,
        table=str(directory / "table"),
        checkpoint=str(directory / "checkpoint"),
        trigger={"availableNow": True},
        **more,
    )
    finish(query)
    return query


def through_spark(frame: DataFrame, directory: Path, *partitions: str) -> None:
    """The same by Spark's sink."""
    writer = frame.writeStream.format("delta").partitionBy(*partitions)
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    finish(writer.trigger(availableNow=True).start(str(directory / "table")))


def rows_of(frame: DataFrame) -> list[str]:
    """All rows as texts, sorted. JSON has maps and structs, too."""
    return sorted(frame.selectExpr("to_json(struct(*)) AS row").toArrow()["row"].to_pylist())


def in_duckdb(field: StructField) -> str:
    """A column for DuckDB, to which a time of Spark has no zone (INT96)."""
    return f'epoch_us("{field.name}")' if field.dataType == TimestampType() else f'"{field.name}"'


TYPED = {
    "includeHeaders": "true",
    "keyFormat": "string",
    "valueFormat": "json",
    "valueSchema": _SCHEMA,
    "valueFields": "flat",
    "valueTimeZone": "UTC",
}


@pytest.mark.parametrize(
    "more",
    [
        TYPED,
        *(pytest.param(one, marks=pytest.mark.long) for one in ({}, {"includeHeaders": "map"})),
    ],
)
def test_the_table_is_that_of_spark(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, more: dict[str, str]
) -> None:
    """The same columns and types, row by row, whether Spark, delta-rs or DuckDB reads them, and
    partitioned by day."""
    name = topic(2, retention_ms=-1)  # its timestamps are old
    fill(kafka, name)
    options = options_of(kafka, name, **more)
    straight(spark, options, tmp_path / "ours", partition_by={"kday": "date(timestamp)"})
    frame = spark.readStream.format("kfetch").options(**options).load()
    frame = frame.withColumn("kday", frame["timestamp"].cast("date"))
    through_spark(frame, tmp_path / "theirs", "kday")

    ours, theirs = (
        spark.read.format("delta").load(str(tmp_path / side / "table"))
        for side in ("ours", "theirs")
    )
    assert theirs.schema == ours.schema
    assert 600 == ours.count()
    assert rows_of(theirs) == rows_of(ours)
    tables = [
        DeltaTable(str(tmp_path / side / "table"))
        .to_pyarrow_table()
        .sort_by([("partition", "ascending"), ("offset", "ascending")])
        for side in ("ours", "theirs")
    ]
    assert tables[1].to_pylist() == tables[0].to_pylist()
    columns = ", ".join(map(in_duckdb, ours.drop("kday").schema))
    query = f'SELECT {columns} FROM files ORDER BY partition, "offset"'
    both = [by_duckdb(tmp_path / side / "table", query) for side in ("ours", "theirs")]
    assert both[1] == both[0]


@pytest.mark.long  # running/test_straight does this with jobs
def test_both_ways_by_turns(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """One checkpoint and one table: each way goes on where the other has stopped, also with a
    micro-batch that the other has committed and Spark's checkpoint has not."""
    name = topic(2)
    options = options_of(kafka, name)
    sent = 0
    for turn in range(4):
        for partition in range(2):
            write(kafka, name, [f"{turn}"] * 10, partition=partition)
        sent += 20
        if turn % 2:
            through_spark(spark.readStream.format("kfetch").options(**options).load(), tmp_path)
        else:
            straight(spark, options, tmp_path)
        newest = max(
            (tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda p: int(p.name)
        )
        newest.unlink()
        (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)

        assert sent == len(set(places(tmp_path / "table"))) == len(places(tmp_path / "table"))


def test_spark_skips_files_of_other_days(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """By the partition column, and by the statistics of other columns."""
    name = topic(2, retention_ms=-1)  # its timestamps are old
    fill(kafka, name)
    straight(spark, options_of(kafka, name), tmp_path, partition_by={"day": "date(timestamp)"})
    table = spark.read.format("delta").load(str(tmp_path / "table"))
    files = DeltaTable(str(tmp_path / "table")).get_add_actions(flatten=True)
    of_day = [str(day) for day in files["partition.day"].to_pylist()].count("2026-06-25")

    assert 1 == of_day < files.num_rows
    assert of_day == files_read(table.where("day = '2026-06-25'"))
    assert of_day == files_read(
        table.where("timestamp BETWEEN '2026-06-25' AND '2026-06-25 23:00'")
    )
    assert 1 == files_read(table.where("offset = 150"))


def files_read(frame: DataFrame) -> int:
    """How many files Spark reads for the rows of a frame."""
    conf = frame.sparkSession.conf
    before = conf.get("spark.sql.adaptive.enabled")
    conf.set("spark.sql.adaptive.enabled", "false")
    try:
        frame = frame.select("offset")
        assert frame.collect()
        plan: Any = frame._jdf.queryExecution().executedPlan()
        (scan,) = [leaf for leaf in _leaves(plan) if leaf.metrics().contains("numFiles")]
        return int(scan.metrics().apply("numFiles").value())
    finally:
        conf.set("spark.sql.adaptive.enabled", before)


def _leaves(plan: Any) -> list[Any]:
    found = plan.collectLeaves()
    return [found.apply(i) for i in range(found.size())]


def test_spark_finds_a_nan(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """It is Spark's largest number. Spark asks the footers of Parquet files for it first."""
    name = topic(1)
    write(kafka, name, ['{"x": 1, "n": {"y": 1}}', '{"x": "NaN", "n": {"y": "NaN"}}'])
    schema = "x DOUBLE, n STRUCT<y: FLOAT>"
    typed = {"valueFormat": "json", "valueSchema": schema, "valueFields": "flat"}
    straight(spark, options_of(kafka, name, **typed), tmp_path)

    table = spark.read.format("delta").load(str(tmp_path / "table"))
    for clause in ("x > 100", "x = double('NaN')", "n.y > 100", "n.y = float('NaN')", "x = 1"):
        assert 1 == table.where(clause).count(), clause


def test_spark_maintains_the_table(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """OPTIMIZE and DELETE by Spark between two runs."""
    name, table = topic(1), tmp_path / "table"
    options = options_of(kafka, name)
    for turn in range(2):
        write(kafka, name, [str(turn)] * 10)
        straight(spark, options, tmp_path)
        spark.sql(f"OPTIMIZE delta.`{table}`")
    spark.sql(f"DELETE FROM delta.`{table}` WHERE offset < 5")
    write(kafka, name, ["2"] * 10)
    straight(spark, options, tmp_path)

    rows = spark.read.format("delta").load(str(table)).select("offset").toArrow()
    assert list(range(5, 30)) == sorted(rows["offset"].to_pylist())


def test_what_is_refused_before_the_first_file(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A constraint of Spark's, another type, a store, and a wrong option: each is one sentence."""
    options = options_of(kafka, topic(1))
    table = tmp_path / "table"
    spark.sql(f"CREATE TABLE delta.`{table}` (key BINARY, value STRING) USING delta")
    with pytest.raises(TableRefused, match="column value of the stream is BINARY"):
        straight(spark, options, tmp_path, merge_schema=True)
    spark.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT filled CHECK (value <> '')")
    with pytest.raises(TableRefused, match="has the constraint filled"):
        straight(spark, options, tmp_path)
    with pytest.raises(NotBuilt, match="wasbs://lake/t is elsewhere"):
        delta.stream(spark, options, table="wasbs://lake/t", checkpoint=str(tmp_path / "c"))
    with pytest.raises(OptionError, match="startingOfsets"):
        straight(spark, options | {"startingOfsets": "latest"}, tmp_path)
    assert [] == list(table.glob("*.parquet"))


def test_a_query_tells_what_it_read(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Spark's progress has kfetch's offsets and lag. Its numInputRows counts files."""
    name = topic(2, retention_ms=-1)  # its timestamps are old
    fill(kafka, name, 100)
    query = straight(spark, options_of(kafka, name), tmp_path, name="copy")
    progress = query.recentProgress[-1]

    assert "copy" == query.name
    assert 1 <= sum(one["numInputRows"] for one in query.recentProgress) <= 2
    end = json.loads(progress["sources"][0]["endOffset"])["topics"][name]["partitions"]
    assert {"0": 50, "1": 50} == {partition: at[0] for partition, at in end.items()}
    if reports_log_ends():
        (lag,) = LagHistory().lags(progress)
        assert (2, 0) == (len(lag.partitions), lag.offsets)


def test_the_internal_source_explains_itself(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory
) -> None:
    """Nobody reads with it by mistake."""
    spark.dataSource.register(FilesDataSource)
    reader = spark.readStream.format(FilesDataSource.name()).options(**options_of(kafka, topic(1)))

    with pytest.raises(Exception, match=r"call that function, not format\(\)"):
        reader.load()


def test_the_page_copies_a_topic(
    spark: SparkSession,
    kafka: Cluster,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The code of docs/how-to/delta.md runs as it stands."""
    name = topic(1)
    write(kafka, name, ['{"id": 1, "customer": "Ada", "amount": 2.5}'])
    for place in ("/lake/orders", "/checkpoints/orders"):
        monkeypatch.setitem(REPLACED, place, f"{tmp_path}{place}")
    exec(code("docs/how-to/delta.md", kafka, name), {})

    found = by_duckdb(tmp_path / "lake/orders", "SELECT id, customer, amount FROM files")
    assert [(1, "Ada", 2.5)] == found


_NUMBERS = "delta.dataSkippingNumIndexedCols"


@pytest.mark.parametrize(
    "properties",
    [
        {},
        pytest.param({_NUMBERS: "19"}, marks=pytest.mark.long),
        pytest.param({"delta.dataSkippingStatsColumns": "n.o, `i`, clock"}, marks=pytest.mark.long),
    ],
)
def test_the_statistics_are_those_of_spark(
    spark: SparkSession,
    kafka: Cluster,
    topic: TopicFactory,
    tmp_path: Path,
    properties: dict[str, str],
) -> None:
    """The same columns have nulls and bounds in the log, nested ones too, and the nulls are equal.
    The bounds are equal. Those of times are rounded away from the values, where Spark cuts them,
    and both cut long texts, each in its way."""
    name = topic(2, retention_ms=-1)
    fill(kafka, name)
    options = options_of(kafka, name, **TYPED, **{"kfetch.rowsPerSplit": "100000"})
    frame = spark.readStream.format("kfetch").options(**options).load()
    found = {}
    for side in ("ours", "theirs"):
        table = str(tmp_path / side / "table")
        frame.sparkSession.createDataFrame([], frame.schema).write.format("delta").save(table)
        if properties:
            texts = ", ".join(f"'{key}' = '{text}'" for key, text in properties.items())
            spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ({texts})")
        if side == "ours":
            straight(spark, options, tmp_path / side)
        else:
            through_spark(frame.coalesce(1), tmp_path / side)
        (found[side],) = _statistics(tmp_path / side / "table")
    ours, theirs = found["ours"], found["theirs"]

    assert _paths(theirs["nullCount"]) == _paths(ours["nullCount"])
    assert theirs["numRecords"] == ours["numRecords"] == 600
    assert set(_paths(theirs["minValues"])) == set(_paths(ours["minValues"]))
    for bound in ("minValues", "maxValues"):
        mine = _paths(ours[bound])
        for path, value in _paths(theirs[bound]).items():
            if path in ("at", "timestamp"):
                assert (mine[path] <= value) is (bound == "minValues") or mine[path] == value, path
            elif path == "f":  # Spark writes the fewest digits that mean the same FLOAT
                assert value == pytest.approx(mine[path])
            elif path not in ("t", "topic"):
                assert value == mine[path], path


def _statistics(table: Path) -> list[Any]:
    files = sorted((table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [json.loads(one["add"]["stats"]) for one in actions if "add" in one]


def _paths(tree: Any, start: str = "") -> dict[str, Any]:
    """The values of a tree, by the names on the way to them."""
    if not isinstance(tree, dict):
        return {start.strip("."): tree}
    return {
        path: value
        for name, part in tree.items()
        for path, value in _paths(part, f"{start}.{name}").items()
    }
