"""Which jobs are written straight, and the clause that sends the rows of others through Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kfetch.delta.copying import TableCopy
from kfetch.delta.log import TableLog, WrittenFile
from kfetch_jobs import config
from kfetch_jobs.checkpoints.location import queries_of
from kfetch_jobs.config import Job, write_way
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.run.straight import needs_delta, way
from tests.kfetch.delta.tables import field
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import ENVIRON, JOB
from tests.store import Store

AUTO = JOB.replace("  path:", "  write: auto\n  path:")
LOCAL = "path: ${storage}/clicks/table"
SQL = "  sql: SELECT * FROM source\n"
TYPED = "    valueFormat: json\n    valueSchema: 'id BIGINT, sent DATE'\n"


def loaded(project: Path, *changes: tuple[str, str]) -> Job:
    """The job ``clicks`` with ``write: auto``, after changes of its text."""
    text = AUTO
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (project / "conf" / "jobs" / "clicks.yml").write_text(text)
    return config.load(config.find(project), ENVIRON).job("clicks")


def names(job: Job, settings: dict[str, str] | None = None) -> list[str] | str:
    """The columns of the copy that a job is, or the clause that needs Spark."""
    found = way(job, job.spark | (settings or {}))
    return [f["name"] for f in found.fields] if isinstance(found, TableCopy) else found


TRANSFORM = f"transform:\n{SQL}"
STRAIGHT = [
    ([], ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]),
    ([(SQL, "  sql: SELECT offset AS o, value FROM source\n")], ["o", "value"]),
    ([(TRANSFORM, ""), ("includeHeaders: true", "columns: 'offset,value'")], ["offset", "value"]),
    (
        [("    includeHeaders: true\n", TYPED), (SQL, "  sql: SELECT value.* FROM source\n")],
        ["id", "sent"],
    ),
    (
        [
            ("    includeHeaders: true\n", TYPED),
            ("  path:", "  deadLetters: {path: d}\n  path:"),
        ],
        ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"],
    ),
    (
        [("  options:\n", "  decode: {fields: 'a INT'}\n  options:\n"), (TRANSFORM, "")],
        ["key", "topic", "partition", "offset", "timestamp", "timestampType", "headers", "event"],
    ),
    (
        [
            (SQL, "  sql: SELECT date(timestamp) AS day, value FROM source\n"),
            ("  path:", "  partitionBy: Day\n  path:"),
        ],
        ["day", "value"],
    ),
]


@pytest.mark.parametrize(("changes", "expected"), STRAIGHT)
def test_jobs_that_copy(project: Path, changes: list[tuple[str, str]], expected: list[str]) -> None:
    """With SQL that selects, and without SQL. The columns stand in the query's order."""
    found = names(loaded(project, *changes))

    assert not isinstance(found, str), found
    assert expected == found


THROUGH_SPARK = [
    ([("write: auto", "write: spark")], "sink.write"),
    ([("  path:", "  mode: merge\n  keys: offset\n  latestBy: timestamp\n  path:")], "sink.mode"),
    (
        [
            ("    includeHeaders: true\n", TYPED),
            ("  path:", "  deadLetters: {table: a.b}\n  path:"),
        ],
        "sink.deadLetters.table, because",
    ),
    (
        [
            ("    includeHeaders: true\n", TYPED),
            ("  path:", "  deadLetters: {path: d}\n  path:"),
            ("trigger:", "checkpoint: wasbs://b/c\nsingleHost: true\ntrigger:"),
        ],
        "sink.deadLetters with this checkpoint, because kfetch reads and writes only file:",
    ),
    ([("path: ${storage}/clicks/table", "table: lake.clicks")], "sink.table, because only a"),
    ([("path: ${storage}/clicks/table", "path: dbfs:/t")], "sink.path, because kfetch reads"),
    (
        [
            ("path: ${storage}/clicks/table", "path: s3a://b/t"),
            ("trigger:", "spark: {spark.hadoop.fs.s3a.access.key: k}\ntrigger:"),
        ],
        "sink.path, because spark.hadoop.fs.s3a.secret.key is missing",
    ),
    ([("  path:", "  options: {optimizeWrite: true}\n  path:")], "sink.options.optimizeWrite"),
    ([(SQL, "  sql: SELECT offset FROM source WHERE offset > 1\n")], "WHERE in transform.sql"),
    ([(SQL, "  sql: SELECT nothing FROM source\n")], "the name nothing in transform.sql"),
    (
        [(SQL, "  sql: SELECT value, date(timestamp) AS day FROM source\n")],
        "the column day is wrong: only a partition column may be a function",
    ),
    (
        [
            (SQL, "  sql: SELECT value, year(offset) AS y FROM source\n"),
            ("  path:", "  partitionBy: y\n  path:"),
        ],
        "offset is BIGINT, and no timestamp",
    ),
    ([("  path:", "  partitionBy: value\n  path:")], "BINARY is no type of a partition column"),
]


@pytest.mark.parametrize(("changes", "clause"), THROUGH_SPARK)
def test_jobs_that_need_spark(project: Path, changes: list[tuple[str, str]], clause: str) -> None:
    """The clause names the key, the word of the SQL, or the column."""
    found = names(loaded(project, *changes))

    assert isinstance(found, str)
    assert clause in found


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_jobs_in_a_store(project: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table in a store is looked at, too. One that does not answer is an error with its name."""
    uri = store.path("jobs/clicks")
    job = loaded(project, (SQL, "  sql: SELECT offset FROM source\n"), (LOCAL, f"path: {uri}"))
    assert ["offset"] == names(job, store.settings)

    TableLog(uri, [field("offset", "string")], []).open(merge_schema=False)
    assert f"BIGINT, and in the table {uri} it is STRING" in str(names(job, store.settings))

    monkeypatch.setattr("kfetch.storage.open._FIRST_PAUSE_S", 0.001)
    with pytest.raises(JobsError, match=f"can't read the table {uri}"):
        names(job, store.settings | {"spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9"})


@pytest.mark.parametrize("behind", [0, 1])
def test_queries_of_a_long_log(tmp_path: Path, behind: int) -> None:
    """Each query that has written to a table is known from the table's last checkpoint, also if
    thousands of commits lie behind, or if Delta has removed the old ones. So a job that starts anew
    finds out that it has run before."""
    log = TableLog(tmp_path / "t", [field("offset")], [])
    log.open(merge_schema=False)
    for number in range(4):
        (tmp_path / "t" / f"f{number}").write_bytes(b"1")
        file = WrittenFile(path=f"f{number}", size=1, rows=1, partitions={}, statistics="{}")
        assert log.commit(f"q{number}", 0, [file], lambda: None)
        if number == 3 - behind:
            DeltaTable(str(tmp_path / "t")).create_checkpoint()
    for number in range(3):
        (tmp_path / f"t/_delta_log/{number:020}.json").unlink()

    assert {"q0", "q1", "q2", "q3"} == queries_of(tmp_path / "t")


def test_a_checkpoint_that_lacks_a_part_is_none(tmp_path: Path) -> None:
    """Delta takes a checkpoint in parts only with all of them. Without it, all commits count."""
    log = TableLog(tmp_path / "t", [field("offset")], [])
    log.open(merge_schema=False)
    (tmp_path / "t/f").write_bytes(b"1")
    file = WrittenFile(path="f", size=1, rows=1, partitions={}, statistics="{}")
    assert log.commit("q", 0, [file], lambda: None)
    directory = tmp_path / "t/_delta_log"
    for part in (1, 2):
        name = f"{9:020}.checkpoint.{part:010}.{3:010}.parquet"
        (directory / name).write_bytes(b"of three")
    assert {"q"} == queries_of(tmp_path / "t")

    (directory / f"{9:020}.checkpoint.parquet").write_bytes(b"half")
    with pytest.raises(JobsError, match=r"9\.checkpoint\.parquet is damaged"):
        queries_of(tmp_path / "t")


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_what_a_run_asks_a_store(project: Path, store: Store) -> None:
    """Which queries have written to a table, and whether dead letters are half-written. Spark needs
    Delta only then."""
    table, dead = (store.path(f"jobs/asked/{name}") for name in ("table", "dead"))
    assert set() == queries_of(table)
    for place, batch in ((table, 0), (dead, 1)):
        log = TableLog(place, [field("offset")], [])
        log.open(merge_schema=False)
        file = WrittenFile(path="f", size=1, rows=1, partitions={}, statistics="{}")
        assert log.commit("q", batch, [file], lambda: None)
    assert {"q"} == queries_of(table)

    letters = ("  path:", f"  deadLetters: {{path: {dead}}}\n  path:")
    spark = "".join(f"  {name}: '{text}'\n" for name, text in store.settings.items())
    job = loaded(
        project,
        ("    includeHeaders: true\n", TYPED),
        ("write: auto", "write: straight"),
        letters,
        (LOCAL, f"path: {table}"),
        ("trigger:", f"spark:\n{spark}checkpoint: {store.path('jobs/asked/ck')}\ntrigger:"),
    )
    checkpoint = store.path("jobs/asked/ck")
    (checkpoint / "metadata").write_text('{"id": "q"}')
    for batch, needed in ((0, False), (1, True)):
        (checkpoint / "offsets" / str(batch)).write_text('v1\n{"batchTimestampMs": 1}\n{}')
        assert needed is needs_delta(job)
        (checkpoint / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs": 0}')


def test_a_function_of_the_project_and_two_sources(project: Path) -> None:
    """Nobody knows what Python does."""
    (project / "shop.py").write_text("def clicks(source):\n    return source\n")
    python = loaded(project, (TRANSFORM, "transform: shop:clicks\n"))
    source = AUTO[: AUTO.index("transform:")].replace("source:\n", "").replace("\n  ", "\n    ")
    both = f"sources:\n  source:\n  {source}  other:\n  {source}"
    two = loaded(project, (AUTO[: AUTO.index("transform:")], both))

    assert "transform, the function shop:clicks" == names(python)
    assert "several sources" == names(two)


@pytest.mark.parametrize(
    "setting",
    [
        "spark.databricks.delta.properties.defaults.appendOnly",
        "spark.databricks.delta.optimizeWrite.enabled",
        "spark.sql.caseSensitive",
    ],
)
def test_settings_that_kfetch_does_not_follow(project: Path, setting: str) -> None:
    """They change what Spark would write."""
    assert f"the setting {setting}" == names(loaded(project), {setting: "true"})
    assert isinstance(names(loaded(project), {"spark.sql.caseSensitive": "false"}), list)


def test_the_table_decides_too(project: Path) -> None:
    """Without Spark, a look at the table says what does not fit. The look changes nothing."""
    job = loaded(project, (SQL, "  sql: SELECT offset, value FROM source\n"))
    table = Path(str(job.target.path))
    assert ["offset", "value"] == names(job)
    assert not table.exists()
    write_deltalake(str(table), pa.table({"offset": [1], "extra": ["x"]}))
    assert f"the table {table} has no column value" == names(job)
    evolves = loaded(
        project,
        (SQL, "  sql: SELECT offset, value FROM source\n"),
        ("  path:", "  options: {mergeSchema: true}\n  path:"),
    )
    assert ["offset", "value"] == names(evolves)
    assert 0 == DeltaTable(str(table)).version()
    DeltaTable(str(table)).alter.add_constraint({"small": "offset < 5"})
    assert "has the constraint small" in str(names(evolves))


def test_missing_packages(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them, ``auto`` goes through Spark."""
    monkeypatch.setattr(write_way, "_PACKAGES", ("no_such_package",))

    assert "pip install 'kfetch-jobs[straight]' is missing" == names(loaded(project))


STATIC = ("write: auto", "write: straight")


def test_straight_that_the_file_does_not_allow(project: Path, kfetch: Command) -> None:
    """``validate`` finds it with its line, so that no run begins."""
    with pytest.raises(ConfigError, match=r"clicks\.yml:11: .*need Spark: WHERE in transform\.sql"):
        loaded(project, STATIC, (SQL, "  sql: SELECT offset FROM source WHERE offset > 1\n"))


def test_straight_that_the_table_does_not_allow(project: Path) -> None:
    """It is an error of the run, with the line of the key."""
    job = loaded(project, STATIC)
    write_deltalake(str(job.target.path), pa.table({"offset": ["text"]}))

    with pytest.raises(ConfigError, match=r"clicks\.yml:11: sink\.write is straight, .*no column"):
        names(job)


def test_a_secret_in_the_sql(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clause shows the placeholder."""
    monkeypatch.setitem(ENVIRON, "WORD", "hunter2hunter2")
    with pytest.raises(ConfigError) as caught:
        loaded(project, STATIC, (SQL, "  sql: SELECT '${env:WORD}' AS w FROM source\n"))

    assert "hunter2" not in caught.value.message
