"""Tables in S3 and in Azure, written straight: each record once, whatever is killed or cut.

delta-rs reads the tables. The sessions have no JAR of Delta, and none of S3A.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable

from integration.checkpoints import batches
from integration.conftest import TopicFactory
from integration.faults.test_kill import Child, query
from integration.records import log_ends, producer
from integration.storage.azurite import running_azurite
from integration.streams import PATIENCE_S
from kfetch.delta.places import address
from kfetch_jobs.kafka import Cluster
from tests.store import store_process
from tests.store_proxy import Fault, Proxy, proxied

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

_MODULE = "integration.delta.query"
_PARTITIONS = 3
_SEED = 31


@pytest.fixture(params=["s3", pytest.param("azure", marks=pytest.mark.long)])
def proxy(request: pytest.FixtureRequest) -> Iterator[Proxy]:
    """A store in a process of its own, with faults on the way to it."""
    started = store_process() if request.param == "s3" else running_azurite()
    with started as store, proxied(store) as running:
        yield running


class Table:
    """A topic, and a query that copies it into a table of the store."""

    def __init__(self, kafka: Cluster, topic: str, directory: Path, proxy: Proxy) -> None:
        self.kafka, self.topic, self.directory, self.proxy = kafka, topic, directory, proxy
        self.place = proxy.store.path("lake/clicks")
        self._random = random.Random(_SEED)

    def produce(self, count: int, size: int = 100) -> None:
        """Append random values to each partition. Parquet can't make them smaller."""
        with producer(self.kafka, linger_ms=5) as sender:
            for _ in range(count):
                for partition in range(_PARTITIONS):
                    sender.send(self.topic, self._random.randbytes(size), partition=partition)

    @contextmanager
    def query(self, more: dict[str, object], **trigger: object) -> Iterator[Child]:
        """The query, in processes of its own."""
        asked = {"table": str(self.place), "settings": self.proxy.store.settings, **more}
        with query(self.kafka, self.topic, self.directory, asked, _MODULE, **trigger) as child:
            yield child

    def run_to_its_end(self, **more: object) -> None:
        """Let the query read all that is there."""
        with self.query(more, availableNow=True) as child:
            assert 0 == child.process.wait(2 * PATIENCE_S), child.log.read_text()[-4000:]

    def commits(self) -> list[int]:
        """The micro-batches that Spark has committed."""
        return batches(self.directory / "checkpoint", "commits")

    def places(self) -> list[tuple[int, int]]:
        """(partition, offset) of all rows, sorted. What came twice is there twice."""
        rows = DeltaTable(**address(self.place)).to_pyarrow_table(columns=["partition", "offset"])
        return sorted(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))

    def orphans(self) -> list[str]:
        """The files in the store that the log does not name."""
        named = {uri.rpartition("/")[2] for uri in DeltaTable(**address(self.place)).file_uris()}
        found = {file.name for file in self.place.files() if file.name.startswith("part-")}
        return sorted(found - named)

    def check_everything_once(self) -> None:
        """Each record of the topic is in the table once, and the log names no missing file."""
        ends = log_ends(self.kafka, self.topic)
        assert [(p, o) for p, end in sorted(ends.items()) for o in range(end)] == self.places()


@pytest.fixture
def table(kafka: Cluster, topic: TopicFactory, tmp_path: Path, proxy: Proxy) -> Table:
    return Table(kafka, topic(_PARTITIONS), tmp_path, proxy)


def killed_at(table: Table, step: str) -> tuple[list[int], int, int]:
    """Run the query until a step, and kill its driver, JVM and workers there.

    Returns the committed micro-batches, and the numbers of orphans and of rows.
    """
    reached = table.directory / "reached"
    reached.unlink(missing_ok=True)
    with table.query({"stop_at": step}, availableNow=True) as child:
        child.wait_for(reached.exists, step)
        child.kill()
    return table.commits(), len(table.orphans()), len(table.places())


def test_kills_at_each_step(table: Table) -> None:
    """SIGKILL when files are uploaded, and when they are committed. In the last run, the first
    attempt of each task completes a file and dies, the store refuses, cuts and forgets to answer,
    and Spark shows its plans. Nothing is lost, nothing comes twice, and no file shows the keys."""
    table.produce(4_000)
    commits, left, rows = killed_at(table, "files")
    assert ([], 0) == (commits, rows)
    assert left

    commits, more_left, rows = killed_at(table, "commit")
    assert ([], left) == (commits, more_left)
    assert rows

    for fault in (Fault.BUSY, Fault.CUT, Fault.LOST_ANSWER, Fault.HALF_ANSWER):
        table.proxy.fault("PUT", "/part-", fault)
        table.proxy.fault("PUT", f"_delta_log/{2:020}", fault)  # the next commit
    table.run_to_its_end(die=True, tell=True)
    assert 8 == table.proxy.faults

    table.check_everything_once()
    assert left + 2 <= len(table.orphans())
    written = [file for file in table.directory.rglob("*") if file.is_file()]
    assert any(file.parent.parent.name == "events" for file in written)
    assert "kfetch_delta_files" in (table.directory / "output").read_text()
    secret = table.proxy.store.secret.encode()
    assert [] == [file for file in written if secret in file.read_bytes()]


_VICTIMS = {"worker": "pyspark.daemon", "executor": "CoarseGrainedExecutorBackend", "driver": ""}
"""What is killed, by a part of its command."""


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [4, 20])
def test_random_kills_during_uploads(table: Table, kills: int) -> None:
    """SIGKILL of a worker, an executor or the driver while files of 10 MiB are on their way, in
    parts. Meanwhile the store refuses, cuts and forgets to answer at random."""
    rng, left = random.Random(_SEED), kills
    more = {"cluster": True, "bytes": 4 << 20}
    with troubled(table.proxy, rng):
        while left:
            with table.query(more, processingTime="0 seconds") as child:
                while left and child.process.poll() is None:
                    victim = kill_one(child, table, rng)
                    left -= 1
                    if victim == "driver":
                        break
    table.produce(100)
    table.run_to_its_end(cluster=True)

    table.check_everything_once()
    assert uploaded(table.proxy)
    print(f"{table.proxy.faults} faults, {len(table.orphans())} orphans")


@contextmanager
def troubled(proxy: Proxy, rng: random.Random) -> Iterator[None]:
    """Let a request fail now and then."""
    done, faults = threading.Event(), [Fault.BUSY, Fault.CUT, Fault.LOST_ANSWER, Fault.HALF_ANSWER]

    def trouble() -> None:
        begun = proxy.faults
        while not done.wait(0.2):
            if proxy.faults >= begun:  # none is left: they don't gather while nobody writes
                begun += 1
                proxy.fault("PUT", "", rng.choice(faults))

    thread = threading.Thread(target=trouble, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(10)


def kill_one(child: Child, table: Table, rng: random.Random) -> str:
    """Let a part of an upload arrive, and kill something soon. Returns what."""
    begun = uploaded(table.proxy)
    table.produce(30, 1 << 19)
    child.wait_for(lambda: uploaded(table.proxy) > begun, "an upload")
    time.sleep(rng.uniform(0, 0.5))
    victim = rng.choice(sorted(_VICTIMS))
    if victim == "driver":
        child.kill()
        return victim
    for process in child.process.children(recursive=True):
        with suppress(psutil.Error):
            if _VICTIMS[victim] in " ".join(process.cmdline()):
                process.kill()
                break
    return victim


def uploaded(proxy: Proxy) -> int:
    """How many parts have left so far."""
    return sum(proxy.store.part_request in path for _, path in list(proxy.requests))
