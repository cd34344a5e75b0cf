"""Values as structs through the agent: over its socket and its shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kfetch.errors import MalformedValue
from kfetch.formats import loading
from tests.kfetch.agent.helpers import T0, options, part
from tests.kfetch.agent.test_server import Agent
from tests.kfetch.wire.little import LittleKafka

JSON = {"valueFormat": "json", "valueSchema": "id INT, tags ARRAY<STRING>, m MAP<STRING, DOUBLE>"}
COUNT = 300


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """One node; a partition of JSON, the last record of which is corrupt."""
    loading.load("json")  # to compile the decoder may take half a minute
    with LittleKafka(1) as running:
        running.create("t", 1)
        text = '{"id":%d,"tags":["a",null,"%s"],"m":{"x":%d.5}}'
        documents = [(text % (i, "z" * (i % 70), i)).encode() for i in range(COUNT)]
        running.log(T0).append(*documents)
        running.log(T0).append(b'{"id":1,"m":{"x":"bad"}}')
        yield running


@pytest.mark.parametrize("memory", [1, 64 << 20])
def test_structs_arrive_in_shared_memory(kafka: LittleKafka, tmp_path: Path, memory: int) -> None:
    """A worker gets every row, also with the smallest budget."""
    with closing(Agent(tmp_path / "s", memory)) as agent:
        batches = list(agent.batches(options(kafka, **JSON), part(kafka, T0)))
        values = [row["value"] for batch in batches for row in batch.to_pylist()]

    assert [*range(COUNT), 1] == [value["id"] for value in values]
    assert ["a", None, "z" * 69] == values[69]["tags"]
    assert [("x", 7.5)] == values[7]["m"]
    assert {"id": 1, "tags": None, "m": None} == values[-1]


def test_the_worker_gets_the_error_of_a_value(kafka: LittleKafka, tmp_path: Path) -> None:
    """With valueMode=FAILFAST the worker raises the agent's error, with the record's place."""
    reader = options(kafka, **JSON, valueMode="FAILFAST", columns="value")
    with closing(Agent(tmp_path / "s", 64 << 20)) as agent, pytest.raises(MalformedValue) as error:
        list(agent.batches(reader, part(kafka, T0)))

    assert ("t", 0, COUNT) == (error.value.topic, error.value.partition, error.value.offset)
