"""Compares a checkpoint with the logs in Kafka: ``kfetch checkpoint verify``.

It asks the brokers what a query's start asks, and comes to the same verdicts (``kfetch.losses``).
Can kfetch tell where a first batch of Spark's connector starts? Do the topics still have their ids?
Do the logs still have the offsets? Has an unclean leader
election cut them? It opens no fetch session, and a running query does not notice it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kfetch.admin.checkpoint import Checkpoint
from kfetch.admin.offset_log import SourceLine, Writer, connector_json
from kfetch.admin.sources import KafkaReport, query_kafka
from kfetch.errors import CheckpointError, OptionError
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets
from kfetch.options import SourceOptions
from kfetch.options.subscription import STRATEGIES
from kfetch.spark.options import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A reason why the next start of the query would fail or lose records."""

    code: str
    """The code of kfetch's error for it, as in docs/reference/errors.md."""
    sentence: str
    topic: str
    """Empty if the finding is about no topic."""
    partition: int
    """-1 if the finding is about no partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheck:
    """What Kafka says about the offsets of one source."""

    name: str
    partitions: int
    """The number of partitions that the checkpoint has."""
    behind: int | None
    """Offsets from the next start to the log ends; None if no partition's lag is known."""
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    """Sentences about what the check could not see, and about what the next start does."""


def verify(
    checkpoint: Checkpoint, options: Mapping[str, str], only: str | None = None
) -> list[SourceCheck]:
    """Check the sources of a checkpoint that read from Kafka.

    ``options``: the source's, at least ``kafka.bootstrap.servers``. Without subscribe, assign or
    subscribePattern the partitions of the checkpoint are checked. ``only``: one source's name.
    A look-up takes ten seconds at most.

    Raises OptionError for the options and for an unknown ``only``, ConnectionLost or BrokerError if
    the brokers don't answer.
    """
    unknown = checkpoint.starts_unknown_to_kfetch()
    names = [line.name for line in checkpoint.lines if line.offsets is not None]
    unplanned = [name for name in unknown if name not in names]
    if only is not None and only not in (*names, *unplanned):
        known = ", ".join((*names, *unplanned)) or "none"
        raise OptionError(
            f"the checkpoint has no source {only} with offsets of Kafka",
            action=f"its sources are: {known}",
        )
    planned = [
        _check(checkpoint, number, line, options)
        for number, line in enumerate(checkpoint.lines)
        if line.offsets is not None and only in (None, line.name)
    ]
    return planned + [
        _check_without_offsets(name, unknown[name], options)
        for name in unplanned
        if only in (None, name)
    ]


def _check(
    checkpoint: Checkpoint, number: int, line: SourceLine, options: Mapping[str, str]
) -> SourceCheck:
    end = checkpoint.end(number)
    assert end is not None, "a source without offsets"
    start = checkpoint.start(number) or end
    planned = end if checkpoint.pending else None
    parsed = _options(options, {*start.positions, *end.positions})
    report = query_kafka(parsed, start, planned)
    lags = [partition.behind for partition in report.partitions]
    unknown: tuple[Finding, ...] = ()
    if line.writer is Writer.CONNECTOR and checkpoint.is_first(number):
        unknown = _unknown_start(line.name, checkpoint.start(number), parsed)
    return SourceCheck(
        name=line.name,
        partitions=len(end.positions),
        behind=sum(lag or 0 for lag in lags) if any(lag is not None for lag in lags) else None,
        findings=(*unknown, *_findings(report)),
        notes=tuple(_notes(end, report)),
    )


def _check_without_offsets(name: str, start: Offsets, options: Mapping[str, str]) -> SourceCheck:
    """Check a source without an offset in the checkpoint: only the connector knows its start."""
    # Without partitions, any topic stands in for a subscription. Nobody asks the brokers for it.
    parsed = _options(options, start.positions or {TopicPartition("-", 0)})
    return SourceCheck(
        name=name,
        partitions=0,
        behind=None,
        # kfetch would start its later partitions, too, where the options say.
        findings=_unknown_start(name, start, parsed, alone=False),
        notes=(),
    )


def _unknown_start(
    name: str, start: Offsets | None, options: SourceOptions, *, alone: bool = True
) -> tuple[Finding, ...]:
    """Returns a finding if kfetch would start the connector's first batch at other offsets.

    The connector keeps the start in a file that Spark does not show to kfetch. So the driver
    refuses a batch that is planned, and starts a source without an offset at ``startingOffsets``.
    """
    positions = start.positions if start else {}
    offsets = {tp: position.offset for tp, position in positions.items()}
    if options.starting.always_gives(offsets if start else None, alone=alone):
        return ()
    first = min(positions, default=None)
    text = f"={connector_json(positions)}" if positions else "=earliest"
    if start is None:
        text = " and the offset of each partition"
    return (
        Finding(
            code=CheckpointError.condition,
            sentence=f"The first batch of Spark's connector is not done in source {name}, and "
            f"kfetch cannot see where it starts: {options.starting.option} may give other "
            "offsets now. Let the connector finish the batch, or start kfetch with the option "
            f"startingOffsets{text}",
            topic=first.topic if first else "",
            partition=first.partition if first else -1,
        ),
    )


def _options(options: Mapping[str, str], partitions: Iterable[TopicPartition]) -> SourceOptions:
    """Returns the source's options. The checkpoint's partitions stand in for a subscription."""
    named = {name.lower() for name in options}
    if named & {strategy.lower() for strategy in STRATEGIES}:
        return parse(options)
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return parse({**options, "assign": json.dumps(topics)})


def _findings(report: KafkaReport) -> Iterator[Finding]:
    for loss in report.loss_errors:
        yield Finding(
            code=loss.condition,
            sentence=loss.message,
            topic=loss.where["topic"],
            partition=loss.where["partition"],
        )
    for tp in report.leaderless:
        yield Finding(
            code="BROKER_ERROR",
            sentence=f"{tp} has no leader: start its brokers, or wait for an election",
            **tp._asdict(),
        )


def _notes(end: Offsets, report: KafkaReport) -> Iterator[str]:
    topics = sorted({tp.topic for tp in end.positions})
    without_id = [topic for topic in topics if topic not in end.topic_ids]
    if without_id:
        yield (
            f"The checkpoint has no id of {_named(without_id)}. So this check can't see whether "
            "the topic was created again, or whether its log was cut and has grown past the offset"
        )
    new = [str(partition.tp) for partition in report.partitions if partition.new]
    if new:
        yield f"The next start reads {_named(new)} from the log start: the checkpoint lacks it"
    for topic in sorted({tp.topic for tp in end.left}):
        yield (
            f"{topic} left the query. kfetch has kept its last position, and continues there if "
            "the topic comes back with the same id within seven days"
        )


def _named(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
