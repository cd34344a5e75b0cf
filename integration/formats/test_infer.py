"""Inferred schemas against Spark's ``spark.read.json``, on random documents."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kfetch.formats.columns.ddl import fields_text, parse_schema
from kfetch.formats.json.fit import inferred
from kfetch.formats.json.infer import schema_of
from tests.kfetch.formats.json.documents import document, schema

pytestmark = [pytest.mark.integration, pytest.mark.long]

SAMPLES = 60


def samples(chance: random.Random) -> list[bytes]:
    """Returns documents of one to three schemas, one per line; fields may have several types."""
    kinds = [schema(chance) for _ in range(chance.randint(1, 3))]
    texts = [document(chance, chance.choice(kinds), oddity=0) for _ in range(chance.randint(1, 20))]
    # Spark refuses two fields of one name in a document.
    return [json.dumps(json.loads(text)).encode() for text in texts]


def test_spark_infers_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """A sample has the schema that Spark infers from a file with the same lines."""
    chance = random.Random(11)
    for number in range(SAMPLES):
        documents = samples(chance)
        file = tmp_path / f"{number}.json"
        file.write_bytes(b"\n".join(documents))
        theirs = parse_schema(spark.read.json(str(file)).schema.json())
        ours = schema_of(inferred(documents))

        assert fields_text(theirs) == fields_text(ours), documents
