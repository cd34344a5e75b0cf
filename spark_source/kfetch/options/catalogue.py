"""The catalogue of options: every known name, and how kfetch treats it.

Options that kfetch reads are declared beside the values that they become. The others, which are
errors or have no effect, stand here or in the file of their family. A name that is not here is an
error with a suggestion, because a misspelt option that is silently ignored costs its user a day.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from kfetch.errors import NotBuilt, OptionError
from kfetch.options import bounds, columns, formats, registry, sasl, subscription, tls
from kfetch.options.network import FetchOptions, NetworkOptions
from kfetch.options.option import Option, Treatment, declared
from kfetch.options.security import PROTOCOL, SecurityOptions
from kfetch.options.source import (
    AgentOptions,
    LookupOptions,
    PlanningOptions,
    ReportOptions,
    SourceOptions,
)

_REFUSED = {
    "topic": 'kfetch does not write to Kafka: use format("kafka") for that',
    "checkpointLocation": (
        'an option of writeStream, and kfetch does not write to Kafka: use format("kafka") for that'
    ),
    "kfetch.pushFilters": "Spark could lose rows with it. Bound the read by startingTimestamp and "
    "endingTimestamp, or by offsets",
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.key.deserializer": "keys are binary: cast them in the DataFrame",
    "kafka.value.deserializer": "values are binary: cast them in the DataFrame",
    "kafka.enable.auto.commit": "progress lives in the checkpoint",
    "kafka.interceptor.classes": "interceptors could change what is read",
    "kafka.config.providers": "kfetch does not resolve references in values: set the values",
}
_IGNORED = {
    "groupIdPrefix": "kfetch joins no consumer group",
    "kafka.group.id": "kfetch joins no consumer group",
    "kafka.max.poll.records": "kfetch delivers whole replies",
    "kafka.session.timeout.ms": "kfetch joins no consumer group",
    "kafka.heartbeat.interval.ms": "kfetch joins no consumer group",
    "kafka.max.poll.interval.ms": "kfetch joins no consumer group",
    "kafka.connections.max.idle.ms": "the broker closes idle connections",
    "kafka.send.buffer.bytes": "requests are small",
    "kafka.group.*": "kfetch joins no consumer group",
    "kafka.partition.assignment.strategy": "Spark assigns partitions to tasks",
    "kafka.auto.commit.interval.ms": "progress lives in the checkpoint",
    "kafka.share.*": "kfetch is no share consumer",
    "kafka.allow.auto.create.topics": "kfetch creates no topics",
    "kafka.exclude.internal.topics": "a pattern never includes internal topics",
    "kafka.client.dns.lookup": "kfetch tries every address of a name",
    "kafka.reconnect.*": "kafka.retry.backoff.ms applies to connecting too",
    "kafka.socket.connection.setup.timeout.max.ms": "the deadline of connecting does not grow",
    "kafka.retries": "kfetch retries until a deadline; see fetchOffset.numRetries",
    "kafka.metadata.recovery.*": "kfetch asks the bootstrap servers if other brokers fail",
    "kafka.metric.reporters": "classes of Java; see kfetch agents",
    "kafka.auto.include.jmx.reporter": "a class of Java; see kfetch agents",
    "kafka.metrics.*": "settings of Java's metrics; see kfetch agents",
    "kafka.enable.metrics.push": "kfetch pushes no metrics to brokers",
    "kafka.security.providers": "classes of Java",
}


def _without_value(treatment: Treatment, reasons: Mapping[str, str]) -> list[Option]:
    """Returns the rows of options that kfetch does not read, from their names and the reasons."""
    return [Option(name, why, treatment=treatment) for name, why in reasons.items()]


_SOURCE, _PLANNING, _LOOKUPS = map(declared, (SourceOptions, PlanningOptions, LookupOptions))
_NETWORK, _FETCH = map(declared, (NetworkOptions, FetchOptions))

OPTIONS: tuple[Option, ...] = (
    *subscription.OPTIONS.values(),
    *bounds.STARTING.values(),
    *_SOURCE[:1],
    *_PLANNING[:5],
    columns.OPTION,
    *formats.OPTIONS.values(),
    *columns.INCLUDES.values(),
    *_LOOKUPS[:2],
    *_SOURCE[1:2],
    *declared(AgentOptions),
    *_PLANNING[5:],
    *_SOURCE[2:],
    *declared(ReportOptions),
    *_NETWORK[:1],
    *_FETCH[:5],
    *_NETWORK[1:2],
    *_LOOKUPS[2:],
    *_NETWORK[2:],
    PROTOCOL,
    *_FETCH[5:],
    *registry.OPTIONS.values(),
    *tls.OPTIONS.values(),
    *sasl.OPTIONS.values(),
    *bounds.ENDING.values(),
    *_without_value(Treatment.PLANNED, sasl.PLANNED),
    *_without_value(Treatment.REFUSED, _REFUSED | tls.REFUSED | sasl.REFUSED),
    *_without_value(Treatment.IGNORED, _IGNORED | tls.IGNORED | sasl.IGNORED),
)
"""The options in the order of docs/reference/options.md, which has a row for each."""

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
    """Returns the row of an option by its name in any case, or None."""
    lowered = name.lower()
    family = next((prefix for prefix in _FAMILIES if lowered.startswith(prefix)), None)
    return _BY_NAME.get(lowered) or (_BY_NAME[family + "*"] if family else None)


def check_names(names: Iterable[str], *, batch: bool = False) -> tuple[str, ...]:
    """Returns the names of options that have no effect in a stream, or in a batch read.

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
        if row.treatment is Treatment.IGNORED or (batch and row.streams_only):
            ignored.append(name.lower() if row.name.endswith("*") else row.name)
    return tuple(ignored)


def unused_names(names: Iterable[str], chosen: SecurityOptions) -> tuple[str, ...]:
    """Returns the names of built TLS and SASL options that the chosen protocol does not use."""
    settings = {"kafka.ssl.": chosen.tls, "kafka.sasl.": chosen.sasl}
    unused = tuple(prefix for prefix, value in settings.items() if value is None)
    rows = [lookup(name) for name in names if name.lower().startswith(unused)]
    return tuple(sorted(row.name for row in rows if row and row.treatment is Treatment.BUILT))


def no_effect(name: str) -> str:
    """Returns the warning for an option of ``SourceOptions.ignored``."""
    row = lookup(name)
    if row and row.streams_only:
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
    """Returns the usable option whose name is most like ``name``, or None if none is like it."""
    # An option that is an error itself is no help.
    usable = [low for low, row in _BY_NAME.items() if row.treatment is not Treatment.REFUSED]
    near = [_SYNONYMS[name.lower()]] if name.lower() in _SYNONYMS else []
    near = near or difflib.get_close_matches(name.lower(), usable, n=1, cutoff=0.75)
    return _BY_NAME[near[0]] if near else None


def _unknown(name: str) -> OptionError:
    near = similar(name)
    advice = f"did you mean {near.name}?" if near else "`kfetch options` lists all options"
    return OptionError.about(name, "is not known", action=advice)


def _unusable(written: str, row: Option) -> OptionError:
    # Spark passes names in lower case. The row has the documented name.
    name = written if row.name.endswith("*") else row.name
    if row.treatment is Treatment.PLANNED and row.name.endswith("*"):
        # The meaning says what to use instead. Without any of them, a log-in has no credentials.
        return NotBuilt.about(name, f"is not built yet: {row.meaning}")
    if row.treatment is Treatment.PLANNED:
        return NotBuilt.about(name, f"({row.meaning}) is not built yet", action="remove it")
    return _not_supported(name, row.meaning)


def _not_supported(name: str, why: str) -> OptionError:
    return OptionError.about(name, f"is not supported: {why}")
