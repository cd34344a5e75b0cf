"""``kfetch infer``: the schema of a topic's JSON, and the records that fit it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfetch.model import TopicPartition
from tests.kfetch.admin.cli.conftest import Kfetch
from tests.kfetch.formats.registry.scripted_registry import ScriptedRegistry, framed
from tests.kfetch.wire.little import LittleKafka

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Topic orders: 4 objects in partition 0, and 2 in partition 1."""
    with LittleKafka() as running:
        running.create("orders", 2)
        running.log(T0).append(*[b'{"id":%d,"name":"x"}' % n for n in range(4)])
        running.log(T1).append(b'{"id":0.5}', b'{"tags":["a"]}')
        yield running


def test_schema(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """The schema is DDL on the first line, and the last line counts the records that fit."""
    code, out, _ = kfetch("infer", kafka.bootstrap, "orders")

    assert (0, "id DOUBLE, name STRING, tags ARRAY<STRING>\n6 of 6 records fit\n") == (code, out)


def test_newest_records(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """The sample has the newest records, the same number of each partition."""
    code, out, _ = kfetch("infer", kafka.bootstrap, "orders", "--records", "2")

    assert (0, "id BIGINT, name STRING, tags ARRAY<STRING>") == (code, out.splitlines()[0])
    assert out.endswith("2 of 2 records fit\n")


@pytest.mark.parametrize(
    "own",
    [
        "subscribePattern=o.*\nstartingTimestamp=-2h\nendingTimestamp=-1h",
        'assign={"orders":[0]}\nstartingOffsets=group\nkfetch.startingGroup=g',
        "subscribe=clicks\nendingOffsets=latest\ncolumns=offset",
    ],
)
def test_a_querys_own_properties(
    kfetch: Kfetch, kafka: LittleKafka, tmp_path: Path, own: str
) -> None:
    """Of a query's own file, ``infer`` and ``check`` take how to connect. What the query reads does
    not matter."""
    file = tmp_path / "query.properties"
    file.write_text(
        f"bootstrap.servers={kafka.bootstrap}\nvalueFormat=json\nfailOnDataLoss=no\n{own}"
    )
    named = ("--properties", str(file))
    code, out, _ = kfetch("infer", kafka.bootstrap, "orders", *named)

    assert (0, "id DOUBLE, name STRING, tags ARRAY<STRING>\n6 of 6 records fit\n") == (code, out)
    assert 0 == kfetch("check", "--topic", "orders", *named)[0]


def test_records_that_are_no_json(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """Records that do not fit are named with their offset, and the exit code is 1."""
    kafka.log(T1).append(b"broken", b"\0\0\0\0\x07data", b"", b"[1]")
    code, out, _ = kfetch("infer", kafka.bootstrap, "orders")

    assert 1 == code
    assert "does not fit: orders-1, offset 2: " in out
    assert "does not fit: orders-1, offset 5: the document is an array, at byte 0" in out
    assert "as in Confluent's wire format, and are no JSON: 1 of the records" in out
    assert out.endswith("6 of 10 records fit; empty: 1\n")


def test_a_given_schema(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """A given schema is checked: records that do not fit it, and fields that it lacks."""
    given = ("--schema", "id BIGINT, name STRING")
    code, out, _ = kfetch("infer", kafka.bootstrap, "orders", *given)

    assert 1 == code
    assert "the schema lacks tags\n" in out
    assert "does not fit: orders-1, offset 0: " in out
    assert out.endswith("5 of 6 records fit\n")


def test_fields_of_structs(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """Unknown fields inside structs and arrays have their path."""
    kafka.log(T1).append(b'{"a":[[{"x":{"y":1,"z":2}}]]}')
    given = ("--schema", "id DOUBLE, name STRING, a ARRAY<ARRAY<STRUCT<x: STRUCT<y: INT>>>>")
    found = json.loads(kfetch("infer", kafka.bootstrap, "orders", *given, "--json")[1])

    assert ["a.x.z", "tags"] == sorted(found["unknown_fields"])


def test_fields_of_several_types(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """One odd value makes a field a STRING, and the command says so with the records of each type.
    So it does for fields within structs and arrays."""
    kafka.create("mixed")
    whole = [b'{"amount":%d,"l":[{"x":1.5}],"note":"n"}' % n for n in range(998)]
    odd = [b'{"amount":"12,50"}', b'{"amount":"free","l":[{"x":"none"}]}', b'{"amount":""}']
    kafka.log(TopicPartition("mixed", 0)).append(*whole, *odd)
    code, out, _ = kfetch("infer", kafka.bootstrap, "mixed", "--records", "2000")

    several = "is STRING, because records have several types:"
    assert (0, "amount STRING, l ARRAY<STRUCT<x: STRING>>, note STRING") == (
        code,
        out.split("\n")[0],
    )
    assert f"\namount {several} BIGINT in 998 of 1,000, STRING in 2\n" in out
    assert f"\nl.x {several} DOUBLE in 998 of 999, STRING in 1\n" in out
    assert "\nnote " not in out

    given = ("--schema", "amount BIGINT", "--records", "2000")
    assert "several types" not in kfetch("infer", kafka.bootstrap, "mixed", *given)[1]
    found = json.loads(kfetch("infer", kafka.bootstrap, "mixed", "--records", "2000", "--json")[1])
    assert {"BIGINT": 998, "STRING": 2} == found["mixed_types"]["amount"]


def test_json(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """Scripts get all fields."""
    kafka.log(T1).append(b"1")
    found = json.loads(kfetch("infer", kafka.bootstrap, "orders", "--json")[1])

    assert {
        "records": 7,
        "schema": "id DOUBLE, name STRING, tags ARRAY<STRING>",
        "fits": 6,
        "empty": 0,
        "confluent": 0,
        "misfits": 1,
        "first_misfits": [
            {"partition": 1, "offset": 2, "reason": "the document is no object", "at": 0}
        ],
        "unknown_fields": [],
        "mixed_types": {},
    } == found


def test_empty_topic(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """A topic without records is no error."""
    kafka.create("empty", 3)

    assert (0, "topic empty has no records: produce some, or name another topic\n") == (
        kfetch("infer", kafka.bootstrap, "empty")[:2]
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["orders", "--schema", "id BIGGINT"], 1, "--schema"),
        (["none"], 1, "none: no such topic or partition"),
        (["orders", "--records", "0"], 2, "--records"),
        (["orders", "--option", "subscribe=x"], 2, "does not begin with kafka."),
    ],
)
def test_mistakes(
    kfetch: Kfetch, kafka: LittleKafka, words: list[str], code: int, said: str
) -> None:
    """Each mistake is one sentence."""
    ended, _, errors = kfetch("infer", kafka.bootstrap, *words)

    assert code == ended
    assert said in " ".join(errors.split())


def test_keys(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """With --key the keys are the sample. Records without a key are empty."""
    code, out, _ = kfetch("infer", kafka.bootstrap, "orders", "--key")

    assert (0, "0 of 6 records fit; empty: 6\n") == (code, out)


def test_a_registry_gives_the_columns(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """The reader's columns as DDL, and the records of the sample that its writers do not fit."""
    fields = [{"name": "id", "type": "long"}, {"name": "t", "type": "string"}]
    kafka.create("avro", 1)
    with ScriptedRegistry() as registry:
        schema = registry.add({"type": "record", "name": "R", "fields": fields}, "avro-value")
        log = kafka.log(TopicPartition("avro", 0))
        log.append(framed(schema, b"\x02\x02a"), b"{}", framed(9, b""), None)
        given = ("--option", f"valueRegistry={registry.url}", "--option", "valueFormat=avro")
        code, out, _ = kfetch("infer", kafka.bootstrap, "avro", *given)

    assert 1 == code
    first, *misfits, last = out.splitlines()
    assert ("id BIGINT, t STRING", "1 of 4 records fit; empty: 1") == (first, last)
    assert "does not fit: avro-0, offset 1: its first byte is not 0" in misfits[0]
    assert (
        f"does not fit: avro-0, offset 2: the schema registry {registry.url} has no" in misfits[1]
    )


def test_log_ins_of_registries_are_refused_on_the_command_line(kfetch: Kfetch) -> None:
    """Every user of a machine sees the arguments of a command."""
    for name in ("basic.auth.user.info", "bearer.auth.token", "ssl.truststore.password"):
        given = ("--option", f"schema.registry.{name}=u:hush")
        code, out, err = kfetch("infer", "localhost:1", "t", *given)
        assert 2 == code
        assert "may be secret" in " ".join((out + err).split())
        assert "hush" not in out + err
