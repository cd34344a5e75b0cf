"""The catalogue of options: every known name, and how kfetch treats it.

Each option has one row. docs/reference/options.md has these rows, and a test compares the two. A
row names a page of docs/ by its path, which becomes a link there.
A name without a row is an error with a suggestion, because a misspelt option that is silently
ignored costs its user a day.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from kfetch.errors import NotBuilt, OptionError
from kfetch.options import format_rows, sasl_rows, tls_rows

STRATEGIES = ("assign", "subscribe", "subscribePattern")


class Treatment(Enum):
    """How kfetch treats an option."""

    BUILT = "built"
    BATCH = "batch reads only; in streams an error, as in Spark's connector"
    PLANNED = "not built yet: an error"
    REFUSED = "an error, as in Spark's connector"
    IGNORED = "accepted without effect, with a warning"


@dataclass(frozen=True, slots=True)
class Option:
    """One row: the documented name, the default, the treatment and a line of explanation."""

    name: str
    default: str
    treatment: Treatment
    meaning: str


def _rows(treatment: Treatment, *rows: tuple[str, str, str]) -> list[Option]:
    return [Option(name, default, treatment, meaning) for name, default, meaning in rows]


OPTIONS: tuple[Option, ...] = (
    *_rows(
        Treatment.BUILT,
        ("kafka.bootstrap.servers", "required", "brokers to ask first, `host:port,host:port`"),
        ("subscribe", "none", "topics, comma-separated; exactly one of the three"),
        ("subscribePattern", "none", "regular expression searched in topic names"),
        ("assign", "none", 'partitions, `{"topicA":[0,1]}`'),
        (
            "startingOffsets",
            "latest",
            "`latest`, `earliest` (the default of batch reads), `group`, or JSON",
        ),
        (
            "startingTimestamp",
            "none",
            "start at a time: milliseconds since 1970, or `-2h`; beats the next two",
        ),
        ("startingOffsetsByTimestamp", "none", "start at a time per partition, as JSON"),
        (
            "startingOffsetsByTimestampStrategy",
            "error",
            "if no record is that young: `error`, or `latest`",
        ),
        (
            "kfetch.startingGroup",
            "none",
            "group of `startingOffsets=group`; otherwise that of `kafka.group.id`",
        ),
        ("failOnDataLoss", "true", "`false`: log it and continue with the remaining records"),
        ("maxOffsetsPerTrigger", "none", "offsets per micro-batch, shared by backlog"),
        ("minOffsetsPerTrigger", "none", "a micro-batch waits for this many offsets"),
        ("maxTriggerDelay", "15m", "a micro-batch waits no longer than this after the last one"),
        ("minPartitions", "none", "large ranges are cut until there are this many tasks"),
        ("maxRecordsPerPartition", "none", "the most offsets of a range: larger ranges are cut"),
        (
            "columns",
            "all",
            "deliver only these columns, in this order, such as `value,partition,offset`; see "
            "docs/how-to/columns.md",
        ),
        *format_rows.ROWS,
        (
            "includeHeaders",
            "false",
            "adds the column `headers`, an array; `map`: as a map, with each key's last value",
        ),
        ("includeLeaderEpoch", "false", "adds `leaderEpoch int`; null where brokers had none"),
        (
            "includeSerializedSizes",
            "false",
            "adds `serializedKeySize int`, `serializedValueSize int`: bytes, null for null",
        ),
        ("fetchOffset.numRetries", "3", "how often the driver retries an offset look-up"),
        ("fetchOffset.retryIntervalMs", "1000", "pause in ms between these retries"),
        (
            "kafkaConsumer.pollTimeoutMs",
            "120000",
            "a task without progress fails after this time in ms",
        ),
        (
            "kfetch.agent",
            "process",
            "one agent per executor holds the sessions; `inline`: each Python worker does "
            "(the default without Linux)",
        ),
        (
            "kfetch.agent.memory",
            "256m",
            "limit of the agent's replies, unpacked records and batches together, per executor",
        ),
        (
            "kfetch.agent.lease",
            "120s",
            "the agent closes the sessions of a query that no task has read for this time",
        ),
        (
            "kfetch.rowsPerSplit",
            "100000",
            "small ranges share a task up to this many offsets; 0: one task each",
        ),
        (
            "kfetch.pushFilters",
            "false",
            "a batch read leaves out what filters exclude, for a `load()` that is used once; see "
            "docs/how-to/batch-reads.md",
        ),
        (
            "kfetch.onCorruptBatch",
            "fail",
            "`skip`: skip, log and count corrupt batches; checks CRCs too",
        ),
        (
            "kfetch.commitGroup",
            "none",
            "consumer group for which the driver commits its progress, for tools that show lag",
        ),
        (
            "kfetch.statsDirectory",
            "none",
            "directory to which each worker writes its fetch statistics",
        ),
        (
            "kfetch.brokerReport",
            "none",
            "file in which the driver lists the brokers that it cannot reach now, and counts the "
            "records that wait",
        ),
        ("kafka.client.id", "kfetch", "name in the brokers' logs and quotas"),
        ("kafka.fetch.max.bytes", "52428800", "soft limit of a reply in bytes"),
        (
            "kafka.max.partition.fetch.bytes",
            "4194304",
            "soft limit of a partition in a reply in bytes (Kafka's own default is 1 MiB)",
        ),
        ("kafka.fetch.min.bytes", "1", "the broker waits for this many bytes"),
        ("kafka.fetch.max.wait.ms", "500", "the longest time that the broker waits"),
        ("kafka.check.crcs", "true", "check CRC-32C of every record batch"),
        ("kafka.request.timeout.ms", "30000", "deadline of a request"),
        (
            "kafka.default.api.timeout.ms",
            "60000",
            "a new query or a batch read fails after this time without an answer",
        ),
        ("kafka.retry.backoff.ms", "100", "first pause after an error, at least 10"),
        ("kafka.retry.backoff.max.ms", "1000", "longest pause after errors, at least 10"),
        (
            "kafka.metadata.max.age.ms",
            "30000",
            "how often the driver looks for new partitions and topics",
        ),
        ("kafka.receive.buffer.bytes", "-1", "SO_RCVBUF; -1: the system chooses"),
        ("kafka.socket.connection.setup.timeout.ms", "10000", "deadline of connecting"),
        (
            "kafka.security.protocol",
            "PLAINTEXT",
            "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`",
        ),
        (
            "kafka.isolation.level",
            "read_uncommitted",
            "or `read_committed`: no aborted transactions",
        ),
        (
            "kafka.client.rack",
            "none",
            "tasks read from followers in this rack (KIP-392). `KFETCH_CLIENT_RACK` in an "
            "executor's environment overrides it there",
        ),
        *format_rows.REGISTRY_ROWS,
        *tls_rows.BUILT,
        *sasl_rows.BUILT,
    ),
    *_rows(
        Treatment.BATCH,
        ("endingOffsets", "latest", "`latest`, or JSON"),
        ("endingTimestamp", "none", "end at a time: milliseconds since 1970, or `-2h`"),
        ("endingOffsetsByTimestamp", "none", "end at a time per partition, as JSON"),
    ),
    *_rows(
        Treatment.PLANNED,
        *sasl_rows.PLANNED,
    ),
    *_rows(
        Treatment.REFUSED,
        ("topic", "none", 'kfetch does not write to Kafka: use format("kafka") for that'),
        (
            "checkpointLocation",
            "none",
            'an option of writeStream, and kfetch does not write to Kafka: use format("kafka") for '
            "that",
        ),
        ("kafka.auto.offset.reset", "none", "use startingOffsets"),
        (
            "kafka.key.deserializer",
            "none",
            "keys are binary: cast them in the DataFrame",
        ),
        (
            "kafka.value.deserializer",
            "none",
            "values are binary: cast them in the DataFrame",
        ),
        ("kafka.enable.auto.commit", "none", "progress lives in the checkpoint"),
        ("kafka.interceptor.classes", "none", "interceptors could change what is read"),
        (
            "kafka.config.providers",
            "none",
            "kfetch does not resolve references in values: set the values",
        ),
        *tls_rows.REFUSED,
        *sasl_rows.REFUSED,
    ),
    *_rows(
        Treatment.IGNORED,
        ("groupIdPrefix", "none", "kfetch joins no consumer group"),
        ("kafka.group.id", "none", "kfetch joins no consumer group"),
        ("kafka.max.poll.records", "none", "kfetch delivers whole replies"),
        ("kafka.session.timeout.ms", "none", "kfetch joins no consumer group"),
        ("kafka.heartbeat.interval.ms", "none", "kfetch joins no consumer group"),
        ("kafka.max.poll.interval.ms", "none", "kfetch joins no consumer group"),
        ("kafka.connections.max.idle.ms", "none", "the broker closes idle connections"),
        ("kafka.send.buffer.bytes", "none", "requests are small"),
        ("kafka.group.*", "none", "kfetch joins no consumer group"),
        ("kafka.partition.assignment.strategy", "none", "Spark assigns partitions to tasks"),
        ("kafka.auto.commit.interval.ms", "none", "progress lives in the checkpoint"),
        ("kafka.share.*", "none", "kfetch is no share consumer"),
        ("kafka.allow.auto.create.topics", "none", "kfetch creates no topics"),
        ("kafka.exclude.internal.topics", "none", "a pattern never includes internal topics"),
        ("kafka.client.dns.lookup", "none", "kfetch tries every address of a name"),
        ("kafka.reconnect.*", "none", "kafka.retry.backoff.ms applies to connecting too"),
        (
            "kafka.socket.connection.setup.timeout.max.ms",
            "none",
            "the deadline of connecting does not grow",
        ),
        (
            "kafka.metadata.recovery.*",
            "none",
            "kfetch asks the bootstrap servers if other brokers fail",
        ),
        ("kafka.metric.reporters", "none", "classes of Java; see kfetch agents"),
        ("kafka.metrics.*", "none", "settings of Java's metrics; see kfetch agents"),
        ("kafka.enable.metrics.push", "none", "kfetch pushes no metrics to brokers"),
        ("kafka.security.providers", "none", "classes of Java"),
        *tls_rows.IGNORED,
        *sasl_rows.IGNORED,
    ),
)

_STREAMS_ONLY = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "kfetch.commitGroup",
)
"""Options of streams. Batch reads ignore them, with a warning."""

_ZONES = {"keyTimeZone": "keySchema", "valueTimeZone": "valueSchema"}
"""Options without effect if a schema has no times."""

_IN_STREAMS = {
    "endingOffsets": "ending offset not valid in streaming queries",
    "endingTimestamp": "ending timestamp not valid in streaming queries",
    "endingOffsetsByTimestamp": "ending timestamp not valid in streaming queries",
}
"""What Spark's connector says to options of batch reads."""

_BY_NAME = {option.name.lower(): option for option in OPTIONS}
_SYNONYMS = {
    "topics": "subscribe",
    "bootstrap.servers": "kafka.bootstrap.servers",
    # librdkafka's names: https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
    "kafka.ssl.ca.location": "kafka.ssl.truststore.location",
    "kafka.ssl.ca.pem": "kafka.ssl.truststore.certificates",
    "kafka.ssl.certificate.location": "kafka.ssl.keystore.location",
    "kafka.ssl.certificate.pem": "kafka.ssl.keystore.certificate.chain",
    "kafka.ssl.key.location": "kafka.ssl.keystore.location",
    "kafka.ssl.key.pem": "kafka.ssl.keystore.key",
}
"""Names of other tools, in lower case, with the option for the same thing."""
_FAMILIES = tuple(name[:-1] for name in _BY_NAME if name.endswith("*"))


def lookup(name: str) -> Option | None:
    """Return the row of an option by its name in any case, or None."""
    lowered = name.lower()
    family = next((prefix for prefix in _FAMILIES if lowered.startswith(prefix)), None)
    return _BY_NAME.get(lowered) or (_BY_NAME[family + "*"] if family else None)


def check_names(names: Iterable[str], *, batch: bool = False) -> tuple[str, ...]:
    """Return the names of options that have no effect in a stream, or in a batch read.

    Raises OptionError or NotBuilt for the first name that can't be used.
    """
    ignored = []
    for name in names:
        row = lookup(name)
        if row is None:
            raise _unknown(name)
        if row.treatment in (Treatment.PLANNED, Treatment.REFUSED):
            raise _unusable(name, row)
        if row.treatment is Treatment.BATCH and not batch:
            raise _not_supported(row.name, _IN_STREAMS[row.name])
        if row.treatment is Treatment.IGNORED or (batch and row.name in _STREAMS_ONLY):
            ignored.append(name.lower() if row.name.endswith("*") else row.name)
    return tuple(ignored)


def no_effect(name: str) -> str:
    """Return the warning for an option of ``SourceOptions.ignored``."""
    row = lookup(name)
    if name in _STREAMS_ONLY:
        return f"{name} option ignored in batch queries"
    if name in _ZONES:
        return f"option {name} has no effect: {_ZONES[name]} has no TIMESTAMP"
    if row and row.treatment is Treatment.BUILT:
        kind = "SASL" if row.name.startswith("kafka.sasl.") else "TLS"
        protocols = "SASL_SSL or SASL_PLAINTEXT" if kind == "SASL" else "SSL or SASL_SSL"
        return (
            f"option {name} has no effect without {kind}: set kafka.security.protocol to "
            f"{protocols}"
        )
    return f"option {name} has no effect in kfetch" + (f": {row.meaning}" if row else "")


def similar(name: str) -> Option | None:
    """Return the usable option whose name is most like ``name``, or None if none is like it."""
    # An option that is an error itself is no help.
    usable = [low for low, row in _BY_NAME.items() if row.treatment is not Treatment.REFUSED]
    near = [_SYNONYMS[name.lower()]] if name.lower() in _SYNONYMS else []
    near = near or difflib.get_close_matches(name.lower(), usable, n=1, cutoff=0.75)
    return _BY_NAME[near[0]] if near else None


def _unknown(name: str) -> OptionError:
    near = similar(name)
    advice = f"did you mean {near.name}?" if near else "`kfetch options` lists all options"
    return OptionError(f"option {name} is not known", action=advice, option=name)


def _unusable(written: str, row: Option) -> OptionError:
    # Spark passes names in lower case. The row has the documented name.
    name = written if row.name.endswith("*") else row.name
    if row.treatment is Treatment.PLANNED and row.name.endswith("*"):
        # The meaning says what to use instead. Without any of them, a log-in has no credentials.
        return NotBuilt(f"option {name} is not built yet: {row.meaning}", option=name)
    if row.treatment is Treatment.PLANNED:
        return NotBuilt(
            f"option {name} ({row.meaning}) is not built yet", action="remove it", option=name
        )
    return _not_supported(name, row.meaning)


def _not_supported(name: str, why: str) -> OptionError:
    return OptionError(f"option {name} is not supported: {why}", option=name)


def markdown_table() -> str:
    """Return the option table: a row per option, working options first."""
    rows = [f"| `{o.name}` | {o.default} | {o.treatment.value} | {o.meaning} |" for o in OPTIONS]
    return "\n".join(["| Option | Default | In kfetch | Meaning |", "|---|---|---|---|", *rows])


if __name__ == "__main__":
    print(markdown_table())
