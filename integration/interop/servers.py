"""Other servers that speak Kafka's protocol: librdkafka's mock cluster and franz-go's kfake.

Both keep everything in memory, listen on 127.0.0.1, and end with the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "kfake"
GO_MINIMUM = (1, 26)
"""The version in kfake's go.mod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server by its addresses: all that a reader needs to know."""

    bootstrap_servers: str


@contextmanager
def mock_cluster(brokers: int) -> Iterator[Server]:
    """librdkafka's mock cluster, which lives as long as the client that starts it.

    It makes a topic of four partitions for each name that it is asked for.
    """
    confluent = pytest.importorskip("confluent_kafka")
    client = confluent.Producer({"test.mock.num.brokers": brokers, "bootstrap.servers": "mock"})
    known = client.list_topics(timeout=20).brokers.values()
    yield Server(bootstrap_servers=",".join(f"{one.host}:{one.port}" for one in known))


class Kfake:
    """A running kfake, and its commands. ``kfake/main.go`` explains them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.bootstrap_servers = self._line()
        """The addresses of its brokers, whose node ids count from 0."""

    def ask(self, *words: object) -> list[str]:
        """Send a command, and return the lines of its answer."""
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)
        lines = []
        while (line := self._line()) != "ok":
            assert words == ("fetches",), line
            lines.append(line)
        return lines

    def fetches(self) -> list[KfakeFetch]:
        """Returns every Fetch request so far, in order."""
        return [KfakeFetch(*map(int, line.split())) for line in self.ask("fetches")]

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"kfake ended with code {self._process.wait(10)}"
        return line.rstrip("\n")


@dataclass(frozen=True, slots=True)
class KfakeFetch:
    """A Fetch request as kfake got it."""

    node: int
    version: int
    session: int
    epoch: int
    partitions: int
    """Partitions that the request names."""
    forgotten: int


def built_kfake(directory: Path) -> Path:
    """Build kfake into a directory. Skips the test where Go is missing or too old."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("kfake is a Go program, and there is no go on the PATH")
    # Another Go that the present one would download is no part of this test.
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    version = subprocess.run(
        [go, "env", "GOVERSION"], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()
    if _numbers(version) < GO_MINIMUM:
        pytest.skip(f"kfake needs Go {'.'.join(map(str, GO_MINIMUM))}, and this is {version}")
    program = directory / "kfake"
    command = [go, "build", "-o", str(program), "."]
    built = subprocess.run(command, cwd=PROGRAM, env=environment, capture_output=True, text=True)
    assert 0 == built.returncode, built.stderr
    return program


def _numbers(version: str) -> tuple[int, ...]:
    """``go1.26.8`` as numbers; a version without numbers counts as new."""
    parts = version.removeprefix("go").split(".")[:2]
    return tuple(int(part) for part in parts) if all(map(str.isdigit, parts)) else GO_MINIMUM


@contextmanager
def running_kfake(program: Path, *arguments: str) -> Iterator[Kfake]:
    """kfake in a process of its own, which ends with the block."""
    with subprocess.Popen(
        [program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Kfake(process)
        finally:
            process.kill()


Place = tuple[int, int]


def produce(
    server: Server | Kfake, topic: str, sizes: Iterable[tuple[int, int]], **settings: object
) -> dict[Place, bytes]:
    """Write records with librdkafka's producer, and return each value by (partition, offset).

    ``sizes``: the partition and the length of each value.
    """
    confluent = pytest.importorskip("confluent_kafka")
    written: dict[Place, bytes] = {}

    def note(error: object, message: object) -> None:
        assert error is None, error
        written[message.partition(), message.offset()] = message.value()  # type: ignore[attr-defined]

    servers = {"bootstrap.servers": server.bootstrap_servers}
    sender = confluent.Producer(servers | {"linger.ms": 5} | settings)
    for number, (partition, size) in enumerate(sizes):
        value = b"%d " % number
        sender.produce(topic, value.ljust(size, b"x"), partition=partition, on_delivery=note)
        sender.poll(0)
    assert 0 == sender.flush(30)
    return written
