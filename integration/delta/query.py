"""The query that ``test_faults`` kills: ``delta.stream`` in a process of its own,
without a JAR of Delta.

    python -m integration.delta.query '{"servers": …, "topic": …, "directory": …, "trigger": {…}}'

``stop_at`` names a step: ``files`` when a micro-batch's files are written and not committed,
``commit`` when they are committed and Spark's checkpoint has no commit, ``checkpoint`` when the
next micro-batch begins. There the process makes ``reached`` and waits to be killed. With ``die``
each task's first attempt dies when it has completed a file. With ``cluster``, two executors run in
processes of their own, and Spark runs slow tasks twice.

``table`` names the place of the table: default, in ``directory``. ``settings`` are Spark's, and
``bytes`` is the size of row groups. With ``tell``, Spark prints its plans, and logs its events.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration.sessions import bare
from integration.streams import finish
from kfetch import delta
from kfetch.delta import copying, plan
from kfetch.delta.log import TableLog
from kfetch.delta.source import FilesDataSource, FilesReader

if TYPE_CHECKING:
    import pyarrow as pa

OFFSETS_PER_TRIGGER = 5_000
_CLUSTER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.task.maxFailures": "50",
    "spark.deploy.maxExecutorRetries": "-1",
}


def main(asked: dict[str, Any]) -> None:
    """Run until the trigger ends the query, or somebody the process."""
    directory = Path(asked["directory"])
    _stop_at(asked.get("stop_at", ""), directory)
    if asked.get("die"):
        copying.FilesDataSource = DyingDataSource
    if asked.get("cluster"):
        settings = (f"--conf {name}={value}" for name, value in _CLUSTER.items())
        os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*settings, "pyspark-shell"])
    if "bytes" in asked:
        plan._ROW_GROUP_BYTES = asked["bytes"]
    # The second number: so often a task is tried. Without it, local mode tries once.
    master = "local-cluster[2,1,1024]" if asked.get("cluster") else "local[2,4]"
    settings = dict(asked.get("settings", {}))
    if asked.get("tell"):
        (directory / "events").mkdir()
        settings |= {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(directory / "events"),
        }
    spark = bare(directory, master, settings)
    options = {
        "kafka.bootstrap.servers": asked["servers"],
        "subscribe": asked["topic"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(OFFSETS_PER_TRIGGER),
    }
    query = delta.stream(
        spark,
        options,
        table=asked.get("table", str(directory / "table")),
        checkpoint=str(directory / "checkpoint"),
        trigger=asked["trigger"],
    )
    finish(query)
    if asked.get("tell"):
        query.explain(extended=True)
    spark.stop()


def _stop_at(step: str, directory: Path) -> None:
    commit, has_batch = TableLog.commit, TableLog.has_batch

    def stop() -> None:
        (directory / "reached").touch()
        time.sleep(600)

    def stopping_commit(self: TableLog, *args: Any) -> bool:
        if step == "files":
            stop()
        committed = commit(self, *args)
        if step == "commit":
            stop()
        return committed

    def stopping_look(self: TableLog, name: str, batch: int) -> bool:
        if step == "checkpoint" and batch > 0:
            stop()
        return has_batch(self, name, batch)

    TableLog.commit = stopping_commit  # type: ignore[method-assign]
    TableLog.has_batch = stopping_look  # type: ignore[method-assign]


class DyingDataSource(FilesDataSource):
    """Its readers die."""

    def _reader_of(self, options: Any) -> FilesReader:
        return DyingReader(options, self._plans, self._settings)


class DyingReader(FilesReader):
    """Ends its process in the first attempt of each task."""

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """See FilesReader."""
        from pyspark import TaskContext

        task = TaskContext.get()
        for row in FilesReader.read(self, partition):
            if task is not None and task.attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            yield row


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
