"""A job whose JVM dies, as the system's memory killer ends it, and one that Ctrl-C stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from integration.running.commands import Project
from integration.streams import wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@contextmanager
def running(
    kafka: Cluster, topic: Callable[..., str], directory: Path
) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A run whose first micro-batch is planned, and its JVM."""
    project = Project(directory, kafka)
    project.directory.mkdir()
    project.kfetch("init", ".")
    file = project.directory / "jobs" / "clicks.yml"
    file.write_text(file.read_text().replace("subscribe: clicks", f"subscribe: {topic(1)}"))
    progress = project.directory / ".kfetch/storage/clicks/checkpoint/offsets/0"
    command = [sys.executable, "-P", "-m", "kfetch", "run", "clicks"]
    with subprocess.Popen(
        command,
        cwd=project.directory,
        env=project.environ,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as in a terminal
    ) as process:
        try:
            wait_until(progress.exists, what="the plan of the first micro-batch")
            (jvm,) = [one for one in psutil.Process(process.pid).children() if one.name() == "java"]
            yield process, jvm
        finally:
            process.kill()


def test_a_killed_jvm_is_named(kafka: Cluster, topic: Callable[..., str], tmp_path: Path) -> None:
    """The error names the JVM and the signal. Py4J's own says that a connection was refused, as if
    Kafka had refused it. Its traces are in Spark's log alone."""
    with running(kafka, topic, tmp_path / "shop") as (process, jvm):
        jvm.send_signal(signal.SIGKILL)
        _, said = process.communicate(timeout=60)

    last = said.splitlines()[-1]
    assert "job clicks failed: Spark's JVM was ended by signal 9 (SIGKILL)" in last
    assert "Connection refused" not in said
    assert "Traceback" not in said
    assert last.endswith(" [SPARK_FAILED]")


def test_ctrl_c_waits_for_the_micro_batch(
    kafka: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    """A terminal sends SIGINT to all processes of its group. The run ends well, with the
    micro-batch that was planned."""
    with running(kafka, topic, tmp_path / "shop") as (process, _):
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=120)

    assert 0 == process.returncode, said
    assert (tmp_path / "shop/.kfetch/storage/clicks/checkpoint/commits/0").exists()


@pytest.mark.long  # the unit tests of processes show that the kernel ends a child with its parent
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_jvm_ends_with_its_run(kafka: Cluster, topic: Callable[..., str], tmp_path: Path) -> None:
    """A stopped JVM never wakes behind its run. Another run may have its lease by then."""
    with running(kafka, topic, tmp_path / "shop") as (process, jvm):
        jvm.send_signal(signal.SIGSTOP)
        process.kill()
        process.communicate(timeout=60)
        assert [] == psutil.wait_procs([jvm], timeout=20)[1]
