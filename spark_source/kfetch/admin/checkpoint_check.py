"""Compares a checkpoint with the logs in Kafka: ``kfetch checkpoint verify``.

It asks the brokers what a query's start asks, and comes to the same verdicts (``kfetch.losses``).
Do the topics still have their ids? Do the logs still have the offsets? Has an unclean leader
election cut them? It opens no fetch session, and a running query does not notice it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kfetch.admin.checkpoint import Checkpoint
from kfetch.admin.offset_log import SourceLine
from kfetch.admin.sources import KafkaReport, query_kafka
from kfetch.errors import DataLoss, OptionError
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets
from kfetch.options import SourceOptions, parse
from kfetch.options.catalogue import STRATEGIES

__all__ = ["Finding", "SourceCheck", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A reason why the next start of the query would fail or lose records."""

    code: str
    """The code of kfetch's error for it, as in docs/errors.md."""
    sentence: str
    topic: str
    partition: int


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
    names = [line.name for line in checkpoint.lines if line.offsets is not None]
    if only is not None and only not in names:
        known = ", ".join(names) or "none"
        raise OptionError(
            f"the checkpoint has no source {only} with offsets of Kafka",
            action=f"its sources are: {known}",
        )
    return [
        _check(checkpoint, number, line, options)
        for number, line in enumerate(checkpoint.lines)
        if line.offsets is not None and only in (None, line.name)
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
    return SourceCheck(
        name=line.name,
        partitions=len(end.positions),
        behind=sum(lag or 0 for lag in lags) if any(lag is not None for lag in lags) else None,
        findings=tuple(_findings(report)),
        notes=tuple(_notes(end, report)),
    )


def _options(options: Mapping[str, str], partitions: Iterable[TopicPartition]) -> SourceOptions:
    """Return the source's options. The checkpoint's partitions stand in for a subscription."""
    named = {name.lower() for name in options}
    if named & {strategy.lower() for strategy in STRATEGIES}:
        return parse(options)
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return parse({**options, "assign": json.dumps(topics)})


def _findings(report: KafkaReport) -> Iterator[Finding]:
    for loss in report.loss_errors:
        yield _finding(loss)
    for tp in report.leaderless:
        yield Finding(
            code="BROKER_ERROR",
            sentence=f"{tp} has no leader: start its brokers, or wait for an election",
            topic=tp.topic,
            partition=tp.partition,
        )


def _finding(loss: DataLoss) -> Finding:
    return Finding(
        code=loss.condition,
        sentence=loss.message,
        topic=loss.where["topic"],
        partition=loss.where["partition"],
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
