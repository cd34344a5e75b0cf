"""The Arrow schema that the installed Spark derives from columns."""

from __future__ import annotations

import inspect

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def derived_schema(columns: StructType) -> pa.Schema:
    """Returns the schema of the batches of a source. Before Spark 4.2, it is always in UTC."""
    takes_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(columns, timezone="UTC") if takes_zone else to_arrow_schema(columns)
