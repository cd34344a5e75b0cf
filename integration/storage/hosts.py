"""Hosts that share a job's checkpoint and tables, on a disk, in a store or in HDFS.

Each host is a process of ``integration.storage.host`` with files of its own. Its commits have its
name, so the table's log tells who has written what. delta-rs reads the tables.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark
from deltalake import DeltaTable
from kafka import KafkaProducer

from integration.storage.query import s3a_jars
from integration.streams import wait_until
from kfetch_jobs.jvm.java import find_java
from kfetch_jobs.jvm.maven import jars
from kfetch_jobs.kafka import Cluster
from tests.kfetch.agent.helpers import wait_until as wait_for
from tests.store import BUCKET, Store, store_process

SEED = int(os.environ.get("KFETCH_SEED", str(random.SystemRandom().randrange(1 << 32))))
"""Repeats the random moments of another run, which has printed it."""
LENGTH_S = 6.0
"""Of a run's lease. A busy machine may leave a process without a turn for a second or two."""
_HDFS_LENGTH_S = 30.0
"""HDFS takes a second for each version."""
_START_S = 500
"""On a busy machine Spark's start and its first micro-batch take minutes."""
_GOOD, _DAMAGED = b'{"id": 1}', b"x"
_JOB = """\
source:
  cluster: main
  subscribe: {topic}
  options: {{startingOffsets: earliest, maxOffsetsPerTrigger: 1000{options}}}
{mode}trigger: {{processingTime: 200ms}}
checkpoint: {base}/checkpoint
spark:
  spark.master: local[2]
  spark.driver.memory: 600m
  spark.driver.extraJavaOptions: -XX:+UseSerialGC -XX:TieredStopAtLevel=1
{spark}"""
_AUTHOR = "  spark.databricks.delta.commitInfo.userMetadata: HOST\n"
"""Jobs that are written straight refuse settings of Delta."""
_MODES = {
    "append": "sink: {{path: {base}/table}}\n",
    "merge": "sink: {{path: {base}/table, mode: merge, keys: [partition, offset]}}\n",
    "straight": "sink: {{path: {base}/table, write: straight}}\n",
    "straight-letters": "transform: {{sql: 'SELECT value.id, partition, offset FROM source'}}\n"
    "sink: {{path: {base}/table, write: straight, deadLetters: {{path: {base}/dead}}}}\n",
    # Each start has the other way: see ``Hosts.start``.
    "turns": "sink: {{path: {base}/table, write: WAY}}\n",
    # As the demo's job.
    "letters": "transform: {{sql: 'SELECT value.id, partition, offset FROM source'}}\n"
    "sink: {{path: {base}/table, deadLetters: {{path: {base}/dead}}}}\n",
}
_DECODED = ", valueFormat: json, valueSchema: id BIGINT"
_OPTIONS = {"letters": _DECODED, "straight-letters": _DECODED}
_WAYS = ("straight", "spark")
_PROJECT = """\
storage: storage
clusters:
  main:
    bootstrap.servers: {servers}
"""


@dataclass
class Place:
    """Where checkpoint and tables are: on this machine, or in a store."""

    base: str
    settings: dict[str, str] = field(default_factory=dict)
    """Spark's."""
    options: dict[str, str] = field(default_factory=dict)
    """Those of delta-rs."""
    hadoop: Sequence[str] = ()
    """A command that reads HDFS, which delta-rs can't."""

    def job(self, topic: str, mode: str) -> str:
        """Returns a job's file. ``HOST`` stands for the host's name."""
        spark = "".join(f"  {name}: '{value}'\n" for name, value in self.settings.items())
        sink, options = _MODES[mode].format(base=self.base), _OPTIONS.get(mode, "")
        spark += "" if "write:" in sink else _AUTHOR
        values = {"base": self.base, "options": options, "spark": spark}
        return _JOB.format(topic=topic, mode=sink, **values)

    def rows(self) -> list[tuple[int, int]]:
        """Returns (partition, offset) of all rows and dead letters. What came twice is twice."""
        found: list[tuple[int, int]] = []
        with self._readable() as base:
            for table in filter(None, (self._table(base, name) for name in ("table", "dead"))):
                columns = table.to_pyarrow_table(columns=["partition", "offset"]).to_pydict()
                found += zip(columns["partition"], columns["offset"], strict=True)
        return sorted(found)

    def writers(self) -> list[str]:
        """Returns which host has written each version of the table."""
        table = self._table(self.base, "table")
        history = table.history() if table else []
        return [str(one.get("userMetadata")) for one in reversed(history)]

    @contextmanager
    def _readable(self) -> Iterator[str]:
        if not self.hadoop:
            yield self.base
            return
        with tempfile.TemporaryDirectory() as copy:
            # A file may go meanwhile: then the copy lacks it, and the command says so.
            subprocess.run([*self.hadoop, "-get", self.base, copy], check=False)
            yield f"{copy}/lake"

    def _table(self, base: str, name: str) -> DeltaTable | None:
        uri = f"{base}/{name}"
        there = DeltaTable.is_deltatable(uri, self.options)
        return DeltaTable(uri, storage_options=self.options) if there else None


@contextmanager
def opened(kind: str, directory: Path) -> Iterator[Place]:
    """Yields a place on a ``disk``, in ``s3`` or in ``hdfs``. Their servers run for the block."""
    if kind == "disk":
        yield Place(f"{directory}/lake")
    elif kind == "s3":
        with store_process() as store:
            yield _in_store(store)
    else:
        with running_hdfs(directory / "hdfs") as (uri, java):
            yield Place(f"{uri}/lake", hadoop=[*java, "org.apache.hadoop.fs.FsShell"])


@contextmanager
def running_hdfs(directory: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields the URI of an HDFS with one node, and the command that runs Hadoop's classes."""
    (mini,) = jars("org.apache.hadoop:hadoop-client-minicluster:3.5.0", transitive=False)
    (directory / "conf").mkdir(parents=True)
    (directory / "conf" / "core-site.xml").write_text("<configuration/>")  # FsShell wants one
    classes = f"{directory}/conf:{mini}:{Path(pyspark.__file__).parent}/jars/*"
    java = [find_java(), "-XX:TieredStopAtLevel=1", "-cp", classes]
    source = Path(__file__).with_name("MiniDfs.java")
    with subprocess.Popen(
        [*java, str(source), str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield next(line.strip() for line in process.stdout if line.startswith("hdfs:")), java
        finally:
            process.stdin.close()


def _in_store(store: Store) -> Place:
    # They stand before Spark's own jars, which have another Netty.
    classes = ":".join(str(jar) for jar in s3a_jars() if not jar.name.startswith("netty-"))
    more = {
        "spark.driver.extraClassPath": classes,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    }
    options = {
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "user",
        "AWS_SECRET_ACCESS_KEY": "pa55word",
    }
    return Place(f"s3a://{BUCKET}/lake", store.settings | more, options)


@dataclass
class Host:
    """A process that runs the job."""

    name: str
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def batches(self) -> int:
        """How many micro-batches it has reported."""
        return sum(line.startswith("batch") for line in self.lines)

    def ended(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None

    def tree(self) -> list[psutil.Process]:
        """Its processes that live. The first one is its own."""
        with suppress(psutil.NoSuchProcess):
            whole = psutil.Process(self.process.pid)
            return [whole, *whole.children(recursive=True)]
        return []

    def wait_for_batches(self, count: int = 1) -> None:
        """Wait until it has committed so many micro-batches."""
        assert wait_for(lambda: self.batches() >= count or self.ended(), _START_S), self.lines
        assert not self.ended(), self.lines


def signal_all(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to those that live: Spark ends workers at any time."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


class Hosts:
    """Starts hosts, and ends them all."""

    def __init__(self, directory: Path, job: str, servers: str, *, paused: bool = False) -> None:
        self._directory, self._job, self._servers = directory, job, servers
        self._paused = paused
        self._hosts: list[Host] = []
        self._readers: list[threading.Thread] = []
        self._ways = itertools.cycle(_WAYS)

    def start(self, name: str = "", within: Sequence[str] = ()) -> Host:
        """Start the job on a host: on a new one, unless it has the ``name`` of an earlier one.

        ``within`` is a command that runs it, such as ``unshare``. Its machine is then its own.
        """
        name = name or f"h{len(self._hosts)}"
        files = self._directory / name
        (files / "jobs").mkdir(parents=True, exist_ok=True)
        (files / "kfetch.yml").write_text(_PROJECT.format(servers=self._servers))
        job = self._job.replace("HOST", name).replace("WAY", next(self._ways))
        (files / "jobs" / "clicks.yml").write_text(job)
        asked = {
            "files": str(files),
            "machine": "" if within else name,
            "length_s": _HDFS_LENGTH_S if "hdfs:" in self._job else LENGTH_S,
            "paused": self._paused,
        }
        process = subprocess.Popen(
            [*within, sys.executable, "-m", "integration.storage.host", json.dumps(asked)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        host = Host(name, process)
        self._hosts.append(host)
        self._readers.append(threading.Thread(target=self._read, args=(host,), daemon=True))
        self._readers[-1].start()
        return host

    def _read(self, host: Host) -> None:
        assert host.process.stdout is not None
        with host.process.stdout as output:
            for line in output:
                host.lines.append(line.strip())

    def end(self) -> None:
        """Kill all their processes."""
        for host in self._hosts:
            signal_all(reversed(host.tree()), signal.SIGKILL)
            host.process.wait()
        for reader in self._readers:
            reader.join(10)


@contextmanager
def producing(kafka: Cluster, topic: str) -> Iterator[Callable[[], list[tuple[int, int]]]]:
    """Sends records to two partitions until the function that it yields is called.

    The function returns all their places. Each fifth value is no JSON.
    """
    done, sent = threading.Event(), [0]

    def send() -> None:
        with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            while not done.wait(0.1):
                for partition in (0, 1):
                    value = _GOOD if sent[0] % 5 else _DAMAGED
                    producer.send(topic, value, partition=partition)
                producer.flush()
                sent[0] += 1

    thread = threading.Thread(target=send, daemon=True)
    thread.start()

    def stop() -> list[tuple[int, int]]:
        done.set()
        thread.join(60)
        return [(partition, offset) for partition in (0, 1) for offset in range(sent[0])]

    try:
        yield stop
    finally:
        stop()


def check_everything_once(place: Place, last: Host, records: list[tuple[int, int]]) -> None:
    """Wait until the last host has written the last records, stop it, and compare."""
    wait_until(
        lambda: last.ended() or len(place.rows()) >= len(records),
        what="the last records in the table",
        pause_s=0.5,
    )
    last.process.terminate()
    assert 0 == last.process.wait(90), last.lines
    assert records == place.rows()
