"""Reads all options of a query: from text to one ``SourceOptions``.

Names are case-insensitive, as in Spark's connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kfetch.errors import OptionError
from kfetch.options import columns
from kfetch.options.bounds import check_order, ending_bound, starting_bound
from kfetch.options.catalogue import check_names
from kfetch.options.converters import (
    agent_place,
    boolean,
    byte_count,
    count,
    delay,
    duration,
    headers,
    isolation,
    max_records,
    memory,
    milliseconds,
    min_partitions,
    on_corrupt,
    pause,
    positive,
    seconds,
    size_or_default,
)
from kfetch.options.reader import OptionReader
from kfetch.options.security import security, unused_names
from kfetch.options.subscription import bootstrap_servers, subscription
from kfetch.options.typed import formats
from kfetch.options.values import (
    DEFAULT_AGENT,
    Bound,
    FetchOptions,
    NetworkOptions,
    SourceOptions,
    Subscription,
)

__all__ = ["parse"]


def parse(options: Mapping[str, str], *, batch: bool = False) -> SourceOptions:
    """Return the values of the options of a stream, or of a batch read with ``batch``.

    Only a batch read has an end. By default it starts at the log starts, and a stream at the log
    ends. Raises OptionError or NotBuilt with a sentence that names the option.
    """
    lowered = {name.lower(): _text(name, value) for name, value in options.items()}
    ignored = check_names(options, batch=batch)
    read = OptionReader(lowered)
    # Spark's connector checks in this order: a batch read's bounds, the subscription, the servers.
    bounds = _bounds(read, batch=True) if batch else {}
    topics = subscription(lowered)
    sizes = {
        "min_partitions": read("minPartitions", min_partitions, None),
        "max_records_per_partition": read("maxRecordsPerPartition", max_records, None),
    }
    bootstrap = bootstrap_servers(lowered.get("kafka.bootstrap.servers", ""))
    bounds = bounds or _bounds(read, batch=False)
    network = _network(read)
    return SourceOptions(
        bootstrap=bootstrap,
        subscription=topics,
        **bounds,
        **_columns(read, _named_topics(topics)),
        skip_corrupt_batches=read("kfetch.onCorruptBatch", on_corrupt, "fail") == "skip",
        fail_on_data_loss=read("failOnDataLoss", boolean, True),
        **_trigger(read),
        **sizes,
        rows_per_split=read("kfetch.rowsPerSplit", count, 100_000),
        push_filters=read("kfetch.pushFilters", boolean, False),
        lookup_retries=read("fetchOffset.numRetries", count, 3),
        lookup_retry_s=read("fetchOffset.retryIntervalMs", seconds, 1.0),
        api_timeout_s=read("kafka.default.api.timeout.ms", seconds, 60.0),
        poll_timeout_s=read("kafkaConsumer.pollTimeoutMs", seconds, 120.0),
        network=network,
        fetch=_fetch(read),
        agent=read("kfetch.agent", agent_place, DEFAULT_AGENT),
        agent_memory_bytes=read("kfetch.agent.memory", memory, 256 << 20),
        agent_lease_s=read("kfetch.agent.lease", duration, 120.0),
        stats_directory=read("kfetch.statsDirectory", str, ""),
        broker_report=read("kfetch.brokerReport", str, ""),
        commit_group=read("kfetch.commitGroup", str, ""),
        ignored=_ignored(ignored, bounds["starting"]) + unused_names(options, network.security),
    )


def _text(name: str, value: object) -> str:
    """Return a value as text. Half a surrogate pair is none: no request could carry it.

    Python's own error for it would show the whole text, which may be a password.
    """
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise OptionError(
            f"option {name} has half of a surrogate pair (U+D800 to U+DFFF), which is no character",
            option=name,
        ) from None
    return text


def _bounds(read: OptionReader, *, batch: bool) -> dict[str, Any]:
    starting = starting_bound(read, batch=batch)
    ending = ending_bound(read) if batch else None
    if ending is not None:
        check_order(starting, ending)
    return {"starting": starting, "ending": ending}


def _columns(read: OptionReader, topics: tuple[str, ...]) -> dict[str, Any]:
    chosen = formats(read, topics)
    is_map = read("includeHeaders", lambda text: text.lower() == "map", False)
    includes = columns.Includes(
        headers=read("includeHeaders", headers, False),
        headers_as_map=is_map,
        leader_epoch=read("includeLeaderEpoch", boolean, False),
        serialized_sizes=read("includeSerializedSizes", boolean, False),
        dead_letters=chosen.dead_letters,
    )
    structs = [typed.column for typed in chosen.typed]
    return {
        "includes": includes,
        "columns": columns.parsed(read("columns", str, None), includes, chosen.strings, structs),
        "typed_columns": chosen.typed,
        "string_columns": chosen.strings,
        "dead_letters": chosen.dead_letters,
    }


def _named_topics(chosen: Subscription) -> tuple[str, ...]:
    """Return the topics that the options name; none for a pattern."""
    return tuple(dict.fromkeys((*chosen.topics, *(tp.topic for tp in chosen.assigned))))


def _ignored(names: tuple[str, ...], starting: Bound) -> tuple[str, ...]:
    """Return the options without effect: a start at a group's offsets needs the group's name."""
    used = {"kafka.group.id"} if starting.group else set()
    return tuple(name for name in names if name not in used)


def _trigger(read: OptionReader) -> dict[str, Any]:
    min_offsets = read("minOffsetsPerTrigger", positive, None)
    max_offsets = read("maxOffsetsPerTrigger", positive, None)
    if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
        raise OptionError(
            f"The value of minOffsetPerTrigger({min_offsets}) is higher than the "
            f"maxOffsetsPerTrigger({max_offsets})",
            action="lower option minOffsetsPerTrigger",
            option="minOffsetsPerTrigger",
        )
    return {
        "min_offsets_per_trigger": min_offsets,
        "max_offsets_per_trigger": max_offsets,
        "max_trigger_delay_s": read("maxTriggerDelay", delay, 900.0),
    }


def _network(read: OptionReader) -> NetworkOptions:
    return NetworkOptions(
        client_id=read("kafka.client.id", str, "kfetch"),
        connect_timeout_s=read("kafka.socket.connection.setup.timeout.ms", seconds, 10.0),
        request_timeout_s=read("kafka.request.timeout.ms", seconds, 30.0),
        receive_buffer_bytes=read("kafka.receive.buffer.bytes", size_or_default, -1),
        retry_backoff_s=read("kafka.retry.backoff.ms", pause, 0.1),
        retry_backoff_max_s=read("kafka.retry.backoff.max.ms", pause, 1.0),
        metadata_max_age_s=read("kafka.metadata.max.age.ms", seconds, 30.0),
        security=security(read),
    )


def _fetch(read: OptionReader) -> FetchOptions:
    return FetchOptions(
        max_bytes=read("kafka.fetch.max.bytes", byte_count, 50 << 20),
        partition_max_bytes=read("kafka.max.partition.fetch.bytes", byte_count, 4 << 20),
        min_bytes=read("kafka.fetch.min.bytes", byte_count, 1),
        max_wait_ms=read("kafka.fetch.max.wait.ms", milliseconds, 500),
        check_crcs=read("kafka.check.crcs", boolean, True),
        read_committed=read("kafka.isolation.level", isolation, "") == "read_committed",
        rack=read("kafka.client.rack", str, ""),
    )
