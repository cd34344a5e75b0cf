"""A cluster of Kafka nodes in one directory: tied to this process, or detached from it."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from kfetch_jobs.errors import AlreadyRunning, BrokerToolError
from kfetch_jobs.kafka import ready, state
from kfetch_jobs.kafka.node import ClusterContext, Node
from kfetch_jobs.util.files import wait_for_lock
from kfetch_jobs.util.process import wait_until


class Cluster:
    """Kafka nodes on 127.0.0.1 with their data in one directory.

    As a context manager, a cluster kills its nodes at the end, unless it is detached. The nodes of
    a cluster that is not detached also die with this process. The data stays.
    """

    def __init__(self, context: ClusterContext, *, reused: bool = False) -> None:
        self._context = context
        self.reused = reused
        """Whether it uses the data of an earlier cluster"""

    @classmethod
    def start(
        cls,
        directory: Path | str,
        *,
        nodes: int | None = None,
        properties: Mapping[str, str] | None = None,
        port: int | None = None,
        detached: bool = False,
        timeout_s: float = 60,
    ) -> Self:
        """Start all nodes and wait until each answers and knows all others.

        If the directory has the data of an earlier cluster, that cluster starts again: with its
        cluster id and ports, and with its nodes and properties unless the caller gives others.
        ``port`` is the first node's port; the other nodes take the ports that follow. Raises
        BrokerToolError if a node does not answer within ``timeout_s`` seconds.
        """
        path = Path(directory).absolute()
        state.claim(path)
        with wait_for_lock(path / state.START_LOCK):
            old = state.load(path)
            cluster = cls(ClusterContext(path, detached=detached), reused=old is not None)
            if old is not None:
                cluster._refuse_running()
            new = _reused_state(path, old, nodes, port) if old else _new_state(nodes or 1, port)
            for node in new.nodes:  # before it writes anything
                ready.check_free(node.node_id, node.port, node.controller_port)
            chosen = new.properties if properties is None else dict(properties)
            state.save(path, replace(new, properties=chosen))
            try:
                cluster._bring_up(time.monotonic() + timeout_s)
            except BaseException:
                # The next start must not inherit a port or property that made this one fail.
                state.save(
                    path, old or replace(_new_state(nodes or 1, None), cluster_id=new.cluster_id)
                )
                raise
        return cluster

    @classmethod
    def attach(cls, directory: Path | str) -> Cluster:
        """Returns the cluster that another process has started. Its nodes outlive this process."""
        context = ClusterContext(Path(directory).absolute(), detached=True)
        _ = context.state  # raises when there is none
        return cls(context)

    def _refuse_running(self) -> None:
        if running := self.running:
            count = (
                f"{len(running)} of {len(self.nodes)} nodes are"
                if len(running) < len(self.nodes)
                else "the broker is"
            )
            raise AlreadyRunning(
                f"{count} already running at {self.bootstrap_servers} in {self.directory}: "
                "use it, stop it with kfetch broker stop, or name another directory with --dir"
            )

    def _bring_up(self, deadline: float) -> None:
        _ = self._context.java  # one clear error, before threads
        with ExitStack() as ends, ThreadPoolExecutor(max_workers=len(self.nodes)) as pool:
            ends.callback(self.kill)
            list(pool.map(Node.prepare, self.nodes))
            for node in self.nodes:
                node.launch()
            ids = {node.node_id for node in self.nodes}
            list(pool.map(lambda node: node.wait_ready(ids, deadline), self.nodes))
            ends.pop_all()  # all nodes answer, so they may live

    @property
    def directory(self) -> Path:
        """The directory of the cluster."""
        return self._context.directory

    @property
    def nodes(self) -> list[Node]:
        """All nodes, running or not. Their ids count from 1."""
        return [Node(self._context, node.node_id) for node in self._context.state.nodes]

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, in the form of ``bootstrap.servers``."""
        return ",".join(node.address for node in self.nodes)

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster. It stays with the data."""
        return self._context.state.cluster_id

    @property
    def running(self) -> list[Node]:
        """The nodes whose process lives."""
        return [node for node in self.nodes if node.running]

    def to_json(self) -> dict[str, Any]:
        """Returns the cluster's present state for ``--json``. The pid of a dead node is None."""
        nodes = [
            {"node_id": node.node_id, "address": node.address, "pid": node.pid}
            for node in self.nodes
        ]
        return {
            "directory": str(self.directory),
            "cluster_id": self.cluster_id,
            "bootstrap_servers": self.bootstrap_servers,
            "nodes": nodes,
            "running": sum(node["pid"] is not None for node in nodes),
        }

    def stop(self, timeout_s: float = 20) -> int:
        """End all nodes with SIGTERM, and with SIGKILL after ``timeout_s`` seconds.

        If another process starts the cluster, it waits for that. Returns how many nodes ran.
        """
        with wait_for_lock(self.directory / state.START_LOCK):
            running = self.running
            for node in running:
                node.terminate()
            wait_until(lambda: not self.running, time.monotonic() + timeout_s)
            self.kill()
        return len(running)

    def kill(self) -> None:
        """End all nodes with SIGKILL."""
        for node in self.nodes:
            node.kill()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._context.detached:
            self.kill()


def _new_state(count: int, port: int | None) -> state.State:
    if count < 1:
        raise BrokerToolError(f"a cluster has at least one node, not {count}")
    free = ready.free_ports(2 * count)
    nodes = tuple(
        state.NodeState(
            node_id=1 + i,
            port=free[i] if port is None else port + i,
            controller_port=free[count + i],
        )
        for i in range(count)
    )
    return state.State(cluster_id=_new_cluster_id(), nodes=nodes)


def _reused_state(
    directory: Path, old: state.State, count: int | None, port: int | None
) -> state.State:
    have = len(old.nodes)
    if count not in (None, have):
        raise BrokerToolError(
            f"{directory} holds the data of {have} node(s), not {count}: "
            f"start it with --nodes {have}, or name another directory"
        )
    return replace(old, nodes=tuple(_with_free_ports(node, port) for node in old.nodes))


def _with_free_ports(node: state.NodeState, port: int | None) -> state.NodeState:
    # Clients know the client port, so it changes only if the caller asks for another. No client
    # knows the controller port: while all nodes are down, any free port will do.
    still_free = ready.is_free(node.controller_port)
    return replace(
        node,
        port=node.port if port is None else port + node.node_id - 1,
        controller_port=node.controller_port if still_free else ready.free_ports(1)[0],
    )


def _new_cluster_id() -> str:
    """Returns 16 random bytes in Kafka's form. No id starts with a dash, as an option does."""
    name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return _new_cluster_id() if name.startswith("-") else name
