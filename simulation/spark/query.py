"""A streaming query: the order of calls of Spark's MicroBatchExecution, and its checkpoint.

For each micro-batch: ``latestOffset``, the offset log, ``commit`` of the batch before,
``partitions``, tasks, the sink, the commit log. A killed query leaves the checkpoint and the sink,
as they are at that moment. The next one plans the uncommitted micro-batch again, from the offset
log.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from simulation.kernel import Kernel, Process
from simulation.spark.executor import Executor, Row, RowsOf, Stopped, TaskFailed, records_of

Offset = str
"""An offset is JSON text. Spark compares it as text."""
MakeReader = Callable[[], Any]
"""Returns a new stream reader, as Spark makes one for each start of a query."""
Run = Callable[[], list[list[Any]]]
"""Runs the tasks of a micro-batch, and returns the rows of each."""


class Trigger(StrEnum):
    """When a query plans micro-batches."""

    PROCESSING_TIME = "processingTime"
    AVAILABLE_NOW = "availableNow"
    ONCE = "once"


@dataclass
class Checkpoint:
    """What a query's checkpoint holds. Spark writes each file whole, by a rename."""

    offsets: dict[int, Offset] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)
    first_start: Offset = ""
    """Where batch 0 began when the offset log took its end. Spark does not keep it."""
    on_planned: Callable[[Offset], object] = lambda end: None
    """Called with each end that the offset log takes."""


@dataclass
class Sink:
    """A table that takes each micro-batch once, as Delta does with a transaction id."""

    batches: dict[int, list[list[Row]]] = field(default_factory=dict)
    """By micro-batch: the rows of each task."""
    repeated: int = 0
    rows_of: RowsOf = records_of

    def add(self, batch_id: int, run: Run, pause: Callable[[], object]) -> None:
        """Run a micro-batch, and write it. ``pause`` comes where ``stop`` interrupts Spark."""
        rows = run()
        pause()
        self.write(batch_id, rows)

    def write(self, batch_id: int, rows: list[list[Row]]) -> bool:
        """Add a micro-batch. Returns whether it was new."""
        if batch_id in self.batches:
            self.repeated += 1
            return False
        self.batches[batch_id] = rows
        return True


class Query:
    """One run of a streaming query, in a process of its own."""

    def __init__(
        self,
        kernel: Kernel,
        make_reader: MakeReader,
        checkpoint: Checkpoint,
        sink: Sink,
        executor: Executor,
        *,
        trigger: Trigger = Trigger.PROCESSING_TIME,
        trigger_s: float = 0.0,
    ) -> None:
        self.kernel = kernel
        self.checkpoint = checkpoint
        self.sink = sink
        self.executor = executor
        self.error: BaseException | None = None
        self.finished = False
        self.idle_rounds = 0
        """Triggers without new data, in a row."""
        self.batches = 0
        self._make_reader = make_reader
        self._trigger_s = trigger_s
        self._trigger = trigger
        self._stopping = False
        self.process: Process = kernel.spawn("driver")
        self.process.start(self._run)

    @property
    def alive(self) -> bool:
        """Whether the query runs."""
        return self.process.alive

    def stop(self) -> None:
        """End the query now, as ``StreamingQuery.stop`` does: it leaves its micro-batch.

        A call of the source ends first.
        """
        self._stopping = True
        self.executor.cancel()

    def _run(self) -> None:
        try:
            reader = self._make_reader()
        except Exception as error:
            self.error = error
            return
        try:
            self._limit = self._read_limit(reader)
            self._loop(reader)
            self.finished = True
        except Stopped:
            self.finished = True
        except TaskFailed as failed:
            self.error = failed.__cause__ or failed
        except Exception as error:
            self.error = error
        finally:
            reader.stop()

    def _read_limit(self, reader: Any) -> Any:
        """Returns what ``latestOffset`` gets as its limit. Spark asks when the query starts."""
        if self._trigger is Trigger.AVAILABLE_NOW:
            reader.prepareForTriggerAvailableNow()
        default = reader.getDefaultReadLimit()
        return ReadAllAvailable() if self._trigger is Trigger.ONCE else default

    def _loop(self, reader: Any) -> None:
        batch_id, committed, planned = self._restored()
        while True:
            if planned is None:
                planned = self._plan(reader, batch_id, committed)
            if planned is None:
                self.idle_rounds += 1
                if self._trigger is Trigger.AVAILABLE_NOW:
                    return
            else:
                self.idle_rounds = 0
                self._execute(reader, batch_id, committed, planned)
                batch_id, committed, planned = batch_id + 1, planned, None
            if self._trigger is Trigger.ONCE:
                return
            self._wait(self._trigger_s)

    def _wait(self, seconds: float) -> None:
        """Wait where ``stop`` interrupts Spark."""
        if not self._stopping:
            self.kernel.sleep(seconds)
        if self._stopping:
            raise Stopped

    def _pause(self) -> None:
        self.kernel.pause_point()
        if self._stopping:
            raise Stopped

    def _restored(self) -> tuple[int, Offset | None, Offset | None]:
        """Returns the next batch id, the offset where it starts, and its end if it is planned."""
        log = self.checkpoint.offsets
        if not log:
            return 0, None, None
        last = max(log)
        if last in self.checkpoint.commits:
            return last + 1, log[last], None
        return last, log.get(last - 1), log[last]

    def _plan(self, reader: Any, batch_id: int, committed: Offset | None) -> Offset | None:
        """Returns the end of the micro-batch, which the offset log now has; None without news."""
        start = committed if committed is not None else json.dumps(reader.initialOffset())
        end = json.dumps(reader.latestOffset(json.loads(start), self._limit))
        reader.reportLatestOffset()
        self._pause()
        if end == committed:  # batch 0 is planned in any case
            return None
        if batch_id == 0:
            self.checkpoint.first_start = start
        self.checkpoint.offsets[batch_id] = end
        self.checkpoint.on_planned(end)
        self._pause()
        if batch_id > 0:
            reader.commit(json.loads(self.checkpoint.offsets[batch_id - 1]))
        return end

    def _execute(self, reader: Any, batch_id: int, committed: Offset | None, end: Offset) -> None:
        start = committed if committed is not None else json.dumps(reader.initialOffset())
        splits = reader.partitions(json.loads(start), json.loads(end))
        read, rows_of = self._make_reader().read, self.sink.rows_of
        run = partial(self.executor.run, splits, read, rows_of)
        self.sink.add(batch_id, run, self._pause)
        self._pause()
        self.checkpoint.commits.add(batch_id)
        self.batches += 1
