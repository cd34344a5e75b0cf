"""One Kafka node: its files and its process."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import psutil

from kfetch_jobs.errors import AlreadyRunning, BrokerToolError, NodeDied, NotReady, NotRunning
from kfetch_jobs.jvm.java import find_java
from kfetch_jobs.kafka import ready, settings, state
from kfetch_jobs.util import process
from kfetch_jobs.util.files import write_private

_HEAP = "512m"


class ClusterContext:
    """What all nodes of a cluster share: directory, Java, jars, tethers."""

    def __init__(self, directory: Path, *, detached: bool) -> None:
        self.directory = directory
        self.detached = detached
        self.tethers: dict[int, process.Tether] = {}
        self.log_starts: dict[int, int] = {}
        """Where the log of each node's present process starts, in bytes"""

    @cached_property
    def java(self) -> list[str]:
        """The command that starts a JVM with Kafka's classes."""
        from kfetch_jobs.jvm.maven import jars

        java = find_java()  # before the download, which is useless without Java
        return [java, "-cp", ":".join(map(str, jars(*settings.KAFKA)))]

    @property
    def state(self) -> state.State:
        """The present state. Other processes may change it. Raises NotRunning if there is none."""
        current = state.load(self.directory)
        if current is None:
            raise NotRunning(
                f"{self.directory} holds no broker: start one with kfetch broker start"
            )
        return current


class Node:
    """A broker of the cluster. Any thread may call any method."""

    def __init__(self, context: ClusterContext, node_id: int) -> None:
        self._context = context
        self.node_id = node_id
        self.directory = context.directory / f"node-{node_id}"

    def __repr__(self) -> str:
        return f"<Node {self.node_id} at {self.address}, pid {self.pid}>"

    @property
    def _state(self) -> state.NodeState:
        return self._context.state.node(self.node_id)

    @property
    def port(self) -> int:
        """The client port. It stays the same for the life of the directory."""
        return self._state.port

    @property
    def address(self) -> str:
        """host:port."""
        return f"{settings.HOST}:{self.port}"

    @property
    def log(self) -> Path:
        """The broker's own log."""
        return self.directory / "logs" / "server.log"

    @property
    def pid(self) -> int | None:
        """The process id; None if the node does not run."""
        process_now = self._process
        return process_now.pid if process_now else None

    @property
    def running(self) -> bool:
        """Whether the node's process lives."""
        return self._process is not None

    @property
    def _process(self) -> psutil.Process | None:
        now = self._state
        return process.find(now.pid, now.started, now.start)

    def kill(self) -> None:
        """Send SIGKILL: no controlled shutdown and no flush. A dead node stays as it is."""
        if running := self._process:
            running.kill()
            process.wait_until(self._gone, time.monotonic() + 10)
        self._forget()

    def _gone(self) -> bool:
        # The JVM's first thread can be a zombie while others still hold the listening socket.
        return not self.running and ready.is_free(self.port)

    def terminate(self) -> None:
        """Send SIGTERM, without waiting: the broker hands its leaders over."""
        if running := self._process:
            running.terminate()

    def prepare(self) -> None:
        """Write the configuration, and format the data directory the first time."""
        if self.running:
            raise AlreadyRunning(f"node {self.node_id} is already running at {self.address}")
        now = self._state
        ready.check_free(self.node_id, now.port, now.controller_port)
        self._configure()
        if not (self._data / "meta.properties").exists():
            self._format()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _configure(self) -> None:
        now = self._context.state
        # With log-ins, its log has passwords of SCRAM, salted.
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log.parent.mkdir(exist_ok=True)
        text = settings.server_properties(self.node_id, now.nodes, self._data, now.properties)
        # The properties of the caller may name passwords.
        write_private(self.directory / "server.properties", text)
        (self.directory / "log4j2.xml").write_text(settings.LOG4J2)

    def _format(self) -> None:
        # The C1 compiler alone: this JVM lives for a second.
        flags = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *self._logging]
        config = ["--config", str(self.directory / "server.properties"), "--ignore-formatted"]
        config += ["--cluster-id", self._context.state.cluster_id]
        result = subprocess.run(
            [*self._context.java, *flags, "kafka.tools.StorageTool", "format", *config],
            capture_output=True,
            text=True,
        )
        if result.returncode:
            reason = cause_line(result.stderr + result.stdout)
            raise BrokerToolError(f"cannot format the data of node {self.node_id}: {reason}")

    @property
    def _logging(self) -> list[str]:
        return [
            f"-D{settings.LOGS_PROPERTY}={self.log.parent}",
            # DEBUG writes every request to requests.log. Tests count sessions with it.
            f"-Dkfetch.requests={os.environ.get('KFETCH_BROKER_REQUESTS', 'WARN')}",
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}",
        ]

    def launch(self) -> None:
        """Start the process, without waiting for it to answer."""
        self._output.write_text("")
        size = self.log.stat().st_size if self.log.exists() else 0
        self._context.log_starts[self.node_id] = size
        flags = [*settings.jvm_flags(_HEAP), *self._logging]
        command = [*self._context.java, *flags, "kafka.Kafka", "server.properties"]
        launched = process.launch(command, output=self._output, detached=self._context.detached)
        if launched is None:
            raise self._died()
        if launched.tether:
            self._context.tethers[self.node_id] = launched.tether
        self._remember(launched.pid, launched.started, launched.start)

    @property
    def _output(self) -> Path:
        return self.directory / "stdout.log"

    def wait_ready(self, expected: Collection[int], deadline: float) -> None:
        """Wait until the node answers and knows all ``expected`` brokers (itself included)."""
        port = self.port

        def ready_or_dead() -> bool:
            return not self.running or not ready.missing(expected, port)

        if not process.wait_until(ready_or_dead, deadline):
            raise NotReady(
                f"node {self.node_id} at {self.address} was not ready in time: "
                f"give it more time with --timeout, or see {self.log}"
            )
        if not self.running:
            self._forget()
            raise self._died()

    def _died(self) -> NodeDied:
        text = self._output.read_text(errors="replace") + self._new_log()
        return NodeDied(f"node {self.node_id} ended at start: {cause_line(text)} (see {self.log})")

    def _new_log(self) -> str:
        try:
            with self.log.open(errors="replace") as file:
                begin = self._context.log_starts.get(self.node_id, 0)
                # A smaller file was rolled over meanwhile, and all of it is new.
                file.seek(begin if self.log.stat().st_size >= begin else 0)
                return file.read()
        except FileNotFoundError:
            return ""

    def _forget(self) -> None:
        if tether := self._context.tethers.pop(self.node_id, None):
            tether.cut()
        self._remember(None, None)

    def _remember(self, pid: int | None, started: float | None, start: str = "") -> None:
        now = replace(self._state, pid=pid, started=started, start=start)
        state.update_node(self._context.directory, now)


_CAUSE_PATTERNS = (
    re.compile(r"^Caused by: (.*)"),
    re.compile(r"^(?:Exception in thread \S+ )?([\w.$]+(?:Exception|Error): .*)"),
    re.compile(r"^(?:\[.*?\] (?:FATAL|ERROR) )(.*)"),
    re.compile(r"^(.*\S.*)"),
)


def cause_line(log: str) -> str:
    """Returns the line of a log that explains best why a process died.

    This is the last cause, else the last exception, error or line.
    """
    lines = log.splitlines()
    for pattern in _CAUSE_PATTERNS:
        causes = [match[1] for line in lines if (match := pattern.match(line))]
        if causes:
            return causes[-1].strip()[:300]
    return "its log is empty"
