"""All options of a source: ``SourceOptions`` and its families. Units are in their names."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from kfetch.options.bounds import Bound
from kfetch.options.columns import Column, Includes, columns_of
from kfetch.options.converters import (
    INT_MAX,
    LONG_MAX,
    boolean,
    count,
    delay,
    duration,
    memory,
    one_of,
    positive,
    second_of,
    seconds,
    whole,
)
from kfetch.options.formats import TypedColumn
from kfetch.options.network import POLL_TIMEOUT, FetchOptions, NetworkOptions
from kfetch.options.option import field_of, option_field
from kfetch.options.subscription import Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningOptions:
    """How much a micro-batch reads, and how it is cut into tasks."""

    max_offsets: int | None = option_field(
        "maxOffsetsPerTrigger",
        "offsets per micro-batch, shared by backlog",
        positive,
        streams_only=True,
    )
    min_offsets: int | None = option_field(
        "minOffsetsPerTrigger",
        "a micro-batch waits for this many offsets",
        positive,
        streams_only=True,
    )
    max_delay_s: float = option_field(
        "maxTriggerDelay",
        "a micro-batch waits no longer than this after the last one",
        delay,
        "15m",
        streams_only=True,
    )
    min_partitions: int | None = option_field(
        "minPartitions",
        "large ranges are cut until there are this many tasks",
        whole(1, INT_MAX, "a whole number from 1 to 2147483647: minPartitions must be positive"),
    )
    max_records: int | None = option_field(
        "maxRecordsPerPartition",
        "the most offsets of a range: larger ranges are cut",
        whole(1, LONG_MAX, "a whole number above 0: maxRecordsPerPartition must be positive"),
    )
    rows_per_split: int = option_field(
        "kfetch.rowsPerSplit",
        "small ranges share a task up to this many offsets; 0: one task each",
        count,
        "100000",
    )
    permission: str = option_field(
        "kfetch.planPermission",
        "Unix socket of a process that must allow each plan of a micro-batch; jobs set it",
        streams_only=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """How often and how long the driver asks for offsets."""

    retries: int = option_field(
        "fetchOffset.numRetries", "how often the driver retries an offset look-up", count, "3"
    )
    pause_s: float = option_field(
        "fetchOffset.retryIntervalMs", "pause in ms between these retries", seconds, "1000"
    )
    timeout_s: float = option_field(
        "kafka.default.api.timeout.ms",
        "a new query or a batch read fails after this time without an answer",
        seconds,
        "60000",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The process with the fetch sessions, and its limits."""

    place: str = option_field(
        "kfetch.agent",
        "one agent per executor holds the sessions; `inline`: each Python worker does (the default "
        "without Linux)",
        one_of("process", "inline"),
        "process",
        # The agent needs memfd_create(2), pidfd_open(2) and SO_PEERCRED.
        unset="process" if sys.platform == "linux" else "inline",
    )
    memory_bytes: int = option_field(
        "kfetch.agent.memory",
        "limit of the agent's replies, unpacked records and batches together, per executor",
        memory,
        "256m",
    )
    lease_s: float = option_field(
        "kfetch.agent.lease",
        "the agent closes the sessions of a query that no task has read for this time",
        duration,
        "120s",
    )
    worker_bytes: int = 0
    """What each worker keeps of its rows, which counts in the agent's memory. No option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """Where a query tells others of its progress. Empty: nowhere."""

    commit_group: str = option_field(
        "kfetch.commitGroup",
        "consumer group for which the driver commits its progress, for tools that show lag",
        streams_only=True,
    )
    stats_directory: str = option_field(
        "kfetch.statsDirectory",
        "directory for fetch statistics: a file of each agent, or worker without one, and driver",
    )
    broker_report: str = option_field(
        "kfetch.brokerReport",
        "file in which the driver lists the brokers that it cannot reach now, and counts the "
        "records that wait",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Every option of a query.

    It has many attributes, because it is the root of all options: a family that one part of kfetch
    reads is a class of its own, and one attribute. The others are read by several parts.
    """

    bootstrap: tuple[tuple[str, int], ...]
    """(host, port) of the brokers to ask first."""
    subscription: Subscription
    starting: Bound
    ending: Bound | None = None
    """Where a batch read ends. None: a stream, which has no end."""
    includes: Includes = Includes()  # noqa: RUF009 - it never changes
    """What the include… options say."""
    columns: tuple[Column, ...] = ()
    """The columns to deliver, in their order. Empty: all that the include… options say."""
    typed_columns: tuple[TypedColumn, ...] = ()
    """Which of ``key`` and ``value`` are decoded into structs, and how."""
    string_columns: tuple[str, ...] = ()
    """Which of ``key`` and ``value`` are strings by their format."""
    fail_on_data_loss: bool = option_field(
        "failOnDataLoss", "`false`: log it and continue with the remaining records", boolean, "true"
    )
    poll_timeout_s: float = field_of(POLL_TIMEOUT)
    """Spark retries a failed task."""
    skip_corrupt_batches: bool = option_field(
        "kfetch.onCorruptBatch",
        "`skip`: skip, log and count corrupt batches; checks CRCs too",
        second_of("fail", "skip"),
        "fail",
    )
    planning: PlanningOptions = field(default_factory=PlanningOptions)
    lookups: LookupOptions = field(default_factory=LookupOptions)
    agent: AgentOptions = field(default_factory=AgentOptions)
    reports: ReportOptions = field(default_factory=ReportOptions)
    network: NetworkOptions = field(default_factory=NetworkOptions)
    fetch: FetchOptions = field(default_factory=FetchOptions)
    ignored: tuple[str, ...] = ()
    """Options that have no effect here. The source warns of each once."""

    @property
    def dead_letters(self) -> bool:
        """Whether a column has the records that can't be decoded."""
        return self.includes.dead_letters

    @property
    def delivered(self) -> tuple[Column, ...]:
        """The columns of the query, in their order. Those of a typed column are its bytes."""
        return self.columns or columns_of(self.includes, self.string_columns)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files that tasks read for connections, as the options name them."""
        registries = (typed.registry for typed in self.typed_columns if typed.registry)
        own = (path for each in registries for path in each.registry.tls.files)
        return (*self.network.security.files, *own)
