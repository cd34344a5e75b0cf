"""A query that writes one table straight or through Spark by turns, and what must hold of it."""

from __future__ import annotations

import errno
import io
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from pyspark.sql import Row as SparkRow

from kfetch.delta.copying import TableCopy
from kfetch.delta.plan import WritePlan, parse_plans
from kfetch.delta.source import PLANS, FilesReader
from kfetch.errors import TableRefused
from kfetch.spark import options as parsing
from kfetch.spark.source import KfetchStreamReader
from simulation.history.account import Imbalance
from simulation.kernel.substitution import patched
from simulation.machine.files import fail
from simulation.scenario import Scenario
from simulation.spark.executor import Row
from simulation.spark.query import Run, Sink
from simulation.straight.chaos import ACTIONS, TablePlan, has_trouble
from simulation.straight.disk import Disk
from simulation.straight.table import Columns, Table, Version, delta_table
from simulation.world import World

if TYPE_CHECKING:
    from simulation.cluster.chaos import Action

_PATH = "/lake/rows"
_QUERY = "75a0c3a1-0000-4000-8000-000000000000"
_CUTS: Sequence[Mapping[str, str]] = ({}, {"maxRecordsPerPartition": "20"}, {"minPartitions": "5"})
"""How a run cuts micro-batches, also one that an earlier run has planned."""


class StraightWorld(World):
    """Everything of one simulation."""

    def __init__(self, scenario: Scenario, plan: TablePlan) -> None:
        super().__init__(scenario)
        self.plan = plan
        self.disk = Disk(self.machine, plan.pace_s)
        self.table = Table(self.disk, _PATH)
        self.table.on_commit = self._committed
        self.others = Others(self.table)
        self.written: set[str] = set()
        """The files that successful tasks of the present micro-batch have told of."""
        self.is_asked = False
        """Whether the lease was asked since the last commit."""
        self._runs = random.Random(f"runs {scenario.seed}")
        self.disk.put(f"{_PATH}/README", "")

    def ask_lease(self) -> None:
        """Note that the writer asks whether it may commit."""
        self.is_asked = True

    def free_disk(self) -> None:
        """Let the table's disk have room again."""
        self.disk.tree.full = False

    def _happen(self, action: Action) -> None:
        if action.kind not in ACTIONS:
            super()._happen(action)
        elif self.runs:
            self.tell(ACTIONS[action.kind](self, action.arguments["numbers"]))

    def _way(self, options: dict[str, str]) -> tuple[Callable[[], KfetchStreamReader], Sink]:
        options = {**options, **self._runs.choice(_CUTS)}
        if self._runs.random() < self.plan.straight:
            self.tell("a run writes straight")
            sink = _Straight(self, options)
            return sink.reader, sink
        self.tell("a run writes through Spark")
        return super()._way(options)[0], _ThroughSpark(self)

    def _check_error(self, error: BaseException) -> None:
        of_table = isinstance(error, OSError | CommitFailedError | TableRefused)
        if not (of_table and has_trouble(self.scenario.actions)):
            super()._check_error(error)

    # -- what must hold ----------------------------------------------------------------------

    def _committed(self, version: Version) -> None:
        """Judge a version before anybody sees it."""
        self.tell(f"{version.author} commits {len(version.adds)} files {version.transactions}")
        if version.author in ("kfetch", "Spark") and version.adds:
            try:
                self._judge(version)
            except Imbalance as problem:
                self.fail(str(problem))

    def _judge(self, version: Version) -> None:
        number = version.transactions.get(_QUERY)
        if number is None:
            raise Imbalance("a commit of a micro-batch has no transaction")
        last = self.table.last_transaction(_QUERY, len(self.table.versions) - 1)
        if last is not None and last >= number:
            raise Imbalance(f"micro-batch {number} is committed behind {last}")
        if version.author == "kfetch" and not self.is_asked:
            raise Imbalance("a commit without asking the lease")
        self.is_asked = False
        paths = {one.path for one in version.adds}
        if more := sorted(paths - self.written):
            raise Imbalance(f"no successful task has written the file {more[0]}")
        if less := sorted(self.written - paths):
            raise Imbalance(f"half a micro-batch is committed: {less[0]} is missing")
        for add in version.adds:
            if version.author == "kfetch":
                self.table.rows[add.path] = self._rows(add, version.columns)
            self.account.deliver(number, self.table.rows[add.path])
        self.sink.batches[number] = []

    def _rows(self, add: AddAction, columns: Columns) -> list[Row]:
        """Returns the rows that any reader gets of a file."""
        data = self.disk.content(f"{_PATH}/{add.path}")
        if len(data) != add.size:
            raise Imbalance(f"{add.path} has {len(data)} bytes, and the log says {add.size}")
        try:
            found = pq.ParquetFile(io.BytesIO(data)).read(use_threads=False)
        except pa.ArrowInvalid as cause:
            raise Imbalance(f"{add.path} can't be read: {cause}") from None
        outside = {name: int(add.partition_values[name] or -1) for name in columns.partitions}
        return [Row(**{**row, **outside}) for row in found.to_pylist()]

    def _heal(self) -> None:
        super()._heal()
        self.free_disk()
        self.disk.calm()
        self.table.troubled_until = 0.0
        if self.table.versions:
            self.others.change("delta.constraints.one", "")

    def _end(self) -> None:
        super()._end()
        live = [row.value for path in self.table.live() for row in self.table.rows[path]]
        known = self.account.delivered
        # By the name of a topic alone, records of one that was created again come twice.
        too_many = len(live) > len(known) and not self.scenario.reads_by_name
        if {*live} != known.keys() or too_many:
            raise Imbalance(f"a reader gets {len(live)} rows, and {len(known)} were committed")

    @contextmanager
    def _installed(self) -> Iterator[None]:
        patches = {
            **self.disk.patches(),
            ("deltalake", "DeltaTable"): delta_table(self.table),
            ("kfetch.delta.files", "uuid"): SimpleNamespace(uuid4=self._uuid),
            ("kfetch.delta.plan", "_ROW_GROUP_BYTES"): self.plan.row_group_bytes,
            ("kfetch.delta.plan", "_FILE_BYTES"): self.plan.file_bytes,
        }
        with super()._installed(), patched(patches):
            yield


class _Straight(Sink):
    """One run of ``kfetch.delta.copying``, as ``delta.stream`` makes one."""

    def __init__(self, world: StraightWorld, options: dict[str, str]) -> None:
        super().__init__(rows_of=lambda batch: batch.to_pylist())
        self._world, self._options = world, options
        self._copy: TableCopy
        self._plans: list[WritePlan] = []

    def reader(self) -> FilesReader:
        """Returns a reader of the run. The first call opens the table."""
        if not self._plans:
            self._copy = TableCopy(
                self._options,
                self._world.disk.path(_PATH),  # type: ignore[arg-type]
                zone="UTC",
                select={name: name for name in Row._fields},
                partition_by=("partition",) if self._world.plan.partitioned else (),
            )
            self._plans = _plans_of(self._copy)
        return FilesReader(parsing.parse(self._options), self._plans, {})

    def add(self, batch_id: int, run: Run, pause: Callable[[], object]) -> None:
        """See Sink."""

        def collect() -> list[SparkRow]:
            files = [file for of_task in run() for file in of_task]
            pause()
            self._world.written = {file["path"] for file in files}
            return [SparkRow(**file) for file in files]

        files: Any = SimpleNamespace(collect=collect)
        self._copy.write(files, _QUERY, batch_id, self._world.ask_lease)


def _plans_of(copy: TableCopy) -> list[WritePlan]:
    """Returns what the tasks of a copy get."""
    given: dict[str, str] = {}

    class Stream:
        def __getattr__(self, name: str) -> Any:
            return self

        def __call__(self, *_: object, **options: str) -> Stream:
            given.update(options)
            return self

    spark: Any = SimpleNamespace(
        dataSource=SimpleNamespace(register=lambda _: None),
        readStream=Stream(),
        sparkContext=SimpleNamespace(getConf=dict, master="local[2]", defaultParallelism=2),
    )
    copy.frame(spark, merge_schema=False)
    return parse_plans(given[PLANS])


class _ThroughSpark(Sink):
    """Delta's own sink: Spark writes the rows, and commits them with the same transaction."""

    def __init__(self, world: StraightWorld) -> None:
        super().__init__()
        self._world = world

    def add(self, batch_id: int, run: Run, pause: Callable[[], object]) -> None:
        """See Sink."""
        world, table = self._world, self._world.table
        last = table.last_transaction(_QUERY, len(table.versions) - 1)
        if last is not None and last >= batch_id:
            return
        adds = [table.other_file(rows) for rows in run()]
        world.written = {one.path for one in adds}
        pause()
        world.disk.enter("commit")
        if world.disk.tree.full:
            fail(errno.ENOSPC, _PATH)
        table.commit(
            Version(
                author="Spark",
                columns=table.columns if table.versions else self._new_columns(),
                adds=adds,
                transactions={_QUERY: batch_id},
            )
        )
        world.disk.enter("committed")

    def _new_columns(self) -> Columns:
        kinds = {"topic": "string", "partition": "integer", "offset": "long", "value": "binary"}
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in kinds.items()
        ]
        return Columns(
            fields=fields, partitions=("partition",) if self._world.plan.partitioned else ()
        )


class Others:
    """Other writers of the table. Each change is one commit."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def append(self) -> str:
        """Add a file without rows."""
        return self._commit("appends", lambda: {"adds": [self._table.other_file([])]})

    def compact(self) -> str:
        """Rewrite all files as one."""

        def rewrite() -> dict[str, Any]:
            paths = self._table.live()
            rows = [row for path in paths for row in self._table.rows.get(path, ())]
            return {"adds": [self._table.other_file(rows)], "removes": frozenset(paths)}

        return self._commit("compacts", rewrite)

    def add_column(self) -> str:
        """Add a column that may be null."""

        def added() -> dict[str, Any]:
            columns = self._table.columns
            name = f"c{len(columns.fields)}"
            field = {"name": name, "type": "string", "nullable": True, "metadata": {}}
            return {"columns": replace(columns, fields=[*columns.fields, field])}

        return self._commit("adds a column", added)

    def change(self, name: str, text: str) -> str:
        """Set a property; an empty text removes it."""

        def changed() -> dict[str, Any]:
            columns = self._table.columns
            known = {**columns.properties, name: text}
            kept = {name: text for name, text in known.items() if text}
            return {"columns": replace(columns, properties=kept)}

        return self._commit(f"sets {name} to {text!r}", changed)

    def _commit(self, what: str, change: Callable[[], dict[str, Any]]) -> str:
        if not self._table.versions:
            return ""
        self._table.commit(
            Version(author="somebody", **{"columns": self._table.columns, **change()})
        )
        return f"another writer {what}"
