"""Dead letters beside rows: the two commits of a micro-batch, and Spark's own behind them.

The writers of ``kfetch_jobs.run`` write micro-batches to stand-ins of Delta tables. Runs are killed
between any two commits, the disk gets full, and each run may decode in another way.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from zlib import crc32

from kfetch_jobs import config
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.run import delta_sink
from kfetch_jobs.run.batch_counts import BatchCounts
from kfetch_jobs.run.dead_letter_frames import (
    dead_letters_among,
    good_records,
    places_of,
    split_rows_and_places,
)
from kfetch_jobs.run.tables import unfenced
from simulation.jobs.machine import Failure, Machine, Process
from simulation.jobs.project import ENVIRON
from simulation.jobs.system import Values, room_in_memory
from simulation.jobs.tables import Frame, Lake, MergedTable, Row
from simulation.kernel.substitution import patched

_QUERY = "q-1"
_PROJECT = """\
storage: ../data
clusters:
  local:
    bootstrap.servers: ${env:SERVERS}
"""
_JOB = """\
source:
  cluster: local
  subscribe: clicks
  options:
    valueFormat: json
    valueSchema: id BIGINT
sink:
  path: rows
  mode: {mode}
{keys}  deadLetters:
    path: letters
trigger: availableNow
"""
_COLUMNS = ("topic", "partition", "offset", "timestamp", "value", "_dead_letter")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One run, drawn before it starts."""

    decoding: int
    """Which records it can't decode."""
    killed_after: int
    """After how many steps it is killed; -1: never."""
    full_after: int
    """After how many commits of Delta the disk is full for one; -1: never."""
    batches: int

    def __str__(self) -> str:
        killed = f", killed after {self.killed_after} steps" if self.killed_after >= 0 else ""
        full = f", the disk is full after {self.full_after} commits" if self.full_after >= 0 else ""
        return f"run of {self.batches} micro-batches with decoding {self.decoding}{killed}{full}"


@cache
def _job(mode: str) -> Job:
    room = room_in_memory()
    try:
        files = room / "conf"
        (files / "jobs").mkdir(parents=True)
        (files / "kfetch.yml").write_text(_PROJECT)
        keys = "  keys: [partition, offset]\n" if mode == "merge" else ""
        (files / "jobs" / "clicks.yml").write_text(_JOB.format(mode=mode, keys=keys))
        return config.load(files / "kfetch.yml", ENVIRON).job("clicks")
    finally:
        shutil.rmtree(room, ignore_errors=True)


class LettersSimulation:
    """Runs of one job with dead letters, one after the other."""

    def __init__(
        self, seed: int, plans: Sequence[RunPlan] | None = None, *, keep_story: bool = False
    ) -> None:
        draw = random.Random(f"letters {seed}")
        self.stateful = draw.random() < 0.4
        self.job = _job(draw.choice(["append", "merge"]) if not self.stateful else "append")
        self.events: Sequence[RunPlan] = plans if plans is not None else self._draw(draw)
        self.machine = Machine(f"letters {seed}", 1.8e9, keep_story=keep_story)
        self.lake = Lake(self.machine)
        self._planned: list[int] = []
        """The end of each planned micro-batch."""
        self._committed = 0
        """How many micro-batches Spark has committed."""
        self._decodings: dict[int, int] = {}
        """With which decoding the rows of a micro-batch were written first."""
        self._seed = seed

    @staticmethod
    def _draw(draw: random.Random) -> list[RunPlan]:
        return [
            RunPlan(
                decoding=draw.randrange(4),
                killed_after=draw.choice([-1, *[draw.randrange(30)] * 4]),
                full_after=draw.choice([-1, -1, draw.randrange(5)]),
                batches=draw.randint(1, 3),
            )
            for _ in range(draw.randint(2, 8))
        ]

    def run(self) -> None:
        """Simulate. Raises Failure if a record is in both tables, twice, or in none."""
        machine = self.machine
        with patched(self._values()):
            try:
                for plan in (
                    *self.events,
                    RunPlan(decoding=0, killed_after=-1, full_after=-1, batches=1),
                ):
                    self._run_once(plan)
            finally:
                machine.close()

    def _run_once(self, plan: RunPlan) -> None:
        machine, decoding = self.machine, plan.decoding
        machine.note("user", str(plan))
        process = self._start(plan, decoding)
        machine.run(machine.now + 3600)
        if isinstance(process.result, ConfigError):
            # Beside state, kfetch asks for one run as before.
            machine.note("kfetch", process.result.message)
            before = self._decodings[self._committed]
            process = self._start(plan, before)
            machine.run(machine.now + 3600)
        if process.result is not None and not isinstance(process.result, OSError):
            raise Failure(f"the run died of {process.result!r}") from process.result

    def _start(self, plan: RunPlan, decoding: int) -> Process:
        machine = self.machine
        self.lake.fault_in = plan.full_after
        process = machine.start("run", lambda: self._write(plan.batches, decoding))
        if plan.killed_after >= 0:
            process.fault_in = plan.killed_after
            process.fault = lambda: machine.kill(process)
        return process

    def _write(self, batches: int, decoding: int) -> None:
        """What Spark does: plan a micro-batch, let the product write it, commit it."""
        counts = BatchCounts()
        parts = partial(delta_sink._transformed, self.job)
        write = delta_sink._with_letters(
            self.job,
            counts,
            unfenced,
            split_rows_and_places if self.stateful else parts,
            stateful=self.stateful,
        )
        pending = len(self._planned) > self._committed
        for _ in range(batches):
            number = self._committed
            if number == len(self._planned):
                self.machine.point()
                last = self._planned[-1] if self._planned else 0
                self._planned.append(last + 1 + self.machine.random.randrange(4))
            batch = self._batch(number, decoding, all_places=pending)
            self._decodings.setdefault(number, decoding)
            if not self._has_rows(number):
                self._decodings[number] = decoding
            write(batch, _QUERY, number)
            self.machine.point()
            self._committed = number + 1
            self.machine.note("Spark", f"micro-batch {number} is committed")
            self._check(number)

    def _has_rows(self, number: int) -> bool:
        versions = self.lake.tables.get(str(self.job.target))
        return versions is not None and versions[-1].transactions.get(_QUERY, -1) >= number

    def _batch(self, number: int, decoding: int, *, all_places: bool) -> Any:
        begin = self._planned[number - 1] if number else 0
        rows = [self._record(offset, decoding) for offset in range(begin, self._planned[number])]
        frame = Frame(self.lake, _COLUMNS, rows)
        if not self.stateful:
            return frame
        places = places_of([frame])  # type: ignore[list-item]
        places = places if all_places else dead_letters_among(places)
        good = good_records({"source": frame})["source"]  # type: ignore[dict-item]
        both = [
            *({"_row": row, "_dead_letter": None} for row in good.rows),  # type: ignore[attr-defined]
            *({"_row": None, "_dead_letter": row} for row in places.rows),  # type: ignore[attr-defined]
        ]
        return Frame(self.lake, ("_row", "_dead_letter"), both)

    def _record(self, offset: int, decoding: int) -> Row:
        chance = crc32(b"%d %d" % (self._seed, offset)) % 4
        bad = decoding and chance < decoding
        error = f"decoding {decoding} can't" if bad else None
        letter = {"error": error, "key": b"", "value": b"x"} if bad else None
        return {
            "topic": "clicks",
            "partition": 0,
            "offset": offset,
            "timestamp": offset,
            "value": None if bad else offset,
            "_dead_letter": letter,
        }

    def _check(self, number: int) -> None:
        """Each record of the micro-batches so far is in exactly one of the two tables."""
        rows = [row["offset"] for row in self.lake.rows(str(self.job.target))]
        letters = [row["offset"] for row in self.lake.rows(str(self.job.dead_letters))]
        for offset in range(self._planned[number]):
            there = rows.count(offset), letters.count(offset)
            if there not in ((1, 0), (0, 1)):
                raise Failure(
                    f"record {offset} is {there[0]} times in the table, and {there[1]} times in "
                    "the dead letters"
                )

    def _values(self) -> Values:
        class Functions:
            """``pyspark.sql.functions``, as far as the writers ask."""

            expr = staticmethod(str)

        lake, keys = self.lake, self.job.file.sink.keys
        merging = {
            "_table": lambda *_: MergedTable(lake, str(self.job.target), keys),
            "_place_columns": lambda *_: [],
            "_latest": lambda _, rows, __: rows,
            "_same": lambda _: True,
            "_newer": lambda *_: True,
            "may_evolve": lambda *_: False,
        }
        letters = {"existing_table": lambda _, location: lake.table(location), "log": _Silence()}
        return {
            **{("kfetch_jobs.run.merging", name): value for name, value in merging.items()},
            **{("kfetch_jobs.run.letters_table", name): value for name, value in letters.items()},
            ("pyspark.sql", "functions"): Functions,
        }


class _Silence:
    """A logger that writes nothing."""

    def info(self, *_: object) -> None:
        """Write nothing."""

    warning = info
