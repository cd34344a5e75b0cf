"""``format("kfetch")``: what Spark calls, and nothing else.

Spark makes the reader twice, once in the driver's long-lived source process and once in a planning
process that pickles it for the executors, so the constructor only keeps options. Options are
checked in the DataSource: an error of the reader's constructor would reach the user as
UnboundLocalError.
The contract is pyspark.sql.datasource's, of Spark 4.2.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kfetch import options as parsing
from kfetch.catalogue import no_effect
from kfetch.errors import NotBuilt, OptionError
from kfetch.model import Split
from kfetch.offsets import Documents

if TYPE_CHECKING:
    import pyarrow as pa

    from kfetch.options import SourceOptions
    from kfetch.watch.driver import Driver

log = logging.getLogger(__name__)

_READS_ONLY = 'kfetch does not write to Kafka: use format("kafka") for that'

_SOURCE_PROCESS = "pyspark.sql.streaming.python_streaming_source_runner"

_CLOSED_WITHIN_S = 3.0
"""Sessions are given a second to close; a process that has not left then is stuck."""

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_COLUMNS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]


def schema(options: SourceOptions) -> StructType:
    """The columns of Spark's Kafka connector, then those asked for, all of them nullable."""
    fields = [*_COLUMNS]
    if options.include_headers:
        fields.append(StructField("headers", ArrayType(_HEADER)))
    if options.include_leader_epoch:
        fields.append(StructField("leaderEpoch", IntegerType()))
    if options.include_serialized_sizes:
        fields.append(StructField("serializedKeySize", IntegerType()))
        fields.append(StructField("serializedValueSize", IntegerType()))
    return StructType(fields)


class KfetchDataSource(DataSource):
    """The data source. Checks the options; connects to nothing."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = parsing.parse(options)

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "kfetch"

    def schema(self) -> StructType:
        """The source's fixed schema."""
        return schema(self._options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Batch reads: refused until they are built."""
        raise NotBuilt(
            'spark.read.format("kfetch") is not built yet: use spark.readStream, with '
            "trigger(availableNow=True) for a bounded read"
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Batch writes: refused."""
        raise NotBuilt(_READS_ONLY)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Streaming writes: refused."""
        raise NotBuilt(_READS_ONLY)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The stream reader; a schema of the user's own is refused, as in the connector."""
        if schema != self.schema():
            raise OptionError(
                "Kafka source has a fixed schema and cannot be set with a custom one: remove "
                ".schema(…) and cast the column value"
            )
        return KfetchStreamReader(self._options)


class KfetchSplit(InputPartition):
    """A split on its way from the driver to a task."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)


class KfetchStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver and reads splits on executors."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._driver: Driver | None = None
        self._documents = Documents()

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query starts."""
        return self._documents.write(self._planner().initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxOffsetsPerTrigger``, else ``minOffsetsPerTrigger``, else no limit.

        A limit of both has no Python class, nor has a delay: ``latestOffset`` adds the options'
        minimum to any limit that is not ReadAllAvailable, which is Trigger.Once's.
        """
        most, least = self._options.max_offsets_per_trigger, self._options.min_offsets_per_trigger
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch; ``start`` itself, byte for byte, if nothing is new."""
        once = isinstance(limit, ReadAllAvailable)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        least = None if once else self._options.min_offsets_per_trigger
        end = self._planner().latest(self._documents.read(start), most, least)
        return start if end is None else self._documents.write(end)

    def prepareForTriggerAvailableNow(self) -> None:
        """The query ends at what is there at the first look-up."""
        self._planner().prepare_available_now()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The log ends as last seen, for Spark's progress; asks nobody."""
        known = self._planner().last_known()
        return None if known is None else known.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[KfetchSplit]:
        """The splits between two offsets."""
        splits = self._planner().splits(self._documents.read(start), self._documents.read(end))
        return [KfetchSplit(split) for split in splits]

    # Spark gives back the splits that ``partitions`` made.
    def read(self, partition: KfetchSplit) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """A split's records; runs in an executor's Python worker."""
        from kfetch import worker

        return worker.read(partition.value, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Progress lives in Spark's checkpoint alone; but it tells that the query is busy."""
        self._planner().committed()

    def stop(self) -> None:
        """Close the driver's sessions and connections."""
        if self._driver is not None:
            self._driver.close()

    def _planner(self) -> Driver:
        if self._driver is None:
            if _in_sources_process():
                from kfetch.wire import lean

                lean.defer_clients()
            from kfetch.watch.driver import Driver

            for name in self._options.ignored:
                log.warning("kfetch: %s", no_effect(name))
            self._driver = Driver(self._options)
            _close_on_sigterm(self._driver)
        return self._driver


def _in_sources_process() -> bool:
    """Whether this process is the one that Spark starts for a stream's source."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return getattr(spec, "name", "") == _SOURCE_PROCESS


def _close_on_sigterm(driver: Driver) -> None:
    """Close the sessions when Spark ends the query: it sends SIGTERM and does not call ``stop``."""
    if not _in_sources_process():
        return  # somebody else's process, to whom the signal belongs

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # Spark sends it twice
        # What this has interrupted may hold a lock that closing needs: then SIGALRM is the end.
        signal.setitimer(signal.ITIMER_REAL, _CLOSED_WITHIN_S)
        try:
            driver.close()
        finally:
            os._exit(128 + number)  # an exit of Python's own would tell the JVM of an error

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
