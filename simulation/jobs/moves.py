"""Moves of a job's offsets: reset, replay and undo, and the runs between them, on two hosts.

Each action is a process. It may be killed between any two operations on files or tables, find the
disk full, or be frozen while the next one begins. The store of the lease may fail meanwhile, or be
out of reach. A move is then whole, or not there, or refuses runs until somebody undoes it.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

from kfetch.admin.query import Offsets, Position
from kfetch.admin.sources import KafkaReport, LogOffsets, Partition
from kfetch.errors import LeaseLost
from kfetch.model import TopicPartition
from kfetch_jobs import config
from kfetch_jobs.checkpoints import backup as backups
from kfetch_jobs.checkpoints.backup import OffsetRange, TableVersion
from kfetch_jobs.checkpoints.checkpoint import read_checkpoint
from kfetch_jobs.checkpoints.fresh_start import check_fresh_start
from kfetch_jobs.errors import JobsError
from kfetch_jobs.offsets import execution, plan, undo
from kfetch_jobs.offsets.moves import Verb
from kfetch_jobs.offsets.target import EARLIEST, LATEST, shifted
from kfetch_jobs.run import delta_sink
from kfetch_jobs.run.job_lock import Fence, hold_job
from kfetch_jobs.run.start_checks import check_replay
from simulation.jobs.leases import Hosts
from simulation.jobs.machine import Failure, Machine, Process
from simulation.jobs.project import ENVIRON
from simulation.jobs.system import HOST, Values, installed, room_in_memory
from simulation.jobs.tables import Frame, Lake, Row

_QUERY = "q-1"
_TOPIC = "clicks"
_TOPIC_ID = UUID(int=7)
_PROJECT = """\
storage: ../data
clusters:
  local:
    bootstrap.servers: ${env:SERVERS}
"""
_JOB = """\
source: {cluster: local, subscribe: clicks}
sink:
  path: rows
trigger: availableNow
"""
_LONG_S = 100_000.0
_HOSTS = 2
_COLUMNS = ("topic", "partition", "offset")
_REFUSALS = JobsError | OSError | shutil.Error | LeaseLost
"""How a command may end that does not do its work."""


class Word(StrEnum):
    """What a user does."""

    RUN = "run"
    RESET = "reset"
    REPLAY = "replay"
    UNDO = "undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One command, drawn before the simulation starts."""

    word: Word
    shift: int | None = None
    """By how many offsets; None: to the start of the log, or to its end."""
    latest: bool = False
    killed_after: int = -1
    """After how many steps it is killed; -1: never."""
    frozen_after: int = -1
    """After how many steps it does nothing until the next command has ended."""
    full_after: int = -1
    """After how many steps the disk is full until its end."""
    records: int = 0
    """How many records come to each partition before it."""
    pause_s: float = 1.0
    host: int = 0
    is_beside: bool = False
    """Whether the other host begins a run at the same time. What is frozen has a move beside it."""
    trouble_s: float = 0.0
    """So long the store of the lease fails."""
    cut_s: float = 0.0
    """So long the host does not reach the store, from a moment after the beginning."""

    def __str__(self) -> str:
        fates = {"killed": self.killed_after, "frozen": self.frozen_after, "full": self.full_after}
        told = (f"{fate} after {steps} steps" for fate, steps in fates.items() if steps >= 0)
        where = "" if self.word in (Word.RUN, Word.UNDO) else f"by {self.shift}"
        more = ["a run beside it"] if self.is_beside else []
        more += [f"the store fails for {self.trouble_s:.0f} s"] if self.trouble_s else []
        more += [f"cut off for {self.cut_s:.0f} s"] if self.cut_s else []
        what = f"h{self.host} {self.word} {where}".strip()
        return ", ".join([what, f"{self.records} records", *told, *more])


Snapshot = tuple[dict[int, int], tuple[tuple[int, int], ...]]
"""Where each partition goes on, and the rows of the table."""


class MovesSimulation:
    """Runs and moves of one job."""

    def __init__(
        self, seed: int, actions: Sequence[Action] | None = None, *, keep_story: bool = False
    ) -> None:
        draw = random.Random(f"moves {seed}")
        self._resets = draw.random() < 0.5
        self.partitions = draw.randint(1, 2)
        self.events = actions if actions is not None else self._draw(draw)
        self.machine = Machine(f"moves {seed}", 1.8e9, keep_story=keep_story)
        self.lake = Lake(self.machine)
        self.hosts = Hosts(self.machine, _HOSTS)
        self.lake.before_commit = self.hosts.check_commit
        self.room = room_in_memory()
        (self.room / "conf" / "jobs").mkdir(parents=True)
        (self.room / "conf" / "kfetch.yml").write_text(_PROJECT)
        (self.room / "conf" / "jobs" / "clicks.yml").write_text(_JOB)
        self.project = config.load(self.room / "conf" / "kfetch.yml", ENVIRON)
        self.job = self.project.job("clicks")
        self.checkpoint = Path(self.job.checkpoint)
        self._ends = dict.fromkeys(range(self.partitions), 0)
        self._before_move: dict[Path, Snapshot] = {}
        """The snapshots before the moves, by their backups."""

    def _draw(self, draw: random.Random) -> list[Action]:
        words = [Word.RUN] * 4 + [Word.REPLAY] * 3 + [Word.UNDO] * 2
        words += [Word.RESET] * 2 if self._resets else []
        return [
            Action(word=Word.RUN, records=draw.randint(1, 6)),
            *self._draw_actions(draw, words),
        ]

    @staticmethod
    def _draw_actions(draw: random.Random, words: list[Word]) -> list[Action]:
        return [
            Action(
                word=draw.choice(words),
                shift=draw.choice([None, -draw.randrange(8), draw.randrange(4)]),
                latest=draw.random() < 0.3,
                killed_after=draw.choice([-1, -1, draw.randrange(60), draw.randrange(300)]),
                frozen_after=draw.choice([-1] * 6 + [draw.randrange(80)]),
                full_after=draw.choice([-1] * 5 + [draw.randrange(80)]),
                records=draw.randrange(5),
                pause_s=draw.choice([0.0, 0.4, 7.0, 4000.0]),
                host=draw.randrange(_HOSTS),
                is_beside=draw.random() < 0.3,
                trouble_s=draw.choice([0.0, 0.0, 20.0, 200.0]),
                cut_s=draw.choice([0.0, 0.0, 0.0, 0.0, 15.0, 60.0]),
            )
            for _ in range(draw.randint(3, 12))
        ]

    # The simulation

    def run(self) -> None:
        """Simulate. Raises Failure if an invariant does not hold."""
        machine = self.machine
        system = installed(machine, self._values(), observer=lambda *_: None, launch=_no_launch)
        try:
            with system as self._locks, self.hosts.installed():
                try:
                    for action in self.events:
                        self._act(action)
                    self._finish()
                finally:
                    machine.close()
        finally:
            shutil.rmtree(self.room, ignore_errors=True)

    def _act(self, action: Action) -> None:
        """Let one command run, with its fate, and judge what it has left."""
        machine = self.machine
        for partition in self._ends:
            self._ends[partition] += action.records
        machine.run(machine.now + action.pause_s)
        machine.note("user", str(action))
        self.hosts.trouble(action.trouble_s)
        if action.cut_s:
            machine.after(machine.random.random(), self.hosts.cut, action.host, action.cut_s)
        if action.word is Word.RUN:
            self._run_job(action)
            return
        before, moves = self._snapshot(), self._moves()
        interrupted = backups.interrupted_move(self.job) is not None
        process = self._start(action)
        self._wait_for(process)
        machine.disk_full = False
        self._judge_move(action, before, moves, interrupted=interrupted, process=process)

    def _wait_for(self, *processes: Process) -> None:
        machine = self.machine
        if not machine.run_until(lambda: not any(one.alive for one in processes), _LONG_S):
            raise Failure(f"{processes[0].name} waits for ever")
        for process in processes:
            error = process.result
            if error is not None and not isinstance(error, _REFUSALS):
                raise Failure(f"{process.name} died of {error!r}") from error

    def _start(self, action: Action) -> Process:
        machine = self.machine
        body = {
            Word.RUN: self._run_body,
            Word.UNDO: self._undo_body,
            Word.RESET: lambda: self._move_body(Verb.RESET, action),
            Word.REPLAY: lambda: self._move_body(Verb.REPLAY, action),
        }[action.word]
        process = machine.start(str(action.word), body, environ={HOST: str(action.host)})
        fates: list[tuple[int, Callable[[], None]]] = [
            (action.killed_after, lambda: machine.kill(process)),
            (action.frozen_after, lambda: machine.freeze(process, 500.0)),
            (action.full_after, self._fill_disk),
        ]
        drawn = sorted((fate for fate in fates if fate[0] >= 0), key=lambda fate: fate[0])
        self._next_fate(process, drawn, 0)
        return process

    def _next_fate(
        self, process: Process, fates: list[tuple[int, Callable[[], None]]], passed: int
    ) -> None:
        if not fates:
            return
        (steps, fate), *rest = fates
        process.fault_in = steps - passed

        def happen() -> None:
            self._next_fate(process, rest, steps)
            fate()

        process.fault = happen

    def _fill_disk(self) -> None:
        self.machine.note("machine", "the disk is full")
        self.machine.disk_full = True

    def _run_job(self, action: Action) -> None:
        """A run, and a reset that must not come beside it if the run is frozen."""
        process = self._start(action)
        if action.frozen_after < 0:
            other = Action(word=Word.RUN, host=1 - action.host)
            self._wait_for(process, *([self._start(other)] if action.is_beside else []))
            self.machine.disk_full = False
            self._judge_run(process)
            return
        self.machine.run_until(lambda: process.frozen or not process.alive, _LONG_S)
        if process.frozen:
            self._move_beside(1 - action.host if action.is_beside else action.host)
        self._wait_for(process)
        self.machine.disk_full = False
        self._judge_run(process)

    def _move_beside(self, host: int) -> None:
        """A replay while a run is frozen: it refuses if the run has its locks on the same host."""
        action, before, moves = Action(word=Word.REPLAY, host=host), self._snapshot(), self._moves()
        interrupted = backups.interrupted_move(self.job) is not None
        holds = any(at == str(host) and name.endswith("/lock") for at, name in self._locks.held())
        beside = self._start(action)
        self.machine.run_until(lambda: not beside.alive, 400.0)
        if holds and not isinstance(beside.result, _REFUSALS):
            raise Failure(f"a replay comes beside a run: {beside.result!r}")
        self._judge_move(action, before, moves, interrupted=interrupted, process=beside)

    def _finish(self) -> None:
        """Nothing goes wrong any more: undo what is half done, and run to the end."""
        self.machine.run(self.machine.now + 1.0)  # the last action may still cut a host off
        self.hosts.heal()
        if backups.interrupted_move(self.job) is not None:
            self._act(Action(word=Word.UNDO))
        if backups.interrupted_move(self.job) is not None:
            raise Failure("an interrupted move can't be undone")
        self._act(Action(word=Word.RUN))
        positions, rows = self._snapshot()
        if positions != self._ends and any(self._ends.values()):
            raise Failure(f"the job stands at {positions}, and the logs end at {self._ends}")
        if self._resets:
            return
        expected = tuple((p, at) for p, end in sorted(self._ends.items()) for at in range(end))
        if rows != expected:
            raise Failure(f"the table has {_difference(rows, expected)}")

    # Judgement

    def _snapshot(self) -> Snapshot:
        try:
            checkpoint = read_checkpoint(self.checkpoint)
        except JobsError as error:
            raise Failure(f"the checkpoint is unreadable: {error.message}") from error
        start = checkpoint.start(0) if checkpoint.planned else None
        rows = tuple(
            sorted((row["partition"], row["offset"]) for row in self.lake.rows(self._table))
        )
        positions = {tp.partition: at.offset for tp, at in start.positions.items()} if start else {}
        return positions, rows

    @property
    def _table(self) -> str:
        return str(self.job.target)

    def _moves(self) -> list[backups.Backup]:
        all_moves = backups.all_backups(self.checkpoint)
        return [move for move in all_moves if move.stage is not backups.Stage.UNDONE]

    def _judge_move(
        self,
        action: Action,
        before: Snapshot,
        moves: list[backups.Backup],
        *,
        interrupted: bool,
        process: Process,
    ) -> None:
        """The move is whole, or not there, or marked as interrupted."""
        after, now = self._snapshot(), self._moves()
        self.machine.note("job", f"{before[0]} -> {after[0]}, {len(after[1])} rows")
        known, present = ({move.path for move in some} for some in (moves, now))
        self._before_move |= dict.fromkeys(present - known, before)
        if backups.interrupted_move(self.job) is not None:
            return
        if present - known:
            self._judge_new_move(action, before, after)
        elif known - present:
            self._judge_undone(self._before_move[max(known - present)], after)
        elif after != before and not interrupted:
            raise Failure(f"a {action.word} that has not happened has changed {before} to {after}")
        elif action.word is Word.UNDO and process.finished and process.result is None:
            raise Failure("an undo has succeeded and done nothing")

    def _judge_new_move(self, action: Action, before: Snapshot, after: Snapshot) -> None:
        """A new move has ended."""
        goal = self._goal(action, before[0])
        if after[0] != goal:
            raise Failure(f"after a {action.word}, the job stands at {after[0]}, not at {goal}")
        if action.word is Word.RESET and after[1] != before[1]:
            raise Failure("a reset has changed the table")
        if action.word is Word.REPLAY:
            kept = tuple(row for row in before[1] if row[1] < after[0][row[0]])
            if after[1] != kept:
                raise Failure(f"after a replay, the table has {_difference(after[1], kept)}")

    def _judge_undone(self, expected: Snapshot, after: Snapshot) -> None:
        if after != expected:
            raise Failure(
                f"undone, the job stands at {after[0]}, not at {expected[0]}, and the table "
                f"has {_difference(after[1], expected[1])}"
            )

    def _goal(self, action: Action, before: dict[int, int]) -> dict[int, int]:
        """Returns where each partition goes on after a move."""
        goal = {}
        for partition, at in before.items():
            end = self._ends[partition]
            if action.shift is not None:
                wanted = at + action.shift
            else:
                wanted = end if action.latest and action.word is Word.RESET else 0
            highest = end if action.word is Word.RESET else at
            goal[partition] = max(0, min(wanted, highest))
        return goal

    def _judge_run(self, process: Process) -> None:
        """A finished run has read everything; a killed one has written no row twice."""
        if not self._resets:
            rows = self._snapshot()[1]
            twice = {row for row in rows if rows.count(row) > 1}
            if twice:
                raise Failure(f"the table has {sorted(twice)[0]} twice")

    # The commands

    def _move_body(self, verb: Verb, action: Action) -> None:
        job, project = self.job, self.project
        target = LATEST if action.latest and verb is Verb.RESET else EARLIEST
        if action.shift is not None:
            target = shifted(action.shift)
        with execution.jobs_at_rest(project, job) as check:
            planned = plan.plan_move(job, verb, target, [], margin_percent=1)
            execution.execute(project, job, planned, check, give_up_batch=False)

    def _undo_body(self) -> None:
        with execution.jobs_at_rest(self.project, self.job) as check:
            undo.undo(self.job, undo.plan_undo(self.job), check)

    def _run_body(self) -> None:
        """A run as ``run/runner.py`` begins it, and micro-batches as Spark does them."""
        job, machine = self.job, self.machine
        check_fresh_start(job)
        job.directory.mkdir(parents=True, exist_ok=True)
        with hold_job(job, "run") as fence:
            backups.check_no_interrupted_move(job)
            check_replay(job)
            if backups.interrupted_move(job) is not None:
                raise Failure("a job runs although a move was interrupted")
            self._write_file(self.checkpoint / "metadata", json.dumps({"id": _QUERY}))
            while self._batch(fence):
                machine.note("Spark", "a micro-batch is committed")

    def _batch(self, fence: Fence) -> bool:
        """One micro-batch. Returns False if there is nothing to read."""
        if trouble := fence.trouble():
            raise LeaseLost(trouble)
        checkpoint = read_checkpoint(self.checkpoint)
        start = checkpoint.start(0) if checkpoint.planned else None
        begin = {
            partition: start.positions[_tp(partition)].offset if start else 0
            for partition in self._ends
        }
        if checkpoint.pending:
            assert checkpoint.planned is not None
            number, end = checkpoint.planned.number, checkpoint.end(0)
            assert end is not None
        else:
            if all(begin[partition] >= self._ends[partition] for partition in begin):
                return False
            number = 0 if checkpoint.planned is None else checkpoint.planned.number + 1
            end = self._next_end(begin, first=number == 0)
            fence.check()  # as the source asks before each plan
            meta = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})
            text = "\n".join(["v1", meta, json.dumps(end.to_json())])
            self._write_file(self.checkpoint / "offsets" / str(number), text)
        self.hosts.forget_look()
        rows: list[Row] = [
            {"topic": _TOPIC, "partition": partition, "offset": at}
            for partition in begin
            for at in range(begin[partition], end.positions[_tp(partition)].offset)
        ]
        frame: Any = Frame(self.lake, _COLUMNS, rows)
        delta_sink._write_rows(self.job, frame, _QUERY, number, check=fence.check)
        self._write_file(
            self.checkpoint / "commits" / str(number), 'v1\n{"nextBatchWatermarkMs":0}'
        )
        return True

    def _next_end(self, begin: dict[int, int], *, first: bool) -> Offsets:
        draw = self.machine.random
        ends = {
            _tp(partition): Position(min(end, begin[partition] + draw.randint(1, 6)), 0)
            for partition, end in self._ends.items()
        }
        starts = {_tp(partition): Position(at, 0) for partition, at in begin.items()}
        return Offsets(
            positions=ends,
            topic_ids={_TOPIC: _TOPIC_ID},
            first_batch=starts if first else None,
        )

    def _write_file(self, file: Path, text: str) -> None:
        """As Spark does: a hidden file, which is renamed."""
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.name == "metadata" and file.exists():
            return
        unique = UUID(int=self.machine.random.getrandbits(128))
        hidden = file.with_name(f".{file.name}.{unique}.tmp")
        hidden.write_text(text)
        hidden.rename(file)

    # Stand-ins

    def _values(self) -> Values:
        return {
            **self.hosts.values(),
            ("kfetch_jobs.offsets.job_report", "query_kafka"): self._query_kafka,
            ("kfetch_jobs.offsets.job_report", "check_cluster"): lambda *_: None,
            ("kfetch_jobs.checkpoints.log_starts", "check_cluster"): lambda *_: None,
            ("kfetch_jobs.offsets.plan", "log_offsets"): self._log_offsets,
            ("kfetch_jobs.checkpoints.log_starts", "log_offsets"): self._log_offsets,
            ("kfetch_jobs.offsets.execution", "open_rows"): self._open_rows,
            ("kfetch_jobs.offsets.undo", "open_rows"): self._open_rows,
        }

    def _query_kafka(
        self, _: object, start: Offsets | None = None, planned: Offsets | None = None
    ) -> KafkaReport:
        self.machine.point()
        known = start.positions if start else {}
        return KafkaReport(
            partitions=tuple(
                Partition(
                    tp=_tp(partition),
                    log_start=0,
                    log_end=end,
                    position=known[_tp(partition)].offset if _tp(partition) in known else 0,
                    leader=1,
                    new=_tp(partition) not in known,
                )
                for partition, end in self._ends.items()
            ),
            topic_ids={_TOPIC: _TOPIC_ID},
        )

    def _log_offsets(
        self,
        _: object,
        partitions: Collection[TopicPartition],
        timestamp_ms: int | None = None,
    ) -> LogOffsets:
        self.machine.point()
        return LogOffsets(
            starts={tp: Position(0, 0) for tp in partitions},
            ends={tp: Position(self._ends[tp.partition], 0) for tp in partitions},
            times={},
            topic_ids={_TOPIC: _TOPIC_ID},
        )

    @contextmanager
    def _open_rows(self, job: object) -> Iterator[_TableRows]:
        yield _TableRows(self.lake, self._table)


class _TableRows:
    """``AppendedRows`` over a stand-in table."""

    def __init__(self, lake: Lake, name: str) -> None:
        self._lake, self._name = lake, name

    def check_result(self) -> None:
        """The rows fit the table."""

    def has_rows(self, _: str) -> bool:
        """Returns whether the table has a row."""
        return bool(self._lake.rows(self._name))

    def count(
        self, ranges: Sequence[OffsetRange], topics: object, query: str
    ) -> dict[str, dict[OffsetRange, int]]:
        """Returns the number of rows of each range that has some."""
        self._lake.machine.point()
        if self._name not in self._lake.tables:
            return {}
        rows = self._lake.rows(self._name)
        counts = {one: sum(_in(row, [one]) for row in rows) for one in ranges}
        return {self._name: {one: count for one, count in counts.items() if count}}

    def versions(self, names: Collection[str]) -> list[TableVersion]:
        """Returns the present versions."""
        return [
            TableVersion(name=name, by_name=False, version=len(self._lake.tables[name]) - 1)
            for name in sorted(names)
        ]

    def delete(self, ranges: Sequence[OffsetRange], topics: object, query: str, name: str) -> int:
        """Delete rows in one commit. Returns their number."""
        before = self._lake.rows(name)
        rows = [row for row in before if not _in(row, ranges)]
        self._lake.commit(name, rows)
        return len(before) - len(rows)

    def queries_of(self, table: TableVersion) -> Mapping[str, int]:
        """Returns the micro-batches that the table's log records."""
        return self._lake.tables[table.name][-1].transactions

    def version(self, table: TableVersion) -> int:
        """Returns the present version."""
        return len(self._lake.tables[table.name]) - 1

    def restore(self, table: TableVersion, _: str) -> None:
        """Restore a version as a new one."""
        self._lake.commit(table.name, self._lake.tables[table.name][table.version].rows)


def _in(row: Row, ranges: Sequence[OffsetRange]) -> bool:
    return any(
        one.partition == row["partition"] and one.begin <= row["offset"] < one.end for one in ranges
    )


def _tp(partition: int) -> TopicPartition:
    return TopicPartition(_TOPIC, partition)


def _difference(rows: Sequence[Any], expected: Sequence[Any]) -> str:
    missing = sorted(set(expected) - set(rows))
    more = sorted(set(rows) - set(expected))
    twice = sorted({row for row in rows if rows.count(row) > expected.count(row)} - set(more))
    return f"lost {missing[:5]}, too many {more[:5]}, more often {twice[:5]}"


def _no_launch(*_: object) -> Process:
    raise Failure("a move starts no process")
