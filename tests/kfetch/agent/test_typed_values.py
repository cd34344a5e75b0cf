"""A worker gets decoded JSON values from the agent, over a socket and shared memory."""

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

JSON_OPTIONS = {
    "valueFormat": "json",
    "valueSchema": "id INT, tags ARRAY<STRING>, m MAP<STRING, DOUBLE>",
}
GOOD_RECORDS = 300


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """A broker with one partition of JSON. Its last record has a field of the wrong type."""
    loading.load("json")  # compiling the decoder may take half a minute
    with LittleKafka(1) as broker:
        broker.create("t", 1)
        template = '{"id":%d,"tags":["a",null,"%s"],"m":{"x":%d.5}}'
        documents = [(template % (i, "z" * (i % 70), i)).encode() for i in range(GOOD_RECORDS)]
        broker.log(T0).append(*documents)
        broker.log(T0).append(b'{"id":1,"m":{"x":"bad"}}')
        yield broker


@pytest.mark.parametrize("memory_bytes", [1, 64 << 20])
def test_a_worker_gets_all_structs(kafka: LittleKafka, tmp_path: Path, memory_bytes: int) -> None:
    """A worker gets every row, even if the agent may use only one byte of shared memory."""
    with closing(Agent(tmp_path / "s", memory_bytes)) as agent:
        batches = list(agent.batches(options(kafka, **JSON_OPTIONS), part(kafka, T0)))
        values = [row["value"] for batch in batches for row in batch.to_pylist()]

    assert [*range(GOOD_RECORDS), 1] == [value["id"] for value in values]
    assert ["a", None, "z" * 69] == values[69]["tags"]
    assert [("x", 7.5)] == values[7]["m"]
    assert {"id": 1, "tags": None, "m": None} == values[-1]


def test_a_bad_value_raises_in_the_worker(kafka: LittleKafka, tmp_path: Path) -> None:
    """With valueMode=FAILFAST, the worker raises the agent's error with topic, partition and
    offset."""
    failfast = options(kafka, **JSON_OPTIONS, valueMode="FAILFAST", columns="value")
    with closing(Agent(tmp_path / "s", 64 << 20)) as agent, pytest.raises(MalformedValue) as error:
        list(agent.batches(failfast, part(kafka, T0)))

    assert ("t", 0, GOOD_RECORDS) == (error.value.topic, error.value.partition, error.value.offset)
