"""Spark for a job: one quiet session in this process, with Delta or without, local or on a cluster.

    with session(settings, log=directory / "spark.log") as spark: ...

Delta's jars come from ``maven.py``. Spark's own way, ``spark.jars.packages``, uses Ivy. It is slow,
and fails over POM-only modules in a local Maven repository. The output of the JVM and of Spark's
Python workers goes to the log file. The terminal shows only kfetch's own lines.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfetch.storage.processes import die_with_parent
from kfetch_jobs.errors import JobsError, SparkError
from kfetch_jobs.jvm.java import find_java
from kfetch_jobs.jvm.maven import jars
from kfetch_jobs.jvm.properties import SUBMITTED, settings_file, settings_path
from kfetch_jobs.util.redact import redacted_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
SPARKS = ("4.2.0",)
"""Versions of Spark for which Delta is built: ``delta-spark`` 4.4 wants pyspark up to 4.2.0."""

REDACTION = (
    "(?i)secret|password|token|jaas|user[.]info|(access|account|encryption|keystore|private)[.]?key"
)
"""Names of options that Spark hides in plans and event logs: its own default, Kafka's and stores'.
"""
_DEFAULTS = {
    "spark.master": "local[*]",
    "spark.redaction.regex": REDACTION,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The defaults are for clusters: 200 and 50 tasks to sort a handful of rows.
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",
}

_DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


@contextmanager
def session(
    settings: Mapping[str, str],
    *,
    name: str,
    log: Path,
    code: Sequence[Path] = (),
    redacted: Callable[[str], str] = str,
    delta: bool = True,
) -> Iterator[SparkSession]:
    """Yields a Spark session that ends with the block. ``settings`` override kfetch's settings.

    Those of ``spark-submit`` override kfetch's defaults, and ``settings`` override both.

    ``code`` lists the directories of the project's modules, for Spark's Python workers. ``log``
    gets the output of the workers and of the JVM; ``redacted`` removes secrets from it. Without
    ``delta``, Spark can't write Delta tables. It needs no JAR then, and may have any version.
    """
    if delta:
        check_versions()
    _use_java(Path(find_java()))  # Spark's own message about a missing Java is a page long
    with (
        temporary_directory(log.parent / "tmp") as temporary,
        redacted_log(log, redacted) as output,
    ):
        ours = _with_delta(_submitted()) if delta else _submitted()
        ours |= settings
        merged = _merged(ours, log.parent, temporary)
        _prepare_environment(merged, code)
        try:
            spark = _started(name, merged, log, output)
            with _traces_to(output):
                try:
                    if delta and SUBMITTED in os.environ:
                        _check_delta(spark)
                    yield spark
                finally:
                    # A signal to the process group may have ended the JVM before.
                    with suppress(Exception):
                        spark.stop()
        finally:
            _end_jvm()  # it runs after a failed start too, and has the log open


def _with_delta(submitted: Mapping[str, str]) -> dict[str, str]:
    """Returns settings with Delta's, beside the JARs and extensions that spark-submit names."""
    delta = {**_DELTA_SETTINGS, "spark.jars": ",".join(map(str, delta_jars()))}
    for name in ("spark.jars", "spark.sql.extensions"):
        if (given := submitted.get(name, "")) and delta[name] not in given.split(","):
            delta[name] = f"{given},{delta[name]}"
    return {**submitted, **delta}


def _submitted() -> dict[str, str]:
    """Returns the settings of ``spark-submit``, such as its ``--master``, if it runs this process.

    They have those of ``spark-defaults.conf``, too.
    """
    if SUBMITTED not in os.environ:
        return {}
    from pyspark import SparkConf

    return dict(SparkConf().getAll())


def _check_delta(spark: SparkSession) -> None:
    """Raises SparkError if the JVM has no Delta. One that runs already takes no more JARs."""
    from py4j.java_gateway import JavaPackage

    jvm: Any = spark.sparkContext._jvm
    if isinstance(jvm.io.delta.tables.DeltaTable, JavaPackage):  # it is no class
        raise SparkError(
            "spark-submit has started Spark without Delta Lake",
            action=f"add --packages {DELTA}. Jobs with sink.write: straight need no Delta",
        )


def check_versions() -> None:
    """Raises JobsError if the installed Spark is not the one that Delta is built for.

    Another Spark may start and fail in the middle of a write.
    """
    installed = _installed_spark()
    if installed not in SPARKS:
        raise JobsError(
            f"kfetch-jobs writes with Delta Lake {DELTA.rpartition(':')[2]}, which is built for "
            f"Spark {' or '.join(SPARKS)}, and Spark {installed} is installed",
            action=f"pip install 'pyspark=={SPARKS[-1]}', or use kfetch without kfetch-jobs. Jobs "
            "with sink.write: straight need no Delta",
        )


def _installed_spark() -> str:
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:  # a cluster's own Spark has no metadata
        return str(import_module("pyspark").__version__)


def _started(name: str, settings: Mapping[str, str], log: Path, output: int) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if SUBMITTED in os.environ:  # its JVM has its arguments already
        builder = builder.config(map=dict(settings))
    builder = builder.appName(name)
    file = settings_file(settings_path(log), settings)
    # The JVM inherits the output, and the Python workers from the JVM.
    with _output_to(output), file, _dying_with_this_process(), _same_interrupts():
        try:
            return builder.getOrCreate()
        except Exception as cause:
            raise SparkError(f"Spark does not start: {cause_of(cause)} (see {log})") from cause


@contextmanager
def _same_interrupts() -> Iterator[None]:
    """Keep the handler of SIGINT. PySpark's cancels a micro-batch that a stop waits for."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def _dying_with_this_process() -> Iterator[None]:
    """Let the kernel end a JVM that starts in the block, as soon as this thread is dead.

    A JVM that sees the end of its input takes a moment to end, and could commit a micro-batch
    meanwhile. It has a process group of its own, so that a terminal's Ctrl-C does not interrupt its
    Python processes. PySpark's launcher sets ``preexec_fn`` itself, so its ``Popen`` is wrapped.
    """
    launcher: Any = import_module("pyspark.java_gateway")
    popen, ask_the_kernel = launcher.Popen, die_with_parent()

    def start(*arguments: Any, preexec_fn: Callable[[], None], **named: Any) -> Any:
        def prepare() -> None:
            preexec_fn()
            os.setpgid(0, 0)
            ask_the_kernel()

        return popen(*arguments, preexec_fn=prepare, **named)

    launcher.Popen = start
    try:
        yield
    finally:
        launcher.Popen = popen


_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def _merged(settings: Mapping[str, str], directory: Path, temporary: Path) -> dict[str, str]:
    """kfetch's settings, overridden by the user's. The JVM gets both kinds of options."""
    merged = (
        _DEFAULTS
        | _local_settings(directory, temporary)
        | _cluster_settings(settings)
        | dict(settings)
    )
    java = (_java_options(temporary), settings.get(_JAVA_OPTIONS, ""))
    return merged | {_JAVA_OPTIONS: " ".join(java).strip()}


def _local_settings(directory: Path, temporary: Path) -> dict[str, str]:
    """Settings that name local files."""
    return {
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(temporary),
        "spark.python.unix.domain.socket.dir": str(_socket_directory(temporary)),
    }


def _socket_directory(directory: Path) -> Path:
    """The first of three directories whose socket paths are short enough for the system."""
    candidates = [directory]
    with suppress(FileNotFoundError):  # no directory for temporary files is usable
        candidates.append(Path(tempfile.gettempdir()))
    for candidate in candidates:
        if len(os.fsencode(candidate / f".{uuid.UUID(int=0)}.sock")) <= _SOCKET_PATH_MAX:
            return candidate
    # The names are random. With the usual umask, only their owner can connect to the sockets.
    return Path("/tmp")  # noqa: S108


_SOCKET_PATH_MAX = 103
"""Bytes on macOS; Linux allows 107."""


def _java_options(temporary: Path) -> str:
    log4j = Path(__file__).with_name("log4j2.properties")
    return f'-Dlog4j2.configurationFile={log4j.as_uri()} "-Djava.io.tmpdir={temporary}"'


def delta_jars() -> list[Path]:
    """Returns Delta's jars without the artifacts that PySpark ships, in any version."""
    package = find_spec("pyspark")
    if package is None or package.origin is None:
        raise JobsError("Spark is not installed: install kfetch[jobs]")
    shipped = {_artifact(jar) for jar in (Path(package.origin).parent / "jars").glob("*.jar")}
    return [jar for jar in jars(DELTA) if _artifact(jar) not in shipped]


def _artifact(jar: Path) -> str:
    return re.sub(r"-\d.*", "", jar.stem)


def _cluster_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings for executors on other machines, which lack the directories of this one."""
    if _is_local(settings):
        return {}
    remote = {"spark.python.unix.domain.socket.dir": "/tmp"}  # noqa: S108
    if archive := _archive_directory(settings):
        remote["spark.executorEnv.PATH"] = f"./{archive}/bin:/usr/local/bin:/usr/bin:/bin"
    return remote


def _is_local(settings: Mapping[str, str]) -> bool:
    return settings.get("spark.master", _DEFAULTS["spark.master"]).startswith("local")


def _archive_directory(settings: Mapping[str, str]) -> str:
    """The directory into which executors unpack the first environment of ``spark.archives``.

    The setting has the form ``FILE#DIRECTORY``. Returns an empty text without one.
    """
    return settings.get("spark.archives", "").split(",")[0].rpartition("#")[2]


@contextmanager
def temporary_directory(parent: Path) -> Iterator[Path]:
    """Yields a new directory below ``parent``, and removes it at the end.

    Also removes what killed sessions have left there. No other session uses ``parent``: the holder
    of a job's lock is alone in the job's directory.
    """
    parent.mkdir(parents=True, exist_ok=True)
    # ``parent`` may be a link to another disk. Another user's files, for example, stay.
    shutil.rmtree(parent.resolve(), ignore_errors=True)
    parent.resolve().mkdir(exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix="", dir=parent))
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _use_java(java: Path) -> None:
    """Let Spark start the Java that was checked: Spark reads JAVA_HOME and PATH alone."""
    java = java.resolve()
    if java.parent.name == "bin":
        os.environ["JAVA_HOME"] = str(java.parent.parent)


def _prepare_environment(settings: Mapping[str, str], code: Sequence[Path]) -> None:
    """Set the variables that Spark reads only from the environment."""
    python = sys.executable  # Spark's default is the PATH's python3, which may lack kfetch
    if _is_local(settings):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    elif _archive_directory(settings):
        # Spark uses one name for Python here and in executors. Each side finds its own by PATH.
        python = "python3"
        here = str(Path(sys.executable).parent)
        os.environ["PATH"] = os.pathsep.join([here, *_directories("PATH")])
    else:
        python = os.environ.get("PYSPARK_PYTHON") or python
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, code), *_directories("PYTHONPATH")])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python


def _directories(name: str) -> list[str]:
    """The directories in an environment variable."""
    return [path for path in os.environ.get(name, "").split(os.pathsep) if path]


@contextmanager
def _output_to(output: int) -> Iterator[None]:
    """Redirect the file descriptors 1 and 2 during the block, for processes that start in it."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {number: os.dup(number) for number in (1, 2)}
    try:
        for number in saved:
            os.dup2(output, number)
        yield
    finally:
        for number, before in saved.items():
            os.dup2(before, number)
            os.close(before)


@contextmanager
def _traces_to(output: int) -> Iterator[None]:
    """Write the traces of PySpark and Py4J to ``output`` during the block, not to the terminal.

    Before PySpark raises a query's error, it logs it as JSON with pages of the JVM's trace. Py4J
    logs a lost JVM by the functions of ``logging``, which then print all logs to the terminal.
    """
    from py4j import java_gateway
    from pyspark.logger import PySparkLogger

    handlers = [
        handler
        for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
        for handler in PySparkLogger.getLogger(name).handlers
        if isinstance(handler, logging.StreamHandler)
    ]
    py4j = logging.getLogger("py4j")
    with open(os.dup(output), "w") as file:
        before = [(handler, handler.setStream(file)) for handler in handlers]
        py4j.addHandler(traces := logging.StreamHandler(file))
        java_gateway.logging = py4j  # it stays so: threads of a lost JVM may log behind the block
        try:
            yield
        finally:
            py4j.removeHandler(traces)
            for handler, stream in before:
                if stream is not None:
                    handler.setStream(stream)


def _end_jvm() -> None:
    """End PySpark's JVM. PySpark would keep it for another session, but there is none."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    if gateway.proc is None:  # of spark-submit: it ends behind this process, its child
        return
    gateway.proc.stdin.close()  # this tells the JVM to end
    try:
        gateway.proc.wait(timeout=10)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


def kill_jvm() -> None:
    """End PySpark's JVM at once, if there is one. That of spark-submit must end itself."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is not None and gateway.proc is not None:
        gateway.proc.kill()
    elif gateway is not None:
        with suppress(Exception):  # it ends within the call, and gives no answer
            gateway.jvm.Runtime.getRuntime().halt(1)


_JVM_ENDS_S = 1.0
"""How long a JVM whose sockets are closed may take to end."""


def lost_jvm(error: BaseException) -> str:
    """Returns how PySpark's JVM ended, if that is the cause of an error; otherwise an empty text.

    Py4J's own words are a refused connection, as if Kafka had refused it.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    of_jvm = isinstance(error, Py4JError | OSError) and not isinstance(error, Py4JJavaError)
    return process_end(process, _JVM_ENDS_S) if of_jvm and process is not None else ""


def process_end(process: subprocess.Popen[bytes], wait_s: float) -> str:
    """Returns how a process of the JVM ended; an empty text if it still runs after ``wait_s``."""
    try:
        code = process.wait(wait_s)
    except subprocess.TimeoutExpired:
        return ""
    if code >= 0:
        return f"Spark's JVM ended with exit code {code}"
    by_system = ", perhaps by the system for lack of memory" if -code == signal.SIGKILL else ""
    return f"Spark's JVM was ended by signal {-code} ({signal.Signals(-code).name}){by_system}"


# The code at the end is left out: the error that a run ends with shows it.
_OURS = re.compile(
    r"^.*\bkfetch(?:_jobs)?\.errors\.\w+: (?P<sentence>.+?)(?: \[[A-Z_.]+\])?$", re.MULTILINE
)
_PYTHON = re.compile(
    r"^(?!(?:com|io|java|javax|org|py4j|scala)\.)"
    r"(?:\w+\.)*\w+(?:Error|Exception): (?P<sentence>.+)$",
    re.MULTILINE,
)
# Py4J's own errors have only a colon before the exception.
_JAVA = re.compile(r"^(?:Caused by)?: (?:[\w$]+\.)*[\w$]+: (?P<sentence>.+)$", re.MULTILINE)


def text_of(error: BaseException) -> str:
    """Returns the whole text of an exception. Spark's causes are only in the JVM's trace."""
    description = getattr(error, "_desc", None)
    message = str(error) if description is None else str(description)
    return f"{message}\n{getattr(error, '_stackTrace', None) or ''}"


def cause_of(error: BaseException) -> str:
    """Returns the one sentence of a Spark exception, which holds tracebacks of two languages."""
    text = text_of(error)
    for pattern in (_OURS, _PYTHON, _JAVA):
        if sentences := pattern.findall(text):
            return _clean(sentences[-1])
    lines = (_clean(line) for line in text.splitlines())
    return next(filter(None, lines), type(error).__name__)


def _clean(sentence: str) -> str:
    """The sentence without Spark's codes for programs. Spark's log keeps them."""
    return re.sub(r"^\[[A-Z0-9_.]+\] |\.? SQLSTATE: \w{5}", "", sentence.strip())
