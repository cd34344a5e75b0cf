"""Archives of loaded classes, with which the JVMs of the tests start in half of the time.

``python -m integration.class_archives`` makes them: it runs a broker and a stream once. Java checks
itself that an archive fits its version and the class path, and does without it otherwise
(https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html). Without the archives the
tests run as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kfetch_jobs.kafka import Cluster, settings

ROOT = Path(__file__).parents[1]
_DIRECTORY = ROOT / ".venv" / "classes"
_KAFKA, _SPARK = _DIRECTORY / "kafka.jsa", _DIRECTORY / "spark.jsa"
# Java warns of an archive that does not fit, and of classes that it leaves out.
_QUIET = "-Xlog:cds=off,cds+dynamic=off"
# Brokers and Spark live for seconds here. Without the second compiler their start needs 40 % less
# CPU: 3.2 s in place of 5.5 s for a broker, 26 s in place of 42 s for Spark with a merge. With the
# serial collector, it is another 5 % less.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Spark's generated classes cost more than they save on a few rows: 22 s of CPU for a session with
# five micro-batches into a Delta table, and 18 s without. The tests' shared session has them.
_SPARK_SETTINGS = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
_FAST = f"{_JAVA} {_SPARK_SETTINGS}"
_VARIABLE = "JAVA_TOOL_OPTIONS"
_DUMP_S = 300
"""How long a JVM may write its archive: seconds on a machine at rest."""


def use() -> None:
    """Let brokers and Spark start with their archives, if there are some, and with one compiler.

    With them, a broker needs 2.0 s of CPU to start, in place of 3.1 s, and Spark with the first
    micro-batches 5.1 s, in place of 9.1 s. A value of the caller's for JAVA_TOOL_OPTIONS stays.
    """
    spark = [_QUIET, f"-XX:SharedArchiveFile={_SPARK}"] if _SPARK.exists() else []
    os.environ.setdefault(_VARIABLE, " ".join([_FAST, *spark]))
    if _KAFKA.exists():
        flags = settings.jvm_flags
        settings.jvm_flags = lambda heap: [*flags(heap), f"-XX:SharedArchiveFile={_KAFKA}"]


@contextmanager
def _archived_in(file: Path) -> Iterator[None]:
    """The JVM that starts in the block writes its archive when it ends, behind the block."""
    half = file.with_suffix(".half")
    os.environ[_VARIABLE] = f"{_FAST} {_QUIET} -XX:ArchiveClassesAtExit={half}"
    yield
    half.rename(file)


def main() -> None:
    """Make both archives, unless they are newer than the environment."""
    ready = (ROOT / ".venv" / ".ready").stat().st_mtime
    if all(file.exists() and file.stat().st_mtime > ready for file in (_KAFKA, _SPARK)):
        return
    _DIRECTORY.mkdir(exist_ok=True)
    with (
        TemporaryDirectory() as name,
        _archived_in(_KAFKA),
        Cluster.start(Path(name, "kafka")) as cluster,
    ):
        _fill(cluster)
        with _archived_in(_SPARK):
            _stream(cluster, Path(name))
        cluster.stop(_DUMP_S)


def _fill(cluster: Cluster) -> None:
    from kafka import KafkaAdminClient, KafkaProducer

    servers = {"bootstrap_servers": cluster.bootstrap_servers}
    with KafkaAdminClient(**servers) as admin:
        admin.create_topics({"t": {"num_partitions": 1}}, wait_for_metadata=True)
    with KafkaProducer(**servers) as producer:
        producer.send("t", b"{}").get(60)


def _stream(cluster: Cluster, directory: Path) -> None:
    """Read a topic into a Delta table, and write to the table once more."""
    from kfetch_jobs.jvm.spark import session

    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "t"}
    table = str(directory / "table")
    with session({"spark.master": "local[2]"}, name="classes", log=directory / "log") as spark:
        rows = spark.readStream.format("kfetch").options(**options, startingOffsets="earliest")
        grouped = rows.load().groupBy("partition").count().writeStream.outputMode("complete")
        stream = grouped.format("delta").option("checkpointLocation", str(directory / "ck"))
        stream.trigger(availableNow=True).start(table).awaitTermination(120)
        spark.read.format("delta").load(table).write.format("delta").mode("append").save(table)
        process = spark.sparkContext._gateway.proc
        spark.stop()
        process.stdin.close()  # PySpark's JVM ends with its input
        process.wait(_DUMP_S)


if __name__ == "__main__":
    main()
