"""The plan of a batch read: offsets are looked up once, and the ranges have all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from kfetch.errors import (
    BrokerError,
    NoSuchPartition,
    OffsetBeyondLog,
    OptionError,
    RecordsExpired,
)
from kfetch.model import Split, TopicPartition
from kfetch.offsets import Position
from kfetch.spark.options import parse
from kfetch.watch.batch_planning import plan_batch
from kfetch.watch.lookups import OffsetLookup
from tests.kfetch.watch.helpers import T0, T1, U0, fill
from tests.kfetch.wire.coordinator import Coordinator
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.log import T0 as FIRST_MS

WHOLE = {T0: (0, 3), T1: (0, 1)}


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Topic t: 3 records in partition 0, a millisecond apart, and 1 in partition 1."""
    with LittleKafka() as running:
        fill(running)
        yield running


def plan(kafka: LittleKafka, **options: str) -> list[Split]:
    """Returns the splits. By default it reads the whole topic t."""
    chosen = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "kafka.request.timeout.ms": "60000",
        "kafka.retry.backoff.ms": "10",
        "fetchOffset.numRetries": "0",
        "subscribe": "t",
    }
    if {"assign", "subscribePattern"} & set(options):
        del chosen["subscribe"]
    parsed = parse(chosen | {k.replace("__", "."): v for k, v in options.items()}, batch=True)
    with closing(OffsetLookup(parsed)) as lookup:
        return plan_batch(parsed, lookup)


def ranges(splits: list[Split]) -> dict[TopicPartition, tuple[int, int]]:
    """Returns (start, end) of each partition's one range."""
    items = [item for split in splits for item in split.ranges]
    assert len(items) == len({item.tp for item in items})
    return {item.tp: (item.start, item.end) for item in items}


def test_whole_topic(kafka: LittleKafka) -> None:
    """By default a batch reads from the log starts to the log ends, under one query id."""
    splits = plan(kafka)

    (split,) = splits
    (topic_id,) = {item.topic_id for item in split.ranges}
    assert WHOLE == ranges(splits)
    assert kafka.topics["t"].topic_id == topic_id
    assert split.query != plan(kafka)[0].query


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": '{"t":{"0":1,"1":-2}}'}, {T0: (1, 3), T1: (0, 1)}),
        ({"endingOffsets": '{"t":{"0":2,"1":-1}}'}, {T0: (0, 2), T1: (0, 1)}),
        ({"startingTimestamp": str(FIRST_MS + 1), "startingOffsetsByTimestampStrategy": "latest"},
         {T0: (1, 3)}),
        ({"endingTimestamp": str(FIRST_MS + 2)}, {T0: (0, 2), T1: (0, 1)}),
        ({"assign": '{"t":[1]}'}, {T1: (0, 1)}),
        ({"subscribePattern": "^t"}, WHOLE),
        ({"subscribePattern": "nothing"}, {}),
        ({"startingOffsets": '{"t":{"0":3,"1":1}}'}, {}),
        ({"failOnDataLoss": "false", "endingOffsets": '{"t":{"0":9,"1":0}}'}, {T0: (0, 3)}),
        ({"failOnDataLoss": "false", "startingOffsets": '{"t":{"0":7,"1":-2}}',
          "endingOffsets": '{"t":{"0":9,"1":1}}'}, {T1: (0, 1)}),
    ],
)  # fmt: skip
def test_bounds(
    kafka: LittleKafka,
    options: dict[str, str],
    expected: dict[TopicPartition, tuple[int, int]],
) -> None:
    """Ranges lie between the options' bounds, and empty ones are left out."""
    assert expected == ranges(plan(kafka, **options))


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"subscribe": "t,gone"}, NoSuchPartition, "gone: no such topic"),
        ({"assign": '{"t":[0,7]}'}, NoSuchPartition, "t-7: no such topic"),
        ({"startingOffsets": '{"t":{"0":0}}'}, OptionError, "lacks t-1"),
        ({"startingOffsets": '{"t":{"0":9,"1":0}}'}, OptionError,
         "start offset 9 is greater than the resolved end offset 3 for topic t partition 0"),
        ({"endingOffsets": '{"t":{"0":9,"1":1}}'}, OffsetBeyondLog,
         "end offset 9 lies past the log end 3"),
        ({"startingTimestamp": str(FIRST_MS + 1)}, OptionError, "No offset matched"),
    ],
)  # fmt: skip
def test_refusals(
    kafka: LittleKafka, options: dict[str, str], kind: type[Exception], words: str
) -> None:
    """What cannot be read whole is an error that names the place."""
    with pytest.raises(kind, match=words):
        plan(kafka, **options)


@pytest.mark.connector_case(
    "KafkaDontFailOnDataLossSuite",
    "failOnDataLoss=false should not return duplicated records: batch v2",
)
def test_expired_records(kafka: LittleKafka) -> None:
    """A start that the log no longer has is a loss; earliest is where the log starts now."""
    kafka.log(T0).expire(3)
    kafka.log(T0).append(b"d", b"e")
    given = '{"t":{"0":1,"1":-2}}'

    assert {T0: (3, 5), T1: (0, 1)} == ranges(plan(kafka))
    with pytest.raises(RecordsExpired, match="offsets 1 to 3 have expired"):
        plan(kafka, startingOffsets=given)
    lenient = plan(kafka, startingOffsets=given, failOnDataLoss="false")
    assert {T0: (3, 5), T1: (0, 1)} == ranges(lenient)


@pytest.mark.parametrize("options", [{}, {"endingTimestamp": str(FIRST_MS + 99)}])
def test_a_log_that_ends_earlier_while_it_is_planned(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    """A new leader's high watermark may lag for a moment. One look-up says where the log ends and
    where the batch ends, so the log can't end before the batch."""
    honest = OffsetLookup.log_ends

    def then_cut(lookup: OffsetLookup, *arguments: Any) -> Any:
        answer = honest(lookup, *arguments)
        if answer:
            kafka.log(T0).truncate(0)
        return answer

    monkeypatch.setattr(OffsetLookup, "log_ends", then_cut)
    assert WHOLE == ranges(plan(kafka, **options))


@pytest.mark.parametrize(("kind", "expected"), [("starting", {}), ("ending", WHOLE)])
def test_records_that_arrive_while_a_time_is_looked_up(
    kafka: LittleKafka,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    expected: dict[TopicPartition, tuple[int, int]],
) -> None:
    """A record that a time finds behind the log end is new. It is not read, and the log is not
    taken for a truncated one, nor the bounds for bounds in wrong order."""
    honest = OffsetLookup.offsets_at_times

    def grown(lookup: OffsetLookup, *arguments: Any) -> Any:
        kafka.log(T0).append(*[b"new"] * 9)
        return honest(lookup, *arguments)

    monkeypatch.setattr(OffsetLookup, "offsets_at_times", grown)
    bounds = {f"{kind}Timestamp": str(FIRST_MS + 8)}
    if kind == "starting":
        bounds["startingOffsetsByTimestampStrategy"] = "latest"
    assert expected == ranges(plan(kafka, **bounds))


def test_empty_topics(kafka: LittleKafka) -> None:
    """An empty topic, and a topic without partitions, have nothing to read."""
    kafka.create("u")
    kafka.create("v", 0)

    assert {} == ranges(plan(kafka, subscribe="u"))
    assert WHOLE == ranges(plan(kafka, subscribePattern="[tuv]"))


@pytest.mark.connector_case(
    "KafkaRelationSuiteBase",
    "read Kafka transactional messages: *",
)
def test_open_transaction(kafka: LittleKafka) -> None:
    """Under read_committed a batch ends before the first open transaction."""
    kafka.log(T0).stable = 1

    committed = plan(kafka, kafka__isolation__level="read_committed")

    assert {T0: (0, 1), T1: (0, 1)} == ranges(committed)
    assert WHOLE == ranges(plan(kafka))


@pytest.mark.parametrize("start", [0, 2])
def test_an_end_behind_an_open_transaction(
    kafka: LittleKafka, caplog: pytest.LogCaptureFixture, start: int
) -> None:
    """If the log reaches the end, an open transaction is no truncation. The error says so. With
    failOnDataLoss=false the batch ends before the transaction, with one warning."""
    kafka.log(T0).stable = 1
    bounds = {
        "startingOffsets": f'{{"t":{{"0":{start},"1":0}}}}',
        "endingOffsets": '{"t":{"0":3,"1":1}}',
        "kafka__isolation__level": "read_committed",
    }
    message = "t-0: an open transaction begins at offset 1, so the records up to the end offset 3 "
    with pytest.raises(OffsetBeyondLog, match=message):
        plan(kafka, **bounds)

    expected = {T0: (0, 1), T1: (0, 1)} if start == 0 else {T1: (0, 1)}
    assert expected == ranges(plan(kafka, **bounds, failOnDataLoss="false"))
    assert ["truncated" in text for text in caplog.messages] == [False]


@pytest.mark.parametrize("ending", [{}, {"endingTimestamp": f"{FIRST_MS + 99}"}])
@pytest.mark.parametrize("start", [2, 3])
def test_a_start_behind_an_open_transaction(
    kafka: LittleKafka, caplog: pytest.LogCaptureFixture, start: int, ending: dict[str, str]
) -> None:
    """If the log reaches the start, the bounds are not in wrong order: an open transaction ends the
    batch before its start. The error says so, as the connector fails, too. With
    failOnDataLoss=false nothing of that partition is read, with one warning."""
    kafka.log(T0).stable = 1
    bounds = {
        "startingOffsets": f'{{"t":{{"0":{start},"1":0}}}}',
        "kafka__isolation__level": "read_committed",
        **ending,
    }
    message = (
        f"t-0: an open transaction begins at offset 1, so the records from the start offset {start}"
    )
    with pytest.raises(OffsetBeyondLog, match=message):
        plan(kafka, **bounds)

    assert {T1: (0, 1)} == ranges(plan(kafka, **bounds, failOnDataLoss="false"))
    assert [message in text for text in caplog.messages] == [True]


@pytest.mark.parametrize(
    "bounds",
    [
        {"startingOffsets": '{"t":{"0":4,"1":0}}'},
        {
            "startingOffsets": '{"t":{"0":2,"1":0}}',
            "endingOffsetsByTimestamp": f'{{"t":{{"0":{FIRST_MS},"1":{FIRST_MS}}}}}',
        },
        {
            "startingOffsets": "group",
            "kafka__group__id": "g",
            "endingOffsets": '{"t":{"0":1,"1":0}}',
        },
    ],
)
def test_wrong_order_beside_an_open_transaction(kafka: LittleKafka, bounds: dict[str, str]) -> None:
    """A start past the log end, or behind the end that the options set, is no transaction's
    fault. So it is if that end is where the transaction begins."""
    Coordinator(kafka, node=1).offsets["g"] = {T0: Position(2, 0)}
    kafka.log(T0).stable = 1
    with pytest.raises(OptionError, match="is greater than the resolved end offset"):
        plan(kafka, **bounds, kafka__isolation__level="read_committed")


def test_an_end_past_the_log_and_a_transaction(kafka: LittleKafka) -> None:
    """An end that the log does not reach is a loss, also beside an open transaction."""
    kafka.log(T0).stable = 1
    options = {"endingOffsets": '{"t":{"0":9,"1":1}}', "kafka__isolation__level": "read_committed"}
    with pytest.raises(OffsetBeyondLog, match="end offset 9 lies past the log end 3"):
        plan(kafka, **options)


def test_partition_without_leader(kafka: LittleKafka) -> None:
    """A partition without a leader is an error after the request timeout."""
    kafka.elect(T0, None)

    with pytest.raises(BrokerError, match="t-0"):
        plan(kafka, kafka__request__timeout__ms="300")


@pytest.mark.connector_case(
    "KafkaRelationSuiteBase",
    "SPARK-30656: minPartitions",
)
def test_splits_are_cut_and_packed(kafka: LittleKafka) -> None:
    """minPartitions, maxRecordsPerPartition and kfetch.rowsPerSplit work as in streams."""
    many = [[(i.start, i.end) for i in s.ranges] for s in plan(kafka, maxRecordsPerPartition="1")]

    assert 4 == len(many) == sum(map(len, many))
    assert 2 == len(plan(kafka, kfetch__rowsPerSplit="0"))
    assert 3 == len(plan(kafka, minPartitions="3"))


def test_connections_are_closed(kafka: LittleKafka) -> None:
    """Planning leaves no session behind: the process plans many queries."""
    kafka.create("u")
    kafka.log(U0).append(b"x")

    plan(kafka, subscribe="t,u")

    assert [] == kafka.sessions()
