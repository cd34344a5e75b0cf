"""What a cluster's directory remembers, and which directories are refused."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kfetch_jobs.errors import (
    AlreadyRunning,
    BrokerToolError,
    ForeignDirectory,
    NotRunning,
    StateDamaged,
)
from kfetch_jobs.kafka import Cluster, cluster
from kfetch_jobs.kafka.state import (
    START_LOCK,
    STATE_FILE,
    NodeState,
    State,
    claim,
    load,
    save,
    update_node,
)
from kfetch_jobs.util import process
from kfetch_jobs.util.files import wait_for_lock
from tests.kfetch_jobs.commands import Command

STATE = State(
    cluster_id="abc",
    properties={"a": "b"},
    nodes=(
        NodeState(node_id=1, port=101, controller_port=201, pid=7, started=1.5),
        NodeState(node_id=2, port=102, controller_port=202),
    ),
)


def test_state_round_trip(tmp_path: Path) -> None:
    """A saved state loads as it was."""
    save(tmp_path, STATE)
    assert load(tmp_path) == STATE


def test_saving_leaves_one_file(tmp_path: Path) -> None:
    """The file is replaced, and no half-written one is left beside it."""
    save(tmp_path, STATE)
    save(tmp_path, STATE)
    assert [path.name for path in tmp_path.iterdir()] == [STATE_FILE]


def test_a_state_of_a_later_kfetch_loads(tmp_path: Path) -> None:
    """Keys that this kfetch does not know are left out."""
    save(tmp_path, STATE)
    text = (tmp_path / STATE_FILE).read_text()
    (tmp_path / STATE_FILE).write_text(text.replace('"pid": 7', '"pid": 7, "later": 1'))
    assert load(tmp_path) == STATE


def test_no_state(tmp_path: Path) -> None:
    """A directory without a state file has no cluster. The error says how to start one."""
    assert load(tmp_path) is None
    with pytest.raises(NotRunning, match="holds no broker: start one with kfetch broker start"):
        Cluster.attach(tmp_path)


def test_update_of_one_node_keeps_the_others(tmp_path: Path) -> None:
    """A node's new process is noted without touching the rest."""
    save(tmp_path, STATE)
    moved = NodeState(node_id=2, port=102, controller_port=202, pid=8, started=2.5)
    update_node(tmp_path, moved)
    found = load(tmp_path)
    assert found is not None
    assert (found.node(1), found.node(2)) == (STATE.node(1), moved)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"version": 2}',
        '{"version": 1, "nodes": [], "cluster_id": "x", "heap": "1m"}',
        '{"version": 1, "nodes": [{"node_id": 1}], "cluster_id": "x", "heap": "1m"}',
        '{"version": 1, "nodes": [{"node_id": 1, "port": "x", "controller_port": 2}]}',
    ],
)
def test_a_damaged_state_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    """For any damage, the error names the file and says what to do."""
    (tmp_path / STATE_FILE).write_text(text)
    with pytest.raises(StateDamaged, match=f"{STATE_FILE} cannot be read .* remove {tmp_path}"):
        load(tmp_path)


def test_a_foreign_directory_is_refused(tmp_path: Path) -> None:
    """The error names a directory with other files, and leaves it as it was."""
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ForeignDirectory, match=r"has thesis\.tex"):
        Cluster.start(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    """A file where the directory should be is refused."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ForeignDirectory, match="is a file"):
        claim(tmp_path / "file")


def test_which_directories_are_taken(tmp_path: Path) -> None:
    """Accepted are a new directory, an empty one, one of an interrupted start, and one of
    kfetch's."""
    claim(tmp_path / "new" / "deep")
    claim(tmp_path / "new" / "deep")
    (tmp_path / "new" / "deep" / "start.lock").touch()
    claim(tmp_path / "new" / "deep")
    save(tmp_path, STATE)
    claim(tmp_path)


def running(directory: Path) -> None:
    me = psutil.Process(os.getpid())
    save(
        directory,
        STATE.with_node(
            NodeState(
                node_id=1, port=101, controller_port=201, pid=me.pid, started=me.create_time()
            )
        ),
    )


def test_a_running_cluster_is_named(tmp_path: Path) -> None:
    """Start refuses while a node runs, and says where."""
    running(tmp_path)
    with pytest.raises(AlreadyRunning, match=r"1 of 2 nodes are already running at .*:101,.*:102"):
        Cluster.start(tmp_path)


def test_status_tells_the_living_from_the_dead(tmp_path: Path) -> None:
    """A node without a process has no pid."""
    running(tmp_path)
    status = Cluster.attach(tmp_path).to_json()
    assert [node["pid"] for node in status["nodes"]] == [os.getpid(), None]
    assert (1, "127.0.0.1:101,127.0.0.1:102") == (status["running"], status["bootstrap_servers"])


def test_a_stop_during_a_start(tmp_path: Path, kfetch: Command) -> None:
    """It waits for the end of the start, and then stops the nodes that the start has launched."""
    node = STATE.nodes[1]
    save(tmp_path, replace(STATE, nodes=(node,)))
    with ThreadPoolExecutor(1) as pool, subprocess.Popen(["sleep", "60"]) as launched:
        with wait_for_lock(tmp_path / START_LOCK):  # as a start does
            stopped = pool.submit(kfetch, "broker", "stop", "--dir", str(tmp_path))
            assert not wait([stopped], 0.5).done
            started = psutil.Process(launched.pid).create_time()
            update_node(tmp_path, replace(node, pid=launched.pid, started=started))
        assert (0, "stopped 1 node(s)\n", "") == stopped.result(60)


def test_a_recycled_pid_is_another_process(tmp_path: Path) -> None:
    """A pid with another start time is never taken for the node, so never signalled."""
    me = psutil.Process(os.getpid())
    assert process.find(me.pid, me.create_time()) == me
    assert process.find(me.pid, me.create_time() - 60) is None
    save(tmp_path, STATE.with_node(NodeState(
        node_id=1, port=101, controller_port=201, pid=me.pid, started=me.create_time() - 60
    )))  # fmt: skip
    stopped = Cluster.attach(tmp_path)
    stopped.kill()
    assert load(tmp_path) == STATE.with_node(NodeState(node_id=1, port=101, controller_port=201))


def test_another_number_of_nodes_is_refused(tmp_path: Path) -> None:
    """The data of two nodes can't start as three."""
    save(tmp_path, STATE)
    with pytest.raises(BrokerToolError, match=r"holds the data of 2 node\(s\), not 3"):
        Cluster.start(tmp_path, nodes=3)


def test_cluster_ids_are_kafkas() -> None:
    """22 characters of URL-safe base64, none of which could be an option of the formatter."""
    ids = {cluster._new_cluster_id() for _ in range(300)}
    assert len(ids) == 300
    assert all(len(name) == 22 and not name.startswith("-") for name in ids)
