"""What differs between versions of Spark, the oldest on top. No other module asks for one.

``source`` and ``batch`` are written to the newest contract. This module fits them to older ones:

- Spark 4.0 and 4.1 call ``latestOffset()`` without start and limit (``ReaderOfSpark41``), and plan
  a batch read without splits as a task with the partition None (``value_of``).

To drop a version, delete its lines here. Sources: pyspark/sql/streaming/
python_streaming_source_runner.py, pyspark/sql/worker/plan_data_source_read.py,
PythonMicroBatchStream and MicroBatchExecution of Spark 4.0.5, 4.1.4 and 4.2.0.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import __version__
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kfetch.errors import OptionError
from kfetch.offsets import from_json

__all__ = [
    "NEWEST_TESTED",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "ReaderOfSpark41",
    "SupportsTriggerAvailableNow",
    "for_this_spark",
    "reports_log_ends",
    "value_of",
    "warn_if_untested",
]

log = logging.getLogger(__name__)


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


_SPARK = _release(__version__)

NEWEST_TESTED = (4, 3)
"""``make sparks`` runs the tests with it."""


def warn_if_untested() -> None:
    """Log a warning if this Spark is later than the newest tested one."""
    if _SPARK > NEWEST_TESTED:
        newest = ".".join(map(str, NEWEST_TESTED))
        log.warning(
            "kfetch: nobody has tested this release with Spark %s. The newest tested one is %s",
            __version__,
            newest,
        )


def value_of(partition: InputPartition | None) -> Any:
    """Returns the value of a task's partition, None if a batch read has nothing to read.

    Without splits, Spark before 4.2 passes None. Later ones pass an InputPartition of None.
    """
    return None if partition is None else partition.value


def reports_log_ends(server: str = __version__) -> bool:
    """Returns whether Spark's progress has the log ends of a Python source.

    ``server``: the version of the server, which may be another one with Spark Connect.
    """
    return _release(server) >= (4, 2)


if TYPE_CHECKING or _SPARK >= (4, 2):
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:  # the classes of Spark 4.2, as far as kfetch uses them

    class ReadLimit:
        """A limit of a micro-batch."""

    @dataclass(frozen=True)
    class ReadAllAvailable(ReadLimit):
        """No limit."""

    @dataclass(frozen=True)
    class ReadMinRows(ReadLimit):
        """At least so many rows."""

        min_rows: int

    @dataclass(frozen=True)
    class ReadMaxRows(ReadLimit):
        """At most so many rows."""

        max_rows: int

    class SupportsTriggerAvailableNow:
        """No earlier Spark asks a Python source to prepare for AvailableNow."""


class ReaderOfSpark41(DataSourceStreamReader):
    """Gives a stream reader the calls of Spark 4.0 and 4.1: ``latestOffset()`` knows no start.

    The start is the end of the last call. After a restart, Spark names it before ``latestOffset``:
    it calls ``partitions(last, last)`` with the last offset of the checkpoint
    (``AcceptsLatestSeenOffset``). If ``latestOffset`` comes first, the query is new, and starts at
    the initial offset. Then Spark asks for the initial offset next. One setting breaks this order,
    and is refused, because a wrong start would lose records or read them twice.
    """

    def __init__(self, inner: DataSourceStreamReader) -> None:
        self.inner = inner
        """The reader with the calls of Spark 4.2."""
        self._start: dict[str, Any] | None = None
        """The end of the last planned or known micro-batch."""
        self._is_assumed_new = False
        """Whether the query counts as new, and Spark has not confirmed it by ``initialOffset``."""
        self._has_warned = False

    def initialOffset(self) -> dict[str, Any]:
        """Returns the offsets at which a new query starts."""
        self._is_assumed_new = False
        return self.inner.initialOffset()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Returns the end of the next micro-batch. Without new records it is the start.

        Raises OptionError if Spark plans AvailableNow before it names the start.
        """
        self._check_order()
        if self._start is None:
            self._is_assumed_new = True
            self._start = self.inner.initialOffset()
        self._start = self.inner.latestOffset(self._start, self.inner.getDefaultReadLimit())
        self._warn_of_limit(self._start)
        return self._start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns the splits between two offsets.

        Raises OptionError if Spark plans AvailableNow before it names the start.
        """
        self._check_order()
        self._start = end
        return self.inner.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Returns a split's records. Runs in an executor's Python worker."""
        return self.inner.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Note that a micro-batch begins."""
        self.inner.commit(end)

    def stop(self) -> None:
        """Close the driver's sessions and connections."""
        self.inner.stop()

    def _check_order(self) -> None:
        if self._is_assumed_new:
            raise OptionError(
                f"With spark.sql.streaming.triggerAvailableNowWrapper.enabled, Spark {__version__} "
                "asks kfetch for the end of the query before it names the start",
                action="set spark.sql.streaming.triggerAvailableNowWrapper.enabled to false. "
                "Trigger.AvailableNow works without it",
            )

    def _warn_of_limit(self, end: dict[str, Any]) -> None:
        """Log once that a micro-batch ends before the log ends: it may be the query's last one."""
        limit = self.inner.getDefaultReadLimit()
        if self._has_warned or not isinstance(limit, ReadMaxRows):
            return
        log_ends = self.inner.reportLatestOffset()
        if log_ends is None or _have_equal_offsets(log_ends, end):
            return
        self._has_warned = True
        log.warning(
            "kfetch: Spark %s does not tell kfetch the trigger. With Trigger.AvailableNow or "
            "Trigger.Once, this query ends after one micro-batch of %d offsets. To read all "
            "records in one run, leave out maxOffsetsPerTrigger.",
            __version__,
            limit.max_rows,
        )


def _have_equal_offsets(log_ends: dict[str, Any], end: dict[str, Any]) -> bool:
    """Returns whether a micro-batch ends at the log ends.

    Leader epochs don't count: that of an idle partition may be older than its log end's.
    """
    if log_ends.get("topics") == end.get("topics"):  # 50 times as fast as what follows
        return True
    of_log, of_batch = from_json(log_ends).positions, from_json(end).positions
    return {tp: at.offset for tp, at in of_log.items()} == {
        tp: at.offset for tp, at in of_batch.items()
    }


def for_this_spark(reader: DataSourceStreamReader) -> DataSourceStreamReader:
    """Returns a stream reader with the calls of the installed Spark."""
    return ReaderOfSpark41(reader) if _SPARK < (4, 2) else reader
