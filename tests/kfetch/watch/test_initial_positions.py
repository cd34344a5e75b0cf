"""The partitions and the offsets at which a new query starts."""

from __future__ import annotations

import random
import time

import pytest
from kafka.protocol.metadata import MetadataRequest

from kfetch.errors import ConnectionLost, NoSuchPartition, OptionError
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, Position
from kfetch.spark.options import parse
from kfetch.watch import lookups
from kfetch.watch.driver import Driver
from kfetch.wire import cluster, retry, servers
from tests.kfetch.watch.helpers import T0, T1, U0, query
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close

STARTS: list[tuple[str, dict[TopicPartition, tuple[int, int]]]] = [
    ("earliest", {T0: (1, 0), T1: (0, 0)}),
    ("latest", {T0: (3, 0), T1: (1, 0)}),
    ('{"t":{"0":2,"1":-1}}', {T0: (2, 0), T1: (1, 0)}),
    ('{"t":{"0":-2,"1":0}}', {T0: (1, 0), T1: (0, 0)}),
    ('{"t":{"0":99,"1":-2}}', {T0: (99, -1), T1: (0, 0)}),
]


@pytest.mark.parametrize(("text", "expected"), STARTS)
def test_initial_offsets(
    kafka: LittleKafka, text: str, expected: dict[TopicPartition, tuple[int, int]]
) -> None:
    """A new query starts at ``startingOffsets``. In JSON, -1 is latest and -2 is earliest."""
    kafka.log(T0).start = 1
    driver = query(kafka, startingOffsets=text)
    offsets = driver.initial_offsets()

    assert expected == offsets.positions
    assert {"t": kafka.topics["t"].topic_id} == offsets.topic_ids


@pytest.mark.connector_case(
    "KafkaOffsetReaderSuite",
    "SPARK-48383: START_OFFSET_DOES_NOT_MATCH_ASSIGNED error class",
)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"t":{"0":2}}', "option startingOffsets lacks t-1"),
        ('{"t":{"0":2,"1":1,"2":0}}', "t-2 of option startingOffsets are not subscribed"),
        ('{"t":"latest","u":"latest"}', "u of option startingOffsets are not subscribed"),
        (
            '{"u":{"0":2}}',
            "option startingOffsets lacks t-0, t-1; u-0 of option startingOffsets are not "
            "subscribed",
        ),
        ("{}", "option startingOffsets lacks t-0, t-1"),
    ],
)
def test_starting_offsets_that_do_not_match(kafka: LittleKafka, text: str, message: str) -> None:
    """JSON offsets must include every subscribed partition and no other."""
    driver = query(kafka, startingOffsets=text)
    with pytest.raises(OptionError) as caught:
        driver.initial_offsets()

    assert (
        "Partitions specified for Kafka start offsets don't match what are assigned: "
        f'{message}. Name each partition, or add "*" for the rest. Use -1 for latest, -2 for '
        "earliest"
    ) == caught.value.message


def test_initial_offsets_do_not_change(kafka: LittleKafka) -> None:
    """Spark asks for the initial offset twice. Both answers are the same, even if the
    log grows in between."""
    driver = query(kafka, startingOffsets="latest")
    first = driver.initial_offsets()
    kafka.log(T0).append(b"d")

    assert first.to_json() == driver.initial_offsets().to_json()


@pytest.mark.connector_case(
    "ConsumerStrategySuite",
    "AssignStrategy.assignedTopicPartitions must skip invalid partitions",
)
@pytest.mark.parametrize(
    ("subscription", "missing"),
    [
        ({"subscribe": "t,nope"}, "nope"),
        ({"assign": '{"t":[0,7],"nope":[1]}'}, "nope-1, t-7"),
    ],
)
def test_a_new_query_without_its_topics(
    kafka: LittleKafka, subscription: dict[str, str], missing: str
) -> None:
    """A new query fails if a topic or partition does not exist. The error names all of them."""
    driver = query(kafka, **subscription)
    with pytest.raises(NoSuchPartition) as caught:
        driver.initial_offsets()

    assert (
        f"{missing}: no such topic or partition at {kafka.bootstrap}; create it, or correct the "
        "options subscribe or assign"
    ) == caught.value.message


@pytest.mark.connector_case(
    "ConsumerStrategySuite",
    "AssignStrategy.assignedTopicPartitions must give back all assigned",
    "SubscribeStrategy.assignedTopicPartitions must give back all assigned",
    "SubscribePatternStrategy.assignedTopicPartitions must give back all assigned",
)
@pytest.mark.parametrize(
    ("subscription", "expected"),
    [
        ({"subscribe": "t"}, {T0, T1}),
        ({"subscribe": "u,t"}, {T0, T1, U0}),
        ({"assign": '{"t":[1],"u":[0]}'}, {T1, U0}),
        ({"subscribePattern": "[tu]"}, {T0, T1, U0}),
        ({"subscribePattern": "^u"}, {U0}),
        ({"subscribePattern": "zzz"}, set()),
    ],
)
def test_subscriptions(
    kafka: LittleKafka, subscription: dict[str, str], expected: set[TopicPartition]
) -> None:
    """``subscribe``, ``assign`` and ``subscribePattern`` choose partitions. A pattern chooses no
    internal topics."""
    kafka.create("u")
    kafka.create("__tu", internal=True)
    driver = query(kafka, **subscription)

    assert expected == set(driver.initial_offsets().positions)


@pytest.mark.connector_case(
    "KafkaOffsetReaderSuite",
    "SPARK-55561: *",
)
@pytest.mark.parametrize(("retries", "works"), [("0", False), ("1", True)])
def test_look_ups_are_repeated(kafka: LittleKafka, retries: str, works: bool) -> None:
    """kfetch repeats a failed look-up ``fetchOffset.numRetries`` times."""
    driver = query(
        kafka,
        fetchOffset__numRetries=retries,
        kafka__request__timeout__ms="400",  # shorter than the back-off: one try each
        kafka__retry__backoff__ms="500",
        kafka__retry__backoff__max__ms="500",
    )
    for node in kafka.nodes.values():
        node.answer(MetadataRequest, Close())
    if works:
        assert driver.initial_offsets().positions
    else:
        with pytest.raises(ConnectionLost, match="asking for metadata: no success in 1 tries"):
            driver.initial_offsets()


class SkippingClock:
    """Replaces the module ``time``. Its time passes only by sleeping, which returns at once."""

    def __init__(self) -> None:
        self.slept_s = 0.0
        self._began_s = time.monotonic()

    def monotonic(self) -> float:
        """Returns when the clock was made, plus all sleeps, in seconds."""
        return self._began_s + self.slept_s

    def sleep(self, seconds: float) -> None:
        """Moves the clock forward."""
        self.slept_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SkippingClock:
    """The clock of look-ups and retries."""
    made = SkippingClock()
    for module in (lookups, cluster, retry, servers):
        monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def nobody(closed_port: int) -> str:
    """An address at which nobody listens."""
    return f"127.0.0.1:{closed_port}"


def promised(caplog: pytest.LogCaptureFixture, reason: str) -> list[int]:
    """Returns the seconds that the warnings about retries promise. Each ends with a reason."""
    texts = [record.message for record in caplog.records if "trying again" in record.message]
    return [int(text.rpartition("for ")[2].removesuffix(f" s{reason}")) for text in texts]


@pytest.mark.parametrize(
    ("options", "seconds_left"),
    [
        ({}, [60, 29]),
        ({"kafka.default.api.timeout.ms": "45000"}, [45, 14]),
        ({"kafka.default.api.timeout.ms": "20000"}, [20]),
        ({"kafka.default.api.timeout.ms": "900000", "fetchOffset.numRetries": "0"}, [30]),
    ],
)
def test_a_new_query_fails_within_a_minute(
    nobody: str,
    clock: SkippingClock,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, str],
    seconds_left: list[int],
) -> None:
    """It fails within ``kafka.default.api.timeout.ms`` if nobody listens. Each warning has the
    seconds that are left."""
    chosen = {"kafka.bootstrap.servers": nobody, "subscribe": "t", **options}
    with pytest.raises(ConnectionLost, match="no connection to"), caplog.at_level("WARNING"):
        Driver(parse(chosen)).initial_offsets()

    assert seconds_left == pytest.approx(promised(caplog, ""), abs=3)
    assert clock.slept_s == pytest.approx(seconds_left[0], abs=4)


@pytest.mark.parametrize("seed", range(24))
def test_no_attempt_without_time(
    nobody: str, clock: SkippingClock, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    """Whatever the pauses are, no warning promises another attempt for the rest of a second."""
    random.seed(seed)
    chosen = {"kafka.bootstrap.servers": nobody, "subscribe": "t"}
    with pytest.raises(ConnectionLost), caplog.at_level("WARNING"):
        Driver(parse(chosen)).initial_offsets()

    assert promised(caplog, "") == pytest.approx([60, 29], abs=3)


def test_a_query_with_a_checkpoint_waits_longer(
    nobody: str, clock: SkippingClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It fails after two minutes, and its warnings say why it waits so long."""
    driver = Driver(parse({"kafka.bootstrap.servers": nobody, "subscribe": "t"}))
    start = Offsets(positions={T0: Position(1)})
    with pytest.raises(ConnectionLost, match="no connection to"), caplog.at_level("WARNING"):
        driver.next_end(start, None)

    seconds_left = promised(caplog, ", because the query has a checkpoint")
    assert [123, 92, 61, 30] == pytest.approx(seconds_left, abs=3)
    assert clock.slept_s == pytest.approx(123, abs=6)


def test_the_first_planning_of_a_new_query(
    kafka: LittleKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """It fails as soon, if the brokers went away after the first look-up."""
    driver = query(kafka, kafka__default__api__timeout__ms="200", fetchOffset__numRetries="9")
    start = driver.initial_offsets()
    for node in kafka.nodes.values():
        node.stop()
    began = time.monotonic()
    with pytest.raises(ConnectionLost), caplog.at_level("WARNING"):
        driver.next_end(start, None)

    assert time.monotonic() - began < 30
    assert "checkpoint" not in caplog.text
