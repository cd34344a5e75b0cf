"""Scripted histories of a streaming query, and the calls that Spark makes to its source.

A history is a list of runs over one checkpoint. Each run says which log ends the source tells, and
perhaps the call at which the query fails, is stopped or is killed. ``RealSide`` plays a history in
a Spark session, and ``ModelSide`` in the simulated Spark. Both return the recorded calls.

The killed runs need a Spark of their own: ``python -m integration.spark.call_order ROOM NAME…``
plays them until each stands at its call, and its parent kills it then.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from integration.streams import wait_until
from simulation.kernel import Kernel
from simulation.machine import Machine
from simulation.spark.executor import Executor
from simulation.spark.query import Checkpoint, Query, Sink, Trigger

RECORDS_A_SPLIT = 2
_SCHEMA = "topic STRING, partition INT, offset BIGINT, value BINARY"
_ROW = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("value", "binary")]
)

Call = tuple[Any, ...]
"""A method's name, and its arguments as JSON values."""


class Point(NamedTuple):
    """A call at which something happens."""

    method: str
    number: int = 1
    """The first call of the method in this run is 1."""


@dataclass(frozen=True)
class Run:
    """One run of a query."""

    ends: Sequence[int]
    """The log end that each ``latestOffset`` sees. The last one stays."""
    trigger: str = ""
    """``availableNow`` or ``once``; empty: Spark asks again and again."""
    most: int | None = None
    """The default read limit, in records."""
    fails: Point | None = None
    stopped: Point | None = None
    killed: Point | None = None
    begin: int = 0
    """What ``initialOffset`` returns."""


History = Sequence[Run]

ONCE, NOW = "once", "availableNow"
_ASKED_AGAIN = Point("latestOffset", 3)

COMMON: Mapping[str, History] = {
    "restarted after the commit log": [
        Run([3], fails=Point("latestOffset", 2)),
        Run([3, 6], fails=Point("latestOffset", 4)),
    ],
    "available now": [Run([5], NOW, most=2), Run([5], NOW, most=2), Run([8], NOW, most=2)],
    "once after a failed micro-batch": [
        Run([3], ONCE, fails=Point("sink")),
        Run([6], ONCE),
        Run([6], ONCE),
    ],
    "a failed first micro-batch": [
        Run([3], fails=Point("sink")),
        Run([4], begin=1, fails=Point("latestOffset", 2)),
    ],
    "a failed plan": [
        Run([3, 5], fails=Point("partitions", 2)),
        Run([6, 6], fails=_ASKED_AGAIN),
    ],
    "stopped while it reads": [
        Run([3, 4], stopped=Point("read", 3)),
        Run([6], fails=Point("latestOffset", 2)),
    ],
    "tasks that fail": [Run([2, 3], fails=Point("read")), Run([2], NOW)],
    "killed between offset log and commit": [
        Run([3, 5], killed=Point("commit")),
        Run([6], fails=Point("latestOffset", 2)),
    ],
    "killed before the commit log": [
        Run([3, 5], killed=Point("sink", 2)),
        Run([6], NOW),
    ],
}
"""A restart, a failure, a kill and a stop, and each trigger."""

RARE: Mapping[str, History] = {
    "records come, and again": [Run([3, 5, 5], fails=Point("latestOffset", 4))],
    "nothing at first": [Run([0, 0, 2], fails=Point("latestOffset", 5))],
    "restarted twice without news": [
        Run([3], NOW),
        Run([3], NOW),
        Run([3, 4], fails=Point("latestOffset", 4)),
    ],
    "available now, empty": [Run([0], NOW), Run([0], NOW), Run([2], NOW)],
    "available now after a failed micro-batch": [
        Run([5], NOW, most=2, fails=Point("sink", 2)),
        Run([6], NOW, most=2),
    ],
    "once": [Run([5], ONCE, most=2), Run([5], ONCE), Run([7], ONCE)],
    "a limit": [Run([5, 5, 5, 6], most=2, fails=Point("latestOffset", 5))],
    "an empty first micro-batch failed": [
        Run([0], fails=Point("sink")),
        Run([0, 1], fails=_ASKED_AGAIN),
    ],
    "a failed start": [Run([3], fails=Point("initialOffset")), Run([3], NOW)],
    "a failed first look": [Run([3], fails=Point("latestOffset")), Run([3], NOW)],
    "a failed report": [Run([3], fails=Point("reportLatestOffset")), Run([3], NOW)],
    "a failed commit": [
        Run([3, 5], fails=Point("commit")),
        Run([6, 6], fails=_ASKED_AGAIN),
    ],
    "killed before the offset log": [
        Run([3, 5], killed=Point("reportLatestOffset", 2)),
        Run([6], fails=Point("latestOffset", 2)),
    ],
    "killed before the first offset log": [
        Run([3], killed=Point("latestOffset")),
        Run([3], begin=1, trigger=NOW),
    ],
    "killed between offset log and run": [
        Run([3, 5], killed=Point("partitions", 2)),
        Run([6], fails=Point("latestOffset", 2)),
    ],
    "killed while it reads": [
        Run([3], killed=Point("read")),
        Run([6], begin=1, fails=Point("latestOffset", 2)),
    ],
    "killed before the commit log, then once": [
        Run([3], killed=Point("sink")),
        Run([6], ONCE),
        Run([6], ONCE),
    ],
    "killed after the micro-batch": [
        Run([3, 5], killed=Point("latestOffset", 3)),
        Run([5, 6], fails=Point("latestOffset", 3)),
    ],
}
"""Other moments of these. They take a minute more, so the long tests play them."""

HISTORIES: Mapping[str, History] = {**COMMON, **RARE}


class Scripted(Exception):
    """A failure that a history asks for."""


class Calls:
    """The recorded calls of one run, in a file: Spark's processes share it."""

    def __init__(self, room: str, run: Run, end: Callable[[Calls, str], None]) -> None:
        """``end``: stops or kills the query at the present call."""
        self._room = room
        self.run = run
        self._end = end

    @property
    def _file(self) -> str:
        return os.path.join(self._room, "calls")

    def note(self, method: str, *arguments: Any) -> None:
        """Record a call. Raises Scripted, or ends the query, if the run says so."""
        handle = os.open(self._file, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        os.write(handle, json.dumps([method, *arguments]).encode() + b"\n")
        os.close(handle)
        run = self.run
        at = Point(method, self.count(method))
        if run.fails == at or (run.fails and method == "read" and run.fails.method == "read"):
            raise Scripted(f"{at}")
        for fate, point in (("stopped", run.stopped), ("killed", run.killed)):
            if point == at:
                self._end(self, fate)

    def count(self, method: str) -> int:
        """Returns how often a method was called."""
        return sum(call[0] == method for call in self.read())

    def read(self) -> list[Call]:
        """Returns the calls so far."""
        with open(self._file, "a+") as file:
            file.seek(0)
            return [tuple(json.loads(line)) for line in file]

    def mark(self, name: str) -> None:
        """Tell other processes that something has come."""
        with open(os.path.join(self._room, name), "w"):
            pass

    def is_marked(self, name: str) -> bool:
        """Returns whether somebody has called ``mark``."""
        return os.path.exists(os.path.join(self._room, name))


class ScriptedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A source of one partition that records each call."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def initialOffset(self) -> dict[str, Any]:
        self._calls.note("initialOffset")
        return {"at": self._calls.run.begin}

    def prepareForTriggerAvailableNow(self) -> None:
        self._calls.note("prepareForTriggerAvailableNow")

    def getDefaultReadLimit(self) -> ReadLimit:
        self._calls.note("getDefaultReadLimit")
        most = self._calls.run.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        asked = [type(limit).__name__, *vars(limit).values()]
        self._calls.note("latestOffset", start, asked)
        ends = self._calls.run.ends
        end = ends[min(self._calls.count("latestOffset"), len(ends)) - 1]
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else end
        return {"at": max(start["at"], min(end, start["at"] + most))}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        self._calls.note("reportLatestOffset")
        return {"at": self._calls.run.ends[-1]}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._calls.note("partitions", start, end)
        return [
            InputPartition((begin, min(begin + RECORDS_A_SPLIT, end["at"])))
            for begin in range(start["at"], end["at"], RECORDS_A_SPLIT)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        begin, end = partition.value
        self._calls.note("read", begin, end)
        offsets = range(begin, end)
        rows = [{"topic": "t", "partition": 0, "offset": n, "value": b""} for n in offsets]
        yield pa.RecordBatch.from_pylist(rows, schema=_ROW)

    def commit(self, end: dict[str, Any]) -> None:
        self._calls.note("commit", end)

    def stop(self) -> None:
        pass  # Spark may end the process before


def told(calls: Sequence[Call]) -> list[Call]:
    """Returns calls in an order that does not depend on which of two tasks begins first."""
    ordered: list[Call] = []
    for is_read, group in groupby(calls, lambda call: call[0] == "read"):
        some = list(group)
        ordered += sorted(some) if is_read else some
    return ordered


def _offsets(rows: Sequence[Any]) -> list[int]:
    return sorted(row.offset for row in rows)


# -- Spark itself -----------------------------------------------------------------------------


class ScriptedSource(DataSource):
    """``format("scripted")``."""

    @classmethod
    def name(cls) -> str:
        return "scripted"

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        run = json.loads(self.options["run"])
        points = {name: Point(*run[name]) for name in ("fails", "stopped", "killed") if run[name]}
        return ScriptedReader(Calls(self.options["room"], Run(**run | points), _stand_still))


def _stand_still(calls: Calls, fate: str) -> None:
    """Wait here, until somebody has stopped the query, or kills this process."""
    calls.mark(fate)
    while not calls.is_marked("go on"):
        time.sleep(0.01)


class RealSide:
    """One history, in a Spark session."""

    def __init__(self, spark: SparkSession, room: Path) -> None:
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        spark.dataSource.register(ScriptedSource)
        self._spark, self._room = spark, room
        self.calls: Calls
        self._query: StreamingQuery

    def start(self, number: int, run: Run) -> None:
        """Start a run."""
        room = self._room / str(number)
        room.mkdir(parents=True, exist_ok=True)
        self.calls = calls = Calls(str(room), run, _stand_still)

        def sink(frame: DataFrame, batch: int) -> None:
            calls.note("sink", batch, _offsets(frame.collect()))

        source = self._spark.readStream.format("scripted")
        source = source.options(room=str(room), run=json.dumps(asdict(run)))
        writer = source.load().writeStream.foreachBatch(sink)
        if run.trigger:
            writer = writer.trigger(**{run.trigger: True})  # type: ignore[arg-type]
        self._query = writer.option("checkpointLocation", str(self._room / "checkpoint")).start()

    def finish(self) -> list[Call]:
        """Wait until the run has ended, or stands still for its kill. Returns the calls."""
        run, calls = self.calls.run, self.calls
        if run.killed:
            wait_until(lambda: calls.is_marked("killed"), self._query, f"{run}")
        elif run.stopped:
            wait_until(lambda: calls.is_marked("stopped"), self._query, f"{run}")
            self._query.stop()
            calls.mark("go on")
        else:
            wait_until(lambda: not self._query.isActive, what=f"{run}")
            error = self._query.exception()
            if error is not None and "Scripted" not in str(error):
                raise error
        return told(calls.read())

    def recorded(self, number: int, run: Run) -> list[Call]:
        """Returns the calls of a run that another process has played."""
        return told(Calls(str(self._room / str(number)), run, _stand_still).read())


def _play_and_wait(room: Path, histories: Sequence[str]) -> None:
    """Play the runs that are killed, and those whose tasks fail four times. Wait for the end."""
    from kfetch_jobs.jvm.spark import session

    settings = {"spark.master": "local[8,4]", "spark.ui.enabled": "false"}
    with session(settings, name="call order", log=room / "log", delta=False) as spark:
        for names in in_groups(histories):
            sides = [RealSide(spark, room / name) for name in names]
            for name, side in zip(names, sides, strict=True):
                side.start(0, HISTORIES[name][0])
            for side in sides:
                side.finish()
        (room / "ready").touch()
        time.sleep(600)  # the parent kills this process


# -- the model ---------------------------------------------------------------------------------


class _RecordingSink(Sink):
    """Records the micro-batches that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Calls

    def write(self, batch_id: int, rows: list[list[Any]]) -> bool:
        self.calls.note("sink", batch_id, _offsets([row for of_task in rows for row in of_task]))
        return super().write(batch_id, rows)


class ModelSide:
    """One history, in the simulated Spark."""

    def __init__(self, room: Path) -> None:
        self._room = room
        self._kernel = Kernel(seed=1)
        self._machine = Machine(self._kernel, programs={})
        self._checkpoint, self._sink = Checkpoint(), _RecordingSink()
        self._query: Query
        self._executor: Executor

    def play(self, number: int, run: Run, *, tries: int) -> list[Call]:
        """Returns the calls of a run. ``tries``: of each task."""
        room = self._room / str(number)
        room.mkdir(parents=True)
        calls = self._sink.calls = Calls(str(room), run, self._end)
        self._executor = Executor(
            self._kernel, 2, self._machine, speculation=0, batch_s=0, tries=tries
        )
        self._query = Query(
            self._kernel,
            lambda: ScriptedReader(calls),
            self._checkpoint,
            self._sink,
            self._executor,
            trigger=Trigger(run.trigger or "processingTime"),
        )
        self._machine.adopt(self._query.process, self._machine.init, "python3")
        self._kernel.run(until=self._kernel.now + 60)
        error = self._query.error
        if self._query.alive or self._kernel.crashes:
            raise AssertionError(f"{run} has not ended: {self._kernel.crashes}")
        if error is not None and not isinstance(error, Scripted):
            raise error
        return told(calls.read())

    def _end(self, calls: Calls, fate: str) -> None:
        query, executor = self._query, self._executor
        if fate == "stopped":
            query.stop()
            return
        # The present thread's own process comes last, because its end does not return.
        ends = [query.process.kill, executor.kill]
        is_driver = self._kernel.current and self._kernel.current.process is query.process
        for end in reversed(ends) if is_driver else ends:
            end()


def in_groups(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields the names of histories that run side by side.

    Spark gives each source's process ten seconds to start, and a busy machine starts few at once.
    """
    for begin in range(0, len(names), 2):
        yield names[begin : begin + 2]


def needs_own_spark(name: str) -> bool:
    """Returns whether a Spark of its own plays the first run of a history."""
    first = HISTORIES[name][0]
    return bool(first.killed or (first.fails and first.fails.method == "read"))


if __name__ == "__main__":
    _play_and_wait(Path(sys.argv[1]), sys.argv[2:])
