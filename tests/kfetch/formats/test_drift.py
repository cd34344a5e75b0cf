"""Fields that the schema lacks: which values are examined, and how often that is reported."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

from kfetch.formats import drift
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.drift import Drift
from kfetch.formats.json.decoder import JsonDecoder
from kfetch.formats.loading import load
from tests.kfetch.fetch.helpers import T0, part, query
from tests.kfetch.wire.little import LittleKafka


class Clock:
    """A time that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def _found(**fields: int) -> Drift:
    return Drift(topic="t", fields=fields, sampled=20)


def test_a_sample_every_ten_seconds() -> None:
    """Between two samples, a batch costs the look at a clock."""
    clock = Clock()
    watch = drift.FieldWatch(clock)
    taken = []
    for clock.now in (0.0, 0.0, 9.9, 10.0, 10.1, 60.0):
        taken.append(watch.takes_sample())
    assert [True, False, False, True, False, True] == taken


def test_a_report_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    """The first fields are reported at once. Later ones wait for the hour, and are added up."""
    clock = Clock()
    watch = drift.FieldWatch(clock)
    said = []
    for clock.now, fields in ((0.0, {}), (5.0, {"a": 2}), (9.0, {"a": 1}), (3000.0, {"b": 1})):
        watch.add(_found(**fields))
        said.append(len(caplog.records))
    clock.now = 3700.0
    watch.add(_found(a=1))
    clock.now = 9000.0
    watch.add(_found())

    assert [0, 1, 1, 1] == said
    assert [
        "topic t has fields that the schema lacks: a (2); 40 values were examined. kfetch skips "
        "these fields",
        "topic t has fields that the schema lacks: a (2), b (1); 60 values were examined. kfetch "
        "skips these fields",
    ] == [record.getMessage() for record in caplog.records]
    assert {logging.WARNING} == {record.levelno for record in caplog.records}


def _sampled(values: list[bytes | None]) -> Drift:
    decoder = JsonDecoder(parse_schema("a INT", option="valueSchema"), load("json"))
    return drift.sample([("value", decoder, pa.array(values, pa.binary()))], [_slice()])


def _slice() -> Any:
    class Slice:
        tp = T0

    return Slice()


def test_limits_of_a_sample() -> None:
    """Few values are examined, spread over the batch, and none that is large. Names are cut."""
    values: list[bytes | None] = [b'{"a":1}'] * 5000
    values[0], values[250], values[500] = b'{"b":1}', None, b'{"c":"' + b"x" * 20_000 + b'"}'
    values[750], values[1000] = b'{"%s":1}' % (b"n" * 200), b'{"two\\nlines":1}'
    found = _sampled(values)

    assert 18 == found.sampled
    assert {"value.b": 1, "value." + "n" * 54: 1, "value.two?lines": 1} == found.fields


@pytest.mark.parametrize("count", [0, 1, 19, 20, 21, 39, 100_000])
def test_rows_of_a_sample(count: int) -> None:
    """Up to 20 rows of the batch."""
    rows = drift._rows(count)
    assert min(count, 20) == len(rows) or (count < 40 and len(rows) == 20)
    assert all(row < count for row in rows)


def test_a_reader_counts_them() -> None:
    """The statistics of a query have the fields of its values."""
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        kafka.log(T0).append(b'{"id":1,"new":1}', b'{"id":2}', b"")
        options = {"valueFormat": "json", "valueSchema": "id INT", "kafka.client.id": "drift"}
        reader = query(kafka, **options)
        list(reader.read([part(kafka, T0, 0, 3)]))
        stats = reader.stats()

    assert 2 == stats.sampled
    assert {"t": {"value.new": 1}} == stats.unknown_fields
