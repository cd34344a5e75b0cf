"""The end of Spark's JVM as the cause of a job's error."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from kfetch_jobs import config
from kfetch_jobs.jvm.spark import process_end
from kfetch_jobs.run import dataframes
from kfetch_jobs.run.spark_errors import job_error
from tests.kfetch_jobs.projects import ENVIRON


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process in place of the JVM."""
    with subprocess.Popen(["sleep", "60"]) as started:
        yield started
        started.kill()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("exit 3", "Spark's JVM ended with exit code 3"),
        ("kill -TERM $$", "Spark's JVM was ended by signal 15 (SIGTERM)"),
        (
            "kill -KILL $$",
            "Spark's JVM was ended by signal 9 (SIGKILL), perhaps by the system for lack of memory",
        ),
    ],
)
def test_ends(command: str, sentence: str) -> None:
    """The sentence names the exit code or the signal."""
    with subprocess.Popen(["sh", "-c", command]) as process:
        assert sentence == process_end(process, 10)


@pytest.mark.parametrize(
    "cause",
    [
        ConnectionRefusedError(111, "Connection refused"),
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("An error occurred while calling o166.isActive"),
    ],
)
def test_a_jvm_that_was_killed(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, cause: Exception
) -> None:
    """Py4J's errors about its connection have the JVM's end in place of their words."""
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    process.send_signal(signal.SIGKILL)
    error = job_error(cause, "job a failed", Path("spark.log"))

    assert error.message == (
        "job a failed: Spark's JVM was ended by signal 9 (SIGKILL), perhaps by the system for lack "
        "of memory (see spark.log)"
    )


def test_a_transform_during_which_the_jvm_dies(
    project: Path, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no outage of another system. The error passes, and gets the JVM's end as its cause."""
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    job = config.load(config.find(project), ENVIRON).job("clicks")
    process.kill()
    with (
        pytest.raises(ConnectionRefusedError),
        dataframes.user_mistakes(job, "transform"),
    ):
        raise ConnectionRefusedError(111, "Connection refused")


def test_a_jvm_that_runs(process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its errors keep their words. So does every other error."""
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    monkeypatch.setattr("kfetch_jobs.jvm.spark._JVM_ENDS_S", 0.01)
    for cause in (FileNotFoundError("no file"), RuntimeError("no file")):
        error = job_error(cause, "job a failed", Path("spark.log"))
        assert "job a failed: no file (see spark.log)" == error.message
    assert "" == process_end(process, 0.01)
