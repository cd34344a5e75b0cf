"""Spark's settings, its errors as sentences, and the end of its JVM."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from py4j import java_gateway
from py4j.java_gateway import GatewayClient, GatewayParameters, JavaPackage
from pyspark import SparkContext
from pyspark.logger import PySparkLogger

from kfetch_jobs.errors import JobsError, SparkError
from kfetch_jobs.jvm import spark

TRACE = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
kfetch.errors.RecordsExpired: partition 3 of clicks starts at offset 9, past 7
\tat org.apache.spark.Something
SQLSTATE: XXKST"""


PY4J = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: java.io.FileNotFoundException: File file:/no/events does not exist
\tat org.apache.hadoop.fs.RawLocalFileSystem.deprecatedGetFileStatus(RawLocalFileSystem.java:980)
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (PY4J, "File file:/no/events does not exist"),
        (TRACE, "partition 3 of clicks starts at offset 9, past 7"),
        ("Traceback:\n  File x\nKeyError: 'a'\nmore", "'a'"),
        ("[TABLE_NOT_FOUND] no such table. SQLSTATE: 42P01\n'Project [*]\n+- X", "no such table"),
        ("", "RuntimeError"),
    ],
)
def test_one_sentence_of_many(text: str, sentence: str) -> None:
    """Of Spark's pages about an error only the sentence remains; kfetch's own goes first."""
    assert sentence == spark.cause_of(RuntimeError(text))


@pytest.mark.parametrize("version", ["4.1.4", "4.2.1", "4.3.0"])
def test_a_spark_without_delta_is_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """The error names Delta, its Spark and the installed one, and says what to install."""
    monkeypatch.setattr(spark.metadata, "version", lambda _: version)

    with pytest.raises(JobsError) as refused:
        spark.check_versions()
    sentence = (
        f"kfetch-jobs writes with Delta Lake 4.4.0, which is built for Spark 4.2.0, and Spark "
        f"{version} is installed: pip install 'pyspark==4.2.0', or use kfetch without kfetch-jobs. "
        "Jobs with sink.write: straight need no Delta"
    )
    assert sentence in str(refused.value)


def test_deltas_spark_is_the_required_one() -> None:
    """The installed Spark is accepted, and each accepted one fits the package's metadata."""
    spark.check_versions()

    required = next(
        one
        for one in map(Requirement, metadata.requires("kfetch-jobs") or ())
        if one.name == "pyspark"
    )
    assert [True] == [required.specifier.contains(version) for version in spark.SPARKS]


JVM = """org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = 1]
\tat org.apache.spark.sql.Something
Caused by: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows
\t... 3 more
Caused by: {cause}
\tat java.base/java.lang.Thread.run"""


@pytest.mark.parametrize(
    ("cause", "sentence"),
    [
        ("java.io.IOException: No space left on device", "No space left on device"),
        (
            "org.apache.spark.api.python.PythonException: Traceback\n" + TRACE,
            "partition 3 of clicks",
        ),
        ("x.PythonException: Traceback (most\nRuntimeError: a bad mood", "a bad mood"),
        (
            "x.Y: Traceback\npy4j.protocol.Py4JJavaError: An error occurred while calling o9."
            "\n: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed"
            "\nCaused by: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] a reason",
            "a reason",
        ),
    ],
)
def test_the_first_cause_is_in_the_trace(cause: str, sentence: str) -> None:
    """What an executor's task died of is not in the message of the query's error, but is told."""
    error = RuntimeError("never shown")
    error._desc = "[STREAM_FAILED] Query [id = 1] terminated with exception: [TASK_WRITE_FAILED]"  # type: ignore[attr-defined]
    error._stackTrace = JVM.format(cause=cause)  # type: ignore[attr-defined]

    assert spark.cause_of(error).startswith(sentence)


def test_the_users_settings_go_over_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job's settings replace the defaults, but its JVM options are added to ours."""
    wanted = {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Xss2m"}
    merged = spark._merged(wanted, tmp_path, tmp_path)

    assert "true" == merged["spark.ui.enabled"]
    assert merged["spark.driver.extraJavaOptions"].endswith(" -Xss2m")
    assert "log4j2.properties" in merged["spark.driver.extraJavaOptions"]


ARCHIVE = {"spark.master": "spark://a:7077", "spark.archives": "/x/e.tar.gz#env,/x/more.zip#m"}


@pytest.mark.parametrize(
    ("wanted", "python", "path"),
    [
        ({"spark.master": "local[2]", "spark.archives": "e.tar.gz#env"}, sys.executable, None),
        ({"spark.master": "spark://a:7077"}, sys.executable, None),
        (ARCHIVE, "python3", "./env/bin:/usr/local/bin:/usr/bin:/bin"),
        (ARCHIVE | {"spark.executorEnv.PATH": "/own"}, "python3", "/own"),
    ],
)
def test_the_python_of_executors(
    wanted: dict[str, str],
    python: str,
    path: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark has one name for it here and there: a path that is the same everywhere, or with an
    archive a name, which each side finds by its PATH."""
    monkeypatch.setattr(spark.os, "environ", {"PATH": "/usr/bin"})
    merged = spark._merged(wanted, tmp_path, tmp_path)
    spark._prepare_environment(merged, [])

    found = spark.os.environ
    assert (python, python, path) == (
        found["PYSPARK_PYTHON"],
        found["PYSPARK_DRIVER_PYTHON"],
        merged.get("spark.executorEnv.PATH"),
    )
    assert python != "python3" or found["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"
    local = wanted["spark.master"].startswith("local")
    assert local == ("SPARK_LOCAL_IP" in found)
    # A directory of this machine's storage would not be there on others.
    assert local or merged["spark.python.unix.domain.socket.dir"] == "/tmp"


@pytest.mark.parametrize(
    ("wanted", "python"),
    [
        ({}, sys.executable),
        ({"spark.master": "spark://a:7077"}, "/srv/python"),
        (ARCHIVE, "python3"),
    ],
)
def test_the_users_python(
    wanted: dict[str, str], python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a cluster without an archive, PYSPARK_PYTHON names the Python of executors. On this
    machine alone kfetch's own Python has kfetch, and with an archive its name is python3."""
    monkeypatch.setattr(spark.os, "environ", {"PYSPARK_PYTHON": "/srv/python"})
    spark._prepare_environment(spark._merged(wanted, tmp_path, tmp_path), [])

    assert python == spark.os.environ["PYSPARK_PYTHON"]


@pytest.mark.parametrize("submitted", [True, False])
def test_the_settings_of_spark_submit(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: bool
) -> None:
    """The settings of spark-submit replace kfetch's defaults, and the job's replace both. Without
    spark-submit, nobody asks a JVM for settings."""
    passed: list[dict[str, str]] = []
    monkeypatch.setattr(spark, "_started", lambda _, one, *__: passed.append(one) or started)
    of_submit = {"spark.master": "yarn", "spark.ui.enabled": "true", "spark.cores.max": "9"}
    conf = SimpleNamespace(getAll=of_submit.items)
    monkeypatch.setattr("pyspark.SparkConf", lambda: conf)
    if submitted:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with spark.session({"spark.cores.max": "2"}, name="a", log=tmp_path / "log", delta=False):
        (found,) = passed

    assert ("yarn", "true") == (found["spark.master"], found["spark.ui.enabled"]) or not submitted
    assert submitted or "local[*]" == found["spark.master"]
    assert ("2", "2") == (found["spark.cores.max"], found["spark.sql.shuffle.partitions"])
    # A directory of this machine's storage would not be there on others.
    assert not submitted or found["spark.python.unix.domain.socket.dir"] == "/tmp"


def test_the_jars_of_spark_submit_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors get the JARs of spark-submit and Delta's. Extensions stay too, each once."""
    monkeypatch.setattr(spark, "delta_jars", lambda: ["/delta.jar"])
    delta = spark._DELTA_SETTINGS["spark.sql.extensions"]
    for given, expected in {"": delta, "a.B": f"a.B,{delta}", delta: delta}.items():
        found = spark._with_delta({"spark.jars": "/udf.jar", "spark.sql.extensions": given})

        assert ("/udf.jar,/delta.jar", expected) == (
            found["spark.jars"],
            found["spark.sql.extensions"],
        )


@pytest.mark.parametrize("loaded", [True, False])
def test_spark_submit_without_delta(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: bool
) -> None:
    """The JVM of spark-submit takes no JARs from kfetch. The error has the argument to add."""
    found = object() if loaded else JavaPackage("io.delta.tables.DeltaTable", None)
    tables = SimpleNamespace(DeltaTable=found)
    jvm = SimpleNamespace(io=SimpleNamespace(delta=SimpleNamespace(tables=tables)))
    started.sparkContext = SimpleNamespace(_jvm=jvm)
    monkeypatch.setattr(spark, "delta_jars", list)
    monkeypatch.setattr(spark, "_started", lambda *_: started)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    wrong = pytest.raises(SparkError, match=f"--packages {spark.DELTA}")
    with nullcontext() if loaded else wrong, spark.session({}, name="a", log=tmp_path / "log"):
        assert loaded


@pytest.mark.parametrize("given", ["", "/own"])
def test_executors_get_the_projects_code(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors get the project's code and the user's own directories alone: kfetch is in the
    archive."""
    merged = spark._merged(ARCHIVE, tmp_path, tmp_path)
    monkeypatch.setattr(spark.os, "environ", {"PATH": "/usr/bin", "PYTHONPATH": given})
    spark._prepare_environment(merged, [Path("/code")])

    assert ":".join(filter(None, ("/code", given))) == spark.os.environ["PYTHONPATH"]


def test_sockets_fit_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deep storage directory can't hold sockets, nor can a deep TMPDIR."""
    deep = Path("/", "d" * 100)
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/short")
    assert Path("/s") == spark._socket_directory(Path("/s"))
    assert Path("/short") == spark._socket_directory(deep)

    monkeypatch.setattr("tempfile.gettempdir", lambda: str(deep))
    assert Path("/tmp") == spark._socket_directory(deep)


def test_sockets_without_a_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for a directory for temporary files if the run's own one fits. If none is
    usable, Spark says so."""
    monkeypatch.setattr("tempfile.gettempdir", _no_directory)

    assert Path("/s") == spark._socket_directory(Path("/s"))
    assert Path("/tmp") == spark._socket_directory(Path("/", "d" * 100))


def _no_directory() -> str:
    raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/']")


def test_jars_that_pyspark_ships_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Artifacts are compared by name: PySpark's version of a jar wins."""
    found = [Path("delta-storage-4.4.0.jar"), Path("scala-library-2.13.1.jar")]
    monkeypatch.setattr(spark, "jars", lambda *_: found)

    assert found[:1] == spark.delta_jars()


class Gateway:
    """PySpark's to a JVM, which here is a shell: it says something when it is told to leave."""

    def __init__(self, output: int) -> None:
        command = ["sh", "-c", "read none; echo last words"]
        self.proc = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output)

    def shutdown(self) -> None:
        """No more calls."""


_LOGGERS = [f"{name}QueryContextLogger" for name in ("SQL", "DataFrame")]


class Started:
    """A session of Spark."""

    def stop(self) -> None:
        """Nothing runs."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """What ``session`` starts. It makes PySpark's loggers anew: they keep the stderr of a test."""
    for name in _LOGGERS:
        monkeypatch.delitem(logging.root.manager.loggerDict, name, raising=False)
    session = Started()
    monkeypatch.setattr(spark, "_started", lambda *_: session)
    monkeypatch.setattr(spark, "find_java", str)
    monkeypatch.setattr(spark.os, "environ", dict(os.environ))
    return session


@pytest.mark.usefixtures("started")
def test_sparks_traces_go_to_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PySpark logs a mistake in a query as JSON, with pages of the JVM's trace: people and the
    job's log have the sentence alone."""
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    with spark.session({}, name="a", log=tmp_path / "log", redacted=str.upper):
        for logger in loggers:
            logger.propagate = False  # as PySpark does
            logger.error("a mistake", errorClass="X")
    loggers[0].error("later")

    assert ["A MISTAKE", "A MISTAKE"] == re.findall("A MISTAKE", (tmp_path / "log").read_text())
    said = capsys.readouterr().err
    assert "a mistake" not in said
    assert "later" in said


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_py4js_traces_go_to_sparks_log(
    started: Started,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A JVM that is killed within a call, or before the session stops, gives traces of 40 lines.
    The job's log has one sentence: Python's root logger, which prints there, gets none of them."""

    def call() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            Thread(target=lambda: server.accept()[0].close()).start()
            parameters = GatewayParameters(port=server.getsockname()[1])
            GatewayClient(gateway_parameters=parameters).send_command("c", retry=False)

    monkeypatch.setattr(java_gateway, "logging", logging)
    monkeypatch.setattr(started, "stop", call)
    with spark.session({}, name="a", log=tmp_path / "log"):
        call()

    sentence = "Exception while sending command."
    assert 2 == (tmp_path / "log").read_text().count(sentence)
    assert [] == [record for record in caplog.records if record.name == "root"]


def test_a_start_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM is ended, its last words are in the log, and nobody waits for more of them."""

    def fails(name: str, settings: object, log: Path, output: int) -> None:
        monkeypatch.setattr(SparkContext, "_gateway", Gateway(output))
        raise SparkError("Spark does not start")

    monkeypatch.setattr(spark, "_started", fails)
    monkeypatch.setattr(spark, "find_java", str)
    monkeypatch.setattr(spark.os, "environ", dict(os.environ))
    monkeypatch.setattr("kfetch_jobs.util.redact._LAST_LINES_WITHIN_S", 60.0)
    began = time.monotonic()
    with pytest.raises(SparkError), spark.session({}, name="a", log=tmp_path / "log"):
        pass

    assert time.monotonic() - began < 30
    assert (tmp_path / "log").read_text() == "last words\n"
    assert None is SparkContext._gateway


def test_spark_starts_the_java_that_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KFETCH_JAVA reaches Spark as JAVA_HOME: Spark knows neither the variable nor the check."""
    monkeypatch.setattr(spark.os, "environ", {"PATH": "/usr/bin"})
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    spark._use_java(java)

    assert str(tmp_path / "jdk") == spark.os.environ["JAVA_HOME"]


def test_the_jvm_of_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the parent of this process, and PySpark has no handle of it. A run's end leaves it to
    end behind its child. A lost lease halts it, which runs no hooks and commits nothing."""
    done: list[object] = []
    runtime = SimpleNamespace(halt=done.append)
    gateway = SimpleNamespace(
        proc=None,
        shutdown=lambda: done.append("shutdown"),
        jvm=SimpleNamespace(Runtime=SimpleNamespace(getRuntime=lambda: runtime)),
    )
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    spark.kill_jvm()
    spark._end_jvm()
    assert [1, "shutdown"] == done


@pytest.mark.parametrize(
    "name",
    [
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.key",
        "spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net",
        "spark.hadoop.fs.gs.auth.service.account.private.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.encryption.key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.server-side-encryption.key",
    ],
)
def test_spark_hides_secrets_of_kafka_and_of_stores(name: str) -> None:
    """Spark replaces the value of a setting whose name has the pattern."""
    assert re.search(spark.REDACTION, name)


def test_spark_shows_other_settings() -> None:
    """Such as columns of keys."""
    for name in ("keySchema", "spark.sql.shuffle.partitions", "fs.s3a.encryption.algorithm"):
        assert not re.search(spark.REDACTION, name)
