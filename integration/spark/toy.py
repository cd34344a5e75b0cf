"""Small Python data sources, for tests of what Spark does with any source."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class CountedPlans(DataSource):
    """No rows. Each plan adds a letter to the file of the option ``file``."""

    @classmethod
    def name(cls) -> str:
        return "counted_plans"

    def schema(self) -> str:
        return "a INT"

    def reader(self, schema: object) -> DataSourceReader:
        return _Counter(self.options["file"])


class _Counter(DataSourceReader):
    def __init__(self, file: str) -> None:
        self._file = file

    def partitions(self) -> list[InputPartition]:
        with open(self._file, "a") as file:
            file.write("x")
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return iter(())


class OneMoment(DataSource):
    """One timestamp, as an Arrow batch in the time zone of the option ``zone``.

    Beside it: what the reading process knows of the session's time zone.
    """

    @classmethod
    def name(cls) -> str:
        return "one_moment"

    def schema(self) -> str:
        return "at TIMESTAMP, known STRING"

    def reader(self, schema: object) -> DataSourceReader:
        return _Moment(self.options["zone"])


class _Moment(DataSourceReader):
    def __init__(self, zone: str) -> None:
        self._zone = zone

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        session = SparkSession.getActiveSession()
        known = None if session is None else str(session.conf.get("spark.sql.session.timeZone"))
        at = pa.array([MOMENT], pa.timestamp("us", self._zone))
        yield pa.RecordBatch.from_arrays([at, pa.array([known], pa.string())], ["at", "known"])
