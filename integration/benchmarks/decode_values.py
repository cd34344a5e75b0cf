"""CPU time of decoding JSON, Avro and Protobuf values, without Spark and without a broker.

``python -m integration.benchmarks.decode_values`` decodes two kinds of record: five fields in
about 92 bytes, and 40 fields with nesting in about 1 KiB. Beside kfetch stand pyarrow.json and, if
it is installed, arro3-io (arrow-rs). Both read documents in lines, without Spark's meaning. Avro
values have the same records, and fastavro reads them into Python's objects. The same five fields as
Protobuf are decoded by kfetch and, if it is installed, by the package protobuf (upb). That makes a
Python object for each record.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.json

from integration.benchmarks.avro_values import avro_contestants, avro_documents
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.columns.struct_column import arrow_type
from kfetch.formats.json.decoder import JsonDecoder
from kfetch.formats.loading import load
from kfetch.formats.protobuf.decoder import ProtobufDecoder
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import fixed64, number, sized

FIVE = "id BIGINT, customer STRING, amount DOUBLE, country STRING, confirmed BOOLEAN"
FIVE_FILE = """
syntax = "proto3"; package t;
message Five { int64 id = 1; string customer = 2; double amount = 3; string country = 4;
               bool confirmed = 5; }
"""
FORTY = ", ".join(
    [f"i{n} BIGINT" for n in range(12)]
    + [f"s{n} STRING" for n in range(14)]
    + [f"d{n} DOUBLE" for n in range(6)]
    + [f"b{n} BOOLEAN" for n in range(4)]
    + ["t TIMESTAMP", "tags ARRAY<STRING>", "n STRUCT<a: INT, b: STRING>", "m DECIMAL(12,2)"]
)


def five(rng: random.Random, number: int) -> dict[str, object]:
    """Returns a record of five fields."""
    return {
        "id": 10_000_000 + number,
        "customer": f"customer-{rng.randrange(100_000):06}",
        "amount": round(rng.random() * 1000, 2),
        "country": rng.choice(["DE", "FR", "NL", "PL"]),
        "confirmed": rng.random() < 0.5,
    }


def forty(rng: random.Random, number: int) -> dict[str, object]:
    """Returns a record of 40 fields."""
    record: dict[str, object] = {f"i{n}": rng.randrange(10**9) for n in range(12)}
    record |= {f"s{n}": "".join(rng.choices("abcdefghij ", k=28)) for n in range(14)}
    record |= {f"d{n}": rng.random() for n in range(6)}
    record |= {f"b{n}": rng.random() < 0.5 for n in range(4)}
    at = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    record |= {"t": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "tags": ["red", "green"]}
    return record | {"n": {"a": number % 1000, "b": "inner"}, "m": number % 100_000 + 0.25}


def _timed(work: Callable[[], object], records: int, rounds: int) -> float:
    """Returns the median of the CPU microseconds for a record."""
    work()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times) / records * 1e6


def _contestants(schema: str, documents: list[bytes]) -> dict[str, Callable[[], object]]:
    kind = parse_schema(schema)
    data = b"".join(documents) + bytes(64)
    lengths = np.array([len(document) for document in documents], np.int32)
    positions = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    lines = b"\n".join(documents) + b"\n"
    decoder = JsonDecoder(kind, load("json"))
    arrow_schema = pa.schema(list(arrow_type(kind)))
    options = pa.json.ParseOptions(explicit_schema=arrow_schema)
    read = pa.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    work: dict[str, Callable[[], object]] = {
        "kfetch": lambda: decoder.decode(data, positions, lengths),
        "pyarrow.json": lambda: pa.json.read_json(io.BytesIO(lines), read, options),
    }
    try:
        import arro3.io
    except ImportError:
        return work
    size = len(documents)
    work["arro3-io"] = lambda: list(
        arro3.io.read_json(io.BytesIO(lines), arrow_schema, batch_size=size)
    )
    return work


def five_message(record: dict[str, object]) -> bytes:
    """Returns a record of five fields as Protobuf."""
    customer, country = str(record["customer"]).encode(), str(record["country"]).encode()
    confirmed = number(5, 1) if record["confirmed"] else b""
    head = number(1, int(str(record["id"]))) + sized(2, customer)
    return head + fixed64(3, float(str(record["amount"]))) + sized(4, country) + confirmed


def _protobuf_contestants(values: list[bytes]) -> dict[str, Callable[[], object]]:
    descriptors = descriptor_set(FIVE_FILE)
    decoder, column = ProtobufDecoder(descriptors, "t.Five", load("protobuf")), pa.array(values)
    work: dict[str, Callable[[], object]] = {"kfetch": lambda: decoder.decode_column(column)}
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        return work
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Five"))
    work["protobuf (upb)"] = lambda: [kind.FromString(value) for value in values]
    return work


def main() -> None:
    """Print a line for each kind of record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    for schema, make in ((FIVE, five), (FORTY, forty)):
        fields = len(parse_schema(schema).names)
        rng, count = random.Random(7), chosen.records
        documents = [json.dumps(make(rng, i), separators=(",", ":")).encode() for i in range(count)]
        size = sum(map(len, documents)) // count
        print(f"{fields} fields, {size} bytes:")
        _print(_contestants(schema, documents), count, chosen.rounds)
        records = [make(rng, i) for i in range(count)]
        avro_schema, items = avro_documents(parse_schema(schema), records)
        print(f"{fields} fields in Avro, {sum(map(len, items)) // count} bytes:")
        _print(avro_contestants(avro_schema, items), count, chosen.rounds)
    rng = random.Random(7)
    values = [five_message(five(rng, i)) for i in range(chosen.records)]
    print(f"5 fields as Protobuf, {sum(map(len, values)) // len(values)} bytes:")
    _print(_protobuf_contestants(values), chosen.records, chosen.rounds)


def _print(contestants: dict[str, Callable[[], object]], records: int, rounds: int) -> None:
    for name, work in contestants.items():
        print(f"  {name:14} {_timed(work, records, rounds):.3f} µs of CPU a record")


if __name__ == "__main__":
    main()
