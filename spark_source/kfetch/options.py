"""Options: from the strings that a user wrote to one frozen value, or one clear sentence.

``catalogue.py`` lists every option there is and how kfetch treats it; this file gives the built
ones their meaning. Names are case-insensitive, as in Spark's connector. Nothing here connects.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kfetch.catalogue import STRATEGIES, check_names
from kfetch.converters import (
    agent_place,
    boolean,
    byte_count,
    count,
    delay,
    duration,
    isolation,
    memory,
    milliseconds,
    on_corrupt,
    positive,
    positive_int,
    seconds,
    size_or_default,
)
from kfetch.errors import NotBuilt, OptionError
from kfetch.model import READ_COMMITTED, READ_UNCOMMITTED, TopicPartition

EARLIEST = -2  # ListOffsets' own codes (KIP-79), which the JSON of startingOffsets uses too
LATEST = -1
OFFSET_MAX = (1 << 63) - 1
PARTITION_MAX = (1 << 31) - 1

T = TypeVar("T")

# The agent needs memfd_create(2), pidfd_open(2) and SO_PEERCRED.
AGENT = "process" if sys.platform == "linux" else "inline"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """How to reach brokers. Times in seconds, sizes in bytes."""

    client_id: str = "kfetch"
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    receive_buffer_bytes: int = -1
    """SO_RCVBUF; -1 leaves it to the operating system (which then tunes it)."""
    frame_bytes_max: int = 1 << 30
    """No reply may be larger: a length read from the wire is not to be trusted."""
    retry_backoff_s: float = 0.1
    retry_backoff_max_s: float = 1.0
    metadata_max_age_s: float = 30.0
    """New partitions and topics are looked for so often; leaders also after every error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """The limits of a Fetch request (KIP-74). Sizes in bytes, times in milliseconds."""

    max_bytes: int = 50 << 20
    partition_max_bytes: int = 4 << 20
    min_bytes: int = 1
    max_wait_ms: int = 500
    check_crcs: bool = True
    read_committed: bool = False
    """Leave out aborted transactions, and read no further than the last stable offset."""

    @property
    def isolation_level(self) -> int:
        """The isolation level, as requests carry it."""
        return READ_COMMITTED if self.read_committed else READ_UNCOMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Which partitions to read; exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression that is searched in topic names, not matched to all of them."""
    assigned: tuple[TopicPartition, ...] = ()

    def wants(self, topic: str) -> bool:
        """Whether a topic of this name belongs to the subscription."""
        if self.pattern is not None:
            return re.search(self.pattern, topic) is not None
        return topic in self.topics or any(tp.topic == topic for tp in self.assigned)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingOffsets:
    """Where a new query begins: everywhere ``default``, or at ``specific`` offsets."""

    default: int = LATEST
    specific: Mapping[TopicPartition, int] | None = None
    """Must name every partition when set; -2 and -1 stand for earliest and latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Every option of a query, with its meaning."""

    bootstrap: tuple[tuple[str, int], ...]
    subscription: Subscription
    starting: StartingOffsets = field(default_factory=StartingOffsets)
    include_headers: bool = False
    include_leader_epoch: bool = False
    include_serialized_sizes: bool = False
    skip_corrupt_batches: bool = False
    """Leave damaged batches out, logged and counted, instead of failing."""
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    """Fewer offsets wait for more, or for ``max_trigger_delay_s``."""
    max_trigger_delay_s: float = 900.0
    min_partitions: int | None = None
    """Large ranges are cut until there are about so many."""
    max_records_per_partition: int | None = None
    """Ranges of more offsets are cut."""
    rows_per_split: int = 100_000
    """Small ranges share a task up to this many offsets; 0 gives every partition its own."""
    lookup_retries: int = 3
    lookup_retry_s: float = 1.0
    poll_timeout_s: float = 120.0
    """A task that makes no progress for so long fails, and Spark retries it."""
    network: NetworkOptions = field(default_factory=NetworkOptions)
    fetch: FetchOptions = field(default_factory=FetchOptions)
    agent: str = AGENT
    """Where sessions live: ``process``, the executor's agent, or ``inline``, the worker itself."""
    agent_memory_bytes: int = 256 << 20
    """Raw replies and decoded batches together, per executor."""
    agent_lease_s: float = 120.0
    """A query's sessions are closed when no task has read for so long."""
    stats_directory: str = ""
    """Where each worker keeps a file of fetch statistics; empty for none."""
    ignored: tuple[str, ...] = ()
    """Options that are accepted and have no effect here; the source warns of them once."""


def parse(options: Mapping[str, str]) -> SourceOptions:
    """The meaning of the options of ``spark.readStream.format("kfetch")``.

    Raises OptionError (or NotBuilt) with a sentence that names the option.
    """
    lowered = {name.lower(): str(value) for name, value in options.items()}
    ignored = check_names(options)
    read = _Reader(lowered)
    _refuse_protected(read)
    return SourceOptions(
        bootstrap=_bootstrap(lowered.get("kafka.bootstrap.servers", "")),
        subscription=_subscription(lowered),
        starting=starting_offsets(lowered.get("startingoffsets", "latest")),
        include_headers=read("includeHeaders", boolean, False),
        include_leader_epoch=read("includeLeaderEpoch", boolean, False),
        include_serialized_sizes=read("includeSerializedSizes", boolean, False),
        skip_corrupt_batches=read("kfetch.onCorruptBatch", on_corrupt, "fail") == "skip",
        fail_on_data_loss=read("failOnDataLoss", boolean, True),
        **_trigger(read),
        min_partitions=read("minPartitions", positive_int, None),
        max_records_per_partition=read("maxRecordsPerPartition", positive, None),
        rows_per_split=read("kfetch.rowsPerSplit", count, 100_000),
        lookup_retries=read("fetchOffset.numRetries", count, 3),
        lookup_retry_s=read("fetchOffset.retryIntervalMs", seconds, 1.0),
        poll_timeout_s=read("kafkaConsumer.pollTimeoutMs", seconds, 120.0),
        network=_network(read),
        fetch=_fetch(read),
        agent=read("kfetch.agent", agent_place, AGENT),
        agent_memory_bytes=read("kfetch.agent.memory", memory, 256 << 20),
        agent_lease_s=read("kfetch.agent.lease", duration, 120.0),
        stats_directory=read("kfetch.statsDirectory", str, ""),
        ignored=ignored,
    )


class _Reader:
    """Reads one option at a time; a value that does not parse is told with the option's name."""

    def __init__(self, lowered: Mapping[str, str]) -> None:
        self._lowered = lowered

    def __call__(self, name: str, convert: Callable[[str], T], default: Any) -> Any:
        text = self._lowered.get(name.lower())
        if text is None:
            return default
        try:
            return convert(text.strip())
        except ValueError as problem:
            raise OptionError(
                f"option {name} is {text!r}, but it must be {problem}", option=name
            ) from None


def _trigger(read: _Reader) -> dict[str, Any]:
    least = read("minOffsetsPerTrigger", positive, None)
    most = read("maxOffsetsPerTrigger", positive, None)
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"The value of minOffsetPerTrigger({least}) is higher than the "
            f"maxOffsetsPerTrigger({most}): lower option minOffsetsPerTrigger",
            option="minOffsetsPerTrigger",
        )
    return {
        "min_offsets_per_trigger": least,
        "max_offsets_per_trigger": most,
        "max_trigger_delay_s": read("maxTriggerDelay", delay, 900.0),
    }


def _network(read: _Reader) -> NetworkOptions:
    return NetworkOptions(
        client_id=read("kafka.client.id", str, "kfetch"),
        connect_timeout_s=read("kafka.socket.connection.setup.timeout.ms", seconds, 10.0),
        request_timeout_s=read("kafka.request.timeout.ms", seconds, 30.0),
        receive_buffer_bytes=read("kafka.receive.buffer.bytes", size_or_default, -1),
        retry_backoff_s=read("kafka.retry.backoff.ms", seconds, 0.1),
        retry_backoff_max_s=read("kafka.retry.backoff.max.ms", seconds, 1.0),
        metadata_max_age_s=read("kafka.metadata.max.age.ms", seconds, 30.0),
    )


def _fetch(read: _Reader) -> FetchOptions:
    return FetchOptions(
        max_bytes=read("kafka.fetch.max.bytes", byte_count, 50 << 20),
        partition_max_bytes=read("kafka.max.partition.fetch.bytes", byte_count, 4 << 20),
        min_bytes=read("kafka.fetch.min.bytes", byte_count, 1),
        max_wait_ms=read("kafka.fetch.max.wait.ms", milliseconds, 500),
        check_crcs=read("kafka.check.crcs", boolean, True),
        read_committed=read("kafka.isolation.level", isolation, "") == "read_committed",
    )


def _refuse_protected(read: _Reader) -> None:
    """TLS and SASL have their seams; until they are built, say so."""
    protocol = read("kafka.security.protocol", str.upper, "PLAINTEXT")
    if protocol != "PLAINTEXT":
        raise NotBuilt(
            f"option kafka.security.protocol is {protocol}, but kfetch speaks PLAINTEXT only so "
            "far: TLS and SASL are not built yet",
            option="kafka.security.protocol",
        )


def _bootstrap(text: str) -> tuple[tuple[str, int], ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise OptionError(
            "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer",
            option="kafka.bootstrap.servers",
        )
    return tuple(_host_port(name) for name in names)


def _host_port(name: str) -> tuple[str, int]:
    match = re.fullmatch(
        r"(?:[A-Za-z_]+://)?\[?(?P<host>[^\[\]\s/]+?)\]?:(?P<port>[0-9]{1,5})", name
    )
    if match is None or not 0 < int(match["port"]) < 65536:
        raise OptionError(
            f"option kafka.bootstrap.servers has {name!r}, but each entry must be host:port",
            option="kafka.bootstrap.servers",
        )
    return match["host"], int(match["port"])


def _subscription(lowered: Mapping[str, str]) -> Subscription:
    given = [name for name in STRATEGIES if name.lower() in lowered]
    choices = ", ".join(STRATEGIES)
    if not given:
        raise OptionError(
            f"one of the following options must be specified for Kafka source: {choices}; "
            "see the option table in the README"
        )
    if len(given) > 1:
        raise OptionError(
            f"only one of the following options can be specified for Kafka source: {choices}; "
            f"here are {' and '.join(given)}"
        )
    return _STRATEGY[given[0]](lowered[given[0].lower()].strip())


def _topics(text: str) -> Subscription:
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise OptionError("no topics to subscribe: option subscribe is empty", option="subscribe")
    return Subscription(topics=topics)


def _pattern(text: str) -> Subscription:
    if not text:
        raise OptionError(
            "pattern to subscribe is empty: option subscribePattern", option="subscribePattern"
        )
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as problem:
        raise OptionError(
            f"option subscribePattern is {text!r}, which is no regular expression: {problem}",
            option="subscribePattern",
        ) from None
    return Subscription(pattern=text)


def _assignment(text: str) -> Subscription:
    example = '{"topicA":[0,1],"topicB":[2]}'
    parsed = _json_object("assign", text, example)
    partitions = [
        TopicPartition(topic, partition)
        for topic, listed in parsed.items()
        for partition in _partition_list(topic, listed, example)
    ]
    if not partitions:
        raise OptionError("no topicpartitions to assign: option assign is empty", option="assign")
    return Subscription(assigned=tuple(sorted(set(partitions))))


def _partition_list(topic: str, listed: object, example: str) -> list[int]:
    if not isinstance(listed, list) or not all(map(_is_partition, listed)):
        raise OptionError(
            f"option assign has {listed!r} for topic {topic}: expected e.g. {example}",
            option="assign",
        )
    return listed


def _is_partition(value: object) -> bool:
    return type(value) is int and 0 <= value <= PARTITION_MAX


_STRATEGY: Mapping[str, Callable[[str], Subscription]] = {
    "assign": _assignment,
    "subscribe": _topics,
    "subscribePattern": _pattern,
}


def starting_offsets(text: str) -> StartingOffsets:
    """The meaning of ``startingOffsets``: earliest, latest, or JSON of offset per partition."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return StartingOffsets(default=EARLIEST if word == "earliest" else LATEST)
    example = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    parsed = _json_object("startingOffsets", text, f"{example}, earliest or latest")
    specific: dict[TopicPartition, int] = {}
    for topic, offsets in parsed.items():
        if not isinstance(offsets, dict):
            raise _malformed(text, example)
        for partition, offset in offsets.items():
            if not _PARTITION.fullmatch(partition) or not _is_offset(offset):
                raise _malformed(text, example)
            specific[TopicPartition(topic, int(partition))] = offset
    return StartingOffsets(specific=specific)


_PARTITION = re.compile("[0-9]{1,10}")


def _is_offset(value: object) -> bool:
    return type(value) is int and EARLIEST <= value <= OFFSET_MAX


def _malformed(text: str, example: str) -> OptionError:
    return OptionError(
        f"option startingOffsets: Expected e.g. {example}, got {text}", option="startingOffsets"
    )


def _json_object(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise OptionError(f"option {option}: Expected e.g. {example}, got {text}", option=option)
    return parsed
