"""Values and keys in Confluent's wire format in a real Spark, with a real schema registry."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from integration.conftest import TopicFactory
from integration.formats.apicurio import Apicurio, apicurio
from integration.formats.avro_oracle import from_avro_sql, prepare
from integration.records import producer
from integration.streams import drain, kfetch, wait_until
from kfetch_jobs.kafka import Cluster
from tests.kfetch.formats.avro.records import record
from tests.kfetch.formats.protobuf.cases import alone
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import number, sized
from tests.kfetch.formats.registry.scripted_registry import ScriptedRegistry, framed
from tests.kfetch.wire.certificates import Authority

pytestmark = [pytest.mark.integration, pytest.mark.long]

_V1 = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "gone", "type": "string"}],
}
_V2 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "id", "type": "long"},
        {"name": "new", "type": "int", "default": 7},
    ],
}
_FILE = """
syntax = "proto3"; package shop;
message Other { string x = 1; }
message Order { int64 id = 1; Order.Item item = 2; message Item { string name = 1; } }
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    """A real registry."""
    with apicurio(tmp_path_factory.mktemp("apicurio")) as started:
        yield started


def _send(cluster: Cluster, topic: str, values: list[bytes | None], key: bytes = b"k") -> None:
    with producer(cluster, linger_ms=5) as sender:
        for value in values:
            sender.send(topic, value, key=key, partition=0)


def _rows(frame: Any, checkpoint: Path) -> list[Any]:
    rows = sorted(drain(frame, checkpoint).rows, key=lambda row: row.offset)
    return [(row.offset, row.value and row.value.asDict(True)) for row in rows]


@pytest.mark.parametrize("place", ["process", "inline"])
def test_two_writers_of_one_topic(
    spark: SparkSession,
    kafka: Cluster,
    topic: TopicFactory,
    registry: Apicurio,
    tmp_path: Path,
    place: str,
) -> None:
    """Mixed records of two versions give the rows of from_avro on the bytes behind the header."""
    prepare(spark)
    rng, name = Random(5), topic()
    ids = [registry.add(f"{name}-value", schema) for schema in (_V1, _V2)]
    chosen = [rng.randrange(2) for _ in range(400)]
    _send(kafka, name, [framed(ids[i], record(rng, (_V1, _V2)[i])) for i in chosen] + [None])
    shared = {"subscribe": name, "startingOffsets": "earliest", "kfetch.agent": place}
    ours = kfetch(spark, kafka, **shared, valueFormat="avro", valueRegistry=registry.url)
    plain = kfetch(spark, kafka, **shared)
    calls = [from_avro_sql(schema, _V2).replace("value", "body", 1) for schema in (_V1, _V2)]
    picked = f"CASE WHEN id = {ids[0]} THEN {calls[0]} WHEN id = {ids[1]} THEN {calls[1]} END"
    theirs = plain.selectExpr(
        "partition", "offset", "conv(hex(substring(value, 2, 4)), 16, 10) AS id",
        "substring(value, 6) AS body",
    ).selectExpr("partition", "offset", f"{picked} AS value")  # fmt: skip

    mine = _rows(ours.select("partition", "offset", "value"), tmp_path / "kfetch")
    assert 401 == len(mine)
    assert _rows(theirs, tmp_path / "spark") == mine


def test_protobuf_json_and_keys(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, registry: Apicurio, tmp_path: Path
) -> None:
    """A Protobuf message that is not the first one, with Avro keys; and JSON behind its header."""
    name, other = topic(), topic()
    order = registry.add(f"{name}-value", alone(descriptor_set(_FILE)), kind="PROTOBUF")
    key = registry.add(
        f"{name}-key", _V2 | {"name": "Key", "fields": [{"name": "k", "type": "int"}]}
    )
    body = number(1, 5) + sized(2, sized(1, b"pen"))
    _send(kafka, name, [framed(order, body, b"\x02\x02")], framed(key, b"\x08"))
    frame = kfetch(
        *(spark, kafka),
        subscribe=name,
        startingOffsets="earliest",
        keyFormat="avro",
        keyRegistry=registry.url,
        valueFormat="protobuf",
        valueRegistry=registry.url,
        valueMessage="shop.Order",
    )
    (row,) = drain(frame, tmp_path / "protobuf").rows
    expected = {"id": 5, "item": {"name": "pen"}}
    assert ({"k": 4}, expected) == (row.key.asDict(), row.value.asDict(True))

    _send(kafka, other, [framed(1, b'{"a": 1}'), b'{"a": 2}'])
    options = {"valueFormat": "json", "valueSchema": "a INT", "valueRegistry": registry.url}
    frame = kfetch(spark, kafka, subscribe=other, startingOffsets="earliest", **options)
    assert [(0, {"a": 1}), (1, {"a": None})] == _rows(frame, tmp_path / "json")


def test_the_columns_of_a_query_stay(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, registry: Apicurio, tmp_path: Path
) -> None:
    """A version that comes between load() and start() adds no column; a new load() has it."""
    name = topic()
    shared = {"subscribe": name, "startingOffsets": "earliest", "valueFormat": "avro",
              "valueRegistry": registry.url}  # fmt: skip
    one = registry.add(f"{name}-value", _V1)
    frame = kfetch(spark, kafka, **shared)
    more = [*_V1["fields"], {"name": "more", "type": "int", "default": 1}]
    two = registry.add(f"{name}-value", _V1 | {"fields": more})
    values = [framed(one, b"\x02\x02a"), framed(two, b"\x04\x02b\x06")]
    _send(kafka, name, values)

    old = [{"id": 1, "gone": "a"}, {"id": 2, "gone": "b"}]
    assert old == [row for _, row in _rows(frame, tmp_path / "old")]
    new = [{**old[0], "more": 1}, {**old[1], "more": 3}]
    assert new == [row for _, row in _rows(kfetch(spark, kafka, **shared), tmp_path / "new")]


def test_references(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, registry: Apicurio, tmp_path: Path
) -> None:
    """A schema may name a type of another subject."""
    name = topic()
    fields = [{"name": "n", "type": "int"}]
    space = name.replace("-", "_")
    inner = {
        "type": "record",
        "name": "Inner",
        "namespace": space,
        "fields": fields,
    }
    full_name = f"{space}.Inner"
    registry.add(full_name, inner)
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "i", "type": full_name}]}
    references = [(full_name, full_name, 1)]
    schema = registry.add(f"{name}-value", outer, references=references)
    _send(kafka, name, [framed(schema, b"\x0a")])
    options = {"valueFormat": "avro", "valueRegistry": registry.url, "valueFields": "nested"}
    frame = kfetch(spark, kafka, subscribe=name, startingOffsets="earliest", **options)
    assert [(0, {"i": {"n": 5}})] == _rows(frame, tmp_path)


def test_tls(spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path) -> None:
    """The registry's certificate must be of an authority that the options name."""
    authority, name = Authority(), topic()
    server = authority.issue("127.0.0.1")
    pem, trusted = tmp_path / "server.pem", tmp_path / "ca.pem"
    pem.write_text(server.pem + server.key())
    trusted.write_text(authority.pem)
    with apicurio(tmp_path, pem=pem, authority=authority.pem) as registry:
        schema = registry.add(f"{name}-value", _V1)
        _send(kafka, name, [framed(schema, b"\x02\x02a")])
        options = {"subscribe": name, "startingOffsets": "earliest", "valueFormat": "avro",
                   "valueRegistry": registry.url}  # fmt: skip
        tls = {"schema.registry.ssl.truststore.location": str(trusted)}
        frame = kfetch(spark, kafka, **options, **tls)
        assert [(0, {"id": 1, "gone": "a"})] == _rows(frame, tmp_path / "checkpoint")
        with pytest.raises(Exception, match="REGISTRY_REFUSED"):
            kfetch(spark, kafka, **options).schema  # noqa: B018


def test_a_wrong_password(spark: SparkSession, kafka: Cluster, topic: TopicFactory) -> None:
    """The query does not start. The error does not show the password."""
    with ScriptedRegistry() as scripted:
        scripted.log_in = "Basic cmlnaHQ6cGFzc3dvcmQ="
        options = {"subscribe": topic(), "valueFormat": "avro", "valueRegistry": scripted.url,
                   "schema.registry.basic.auth.user.info": "me:hush-hush"}  # fmt: skip
        with pytest.raises(Exception, match="REGISTRY_REFUSED") as failure:
            kfetch(spark, kafka, **options).schema  # noqa: B018
    assert "refuses the log-in with status 401" in str(failure.value)
    assert "hush-hush" not in str(failure.value)


def test_a_registry_that_is_down_at_the_start(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory
) -> None:
    """load() fails after kfetch.registry.timeout, and names the address."""
    options = {"subscribe": topic(), "valueFormat": "avro", "kfetch.registry.timeout": "1s"}
    with pytest.raises(Exception, match="REGISTRY_UNAVAILABLE") as failure:
        kfetch(spark, kafka, **options, valueRegistry="http://127.0.0.1:1").schema  # noqa: B018
    assert "http://127.0.0.1:1: " in str(failure.value)


def test_a_registry_that_is_down_for_a_moment(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A query waits for a registry that is down when it sees a new id, and loses nothing."""
    name = topic()
    with ScriptedRegistry() as scripted:
        scripted.add(_V1)
        _send(kafka, name, [framed(1, b"\x02\x02a")])
        scripted.answers = [(503, b"")] * 1_000_000

        def recover() -> None:
            wait_until(lambda: len(scripted.requests) > 2)
            scripted.answers.clear()

        frame = kfetch(
            *(spark, kafka),
            subscribe=name,
            startingOffsets="earliest",
            valueFormat="avro",
            valueMode="PERMISSIVE",
            valueReaderSchema=json.dumps(_V1),
            valueRegistry=scripted.url,
        )
        helper = threading.Thread(target=recover, daemon=True)
        helper.start()
        assert [(0, {"id": 1, "gone": "a"})] == _rows(frame, tmp_path)
        helper.join(10)
        assert len(scripted.requests) > 3
