"""A decoder that waits for a schema registry lets the other decoders of its agent run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from kfetch.formats import loading
from kfetch.spark.schema import schema, with_schema
from tests.kfetch.agent.helpers import T0, T1, options, part, wait_until
from tests.kfetch.agent.test_server import Agent
from tests.kfetch.formats.protobuf.cases import alone
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import number as field
from tests.kfetch.formats.registry.scripted_registry import ScriptedRegistry, framed
from tests.kfetch.wire.little import LittleKafka


def record(*names: str) -> dict[str, object]:
    """A schema of Avro: a record with integers."""
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": "int", "default": 0} for name in names],
    }


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """One node; an empty partition, and a partition of JSON."""
    with LittleKafka(1) as running:
        running.create("t", 2)
        running.log(T1).append(b'{"a":7}')
        yield running


@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_other_queries_read_on(
    kafka: LittleKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """While a reader waits for a registry, the readers of another query get their rows, also where
    one decoder runs at a time. It gets its own rows once the registry answers."""
    monkeypatch.setattr("kfetch.agent.budget._processors", lambda: 1)
    with ScriptedRegistry() as registry, closing(Agent(tmp_path / "s", 64 << 20)) as agent:
        if kind == "avro":
            registry.add(record("a"), "t-value")
            registry.add(record("a", "b"), "t-value")
            kafka.log(T0).append(framed(1, b"\x02"))
        else:
            for number in (1, 2):
                text = f'syntax = "proto3"; message R {{ int32 a = 1; int32 b = {number + 1}; }}'
                registry.add(alone(descriptor_set(text)), "t-value", kind="PROTOBUF")
            kafka.log(T0).append(framed(1, field(1, 1), b"\0"))
        given = options(kafka, valueFormat=kind, valueRegistry=registry.url, columns="value")
        of_registry = with_schema(given, schema(given))
        plain = options(kafka, valueFormat="json", valueSchema="a INT")
        for used in ("json", kind):  # to compile it may take half a minute
            loading.load(used)
        registry.arrived.clear()
        registry.may_answer.clear()
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(
                lambda: [*agent.batches(of_registry, part(kafka, T0), query="waits")]
            )
            assert registry.arrived.wait(60)
            (batch,) = agent.batches(plain, part(kafka, T1), query="reads on")

            assert [{"a": 7}] == batch["value"].to_pylist()
            assert not waiting.done()
            registry.may_answer.set()
            rows = [row for batch in waiting.result(60) for row in batch["value"].to_pylist()]
        assert 1 == rows[-1]["a"]
        assert wait_until(lambda: agent.queries.budget.used == 0)
