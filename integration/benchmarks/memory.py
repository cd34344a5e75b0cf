"""What agent and workers hold while a slow consumer drains a backlog, as the system sees it.

    python -m integration.benchmarks.memory [--slots N] [--budgets MIB,MIB,…] [--gigabytes N]
        [--seconds N] [--codecs NAME,NAME,…] [--ratio N]
        [--documents wide|sparse] [--straight]
Values have 1 KiB, there are 16 partitions, and the consumer sleeps after each 1,000 rows. It sleeps
in the JVM: a consumer in Python would run in the same workers, and hold batches there.
With ``--documents``, values are JSON that arrives as structs of 40 fields.
With a ratio, values are text that each codec shrinks about so many times; snappy reaches 11.
``--gigabytes`` counts uncompressed values.
With ``--straight``, the tasks write the files of a Delta table themselves, as fast as they can.

Memory is PSS without files, read ten times a second, of the agent and of the Python workers that
map its segments. The benchmark prints by how much their sum exceeds that of the same processes at
rest. It also prints the most that the agent charged to its budget, and the most segments with
memory that one worker mapped. More task slots mean more readers of one budget.
"""

from __future__ import annotations

import argparse
import json
import random
import string
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from deltalake import DeltaTable

from integration.agent.processes import agents_of, all_ended, by_role
from integration.benchmarks import decode_values
from integration.benchmarks.fill import fill
from integration.streams import finish, kfetch, wait_until
from kfetch import delta
from kfetch.admin import agents
from kfetch_jobs.jvm.spark import session
from kfetch_jobs.kafka import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MIB = 1 << 20
_VALUE_BYTES, _PARTITIONS = 1024, 16
_SAMPLE_S = 0.1
_SLOWER = 5
"""How many times as long as it wants to take a drain may take."""
_PAYLOADS = 20_000
"""Different values of a compressible topic: so many that no codec finds one twice."""
_ROWS_A_PAUSE = 1000
_COSTS = {"zstd": (0.76, 2), "gzip": (0.76, 8), "lz4": (1, 12), "snappy": (1, 12)}
"""The bytes that a codec needs for a letter, and for a record beside its letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A process's memory at one moment."""

    pid: int
    is_agent: bool
    size: int
    """PSS without files, in bytes: heap, stacks, memfd."""
    segments: int
    """Segments with memory that it maps; 0 for the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Memory during one drain, in bytes."""

    budget: int
    codec: str
    agent_at_rest: int
    """After a first small read."""
    agent_more: int
    """The most by which the agent exceeded that."""
    more: int
    """The most by which agent and reading workers together exceeded their memory at rest."""
    charged: int
    """The most that the agent's own accounts knew of."""
    segments: int
    """The most segments with memory that one worker mapped."""
    rows: int
    seconds: float
    samples: int

    @property
    def of_budget(self) -> float:
        """What the drain added to the resting processes, as a share of the budget."""
        return self.more / self.budget

    def __str__(self) -> str:
        return (
            f"{self.codec}, budget {self.budget >> 20} MiB: agent at rest "
            f"{self.agent_at_rest >> 20}, at most {self.agent_more >> 20} more, with its workers "
            f"{self.more >> 20} MiB more = {self.of_budget:.2f} of the budget; charged at most "
            f"{self.charged >> 20} MiB, {self.segments} segments in a worker; "
            f"{self.rows:,} rows in {self.seconds:.0f} s, {self.samples} looks"
        )


class Backlog:
    """A broker with a tiny topic and a large one for each codec."""

    def __init__(
        self,
        cluster: Cluster,
        gigabytes: float,
        ratio: float = 1,
        documents: str = "",
        *,
        straight: bool = False,
    ) -> None:
        """``documents``: a key of ``DOCUMENTS``, whose JSON arrives as structs; empty for bytes."""
        self._straight = straight
        self.cluster = cluster
        self.records = int(gigabytes * 1e9 / _VALUE_BYTES)
        self._ratio = ratio
        self._documents = documents
        self._topics: set[str] = set()
        self._tiny = f"tiny-{documents}{ratio:g}"
        self._fill(self._tiny, 1000, "none")

    def _fill(self, topic: str, records: int, codec: str) -> None:
        with tempfile.TemporaryDirectory() as directory:
            texts = DOCUMENTS[self._documents]() if self._documents else []
            texts = texts or (_payloads(self._ratio, codec) if self._ratio > 1 else [])
            payloads = Path(directory) / "payloads" if texts else None
            if payloads:
                payloads.write_text("\n".join(texts))
            fill(
                self.cluster,
                topic,
                partitions=_PARTITIONS,
                records=records,
                size=_VALUE_BYTES,
                codec=codec,
                payloads=payloads,
            )
        self._topics.add(topic)

    def held(
        self, spark: SparkSession, slots: int, budget: int, seconds: float, codec: str = "none"
    ) -> Held:
        """Drain it with a new agent in about so many seconds. ``budget`` in bytes."""
        topic = f"large-{self._documents}{codec}-{self._ratio:g}"
        if topic not in self._topics:
            self._fill(topic, self.records, codec)
        root = psutil.Process()
        _leave(agents_of(root))  # its budget would be the larger of the two
        self._drain(spark, self._tiny, budget, 0, seconds)
        idle, began = looks(root), time.monotonic()
        with _sampled(root) as samples:
            rows = self._drain(spark, topic, budget, seconds * slots / self.records, seconds)
        (agent,) = agents_of(root)
        at_rest = _at_rest([idle, *samples])
        status = next(status for status in agents.find() if status.pid == agent.pid)
        return Held(
            budget=budget,
            codec=codec,
            agent_at_rest=at_rest[agent.pid],
            agent_more=max(_more([s for s in sample if s.is_agent], at_rest) for sample in samples),
            more=max(_more(sample, at_rest) for sample in samples),
            charged=status.memory_peak,
            segments=max(s.segments for sample in samples for s in sample),
            rows=rows,
            seconds=time.monotonic() - began,
            samples=len(samples),
        )

    def _drain(
        self, spark: SparkSession, topic: str, budget: int, row_s: float, seconds: float
    ) -> int:
        """Read a topic to its end; how many rows it had."""
        options = {
            "kfetch.agent": "process",
            "kfetch.agent.memory": str(budget),
            # A task for each partition: the tiny topic, too, is read in all slots.
            "kfetch.rowsPerSplit": "0",
        }
        if self._documents:
            options |= {
                "valueFormat": "json", "valueSchema": decode_values.FORTY, "valueTimeZone": "UTC",
            }  # fmt: skip
        options |= {"subscribe": topic, "startingOffsets": "earliest"}
        with tempfile.TemporaryDirectory() as directory:
            if self._straight:
                return _copied(spark, self.cluster, options, Path(directory))
            rows = kfetch(spark, self.cluster, **options)
            query = (
                rows.selectExpr(_slowly(row_s), "value")
                .writeStream.format("noop")
                .option("checkpointLocation", directory)
                .trigger(availableNow=True)
                .start()
            )
            patience_s = 60 + _SLOWER * seconds
            if not query.awaitTermination(patience_s):
                query.stop()
                raise TimeoutError(f"{topic} was not drained within {patience_s:.0f} s")
            return sum(progress["numInputRows"] for progress in query.recentProgress)


def _copied(spark: SparkSession, cluster: Cluster, options: dict[str, str], directory: Path) -> int:
    """Copy a topic into a table; how many rows it has then."""
    options |= {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    table, checkpoint = str(directory / "table"), str(directory / "checkpoint")
    trigger = {"availableNow": True}
    finish(delta.stream(spark, options, table=table, checkpoint=checkpoint, trigger=trigger))
    return DeltaTable(table).count()


def _wide_documents() -> list[str]:
    """Returns documents of 40 fields, with about 1 KB."""
    rng = random.Random(7)
    return [json.dumps(decode_values.forty(rng, number)) for number in range(_PAYLOADS)]


DOCUMENTS: dict[str, Callable[[], list[str]]] = {
    "wide": _wide_documents,
    "sparse": lambda: [f'{{"i0":{number}}}' for number in range(_PAYLOADS)],
}
"""Documents for the schema of 40 fields. Sparse ones take many times their size as a struct."""


def _payloads(ratio: float, codec: str) -> list[str]:
    """Returns values that a codec shrinks about ``ratio`` times: letters before zeros."""
    rng, alphabet = random.Random(7), string.ascii_letters + string.digits
    per_letter, per_record = _COSTS.get(codec, (1, 0))
    letters = round((_VALUE_BYTES / ratio - per_record) / per_letter)
    return [
        "".join(rng.choices(alphabet, k=letters)).ljust(_VALUE_BYTES, "0") for _ in range(_PAYLOADS)
    ]


def _leave(old: list[psutil.Process]) -> None:
    """Let agents end; the next read starts another."""
    for agent in old:
        agent.terminate()
    wait_until(lambda: all_ended(old), what="agents to leave")


def _slowly(row_s: float) -> str:
    """A column that takes its time, in Spark's SQL."""
    pause_ms = round(row_s * 1000 * _ROWS_A_PAUSE)
    sleep = f"reflect('java.lang.Thread', 'sleep', bigint({pause_ms}))"
    return f"CASE WHEN offset % {_ROWS_A_PAUSE} = 0 THEN {sleep} END AS pause"


def looks(root: psutil.Process) -> list[Look]:
    """Returns the memory of the agents and Spark's Python processes of a process."""
    result = []
    for role, process in by_role(root):
        with suppress(psutil.Error, OSError):
            is_agent = role == "agent"
            result.append(
                Look(
                    pid=process.pid,
                    is_agent=is_agent,
                    size=_pss_bytes(process),
                    segments=0 if is_agent else _segments(process),
                )
            )
    return result


def _at_rest(samples: list[list[Look]]) -> dict[int, int]:
    """Returns each process's memory at rest: the agent's before the drain, a worker's least."""
    at_rest: dict[int, int] = {}
    for sample in samples:
        for look in sample:
            first = at_rest.setdefault(look.pid, look.size)
            at_rest[look.pid] = first if look.is_agent else min(first, look.size)
    return at_rest


def _more(sample: list[Look], at_rest: dict[int, int]) -> int:
    """Returns the bytes that the agent and the reading workers hold beyond their rest."""
    return sum(look.size - at_rest[look.pid] for look in sample if look.is_agent or look.segments)


def _pss_bytes(process: psutil.Process) -> int:
    """Returns the proportional share of memory without files: heap, stacks, memfd (proc(5))."""
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
    fields = dict(line.split(":", 1) for line in lines)
    return sum(int(fields[name].split()[0]) << 10 for name in ("Pss_Anon", "Pss_Shmem"))


def _segments(process: psutil.Process) -> int:
    """Returns how many segments with memory a process maps."""
    resident, in_segment = 0, False
    for line in Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            in_segment = "/memfd:kfetch-" in line
        elif in_segment and line.startswith("Rss:"):
            resident += line.split()[1] != "0"
    return resident


@contextmanager
def _sampled(root: psutil.Process) -> Iterator[list[list[Look]]]:
    """What the processes hold meanwhile."""
    samples: list[list[Look]] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(_SAMPLE_S):
            samples.append(looks(root))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=int, default=2, help="Spark's task slots")
    parser.add_argument("--budgets", default="64,256", help="kfetch.agent.memory in MiB, N,N,…")
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=75, help="what the consumer aims at")
    parser.add_argument("--codecs", default="none", help="compression.type, NAME,NAME,…")
    parser.add_argument("--documents", default="", choices=["", *DOCUMENTS], help="JSON structs")
    parser.add_argument("--ratio", type=float, default=1, help="how many times values shrink")
    parser.add_argument("--straight", action="store_true", help="tasks write a table's files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Cluster.start(Path(name) / "kafka") as cluster:
        backlog = Backlog(
            cluster,
            options.gigabytes,
            options.ratio,
            options.documents,
            straight=options.straight,
        )
        settings = {"spark.master": f"local[{options.slots}]"}
        with session(settings, name="memory", log=Path(name) / "log") as spark:
            for codec in options.codecs.split(","):
                for budget in map(int, options.budgets.split(",")):
                    held = backlog.held(spark, options.slots, budget * _MIB, options.seconds, codec)
                    print(f"{options.slots} slots, {held}", flush=True)


if __name__ == "__main__":
    main()
