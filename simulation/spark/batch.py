"""A batch read: Spark's planning process asks for the splits once, and tasks read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulation.kernel import Kernel, Process
from simulation.spark.executor import Executor, Row, TaskFailed

Done = Callable[["BatchRead"], object]


class BatchRead:
    """One ``spark.read`` in a process of its own, on an executor of its own."""

    def __init__(self, kernel: Kernel, reader: Any, executor: Executor, done: Done) -> None:
        self.rows: list[Row] = []
        self.error: BaseException | None = None
        self.executor = executor
        self._reader = reader
        self._done = done
        self.process: Process = kernel.spawn("batch driver")

    def start(self) -> None:
        """Begin to read."""
        self.process.start(self._run)

    def _run(self) -> None:
        try:
            splits = self._reader.partitions()
            self.rows = [
                row for rows in self.executor.run(splits, self._reader.read) for row in rows
            ]
        except TaskFailed as failed:
            self.error = failed.__cause__ or failed
        except Exception as error:
            self.error = error
        self._done(self)
