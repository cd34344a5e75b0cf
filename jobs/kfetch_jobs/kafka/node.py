"""One Kafka node: its files, its process, its life and death."""

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
from kfetch_jobs.kafka import process, ready, settings, state

__all__ = ["ClusterContext", "Node", "cause_line"]


class ClusterContext:
    """What all nodes of a cluster share: the directory, the Java, the jars, who owns them."""

    def __init__(self, directory: Path, *, detached: bool) -> None:
        self.directory = directory
        self.detached = detached
        self.tethers: dict[int, process.Tether] = {}
        self.log_starts: dict[int, int] = {}
        """where in each node's log its present life begins, in bytes"""

    @cached_property
    def java(self) -> list[str]:
        """The command that starts a JVM with Kafka's classes."""
        from kfetch_jobs.jvm.maven import jars

        java = find_java()  # first: without it there is no use in a download
        return [java, "-cp", ":".join(map(str, jars(*settings.KAFKA)))]

    @property
    def state(self) -> state.State:
        """The state as it is now: other processes may change it."""
        found = state.load(self.directory)
        if found is None:
            raise NotRunning(
                f"{self.directory} holds no broker: start one with kfetch broker start"
            )
        return found


class Node:
    """A broker of the cluster, by its id. All methods may be used from any thread."""

    def __init__(self, machine: ClusterContext, node_id: int) -> None:
        self._context = machine
        self.node_id = node_id
        self.directory = machine.directory / f"node-{node_id}"

    def __repr__(self) -> str:
        return f"<Node {self.node_id} at {self.address}, pid {self.pid}>"

    @property
    def _state(self) -> state.NodeState:
        return self._context.state.node(self.node_id)

    @property
    def port(self) -> int:
        """The client port; kept for the life of the directory."""
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
        """The process id, or None when the node does not run."""
        found = self._process
        return found.pid if found else None

    @property
    def running(self) -> bool:
        """Whether the node's process lives."""
        return self._process is not None

    @property
    def _process(self) -> psutil.Process | None:
        now = self._state
        return process.find(now.pid, now.started)

    def cpu_seconds(self) -> float:
        """User and system time that the broker process has used since it started."""
        found = self._process
        if found is None:
            raise NotRunning(f"node {self.node_id} is not running")
        return process.cpu_seconds(found)

    def kill(self) -> None:
        """SIGKILL: no controlled shutdown, nothing flushed. Nothing happens to a dead node."""
        if found := self._process:
            found.kill()
            ready.wait_until(self._gone, time.monotonic() + 10)
        self._forget()

    def _gone(self) -> bool:
        # The JVM's first thread can be a zombie while others still hold the listening socket.
        return not self.running and ready.is_free(self.port)

    def stop(self, timeout_s: float = 30) -> None:
        """SIGTERM, and wait: the broker hands its leaders over. A node that hangs is killed."""
        self.terminate()
        ready.wait_until(lambda: not self.running, time.monotonic() + timeout_s)
        self.kill()

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        if found := self._process:
            found.terminate()

    def start(self, timeout_s: float = 60) -> None:
        """Start over the same data on the same ports, and wait until the node answers."""
        others = [n.node_id for n in self._context.state.nodes if n.node_id != self.node_id]
        living = [i for i in others if Node(self._context, i).running]
        self.prepare()
        self.launch()
        self.wait_ready({self.node_id, *living}, time.monotonic() + timeout_s)

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
        self.log.parent.mkdir(parents=True, exist_ok=True)
        text = settings.server_properties(self.node_id, now.nodes, self._data, now.properties)
        (self.directory / "server.properties").write_text(text)
        (self.directory / "log4j2.xml").write_text(settings.LOG4J2)

    def _format(self) -> None:
        # The C1 compiler alone: this JVM lives for a second.
        flags = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *self._logging]
        config = ["--config", str(self.directory / "server.properties"), "--ignore-formatted"]
        config += ["--cluster-id", self._context.state.cluster_id]
        said = subprocess.run(
            [*self._context.java, *flags, "kafka.tools.StorageTool", "format", *config],
            capture_output=True,
            text=True,
        )
        if said.returncode:
            reason = cause_line(said.stderr + said.stdout)
            raise BrokerToolError(f"cannot format the data of node {self.node_id}: {reason}")

    @property
    def _logging(self) -> list[str]:
        return [
            f"-D{settings.LOGS_PROPERTY}={self.log.parent}",
            # DEBUG writes every request to requests.log: what tests count sessions with.
            f"-Dkfetch.requests={os.environ.get('KFETCH_BROKER_REQUESTS', 'WARN')}",
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}",
        ]

    def launch(self) -> None:
        """Start the process, without waiting for it to answer."""
        self._output.write_text("")
        size = self.log.stat().st_size if self.log.exists() else 0
        self._context.log_starts[self.node_id] = size
        flags = [*settings.jvm_flags(self._context.state.heap), *self._logging]
        command = [*self._context.java, *flags, "kafka.Kafka", "server.properties"]
        begun = process.launch(command, output=self._output, detached=self._context.detached)
        if begun is None:
            raise self._died()
        if begun.tether:
            self._context.tethers[self.node_id] = begun.tether
        self._remember(begun.pid, begun.started)

    @property
    def _output(self) -> Path:
        return self.directory / "stdout.log"

    def wait_ready(self, expected: Collection[int], deadline: float) -> None:
        """Wait until the node answers and knows all ``expected`` brokers (itself included)."""
        port = self.port

        def ready_or_dead() -> bool:
            return not self.running or not ready.missing(expected, port)

        if not ready.wait_until(ready_or_dead, deadline):
            raise NotReady(
                f"node {self.node_id} at {self.address} was not ready in time: "
                f"give it longer with --timeout, or see {self.log}"
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
                # Smaller than that: it was rolled over meanwhile, and all of it is new.
                file.seek(begin if self.log.stat().st_size >= begin else 0)
                return file.read()
        except FileNotFoundError:
            return ""

    def _forget(self) -> None:
        if tether := self._context.tethers.pop(self.node_id, None):
            tether.cut()
        self._remember(None, None)

    def _remember(self, pid: int | None, started: float | None) -> None:
        now = replace(self._state, pid=pid, started=started)
        state.update_node(self._context.directory, now)


_CAUSE_PATTERNS = (
    re.compile(r"^Caused by: (.*)"),
    re.compile(r"^(?:Exception in thread \S+ )?([\w.$]+(?:Exception|Error): .*)"),
    re.compile(r"^(?:\[.*?\] (?:FATAL|ERROR) )(.*)"),
    re.compile(r"^(.*\S.*)"),
)


def cause_line(log: str) -> str:
    """The one line of a log that says most about a death: the last cause, exception or error."""
    lines = log.splitlines()
    for pattern in _CAUSE_PATTERNS:
        found = [match[1] for line in lines if (match := pattern.match(line))]
        if found:
            return found[-1].strip()[:300]
    return "it said nothing"
