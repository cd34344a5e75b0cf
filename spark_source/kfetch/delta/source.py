"""The data source of ``delta.stream``. Its tasks write files, and return a row for each file.

Its options, offsets and checkpoint are those of the source ``kfetch``. So a query may change
to Spark's own Delta sink, or back, at any micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from kfetch.delta.plan import WritePlan, parse_plans
from kfetch.errors import OptionError
from kfetch.spark.source import KfetchDataSource, KfetchSplit, KfetchStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

    from kfetch.options import SourceOptions

PLANS = "kfetch.delta.plans"
"""The option with the plans. ``delta.stream`` sets it; users do not."""
SETTINGS = "kfetch.delta.secretSettings"
"""The option with Spark's settings for the store of the tables, as JSON.

Spark hides its value, because the name has ``secret`` (``spark.redaction.regex``).
"""


class FilesDataSource(KfetchDataSource):
    """The source whose tasks write files as its plans say. ``delta.stream`` registers it."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        given = {name.lower(): text for name, text in options.items()}
        if PLANS not in given:
            raise OptionError(
                f"{self.name()} is for kfetch.delta.stream: call that function, not format()"
            )
        self._plans = parse_plans(given[PLANS])
        self._settings: dict[str, str] = json.loads(given.get(SETTINGS.lower(), "{}"))
        own = (PLANS, SETTINGS.lower())
        super().__init__({name: text for name, text in options.items() if name.lower() not in own})

    @classmethod
    def name(cls) -> str:
        """Returns the name by which ``delta.stream`` finds this source."""
        return "kfetch_delta_files"

    def schema(self) -> StructType:
        """Returns the columns of the rows that name files, as ``files.FILE_SCHEMA`` has them."""
        row = StructType().add("table", "string").add("path", "string")
        row = row.add("size", "long").add("rows", "long")
        return row.add("partitions", "string").add("statistics", "string")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns the reader of the schema that each plan has. It does not use ``schema``."""
        return super().streamReader(StructType.fromJson(json.loads(self._plans[0].source_schema)))

    def _reader_of(self, options: SourceOptions) -> KfetchStreamReader:
        return FilesReader(options, self._plans, self._settings)


class FilesReader(KfetchStreamReader):
    """Plans micro-batches as its base class does. Its tasks write the records to files."""

    def __init__(
        self, options: SourceOptions, plans: Sequence[WritePlan], settings: Mapping[str, str]
    ) -> None:
        buffer_bytes = sum(plan.row_group_bytes + plan.upload_bytes for plan in plans)
        super().__init__(replace(options, agent=replace(options.agent, worker_bytes=buffer_bytes)))
        self._plans, self._settings = plans, settings

    def read(self, partition: KfetchSplit) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Writes a split's records. Returns a row for each file. Runs in an executor's worker."""
        from kfetch.delta.files import written_files

        return written_files(super().read(partition), self._plans, self._settings)
