"""The values of the benchmark ``typed`` in each format, and who reads them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.benchmarks.avro_values import avro_documents
from integration.benchmarks.decode_values import FIVE, FIVE_FILE, FORTY, five, five_message, forty
from integration.formats import avro_oracle, protobuf_oracle
from kfetch.formats.columns.ddl import parse_schema
from tests.kfetch.formats.protobuf.proto_text import descriptor_set

__all__ = ["KINDS", "TypedValues"]

_DIFFERENT = 20_000
"""The values that differ from each other. A topic has each of them many times."""


@dataclass(frozen=True)
class TypedValues:
    """Values of one format."""

    name: str
    function: str
    """Spark's function, which makes the same column."""
    values: list[bytes]
    options: dict[str, str]
    """Those of kfetch."""
    column: Callable[[], Any]
    jars: Callable[[], list[Path]] = list
    """The jars of Spark's function."""

    @property
    def parsed(self) -> Any:
        """Spark's column. It needs a session."""
        return self.column()


def _json(fields: int, _directory: Path) -> TypedValues:
    schema = {5: FIVE, 40: FORTY}[fields]
    documents = [json.dumps(record, separators=(",", ":")).encode() for record in _records(fields)]

    def column() -> Any:
        from pyspark.sql import functions as F

        return F.from_json(F.col("value").cast("string"), schema)

    zone = {"valueTimeZone": "UTC"} if fields == 40 else {}
    options = {"valueFormat": "json", "valueSchema": schema, **zone}
    return TypedValues("json", "from_json", documents, options, column)


def _avro(fields: int, _directory: Path) -> TypedValues:
    kind = parse_schema({5: FIVE, 40: FORTY}[fields])
    schema, documents = avro_documents(kind, _records(fields))

    def column() -> Any:
        from pyspark.sql import functions as F

        return F.expr(avro_oracle.from_avro_sql(schema, None, {"mode": "FAILFAST"}))

    options = {"valueFormat": "avro", "valueSchema": json.dumps(schema)}
    return TypedValues("avro", "from_avro", documents, options, column, avro_oracle.spark_avro)


def _protobuf(fields: int, directory: Path) -> TypedValues:
    if fields != 5:
        raise SystemExit("Protobuf has records of five fields only: leave out --fields")
    descriptors = descriptor_set(FIVE_FILE)
    file = directory / "five.desc"
    file.write_bytes(descriptors)
    documents = [five_message(record) for record in _records(fields)]
    options = {"valueFormat": "protobuf", "valueDescriptor": str(file), "valueMessage": "t.Five"}
    return TypedValues(
        "protobuf",
        "from_protobuf",
        documents,
        options,
        lambda: protobuf_oracle.decoded(descriptors, "t.Five", "FAILFAST"),
        protobuf_oracle.spark_protobuf,
    )


def _records(fields: int) -> list[dict[str, object]]:
    rng, make = random.Random(7), {5: five, 40: forty}[fields]
    return [make(rng, number) for number in range(_DIFFERENT)]


KINDS: dict[str, Callable[[int, Path], TypedValues]] = {
    "json": _json,
    "avro": _avro,
    "protobuf": _protobuf,
}
"""Takes the number of fields and a directory for files."""
