"""The life of one record in one thread, to step through in a debugger.

    .venv/bin/python -m tests.life_of_a_record        in pdb, with a stop at each step
    .venv/bin/python -m tests.life_of_a_record run    without pdb, for another debugger

The broker is scripted (``tests/kfetch/wire/little.py``), so there is no Kafka and no Spark.
``main`` calls the source as Spark would. docs/explanation/step-through.md is the tutorial.
"""

from __future__ import annotations

import json
import pdb
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from kfetch import decoding, planner
from kfetch.agent import inline
from kfetch.fetch.progress import RangeProgress
from kfetch.model import TopicPartition
from kfetch.session.session import FetchSession
from kfetch.spark.options import parse
from kfetch.spark.source import KfetchDataSource, KfetchStreamReader
from kfetch.watch.driver import Driver
from kfetch.watch.state import WatchState
from tests.kfetch.decoders import DECODERS
from tests.kfetch.records import reference
from tests.kfetch.watch.helpers import HandWatch
from tests.kfetch.wire.little import LittleKafka

CLICKS = TopicPartition("clicks", 0)
HOUR_MS = "3600000"
OPTIONS = {
    "subscribe": "clicks",
    "startingOffsets": "earliest",
    # In the process that reads: no agent and no shared memory.
    "kfetch.agent": "inline",
    # You may stand at a breakpoint for long.
    "kafka.request.timeout.ms": HOUR_MS,
    "kafkaConsumer.pollTimeoutMs": HOUR_MS,
    "kafka.metadata.max.age.ms": HOUR_MS,
}
DRIVER_STOPS = (
    KfetchStreamReader.latestOffset,
    Driver.next_end,
    FetchSession.plan,
    WatchState.accept_reply,
    planner.admit,
    planner.plan_splits,
)
TASK_STOPS = (
    inline.read,
    FetchSession.plan,
    FetchSession.accept,
    RangeProgress.advance,
    reference.decode,
)
SECOND_STOPS = (FetchSession.plan,)

StopAt = Callable[[tuple[FunctionType, ...]], None]


def main(stop_at: StopAt = lambda functions: None) -> Iterator[dict[str, Any]]:
    """Yield the rows of two micro-batches. ``stop_at`` sets breakpoints for the next part."""
    with LittleKafka() as kafka:
        kafka.create("clicks")
        kafka.log(CLICKS).append(b"hello", keys=[b"ann"])
        reader = _reader({**OPTIONS, "kafka.bootstrap.servers": kafka.bootstrap})
        try:
            start = reader.initialOffset()
            stop_at(DRIVER_STOPS)
            end = reader.latestOffset(_through_checkpoint(start), ReadAllAvailable())
            splits = reader.partitions(start, _through_checkpoint(end))
            stop_at(TASK_STOPS)
            yield from _rows(reader, splits)

            kafka.log(CLICKS).append(b"again", keys=[b"ann"])
            later = reader.latestOffset(end, ReadAllAvailable())
            splits = reader.partitions(end, later)
            stop_at(SECOND_STOPS)
            yield from _rows(reader, splits)
        finally:
            reader.stop()
            inline.close_all()


def _reader(options: dict[str, str]) -> Any:
    """Returns the stream reader, with a watch that polls in this thread."""
    source = KfetchDataSource(options)
    reader: Any = source.streamReader(source.schema())
    parsed = parse(options)
    reader._driver = Driver(parsed, HandWatch(parsed))
    return reader


def _through_checkpoint(offset: dict[str, Any]) -> Any:
    """Returns the offset as Spark reads it from its checkpoint."""
    return json.loads(json.dumps(offset))


def _rows(reader: Any, splits: list[Any]) -> Iterator[dict[str, Any]]:
    for split in splits:
        for batch in reader.read(split):
            yield from batch.to_pylist()


class Debugger(pdb.Pdb):
    """pdb that stops once in each function of ``stop_at``. It shows places without lines."""

    def run_main(self) -> list[dict[str, Any]]:
        """Run ``main`` under this debugger. Return its rows."""
        # A breakpoint that is never reached: without any, pdb would stop tracing.
        self.set_break(__file__, 1)
        rows: list[dict[str, Any]] = self.runcall(lambda: list(main(self.stop_at)))
        return rows

    def stop_at(self, functions: tuple[FunctionType, ...]) -> None:
        """Stop at the next call of each function."""
        for function in functions:
            code = function.__code__
            file, line = code.co_filename, code.co_firstlineno
            self.set_break(file, line, temporary=True, funcname=function.__name__)

    def do_clear(self, arg: str) -> None:  # type: ignore[override]
        """Remove a breakpoint without a word."""
        self.clear_bpbynumber(arg)

    def print_stack_entry(self, frame_lineno: Any, prompt_prefix: str = "") -> None:
        """Print the file and the function."""
        frame: FrameType = frame_lineno[0]
        path = Path(frame.f_code.co_filename)
        parts = path.parts[path.parts.index("kfetch") :] if "kfetch" in path.parts else [path.name]
        self.message(f"> {'/'.join(parts)} {frame.f_code.co_qualname}")


if __name__ == "__main__":
    decoding.kernel = lambda: DECODERS["reference"]  # machine code has no lines to step through
    if sys.argv[1:] == ["run"]:
        print(*main(), sep="\n")
    else:
        Debugger().run_main()
