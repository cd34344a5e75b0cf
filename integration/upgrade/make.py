"""Makes tests/vectors/upgrade: a broker's data, a checkpoint and a project with its database.

    python -P make.py OUTPUT [--project /srv/clicks]

Run it with the Python of the environment whose kfetch writes the files. The script imports nothing
of kfetch: it gives commands, and it reads with ``format("kfetch")``. So it runs with every version.
The project's path is in the database (an error names a log), so choose a path that names nobody.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer

KFETCH = Path(sys.executable).with_name("kfetch")
TOPIC = "clicks"
PARTITIONS = 3
TIME_MS = 1_700_000_000_000
"""The timestamp of record 0. Each record is one millisecond later than the record before it."""
PER_TRIGGER = 24
PATIENCE_S = 300

TRANSIENT = ("*.log", "*.log.*", "lock", "*.lock", "tmp", "page.json", "kfetch.db-*")
"""Files of the storage that no later run reads: logs, locks, Spark's temporary files."""

DAILY = """\
description: Reads what is there, and ends.
source:
  cluster: main
  subscribe: clicks
  decode:
    fields: id BIGINT, page STRING, action STRING
  options:
    startingOffsets: earliest
transform:
  sql: SELECT event.id, partition, offset FROM source
sink:
  path: ${storage}/tables/daily
trigger: availableNow
"""
BROKEN = """\
description: Fails in each run, and is given up after one restart.
source:
  cluster: main
  subscribe: clicks
  options:
    startingOffsets: earliest
transform:
  sql: SELECT CAST(raise_error('the till is empty') AS BIGINT) AS id, offset FROM source
sink:
  path: ${storage}/tables/broken
trigger: availableNow
restart:
  initial: 1 second
  attempts: 1
"""


def main() -> None:
    """Makes all files in the given directory."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("output", type=Path)
    arguments.add_argument("--project", type=Path, default=Path("/srv/clicks"))
    given = arguments.parse_args()
    if given.project.exists():
        sys.exit(f"{given.project} exists: remove it, or name another directory")
    with tempfile.TemporaryDirectory(prefix="kfetch-upgrade-") as temporary:
        try:
            make(given.output.absolute(), given.project.absolute(), Path(temporary))
        finally:
            shutil.rmtree(given.project, ignore_errors=True)


def make(output: Path, project: Path, temporary: Path) -> None:
    """Runs the story: 30 records per step, a crash after each reader has read a part."""
    broker, checkpoint = temporary / "broker", temporary / "query" / "checkpoint"
    with running_broker(broker) as servers:
        create_topic(servers)
        produce(servers, 0, 60)
        query(servers, checkpoint)
        supervise(servers, project)
        with suppress(Exception):  # the crash in micro-batch 3
            query(servers, checkpoint, fails=True)
        if committed(checkpoint) != -1:
            raise RuntimeError("micro-batch 3 has a commit, or was not planned")
        produce(servers, 90, 120)
    collect_broker(broker, output / "broker")
    shutil.copytree(checkpoint, output / "query" / "checkpoint")
    collect_project(project, output / "project")


def kfetch(*words: str, check: bool = True, **options: Any) -> str:
    """Gives a command. Returns its output."""
    said = subprocess.run(
        [KFETCH, *words], check=check, stdout=subprocess.PIPE, text=True, **options
    )
    return str(said.stdout)


@contextmanager
def running_broker(directory: Path) -> Iterator[str]:
    """Starts a broker for the block. Yields its address."""
    told = json.loads(kfetch("broker", "start", "--dir", str(directory), "--json"))
    try:
        yield told["bootstrap_servers"]
    finally:
        kfetch("broker", "stop", "--dir", str(directory))


def create_topic(servers: str) -> None:
    """Creates the topic. Its records never expire, because the tests read them years later."""
    asked = {
        "num_partitions": PARTITIONS,
        "replication_factor": 1,
        "configs": {"retention.ms": "-1"},
    }
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics({TOPIC: asked}, wait_for_metadata=True)


def produce(servers: str, first: int, end: int) -> None:
    """Writes records ``first`` to before ``end``, one per partition in turn."""
    with closing(KafkaProducer(bootstrap_servers=servers)) as producer:
        for number in range(first, end):
            event = {"id": number, "page": f"/{number % 7}", "action": "view"}
            producer.send(
                TOPIC,
                json.dumps(event).encode(),
                key=b"user-%d" % (number % 5),
                partition=number % PARTITIONS,
                timestamp_ms=TIME_MS + number,
            )
        producer.flush(60)


def query(servers: str, checkpoint: Path, *, fails: bool = False) -> None:
    """Runs a streaming query over the records that are there."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import DataFrame, SparkSession

    def sink(frame: DataFrame, batch: int) -> None:
        if fails:
            raise RuntimeError("the machine is gone")
        frame.collect()

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False)
    spark = session.getOrCreate()
    try:
        frame = (
            spark.readStream.format("kfetch")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", TOPIC)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", PER_TRIGGER)
            .load()
        )
        writer = frame.writeStream.foreachBatch(sink).trigger(availableNow=True)
        writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    finally:
        spark.stop()


def supervise(servers: str, project: Path) -> None:
    """Makes a project and supervises it: a job ends, one is given up, one is restarted by hand.

    Then it kills the supervisor and a job, and leaves an order for the next supervisor.
    """
    kfetch("init", str(project))
    (project / "jobs" / "daily.yml").write_text(DAILY)
    (project / "jobs" / "broken.yml").write_text(BROKEN)
    at: Any = {"cwd": project, "env": os.environ | {"KFETCH_BOOTSTRAP": servers}}
    kfetch("up", "--detach", "--listen", "none", **at)
    try:
        work_and_crash(servers, project, at)
    except BaseException:
        kfetch("down", "--now", check=False, **at)
        raise
    kfetch("pause", "daily", **at)


def work_and_crash(servers: str, project: Path, at: dict[str, Any]) -> None:
    """Waits until the jobs have done their part, then kills the supervisor and ``clicks``."""

    def status() -> Any:
        return json.loads(kfetch("status", "--json", check=False, **at))

    def phases() -> dict[str, str]:
        return {job["name"]: job["phase"] for job in status()["jobs"]}

    until(lambda: phases()["daily"] == "finished" and phases()["broken"] == "failed")
    checkpoint = project / ".kfetch" / "storage" / "clicks" / "checkpoint"
    until(lambda: committed(checkpoint) == 60)
    kfetch("restart", "clicks", **at)
    produce(servers, 60, 90)
    until(lambda: committed(checkpoint) == 90)

    told = status()
    (pid,) = (job["pid"] for job in told["jobs"] if job["name"] == "clicks")
    os.kill(told["supervisor"], signal.SIGKILL)
    os.killpg(pid, signal.SIGKILL)


def committed(checkpoint: Path) -> int:
    """Returns the offsets of the last micro-batch, added up. Returns -1 while it has no commit."""
    offsets, commits = (numbers(checkpoint / log) for log in ("offsets", "commits"))
    if not offsets or offsets[-1:] != commits[-1:]:
        return -1
    end = json.loads((checkpoint / "offsets" / str(offsets[-1])).read_text().splitlines()[-1])
    return sum(offset for offset, _ in end["topics"][TOPIC]["partitions"].values())


def numbers(log: Path) -> list[int]:
    """Returns the micro-batches of a log, in order."""
    names = (file.name for file in log.glob("*"))
    return sorted(int(name) for name in names if name.isdigit())


def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition. Raises TimeoutError after five minutes."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the condition did not come true")
        time.sleep(1)


def collect_broker(directory: Path, output: Path) -> None:
    """Copies the state file and the data. The next start writes all other files again."""
    shutil.copytree(
        directory / "node-1" / "data",
        output / "node-1" / "data",
        ignore=shutil.ignore_patterns(".lock", "*.index", "*.timeindex", "*.txnindex"),
    )
    shutil.copy(directory / "kfetch-kafka.json", output)


def collect_project(directory: Path, output: Path) -> None:
    """Copies the project without schemas, README and logs; the storage is not hidden any more."""
    shutil.copytree(
        directory,
        output,
        ignore=shutil.ignore_patterns(".kfetch", ".gitignore", "schema", "README.md", "__py*"),
    )
    storage = directory / ".kfetch" / "storage"
    with closing(sqlite3.connect(storage / ".supervisor" / "kfetch.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # one file, without a log beside it
    shutil.copytree(storage, output / "storage", ignore=shutil.ignore_patterns(*TRANSIENT))


if __name__ == "__main__":
    main()
