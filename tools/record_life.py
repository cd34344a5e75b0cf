"""The life of a record, step by step: ``python -m tools.record_life``. Set breakpoints in it.

The broker is scripted, so there is no Kafka, and no JVM of Spark. The calls are those that Spark
makes, in Spark's order. docs/explanation/step-through.md tells where to stop and what to look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kfetch.fetch import inline
from kfetch.source import KfetchDataSource
from tests.kfetch.wire.little import LittleKafka

__all__ = ["steps"]


def steps() -> Iterator[str]:
    """Yield what each step shows."""
    with LittleKafka() as kafka:
        (log,) = kafka.create("clicks")
        log.append(b"hello", b"world")
        reader = _reader(kafka)
        try:
            # 1. A new query: where does it start?
            start = reader.initialOffset()
            yield f"start  {_positions(start)}"
            # 2. A trigger: what is new?
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            yield f"end    {_positions(end)}"
            # 3. Tasks, and the records of each.
            yield from _micro_batch(reader, start, end)
            # 4. Another record, and the next micro-batch.
            log.append(b"again")
            next_end = reader.latestOffset(end, reader.getDefaultReadLimit())
            yield f"end    {_positions(next_end)}"
            yield from _micro_batch(reader, end, next_end)
        finally:
            reader.stop()
            while inline._queries:
                inline._queries.popitem()[1].close()


def _reader(kafka: LittleKafka) -> Any:
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "clicks",
        "startingOffsets": "earliest",
        "kfetch.agent": "inline",  # everything happens in this process
    }
    source = KfetchDataSource(options)
    return source.streamReader(source.schema())


def _positions(offset: dict[str, Any]) -> str:
    return str(offset["topics"]["clicks"]["partitions"])


def _micro_batch(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> Iterator[str]:
    for split in reader.partitions(start, end):
        for batch in reader.read(split):
            for row in batch.to_pylist():
                yield f"row    offset {row['offset']}, value {row['value']!r}"
    reader.commit(end)


if __name__ == "__main__":
    for line in steps():
        print(line)
