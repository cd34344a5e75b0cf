"""Readers deliver Protobuf values as structs, from a file that only the driver reads."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from kfetch.agent import channel
from kfetch.errors import OptionError
from kfetch.formats import face, typed_values
from kfetch.options import SourceOptions
from kfetch.spark.schema import schema, with_schema
from tests.kfetch.fetch.helpers import T0, part, query
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import number, sized
from tests.kfetch.spark.test_schema import options
from tests.kfetch.wire.little import LittleKafka

_FILE = """
syntax = "proto2"; package t;
message M { required int32 id = 1; repeated string tags = 2;
            optional google.protobuf.Duration d = 3; }
"""
_GOOD = [number(1, i) + sized(2, b"a") for i in range(3)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of types."""
    path = tmp_path / "types.desc"
    path.write_bytes(descriptor_set(_FILE))
    return path


def _read(kafka: LittleKafka, file: Path, **more: str) -> tuple[SourceOptions, list[Any]]:
    """The options that the driver sends, and the batches of a task that has not the file."""
    of = query(kafka, valueFormat="protobuf", valueDescriptor=str(file), valueMessage="t.M", **more)
    of.options = with_schema(of.options, schema(of.options))
    file.unlink()
    of.options = pickle.loads(pickle.dumps(of.options))
    return of.options, list(of.read([part(kafka, T0, 0, kafka.log(T0).end)]))


def test_values_are_structs(file: Path) -> None:
    """The batches have the schema that Spark derives. A value that can't be decoded is null."""
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        kafka.log(T0).append(*_GOOD, b"", b"\xff")
        options, batches = _read(kafka, file, columns="value,offset", valueMode="PERMISSIVE")

    table = pa.Table.from_batches(batches)
    assert to_arrow_schema(schema(options), timezone="UTC") == table.schema
    rows = [{"id": i, "tags": ["a"], "d": None} for i in range(3)]
    assert [*rows, None, None] == table.column("value").to_pylist()


def test_fields_may_be_columns(file: Path) -> None:
    """With valueFields=flat, required fields are null where the value can't be decoded."""
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        kafka.log(T0).append(_GOOD[2], b"")
        options, batches = _read(
            kafka, file, columns="value", valueFields="flat", valueMode="PERMISSIVE"
        )

    table = pa.Table.from_batches(batches)
    assert to_arrow_schema(schema(options), timezone="UTC") == table.schema
    assert [2, None] == table.column("id").to_pylist()


def test_the_bytes_of_types_are_not_shown(file: Path) -> None:
    """A log line with the options stays short."""
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        options = face.with_types(query(
            kafka, valueFormat="protobuf", valueDescriptor=str(file), valueMessage="t.M"
        ).options)  # fmt: skip
    assert "descriptors" not in repr(options.typed_columns)
    assert replace(options) == face.with_types(options)


@pytest.mark.parametrize("column", ["key", "value"])
def test_a_missing_message_names_the_column_s_options(file: Path, column: str) -> None:
    """Keys and values have options of their own."""
    given = {"Format": "protobuf", "Descriptor": str(file), "Message": "Nope"}
    with pytest.raises(OptionError) as refusal:
        schema(options(**{column + rest: text for rest, text in given.items()}))
    assert f"{column}Message" == refusal.value.option
    assert (
        f"the file of option {column}Descriptor has no message 'Nope': set {column}Message to the "
        "full name of a message, such as shop.Order"
    ) == refusal.value.message


def test_files_have_a_limit(tmp_path: Path) -> None:
    """Two of them fit in a message to the agent, beside a large split."""
    path = tmp_path / "types.desc"
    path.write_bytes(bytes((8 << 20) + 1))
    given = {"valueFormat": "protobuf", "valueDescriptor": str(path), "valueMessage": "t.M"}
    with pytest.raises(OptionError, match="valueDescriptor has more than 8 MiB") as refusal:
        schema(options(**given))
    assert "valueDescriptor" == refusal.value.option
    split_bytes = 20 << 20
    assert 2 * face.FILE_BYTES_MAX + split_bytes < channel.MESSAGE_BYTES_MAX


def test_the_decoders_kept_have_a_limit() -> None:
    """Each may keep two files of types. Together they take less than the agent's own limit."""
    kept = typed_values.DECODERS_MAX * 2 * face.FILE_BYTES_MAX
    assert kept <= 128 << 20


@pytest.mark.parametrize("there", [True, False])
def test_files_that_are_refused(tmp_path: Path, there: bool) -> None:
    """The sentence names the option, the file and the reason."""
    path = tmp_path / "types.desc"
    if there:
        path.mkdir()
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        of = query(kafka, valueFormat="protobuf", valueDescriptor=str(path), valueMessage="t.M")
        with pytest.raises(OptionError) as refusal:
            schema(of.options)
    reason = "Is a directory" if there else "No such file or directory"
    assert f"option valueDescriptor can't be read on the driver: {path}: {reason}" in str(
        refusal.value
    )
