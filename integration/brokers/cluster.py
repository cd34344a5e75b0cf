"""Starts, kills and upgrades a cluster of any release in ``versions``.

    with ReleaseCluster.start(directory, release("2.8"), brokers=2) as cluster:
        cluster.bootstrap_servers
        cluster.node(1).kill()              SIGKILL
        cluster.node(1).start()             the same port and data
        cluster.node(1).upgrade(release)    stops it, and starts another release with its data

It has the attributes of ``kfetch_jobs.kafka.Cluster`` that the tests use. That one runs only one
release. One ZooKeeper or one KRaft controller runs beside the brokers, and stays when they are
killed. With ``combined=True`` the brokers are the controllers. All of it ends with this process.
"""

from __future__ import annotations

import base64
import socket
import subprocess
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import psutil

from integration.brokers import configuration
from integration.brokers.configuration import (
    BROKER,
    COMBINED,
    CONTROLLER,
    KEEPER_ID,
    ZOOKEEPER,
    Process,
)
from integration.brokers.versions import Release
from kfetch.errors import KfetchError
from kfetch.spark.options import parse
from kfetch.wire import messages
from kfetch.wire.connection import Connection
from kfetch_jobs.jvm.java import find_java
from kfetch_jobs.jvm.maven import jars
from kfetch_jobs.kafka import ready
from kfetch_jobs.kafka.settings import HOST, LOG4J2, jvm_flags
from kfetch_jobs.util import process as processes

_START_S = 90.0
_HEAPS = {BROKER: "320m", COMBINED: "384m", CONTROLLER: "160m", ZOOKEEPER: "64m"}


@cache
def classpath(release: Release) -> str:
    """Returns the class path of a release. The first call downloads its jars."""
    own = jars(*release.coordinates, exclude=tuple(release.replaced))
    others = [jar for name in release.replaced.values() for jar in jars(name, transitive=False)]
    return ":".join(map(str, [*others, *own]))


class ReleaseCluster:
    """Brokers of one release, or of two during an upgrade."""

    def __init__(
        self, directory: Path, specs: list[Process], release: Release, extra: Mapping[str, str]
    ) -> None:
        self.cluster_id = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode()[:22]
        self._servers = [
            Server(self, spec, specs, directory / f"node-{spec.node_id}", release, extra)
            for spec in specs
        ]

    @classmethod
    @contextmanager
    def start(
        cls,
        directory: Path,
        release: Release,
        *,
        brokers: int = 2,
        combined: bool = False,
        requests: str = "WARN",
        **properties: object,
    ) -> Iterator[ReleaseCluster]:
        """Yield a cluster that answers. Its processes are killed at the end.

        ``requests``: DEBUG lets the brokers log every request. ``properties`` are those of the
        brokers; in their names an underscore stands for a dot.
        """
        ports = iter(ready.free_ports(2 * brokers + 2))
        roles = dict.fromkeys(range(1, brokers + 1), COMBINED if combined else BROKER)
        if not combined:
            roles[KEEPER_ID] = ZOOKEEPER if release.with_zookeeper else CONTROLLER
        specs = [
            Process(node_id=n, role=role, port=next(ports), keeper_port=next(ports))
            for n, role in roles.items()
        ]
        extra = {key.replace("_", "."): str(value) for key, value in properties.items()}
        cluster = cls(directory, specs, release, extra)
        for server in cluster._servers:
            server.requests = requests
        try:
            cluster._bring_up()
            yield cluster
        finally:
            for server in cluster._servers:
                server.kill()

    @property
    def nodes(self) -> list[Server]:
        """The brokers."""
        return [server for server in self._servers if server.spec.serves]

    def node(self, node_id: int) -> Server:
        """Returns a broker. Their ids count from 1."""
        return next(server for server in self.nodes if server.node_id == node_id)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers."""
        return ",".join(node.address for node in self.nodes)

    def _bring_up(self) -> None:
        with ThreadPoolExecutor(max_workers=len(self._servers)) as pool:
            list(pool.map(Server.prepare, self._servers))
            for server in self._servers:
                server.launch()
            ids = {node.node_id for node in self.nodes}
            list(pool.map(lambda server: server.wait_ready(ids), self._servers))


class Server:
    """One process of a cluster."""

    def __init__(
        self,
        cluster: ReleaseCluster,
        spec: Process,
        all_specs: list[Process],
        directory: Path,
        release: Release,
        extra: Mapping[str, str],
    ) -> None:
        self.spec = spec
        self.release = release
        self.requests = "WARN"
        self._cluster = cluster
        self._all_specs = all_specs
        self._directory = directory
        self._extra = extra
        self._launched: processes.LaunchedProcess | None = None

    @property
    def node_id(self) -> int:
        """The broker's id."""
        return self.spec.node_id

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"{HOST}:{self.spec.port}"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self._directory / "logs" / "server.log"

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        if running := self._process:
            running.kill()
        if self._launched is not None and self._launched.tether is not None:
            self._launched.tether.cut()
        self._launched = None

    def stop(self, timeout_s: float = 60) -> None:
        """Sends SIGTERM. Waits until the broker has handed over its leaderships, and has ended."""
        if running := self._process:
            running.terminate()
            assert processes.wait_until(lambda: not self.running, time.monotonic() + timeout_s)
        self.kill()

    def start(self) -> None:
        """Start with the same data on the same ports, and wait until the broker answers."""
        self.prepare()
        self.launch()
        living = {node.node_id for node in self._cluster.nodes if node.running}
        self.wait_ready(living)

    def upgrade(self, release: Release) -> None:
        """Stop the broker and start another release of it with the same data."""
        self.stop()
        self.release = release
        self.start()

    def prepare(self) -> None:
        """Write the configuration, and format the data of KRaft the first time."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        data = self._directory / "data"
        text = configuration.file_of(self.spec, self._all_specs, data, self._extra)
        self._configuration.write_text(text)
        (self._directory / "log4j.properties").write_text(configuration.LOG4J1)
        (self._directory / "log4j2.xml").write_text(LOG4J2)
        if not self.release.with_zookeeper and not (data / "meta.properties").exists():
            self._format()

    def launch(self) -> None:
        """Start the process, without waiting for it to answer."""
        main = "kafka.Kafka"
        if self.spec.role == ZOOKEEPER:
            main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = [*self._java(_HEAPS[self.spec.role]), main, str(self._configuration)]
        output = self._directory / "stdout.log"
        self._launched = processes.launch(command, output=output, detached=False)

    def wait_ready(self, expected: Collection[int]) -> None:
        """Waits until the server answers. A broker must also know all ``expected`` brokers."""
        deadline = time.monotonic() + _START_S
        while not self._is_ready(expected):
            if not self.running:
                assert self._may_try_again(), f"node {self.node_id} ended: {self._last_lines()}"
                self.kill()
                self.launch()
            assert time.monotonic() < deadline, f"node {self.node_id} is late: {self._last_lines()}"
            time.sleep(0.05)

    @property
    def _configuration(self) -> Path:
        return self._directory / "server.properties"

    @property
    def _process(self) -> psutil.Process | None:
        launched = self._launched
        if launched is None:
            return None
        return processes.find(launched.pid, launched.started, launched.start)

    def _java(self, heap: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._directory / 'log4j2.xml'}"
        if self.release.logs_with_log4j1:
            logging = f"-Dlog4j.configuration=file:{self._directory / 'log4j.properties'}"
        own = [f"-Dkfetch.logs={self.log.parent}", f"-Dkfetch.requests={self.requests}", logging]
        if self.release.with_zookeeper:
            # Nobody logs in, so its client need not look up names. reload4j has no beans of log4j.
            own += ["-Dzookeeper.sasl.client=false", "-Dzookeeper.jmx.log4j.disable=true"]
        return [find_java(), "-cp", classpath(self.release), *jvm_flags(heap), *own]

    def _format(self) -> None:
        command = [*self._java("128m"), "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        command += ["--config", str(self._configuration), "--cluster-id", self._cluster.cluster_id]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr

    def _is_ready(self, expected: Collection[int]) -> bool:
        if self.spec.serves:
            return set(expected) <= known_brokers(self.address)
        try:
            socket.create_connection((HOST, self.spec.keeper_port), timeout=2).close()
        except OSError:
            return False
        return True

    def _may_try_again(self) -> bool:
        """Whether the broker ended over its own old session in ZooKeeper, which expires soon."""
        return self.release.with_zookeeper and "NodeExists" in self._last_lines()

    def _last_lines(self) -> str:
        files = [self._directory / "stdout.log", self.log]
        return "\n".join(
            file.read_text(errors="replace")[-3000:] for file in files if file.exists()
        )


def known_brokers(address: str) -> set[int]:
    """Returns the ids of the brokers that a broker knows; none if it does not answer."""
    host, _, port = address.partition(":")
    network = parse({"kafka.bootstrap.servers": address, "subscribe": "t"}).network
    deadline = time.monotonic() + 2
    try:
        with closing(Connection.open(host, int(port), network, deadline)) as connection:
            return set(messages.metadata(connection, [], deadline).brokers)
    except KfetchError:
        return set()
