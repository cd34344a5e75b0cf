"""``format("kfetch")``: the classes that Spark calls.

Spark creates the reader twice: in the driver's long-lived source process, and in a planning process
that pickles it for the executors. So the constructor only keeps options. The DataSource checks the
options, because Spark's UnboundLocalError would follow an error of the reader's constructor.
The contract is that of pyspark.sql.datasource in Spark 4.2. ``versions`` fits it to older ones.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from kfetch.errors import KfetchError, NotBuilt, OptionError
from kfetch.model import Split
from kfetch.offsets import DocumentCache, Offsets
from kfetch.options.catalogue import no_effect
from kfetch.spark import options as parsing
from kfetch.spark import versions
from kfetch.spark.release import OfOneRelease
from kfetch.spark.schema import schema, with_schema
from kfetch.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from kfetch.options import SourceOptions
    from kfetch.watch.driver import Driver

log = logging.getLogger(__name__)

_READS_ONLY = 'kfetch does not write to Kafka: use format("kafka") for that'

_USE_A_VIEW = "use CREATE TEMPORARY VIEW name USING kfetch OPTIONS (…)"

_SOURCE_PROCESS = "pyspark.sql.streaming.python_streaming_source_runner"

_CLOSED_WITHIN_S = 3.0
"""Closing sessions takes a second at most. A process that runs longer is stuck and is killed."""


class KfetchDataSource(OfOneRelease, DataSource):
    """The data source. It checks the options and connects to no broker."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        _check_sql(options)
        self._options, self._no_stream = _parsed(options)

    @classmethod
    def name(cls) -> str:
        """Returns the name for ``format``."""
        return "kfetch"

    def schema(self) -> StructType:
        """Returns the columns that the options say. Spark does not ask if the user has a schema."""
        return schema(self._options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of a batch read. Raises OptionError if the schema can't be read."""
        from kfetch.spark.batch import KfetchReader

        is_batch = self._no_stream is not None
        options = self._options if is_batch else parsing.parse(self.options, batch=True)
        return KfetchReader(with_schema(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Raises NotBuilt: kfetch does not write."""
        raise NotBuilt(_READS_ONLY)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Raises NotBuilt: kfetch does not write."""
        raise NotBuilt(_READS_ONLY)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns the stream reader. For wrong options or a wrong schema, its first call raises.

        So it does for a schema registry that does not answer.
        """
        try:
            if self._no_stream is not None:
                raise self._no_stream
            options = with_schema(self._options, schema)
        except KfetchError as problem:
            return versions.for_this_spark(_RefusingReader(self._options, problem))
        return versions.for_this_spark(self._reader_of(options))

    def _reader_of(self, options: SourceOptions) -> KfetchStreamReader:
        return KfetchStreamReader(options)


class KfetchSplit(OfOneRelease, InputPartition):
    """A split that Spark sends from the driver to a task."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)


class KfetchStreamReader(OfOneRelease, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver and reads splits on executors."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._driver: Driver | None = None
        self._offset_cache = DocumentCache()
        self._start_error: OptionError | None = None
        """The reason why the options give no start."""

    def initialOffset(self) -> dict[str, Any]:
        """Returns the offsets at which a new query starts.

        If the options give none, it returns offsets without a partition, and the next call raises
        the error. After a restart inside batch 0 Spark asks too, and the batch's end has its start.
        """
        planner = self._planner()
        self._start_error = None
        try:
            return self._offset_cache.write(planner.initial_offsets())
        except OptionError as problem:
            self._start_error = problem
            return Offsets(positions={}).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns ``maxOffsetsPerTrigger``, else ``minOffsetsPerTrigger``, else no limit.

        Python has no class for both limits together, or for a delay. So ``latestOffset`` adds the
        options' minimum to every limit but ReadAllAvailable, which is Trigger.Once's.
        """
        planning = self._options.planning
        if planning.max_offsets is not None:
            return ReadMaxRows(planning.max_offsets)
        if planning.min_offsets is not None:
            return ReadMinRows(planning.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Returns the end of the next micro-batch. Without new records it is ``start`` itself.

        Spark writes its plan right behind this call. It may also plan without new records: batch 0,
        and batches in which only a watermark moves. Raises LeaseLost if it must not.
        """
        self._check_start()
        once = isinstance(limit, ReadAllAvailable)
        max_offsets = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        min_offsets = None if once else self._options.planning.min_offsets
        end = self._planner().next_end(self._offset_cache.read(start), max_offsets, min_offsets)
        self._ask_permission()
        return start if end is None else self._offset_cache.write(end)

    def _ask_permission(self) -> None:
        if self._options.planning.permission:
            from kfetch.storage.permission import ask

            ask(self._options.planning.permission)

    def prepareForTriggerAvailableNow(self) -> None:
        """End the query at the log ends of the first planning."""
        self._planner().prepare_available_now()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Returns the last known log ends for Spark's progress, without a request."""
        log_ends = self._planner().log_ends
        return None if log_ends is None else log_ends.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[KfetchSplit]:
        """Returns the splits between two offsets."""
        begin, until = self._offset_cache.read(start), self._offset_cache.read(end)
        if self._start_error is not None and not until.by_connector:
            self._start_error = None
            if until.first_batch is None:  # batch 0 is empty
                return []
        self._check_start()
        return [KfetchSplit(split) for split in self._planner().splits(begin, until)]

    def _check_start(self) -> None:
        if self._start_error is not None:
            raise self._start_error

    # Spark passes the splits that ``partitions`` returned.
    def read(self, partition: KfetchSplit) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Returns a split's records. Runs in an executor's Python worker."""
        from kfetch.spark import worker

        return worker.read(partition.value, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Note that a micro-batch begins. Only Spark's checkpoint holds the progress."""
        self._planner().note_commit()

    def stop(self) -> None:
        """Close the driver's sessions and connections."""
        if self._driver is not None:
            self._driver.close()

    def _planner(self) -> Driver:
        if self._driver is None:
            if _is_source_process():
                from kfetch.wire import lean

                lean.defer_clients()
            from kfetch.watch.driver import Driver

            versions.warn_if_untested()
            for name in self._options.ignored:
                log.warning("kfetch: %s", no_effect(name))
            self._driver = Driver(self._options)
            _close_on_sigterm(self._driver)
        return self._driver


class _RefusingReader(KfetchStreamReader):
    """Raises an error by its first call.

    An error of ``streamReader`` itself would be followed by Spark's UnboundLocalError.
    """

    def __init__(self, options: SourceOptions, problem: KfetchError) -> None:
        super().__init__(options)
        self._problem = problem

    def _planner(self) -> Driver:
        raise self._problem


def _parsed(options: Mapping[str, str]) -> tuple[SourceOptions, OptionError | None]:
    """Returns the values of a stream's options, or of a batch read's with the stream's error.

    Spark does not tell which one it loads, so options that fit either are accepted here.
    """
    try:
        return parsing.parse(options), None
    except OptionError as of_stream:
        try:
            return parsing.parse(options, batch=True), of_stream
        except OptionError as of_batch:
            is_batch = any(name.lower().startswith("ending") for name in options)
            raise (of_batch if is_batch else of_stream) from None


def _check_sql(options: Mapping[str, str]) -> None:
    """Raises OptionError for CREATE TABLE, and for a read of such a table.

    Spark 4.2 stores no options of a table of a Python source, and reads it without any. While it
    creates a table, it passes its own properties beside the options.
    """
    lowered = {name.lower(): text for name, text in options.items()}
    if lowered.get("provider", "").lower() == "kfetch" and "owner" in lowered:
        raise OptionError(
            "CREATE TABLE … USING kfetch does not work, because Spark does not store the options "
            "of such a table",
            action=_USE_A_VIEW,
        )
    if not lowered:
        raise OptionError(
            "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer",
            action=f"set it, or instead of a table USING kfetch, {_USE_A_VIEW}",
            option="kafka.bootstrap.servers",
        )


def _is_source_process() -> bool:
    """Returns whether Spark started this process for a stream's source."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return getattr(spec, "name", "") == _SOURCE_PROCESS


def _close_on_sigterm(driver: Driver) -> None:
    """Close the sessions on SIGTERM: Spark ends a query by that signal, without ``stop``."""
    if not _is_source_process():
        return  # the signal belongs to the process that imported kfetch

    def close_and_exit(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # Spark sends it twice
        # The interrupted code may hold a lock that closing needs. Then SIGALRM ends the process.
        signal.setitimer(signal.ITIMER_REAL, _CLOSED_WITHIN_S)
        try:
            driver.close()
        finally:
            os._exit(128 + number)  # Python's own exit would report an error to the JVM

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, close_and_exit)
