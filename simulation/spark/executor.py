"""Worker processes that read splits, and the attempts at one micro-batch's tasks.

A worker reads one split at a time through the product's own ``read``. An attempt fails if its
worker dies or if ``read`` raises. Spark tries a task four times, and may start a second attempt
beside a slow one (speculation). The first attempt that ends wins. The rows of others are dropped.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from simulation.kernel import Kernel, Process
from simulation.kernel.scheduler import Waiters
from simulation.machine import Machine

MAX_FAILURES = 4
_SPECULATION_CHECK_S = 1.0


class Row(NamedTuple):
    """A delivered record."""

    topic: str
    partition: int
    offset: int
    value: bytes


Read = Callable[[Any], Any]
"""Returns an iterator of Arrow batches for a split."""
RowsOf = Callable[[Any], list[Any]]
"""Returns what Spark makes of an Arrow batch."""


class TaskFailed(Exception):
    """A task has failed four times. The cause is that of the last attempt."""


class Stopped(Exception):
    """Somebody has stopped the query."""


class Task:
    """One split of a micro-batch, and the attempts at it."""

    def __init__(self, number: int, split: Any, rows_of: RowsOf) -> None:
        self.number = number
        self.split = split
        self.rows_of = rows_of
        self.running = 0
        self.failures = 0
        self.rows: list[Any] | None = None
        self.error: BaseException | None = None
        self.cancelled = False
        """Whether another task failed the micro-batch, or the query was stopped."""
        self.started = 0.0

    @property
    def over(self) -> bool:
        """Whether nobody needs an attempt's rows: another one has won, or the query failed."""
        return self.rows is not None or self.cancelled


class Worker:
    """A Python worker process of an executor."""

    def __init__(self, executor: Executor, number: int) -> None:
        self.executor = executor
        self.kernel = executor.kernel
        self.process = self.kernel.spawn(f"worker {number}")
        executor.machine.adopt(self.process, executor.jvm, "python3").reaps_children = False
        self.task: tuple[Task, Read] | None = None
        self._idle: Waiters = []
        self.process.on_end(self._died)
        self.process.start(self._serve)

    @property
    def free(self) -> bool:
        """Whether the worker lives and has no task."""
        return self.process.alive and self.task is None

    def give(self, task: Task, read: Read) -> None:
        """Let the worker read a task's split."""
        self.task = (task, read)
        self.kernel.wake(self._idle)

    def _serve(self) -> None:
        while True:
            while self.task is None:
                self.kernel.wait(self._idle)
            task, read = self.task
            rows: list[Any] | None = []
            error: BaseException | None = None
            is_cut_short = False
            try:
                with closing(read(task.split)) as batches:
                    for batch in batches:
                        rows.extend(task.rows_of(batch))  # type: ignore[union-attr]
                        self.kernel.sleep(self.executor.batch_s)
                        if is_cut_short := task.over:  # Spark ends this attempt
                            break
            except Exception as raised:
                rows, error = None, raised
            self.task = None
            self.executor.attempt_ended(task, rows, error)
            if error or is_cut_short:  # pyspark/worker.py ends then, and is not used again
                self.process.kill()

    def _died(self) -> None:
        if self.task is not None:
            task, self.task = self.task[0], None
            self.executor.attempt_ended(task, None, None)


def _cancel(tasks: Sequence[Task]) -> None:
    for task in tasks:
        task.cancelled = True


def records_of(batch: Any) -> list[Row]:
    """Returns the rows of a batch of records."""
    columns = [batch.column(name).to_pylist() for name in ("topic", "partition", "offset", "value")]
    return [Row(*row) for row in zip(*columns, strict=True)]


class Executor:
    """The workers of one executor, and the tasks that run there."""

    def __init__(
        self,
        kernel: Kernel,
        slots: int,
        machine: Machine,
        *,
        speculation: float,
        batch_s: float,
        tries: int = MAX_FAILURES,
    ) -> None:
        """``speculation``: the chance of a second attempt beside each one, at each check.

        ``tries``: how many failures of a task fail the micro-batch.
        """
        self._tries = tries
        self.machine = machine
        self.jvm = machine.adopt(kernel.spawn("jvm"), machine.init, "java")
        self.jvm.limits[machine.nofile] = (4096, 4096)
        self.kernel = kernel
        self.slots = slots
        self.speculation = speculation
        self.batch_s = batch_s
        self.workers: list[Worker] = []
        self._tasks: Sequence[Task] = ()
        self._numbers = 0
        self._changed: Waiters = []

    def run(
        self, splits: Sequence[Any], read: Read, rows_of: RowsOf = records_of
    ) -> list[list[Any]]:
        """Returns the rows of each split, read once. Raises TaskFailed, or Stopped."""
        self._tasks = tasks = [Task(number, split, rows_of) for number, split in enumerate(splits)]
        while any(task.rows is None for task in tasks):
            if any(task.cancelled for task in tasks):
                raise Stopped
            for task in tasks:
                if task.failures >= self._tries:
                    _cancel(tasks)
                    raise TaskFailed(f"task {task.number}") from task.error
                if task.rows is None and self._wants_attempt(task) and (worker := self._free()):
                    task.running += 1
                    task.started = self.kernel.now
                    worker.give(task, read)
            self.kernel.wait(self._changed, self.kernel.now + _SPECULATION_CHECK_S)
        return [task.rows or [] for task in tasks]

    def cancel(self) -> None:
        """End ``run``: somebody has stopped the query. Workers go on until their next batch."""
        _cancel(self._tasks)
        self.kernel.wake(self._changed)

    def _wants_attempt(self, task: Task) -> bool:
        if not task.running:
            return True
        is_slow = self.kernel.now - task.started >= _SPECULATION_CHECK_S
        chance = self.kernel.random.random
        return (
            task.running == 1 and is_slow and self.speculation > 0 and chance() < self.speculation
        )

    def _free(self) -> Worker | None:
        self.workers = [worker for worker in self.workers if worker.process.alive]
        free = [worker for worker in self.workers if worker.free]
        if free:
            return free[int(self.kernel.random.random() * len(free))]
        if len(self.workers) < self.slots:
            self._numbers += 1
            self.workers.append(Worker(self, self._numbers))
            return self.workers[-1]
        return None

    def attempt_ended(
        self, task: Task, rows: list[Any] | None, error: BaseException | None
    ) -> None:
        """Take the outcome of an attempt: its rows, its error, or neither if its worker died."""
        task.running -= 1
        if rows is not None:
            task.rows = task.rows if task.rows is not None else rows
        else:
            task.error = error or task.error
            task.failures += error is not None or 1
        self.kernel.wake(self._changed)

    @property
    def busy(self) -> bool:
        """Whether a worker has a task, such as an attempt beside the one that has won."""
        return any(worker.process.alive and worker.task for worker in self.workers)

    def processes(self) -> list[Process]:
        """Returns the living workers' processes."""
        return [worker.process for worker in self.workers if worker.process.alive]

    def kill(self) -> None:
        """Kill every worker and the JVM: the executor has ended."""
        for process in self.processes():
            process.kill()
        self.workers.clear()
        if self.jvm.running:
            self.jvm.send_signal(signal.SIGKILL)
