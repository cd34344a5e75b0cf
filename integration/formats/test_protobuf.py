"""The Protobuf decoder against Spark's own ``from_protobuf``, on random files and values.

The rows must be Spark's, bit by bit, and so must the types of the columns. In proto3, the package
``protobuf`` writes a quarter of the values. KFETCH_PROTOBUF_VALUES sets the number of values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from integration.formats.protobuf_oracle import answers, arrow_type, protobuf_session
from kfetch.formats.loading import load
from kfetch.formats.protobuf.decoder import ProtobufDecoder
from kfetch.formats.protobuf.descriptors import read_descriptors
from kfetch_jobs.errors import JobsError
from tests.kfetch.formats.json.plain import plain
from tests.kfetch.formats.protobuf.messages import file_text, value
from tests.kfetch.formats.protobuf.proto_text import descriptor_set

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.integration, pytest.mark.long]

_VALUES = int(os.environ.get("KFETCH_PROTOBUF_VALUES", "20000"))
_FILES = _VALUES // 500


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark with from_protobuf."""
    try:
        with protobuf_session(tmp_path_factory.mktemp("protobuf")) as started:
            yield started
    except JobsError as cause:
        pytest.skip(f"no spark-protobuf: {cause}")


def _by_package(rng: Random, descriptors: bytes, raw: list[bytes]) -> list[bytes]:
    """Returns values that the package ``protobuf`` writes from the ones that it can read."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("t.M"))
    made = []
    for item in raw:
        try:
            made.append(kind.FromString(item).SerializeToString(deterministic=rng.random() < 0.5))
        except message.Error:
            made.append(item)
    return made


@pytest.mark.parametrize("seed", range(_FILES))
def test_random_values_mean_what_spark_says(spark: SparkSession, seed: int) -> None:
    """Rows, nulls and types are those of Spark, for good, odd and damaged values."""
    rng = Random(seed)
    file = file_text(rng)
    descriptors = descriptor_set(file)
    types, count = read_descriptors(descriptors), _VALUES // _FILES
    damages = [rng.choice([0.0, 0.0, 0.02, 0.2]) for _ in range(count)]
    values = [value(rng, types, "t.M", damage) for damage in damages]
    if "proto3" in file:  # upb 7.36.2 crashes where a map's value lacks a required field
        values[: count // 4] = _by_package(rng, descriptors, values[: count // 4])

    expected = answers(spark, descriptors, "t.M", values)
    actual = ProtobufDecoder(descriptors, "t.M", load("protobuf")).decode_column(
        pa.array(values, pa.binary())
    )

    assert arrow_type(spark, descriptors, "t.M") == actual.values.type
    actual.values.validate(full=True)
    _assert_same(values, plain(expected), plain(actual.values))


def _assert_same(values: list[bytes], expected: list[Any], actual: list[Any]) -> None:
    for item, spark_row, row in zip(values, expected, actual, strict=True):
        assert (spark_row, item.hex()) == (row, item.hex())
