"""Runs a benchmark of one revision for ``against``: one run for each line on stdin.

    python -P probe.py drain|batches|trickle|latency|typed|decode JSON

It imports nothing from this repository, because another revision may have other names. Spark finds
the source by its format, and ``decode`` tries the old and the new module names. The probe answers
each run with one line of JSON on stdout. Before the first run it starts and warms up the session.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

SESSION = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
DECODINGS = 200
"""Decodings per run. The result is the fastest one."""


def session() -> Any:
    """Returns a Spark session with the source of this environment."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder
    for name, value in SESSION.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def drain(options: dict[str, str]) -> Callable[[], float]:
    """Returns a run that reads the topic from its start. Its result is in seconds."""
    spark = session()

    def run() -> float:
        rows = spark.readStream.format("kfetch").options(**options).load()
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            if not query.awaitTermination(600):
                raise TimeoutError("the query was not done within 600 s")
            steps = [p["durationMs"] for p in query.recentProgress if p["numInputRows"]]
        return sum(step["triggerExecution"] for step in steps) / 1000

    return run


def latency(options: dict[str, str]) -> Callable[[], float]:
    """Returns a run whose result is the median time from produce to foreachBatch, in seconds.

    Each record's value is the time at which the producer made it.
    """
    spark = session()
    warm_up_s, counted_s = float(options.pop("warm_up_s")), float(options.pop("counted_s"))

    def run() -> float:
        delays: list[float] = []
        begins = time.time() + warm_up_s
        over, stoppable = threading.Event(), threading.Event()

        def collect(frame: Any, _batch: int) -> None:
            if over.is_set():
                stoppable.set()
                return
            values = [float(bytes(row.value)) for row in frame.select("value").collect()]
            now = time.time()
            delays.extend(now - value for value in values if value >= begins)

        rows = spark.readStream.format("kfetch").options(**options).load()
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = rows.writeStream.foreachBatch(collect)
            query = writer.option("checkpointLocation", checkpoint).start()
            query.awaitTermination(warm_up_s + counted_s)
            over.set()  # stopping the query while it collects would fail the query
            stoppable.wait(60)
            query.stop()
        return sorted(delays)[len(delays) // 2]

    return run


def decode(options: dict[str, str]) -> Callable[[], float]:
    """Returns a run whose result is the fastest decoding of one reply, in seconds."""
    decoding = _import_first("kfetch.decoding", "spark_source.records")
    records = _import_first("kfetch.records", "spark_source.records")
    model = _import_first("kfetch.model", "spark_source.model")
    with open(options["reply"], "rb") as file:
        data = memoryview(file.read())
    part = records.Slice(tp=model.TopicPartition("clicks", 3), start=0, end=1 << 60, data=data)

    def run() -> float:
        fastest = float("inf")
        for _ in range(DECODINGS):
            began = time.perf_counter()
            decoding.decode_part([part])
            fastest = min(fastest, time.perf_counter() - began)
        return fastest

    return run


def _import_first(*names: str) -> Any:
    """Imports and returns the first of these modules that exists."""
    for name in names[:-1]:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    return import_module(names[-1])


BENCHMARKS = {
    "drain": drain,
    "batches": drain,
    "trickle": drain,
    "latency": latency,
    "typed": drain,
    "decode": decode,
}


def main() -> None:
    """Warm up once, then run once for each line."""
    run = BENCHMARKS[sys.argv[1]](json.loads(sys.argv[2]))
    run()
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        print(json.dumps(run()), flush=True)


if __name__ == "__main__":
    main()
