"""Apache Kafka's own Java, for tests: its producer, its console consumer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from integration.contract.content import Row
from kfetch_jobs.jvm.java import find_java
from kfetch_jobs.jvm.maven import jars
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.settings import KAFKA

HERE = Path(__file__).parent
_BETWEEN = "\x1f"


def java(*arguments: str | Path, timeout_s: float = 60) -> str:
    """Standard output of a Java program with Kafka's classes; a source file is compiled first."""
    classes = ":".join(map(str, jars(*KAFKA)))
    command = [find_java(), "-XX:TieredStopAtLevel=1", "-cp", classes, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False)
    assert 0 == done.returncode, done.stderr.decode()
    return done.stdout.decode()


def console_consumer(cluster: Cluster, topic: str, count: int, *, isolation: str) -> list[str]:
    """The first ``count`` lines that kafka-console-consumer prints of a topic, sorted.

    It waits for each line as long as a busy machine needs. A line's fields are those of ``_line``.
    """
    shown = ("key", "value", "headers", "timestamp", "partition", "offset")
    printed = java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--from-beginning"),
        *("--isolation-level", isolation),
        *("--max-messages", str(count), "--timeout-ms", "50000"),
        *(part for name in shown for part in ("--formatter-property", f"print.{name}=true")),
        *("--formatter-property", f"key.separator={_BETWEEN}"),
        *("--formatter-property", "null.literal=NULL"),
    )
    return sorted(line for line in printed.splitlines() if _BETWEEN in line)  # the rest is its log


def lines(rows: Iterable[Row]) -> list[str]:
    """kfetch's rows as the console consumer prints them, sorted."""
    return sorted(map(_line, rows))


def _line(row: Row) -> str:
    key, value, _, partition, offset, timestamp, kind, headers = row
    named = ",".join(f"{name}:{_text(value)}" for name, value in headers or ())
    front = (f"{('CreateTime', 'LogAppendTime')[kind]}:{timestamp}", f"Partition:{partition}")
    fields = (*front, f"Offset:{offset}", named or "NO_HEADERS", _text(key), _text(value))
    return _BETWEEN.join(fields)


def _text(data: bytes | None) -> str:
    return "NULL" if data is None else data.decode()
