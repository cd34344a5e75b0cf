"""Options: every name, its default and its meaning."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from kfetch.model import TopicPartition
from kfetch.options import Ago, Bound, SourceOptions, Subscription, registry, sasl
from kfetch.options.catalogue import OPTIONS, lookup
from kfetch.options.columns import Column
from kfetch.options.option import Treatment
from kfetch.spark.options import parse

REQUIRED = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
# ConsumerConfig of kafka-clients 4.3.1, one of 3.9, and retries of AdminClientConfig, which Spark's
# connector takes too; those of sasl.* and ssl.* are families of their own.
CONSUMER_PROPERTIES = """
allow.auto.create.topics auto.commit.interval.ms auto.offset.reset bootstrap.servers check.crcs
client.dns.lookup client.id client.rack config.providers connections.max.idle.ms
default.api.timeout.ms enable.auto.commit enable.metrics.push exclude.internal.topics
fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol
group.remote.assignor heartbeat.interval.ms interceptor.classes isolation.level
key.deserializer max.partition.fetch.bytes max.poll.interval.ms max.poll.records
metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
partition.assignment.strategy receive.buffer.bytes reconnect.backoff.max.ms
reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms retry.backoff.ms security.protocol
security.providers send.buffer.bytes session.timeout.ms share.acknowledgement.mode
share.acquire.mode socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
value.deserializer sasl.jaas.config ssl.truststore.location
auto.include.jmx.reporter retries
"""
# TLS and SASL have tables of their own.
SECURITY = ("kafka.ssl.", "kafka.sasl.")
BUILT = [option for option in OPTIONS if option.treatment is Treatment.BUILT]


def value_at(options: SourceOptions, path: str) -> Any:
    """Returns an attribute by its dotted path."""
    value: Any = options
    for name in path.split("."):
        value = getattr(value, name)
    return value


LONGEST = (str(2**63 - 1), 2_147_483.647)
"""Java's largest number of milliseconds stands for "never", and no socket can wait so long."""

# Option, attribute, default, then pairs of text and meaning.
VALUES: list[tuple[str, str, Any, list[tuple[str, Any]]]] = [
    (
        "kafka.bootstrap.servers",
        "bootstrap",
        (("h", 9092),),
        [
            ("a:1", (("a", 1),)),
            (" a:1 , b:65535,", (("a", 1), ("b", 65535))),
            ("PLAINTEXT://a:1", (("a", 1),)),
            ("[::1]:9092", (("::1", 9092),)),
        ],
    ),
    (
        "subscribe",
        "subscription",
        Subscription(topics=("t",)),
        [
            ("a, b,,a ", Subscription(topics=("a", "b"))),
            ("A.b-c_d", Subscription(topics=("A.b-c_d",))),
        ],
    ),
    (
        "startingOffsets",
        "starting",
        Bound(rest=-1),
        [
            ("earliest", Bound(rest=-2)),
            ("LATEST", Bound(rest=-1)),
            (" Earliest ", Bound(rest=-2)),
            (
                '{"t":{"0":23,"1":-1,"2":-2}}',
                Bound(
                    partitions={
                        TopicPartition("t", 0): 23,
                        TopicPartition("t", 1): -1,
                        TopicPartition("t", 2): -2,
                    }
                ),
            ),
            ("{}", Bound()),
        ],
    ),
    (
        "startingTimestamp",
        "starting.rest",
        -1,
        [("1600000000000", 1_600_000_000_000), (" 0 ", 0), ("-2h", Ago(7_200_000))],
    ),
    (
        "startingOffsetsByTimestamp",
        "starting.partitions",
        {},
        [('{"t":{"0":5}}', {TopicPartition("t", 0): 5})],
    ),
    ("startingOffsetsByTimestampStrategy", "starting.no_match", None, [("error", None)]),
    ("failOnDataLoss", "fail_on_data_loss", True, [("false", False), (" TRUE ", True)]),
    (
        "maxOffsetsPerTrigger",
        "planning.max_offsets",
        None,
        [("1", 1), (str(2**63 - 1), 2**63 - 1)],
    ),
    ("minOffsetsPerTrigger", "planning.min_offsets", None, [("1", 1), ("1000000", 10**6)]),
    (
        "maxTriggerDelay",
        "planning.max_delay_s",
        900.0,
        [
            ("15m", 900.0),
            ("5S", 5.0),
            ("250 ms", 0.25),
            ("1500", 1.5),
            ("2min", 120.0),
            ("1h", 3600.0),
            ("1d", 86400.0),
            ("7us", 7e-6),
        ],
    ),
    ("minPartitions", "planning.min_partitions", None, [("1", 1), (str(2**31 - 1), 2**31 - 1)]),
    ("maxRecordsPerPartition", "planning.max_records", None, [("1", 1), (str(2**40), 2**40)]),
    (
        "columns",
        "columns",
        (),
        [("offset", (Column("offset", "bigint"),)), (" key ", (Column("key", "binary"),))],
    ),
    ("includeHeaders", "includes.headers", False, [("true", True), ("False", False)]),
    ("includeLeaderEpoch", "includes.leader_epoch", False, [("true", True)]),
    ("includeSerializedSizes", "includes.serialized_sizes", False, [("true", True)]),
    ("kfetch.onCorruptBatch", "skip_corrupt_batches", False, [("Skip", True), ("fail", False)]),
    ("fetchOffset.numRetries", "lookups.retries", 3, [("0", 0), ("60", 60)]),
    ("fetchOffset.retryIntervalMs", "lookups.pause_s", 1.0, [("10", 0.01)]),
    ("kafkaConsumer.pollTimeoutMs", "poll_timeout_s", 120.0, [("512", 0.512), LONGEST]),
    ("kfetch.agent", "agent.place", "process", [("process", "process"), ("INLINE", "inline")]),
    (
        "kfetch.agent.memory",
        "agent.memory_bytes",
        256 << 20,
        [("1m", 1 << 20), ("2G", 2 << 30), ("64 MiB", 64 << 20), ("1048576", 1 << 20)],
    ),
    ("kfetch.agent.lease", "agent.lease_s", 120.0, [("5", 5.0), ("2m", 120.0), ("500ms", 0.5)]),
    ("kfetch.rowsPerSplit", "planning.rows_per_split", 100_000, [("0", 0), ("7", 7)]),
    ("kfetch.planPermission", "planning.permission", "", [("/run/x", "/run/x")]),
    ("kfetch.commitGroup", "reports.commit_group", "", [("g", "g"), (" g ", "g")]),
    ("kfetch.statsDirectory", "reports.stats_directory", "", [("somewhere", "somewhere")]),
    ("kfetch.brokerReport", "reports.broker_report", "", [("brokers.json", "brokers.json")]),
    ("kafka.client.id", "network.client_id", "kfetch", [("etl", "etl")]),
    ("kafka.fetch.max.bytes", "fetch.max_bytes", 52_428_800, [("1", 1)]),
    ("kafka.max.partition.fetch.bytes", "fetch.partition_max_bytes", 4_194_304, [("1", 1)]),
    ("kafka.fetch.min.bytes", "fetch.min_bytes", 1, [("0", 0), ("100", 100)]),
    ("kafka.fetch.max.wait.ms", "fetch.max_wait_ms", 500, [("0", 0), ("50", 50)]),
    ("kafka.check.crcs", "fetch.check_crcs", True, [("false", False)]),
    ("kafka.request.timeout.ms", "network.request_timeout_s", 30.0, [("1500", 1.5)]),
    ("kafka.default.api.timeout.ms", "lookups.timeout_s", 60.0, [("1500", 1.5)]),
    ("kafka.retry.backoff.ms", "network.retry_backoff_s", 0.1, [("20", 0.02), ("0", 0.01)]),
    (
        "kafka.retry.backoff.max.ms",
        "network.retry_backoff_max_s",
        1.0,
        [("2000", 2.0), ("0", 0.01)],
    ),
    (
        "kafka.metadata.max.age.ms",
        "network.metadata_max_age_s",
        30.0,
        [("5000", 5.0), ("0", 0.0), LONGEST],
    ),
    ("kafka.receive.buffer.bytes", "network.receive_buffer_bytes", -1, [("-1", -1), ("64", 64)]),
    (
        "kafka.socket.connection.setup.timeout.ms",
        "network.connect_timeout_s",
        10.0,
        [("300", 0.3)],
    ),
    ("kafka.security.protocol", "ignored", (), [("PLAINTEXT", ()), ("plaintext", ())]),
    (
        "kafka.isolation.level",
        "fetch.read_committed",
        False,
        [("read_uncommitted", False), ("READ_COMMITTED", True)],
    ),
    ("kafka.client.rack", "fetch.rack", "", [("eu-west-1a", "eu-west-1a"), (" r1 ", "r1")]),
]

MEANINGS = [(name, path, text, value) for name, path, _, pairs in VALUES for text, value in pairs]


@pytest.mark.connector_case(
    "KafkaOffsetReaderSuite",
    "isolationLevel must give back default isolation level when not set",
)
@pytest.mark.parametrize(("name", "path", "default"), [row[:3] for row in VALUES])
def test_defaults(name: str, path: str, default: Any) -> None:
    """An option that is not set has the default of Spark's connector, or its own."""
    assert default == value_at(parse(REQUIRED), path)


@pytest.mark.connector_case(
    "KafkaOffsetReaderSuite",
    "isolationLevel must give back READ_UNCOMMITTED when set",
    "isolationLevel must give back READ_COMMITTED when set",
)
@pytest.mark.connector_case(
    "KafkaSourceProviderSuite",
    "micro-batch mode - options should be handled as case-insensitive",
)
@pytest.mark.parametrize(("name", "path", "text", "value"), MEANINGS)
def test_meanings(name: str, path: str, text: str, value: Any) -> None:
    """Each text has its meaning, whatever the case of the option's name."""
    rest = {other: given for other, given in REQUIRED.items() if other != name}
    for cased in (name, name.upper(), name.lower(), name.swapcase()):
        assert value == value_at(parse({**rest, cased: text}), path), cased


def test_every_built_option_is_tried() -> None:
    """No option of the catalogue escapes the table above."""
    here = {option.name for option in BUILT if not option.name.startswith(SECURITY)}
    own = {name for name in sasl.OPTIONS if not name.startswith(SECURITY)}

    # test_typed and test_registry try these
    rests = ("Format", "Schema", "ReaderSchema", "Descriptor", "Message", "Mode", "TimeZone")
    rests += ("Registry", "Subject", "SubjectVersion")
    typed = {column + rest for column in ("key", "value") for rest in rests}
    typed |= {"valueFields", "deadLetters", *registry.OPTIONS}
    assert here - own - typed == {row[0] for row in VALUES} | {
        "assign",
        "subscribePattern",
        "kfetch.startingGroup",
    }


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row[0])
def test_catalogue_tells_the_default(row: tuple[str, str, Any, Any]) -> None:
    """The default in the option table is the one that the code has."""
    name, path, default, _ = row
    told = lookup(name)
    assert told is not None
    if told.default in ("required", "none", "all", "inline", "PLAINTEXT", "read_uncommitted"):
        return
    options = parse(REQUIRED if name in REQUIRED else {**REQUIRED, name: told.default})

    assert default == value_at(options, path)


@pytest.mark.connector_case(
    "JsonUtilsSuite",
    "parsing partitions",
)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subscribePattern": "t.*"}, Subscription(pattern="t.*")),
        (
            {"subscribePattern": r"[\[]a&&[b&]\[[c]&&[]\\]"},
            Subscription(pattern=r"[\[]a&&[b&]\[[c]&&[]\\]"),
        ),
        (
            {"assign": '{"b":[1,0,1],"a":[2]}'},
            Subscription(
                assigned=(
                    TopicPartition("a", 2),
                    TopicPartition("b", 0),
                    TopicPartition("b", 1),
                )
            ),
        ),
    ],
)
def test_other_strategies(options: dict[str, str], expected: Subscription) -> None:
    """A pattern is kept as it is; an assignment is sorted and has nothing twice."""
    given_ = {"kafka.bootstrap.servers": "h:1", **options}

    assert expected == parse(given_).subscription


@pytest.mark.parametrize(
    ("subscription", "topic", "included"),
    [
        (Subscription(topics=("a", "b")), "b", True),
        (Subscription(topics=("a",)), "ab", False),
        (Subscription(pattern="b"), "abc", True),
        (Subscription(pattern="^b"), "abc", False),
        (Subscription(assigned=(TopicPartition("a", 0),)), "a", True),
        (Subscription(assigned=(TopicPartition("a", 0),)), "b", False),
    ],
)
def test_includes(subscription: Subscription, topic: str, included: bool) -> None:
    """A pattern is searched in a name, as the connector does; names must be the same."""
    assert included is subscription.includes(topic)


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "allow group.id prefix",
    "allow group.id override",
)
def test_ignored_options() -> None:
    """kfetch accepts and notes an option without effect, so a job can move unchanged."""
    names = [option.name for option in OPTIONS if option.treatment is Treatment.IGNORED]
    noted = [parse({**REQUIRED, name.upper(): "1"}).ignored for name in names]
    assert [(name,) for name in names] == noted


def test_properties_of_kafkas_consumer() -> None:
    """Each property of Java's consumers has a row, so none is an unknown option."""
    names = CONSUMER_PROPERTIES.split()
    assert [] == [name for name in names if lookup(f"kafka.{name}") is None]


def test_options_are_plain_values() -> None:
    """All options are frozen dataclasses: they are pickled to executors."""
    parts = [parse(REQUIRED)]
    for part in parts:
        assert is_dataclass(part)
        parts += [v for f in fields(part) if is_dataclass(v := getattr(part, f.name))]

    assert {
        "SourceOptions",
        "Subscription",
        "Bound",
        "NetworkOptions",
        "SecurityOptions",
        "FetchOptions",
        "PlanningOptions",
        "LookupOptions",
        "AgentOptions",
        "ReportOptions",
    } == {type(part).__name__ for part in parts}


def test_each_option_is_declared_once() -> None:
    """The catalogue names every option once, and no text breaks a cell of the page's table."""
    assert len(OPTIONS) == len({option.name.lower() for option in OPTIONS})
    assert "|" not in "".join(o.name + o.default + o.meaning for o in OPTIONS)
