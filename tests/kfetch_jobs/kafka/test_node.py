"""Java, ports and processes of the machine: the sentences when something is amiss. No JVM runs."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kfetch_jobs.errors import JavaError, PortTaken
from kfetch_jobs.jvm.java import find_java
from kfetch_jobs.kafka import Cluster, process, ready
from kfetch_jobs.kafka.node import cause_line
from kfetch_jobs.kafka.state import NodeState, State, load, save


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("KFETCH_JAVA", "JAVA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/bin")
    monkeypatch.setattr("shutil.which", lambda name: _which(tmp_path / "path" / name))
    return tmp_path


def _which(path: Path) -> str | None:
    return str(path) if path.exists() else None


def fake_java(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)
    return path


def test_no_java(machine: Path) -> None:
    """Without any Java the sentence says what to install or set."""
    with pytest.raises(
        JavaError, match=r"no Java on .* install Java 17 .* KFETCH_JAVA or JAVA_HOME"
    ):
        find_java()


@pytest.mark.parametrize("version", ['"11.0.2"', '"1.8.0_402"', '"16"'])
def test_an_old_java(machine: Path, version: str) -> None:
    """A Java before 17 is named with its version."""
    fake_java(machine / "path" / "java", f"openjdk version {version}")
    with pytest.raises(JavaError, match=r"java is Java (8|11|16), and Kafka 4 needs 17"):
        find_java()


def test_which_java_wins(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KFETCH_JAVA (an executable or a home) goes before JAVA_HOME, which goes before PATH."""
    on_path = fake_java(machine / "path" / "java", 'version "17"')
    assert find_java() == str(on_path)
    home = fake_java(machine / "home" / "bin" / "java", 'version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(machine / "home"))
    assert find_java() == str(home)
    monkeypatch.setenv("KFETCH_JAVA", str(on_path))
    assert find_java() == str(on_path)


def test_a_variable_that_points_nowhere(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong variable is an error, not a reason to take another Java."""
    fake_java(machine / "path" / "java", 'version "17"')
    monkeypatch.setenv("JAVA_HOME", str(machine / "gone"))
    with pytest.raises(JavaError, match=r"JAVA_HOME is .*gone, and there is no Java"):
        find_java()


def test_a_java_that_says_nothing(machine: Path) -> None:
    """An executable that names no version is refused."""
    fake_java(machine / "path" / "java", "hello")
    with pytest.raises(JavaError, match="names no version"):
        find_java()


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_taken_port(listener: int) -> None:
    """The sentence names the node and the port."""
    with pytest.raises(
        PortTaken, match=f"node 2 needs port {listener}, and another process uses it"
    ):
        ready.check_free(2, listener)


def test_a_port_of_a_kafka_of_another_directory(listener: int, tmp_path: Path) -> None:
    """It is named by its directory and may be used, unless its state tells of another process; and
    a start that is refused leaves no state behind."""
    there = tmp_path / "there"
    mark = f"-Dkfetch.logs={there / 'node-1' / 'logs'}"
    told = f"node 1 needs port {listener}, and kfetch's broker of {there} uses it: use that one"
    with subprocess.Popen([sys.executable, "-c", "input()", mark], stdin=subprocess.PIPE) as other:
        there.mkdir()
        began = psutil.Process(other.pid).create_time()
        node = NodeState(node_id=1, port=listener, controller_port=1, pid=other.pid, started=began)
        save(there, State(cluster_id="abc", heap="1m", nodes=(node,)))
        with pytest.raises(PortTaken, match=re.escape(told)):
            Cluster.start(tmp_path / "here", port=listener)
        save(there, State(cluster_id="abc", heap="1m", nodes=(replace(node, pid=1),)))
        with pytest.raises(PortTaken, match="another process uses it"):
            Cluster.start(tmp_path / "here", port=listener)
        other.communicate(b"\n")

    assert load(tmp_path / "here") is None
    assert ["start.lock"] == [path.name for path in (tmp_path / "here").iterdir()]


def test_free_ports_are_free_and_apart() -> None:
    """Every port can be listened on, and none is in the range of outgoing connections."""
    ports = ready.free_ports(6)
    assert len(set(ports)) == 6
    assert all(ready.is_free(port) and 20000 <= port < 32000 for port in ports)


# kafka-python's import uses functions that Python 3.11 deprecates (3.13 takes that back).
@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
def test_a_port_without_a_broker_knows_none(listener: int) -> None:
    """Neither a closed port nor a silent server counts as a broker."""
    (closed,) = ready.free_ports(1)
    assert ready.known_brokers(closed, 0.1) == set()
    assert ready.known_brokers(listener, 0.1) == set()


def test_waiting_ends_at_the_deadline() -> None:
    """A condition that never holds is given up on time."""
    assert not ready.wait_until(lambda: False, time.monotonic() + 0.02, pause_s=0.01)
    assert ready.wait_until(lambda: True, time.monotonic())


def wait_dead(begun: process.LaunchedProcess) -> bool:
    gone = time.monotonic() + 10
    return ready.wait_until(lambda: process.find(begun.pid, begun.started) is None, gone)


@pytest.mark.parametrize("detached", [True, False])
def test_launch_names_the_process_itself(tmp_path: Path, detached: bool) -> None:
    """The pid is the command's, not the shell's, and its output goes to the file."""
    (tmp_path / "out").touch()
    command = ["/bin/sh", "-c", "echo $$ 'a b'; exec sleep 60"]
    begun = process.launch(command, output=tmp_path / "out", detached=detached)
    assert begun is not None
    written = f"{begun.pid} a b\n"
    deadline = time.monotonic() + 10
    said = ready.wait_until(lambda: (tmp_path / "out").read_text() == written, deadline)
    found = process.find(begun.pid, begun.started)
    if found:
        found.kill()
    dead = wait_dead(begun)
    if begun.tether:
        begun.tether.cut()
    assert (said, found is not None, dead) == (True, True, True)
    assert (begun.tether is None) == detached


def test_cutting_the_tether_kills(tmp_path: Path) -> None:
    """A process that is not detached lives only as long as its tether."""
    begun = process.launch(["sleep", "60"], output=tmp_path / "out", detached=False)
    assert begun is not None
    assert begun.tether is not None
    begun.tether.cut()
    assert wait_dead(begun)


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("[1] INFO fine (a)\n[2] ERROR broken (b)\n[3] INFO bye (a)", "broken (b)"),
        ("[2] ERROR x (b)\nCaused by: a.BindException: in use\n", "a.BindException: in use"),
        ('Exception in thread "main" a.b.ConfigException: bad\n\tat x', "a.b.ConfigException: bad"),
        ("Unrecognized VM option\nError: Could not create\n", "Error: Could not create"),
        ("\n", "its log is empty"),
    ],
)  # fmt: skip
def test_the_line_that_tells_why(log: str, line: str) -> None:
    """Of a log the last cause is quoted, else exception, error, or simply the last line."""
    assert cause_line(log) == line
