"""Values of few bytes that unfold to large columns, in a running agent with a small budget."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pyarrow
import pytest

from kfetch.agent import client
from kfetch.agent.channel import ReadRequest
from kfetch.agent.home import AgentFiles, ProcessIdentity
from kfetch.spark.schema import schema, with_schema
from tests.kfetch.agent.agent_process import connect, status
from tests.kfetch.agent.helpers import T0, options, part
from tests.kfetch.formats.avro.records import number
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import sized
from tests.kfetch.records.batch_builder import batch, record
from tests.kfetch.wire.little import LittleKafka

MEMORY = 32 << 20
VALUES, ELEMENTS = 12, 20_000  # a value takes 6.5 MiB as columns, and all of them 80 MiB
NAMES = [f"d{number}" for number in range(20)]
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}
EMPTY = {
    "type": "record",
    "name": "E",
    "fields": [{"name": n, "type": ["null", DECIMAL], "default": None} for n in NAMES],
}
FIELDS = [{"name": "l", "type": {"type": "array", "items": EMPTY}}]
TEXT = json.dumps({"l": [{}] * ELEMENTS}, separators=(",", ":")).encode()
AVRO = number(ELEMENTS) + bytes(len(NAMES)) * ELEMENTS + number(0)
NUMBERS = " ".join(f"int64 d{n} = {n + 1}; double e{n} = {n + 100};" for n in range(20))
PROTO = f'syntax = "proto3"; package t; message E {{ {NUMBERS} }} message M {{ repeated E l = 1; }}'


@pytest.fixture(params=["json", "avro", "protobuf"])
def format_options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The options of a format."""
    file = tmp_path / "types.desc"
    file.write_bytes(descriptor_set(PROTO))
    columns = ", ".join(f"{name}: DECIMAL(38,0)" for name in NAMES)
    return {
        "valueFormat": request.param,
        "columns": "offset,value",
        "kfetch__agent__memory": "32m",
    } | {
        "json": {"valueSchema": f"l ARRAY<STRUCT<{columns}>>"},
        "avro": {"valueSchema": json.dumps({"type": "record", "name": "R", "fields": FIELDS})},
        "protobuf": {"valueDescriptor": str(file), "valueMessage": "t.M"},
    }[request.param]


def test_an_agent_stays_near_its_budget(
    files: AgentFiles, owner: ProcessIdentity, format_options: dict[str, str]
) -> None:
    """A batch of few bytes, whose columns take 80 MiB, comes in parts.

    The agent uses its budget of 32 MiB, and the room for one value.
    """
    value = {"json": TEXT, "avro": AVRO, "protobuf": sized(1, b"") * ELEMENTS}
    with LittleKafka(1) as kafka:
        log = kafka.create("t", 1)[0]
        records = [record(n, value[format_options["valueFormat"]]) for n in range(VALUES)]
        packed = batch(*records, codec="gzip")
        log.batches.append((0, VALUES, 0, packed))
        given = options(kafka, kafka__max__partition__fetch__bytes="1000000", **format_options)
        read = with_schema(given, schema(given))
        ranges = (part(kafka, T0, 0, VALUES),)
        with closing(connect(files, owner, MEMORY)) as channel:
            channel.send(ReadRequest(query="q", options=read, ranges=ranges))
            rows = [
                row
                for found in client.received_batches(channel, list(ranges))
                for row in zip(found["offset"].to_pylist(), lengths(found), strict=True)
            ]
        agent = status(connect(files, owner, MEMORY))

    assert [(n, ELEMENTS) for n in range(VALUES)] == rows
    assert 10_000 > len(packed)
    assert 2 * MEMORY > agent.memory_peak
    assert 208 << 20 > peak_bytes(agent.pid)


def lengths(found: pyarrow.RecordBatch) -> list[int]:
    """The number of elements in each row's list. No element becomes an object of Python."""
    return [*found["value"].field("l").value_lengths().to_pylist()]


def peak_bytes(pid: int) -> int:
    """The most memory that a process had in use."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) << 10
