"""The values of all options: frozen, with units in their names."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kfetch.model import READ_COMMITTED, READ_UNCOMMITTED, TopicPartition
from kfetch.options.columns import Column, Includes, columns_of
from kfetch.options.registry import RegistryColumn
from kfetch.options.security import SecurityOptions

EARLIEST = -2
"""ListOffsets' code of the log start (KIP-79). The JSON of startingOffsets uses it too."""
LATEST = -1
"""ListOffsets' code of the log end."""
OFFSET_MAX = (1 << 63) - 1
PARTITION_MAX = (1 << 31) - 1

# The agent needs memfd_create(2), pidfd_open(2) and SO_PEERCRED.
DEFAULT_AGENT = "process" if sys.platform == "linux" else "inline"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """Limits of connections and requests. Times in seconds, sizes in bytes."""

    client_id: str = "kfetch"
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    receive_buffer_bytes: int = -1
    """SO_RCVBUF. With -1 the operating system chooses and tunes it."""
    frame_bytes_max: int = 1 << 30
    """The largest accepted reply. A length read from the wire is not to be trusted."""
    retry_backoff_s: float = 0.1
    retry_backoff_max_s: float = 1.0
    metadata_max_age_s: float = 30.0
    """How often the driver looks for new partitions and topics. It looks for leaders earlier, after
    every error."""
    security: SecurityOptions = field(default_factory=SecurityOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """The limits of a Fetch request (KIP-74). Sizes in bytes, times in milliseconds."""

    max_bytes: int = 50 << 20
    partition_max_bytes: int = 4 << 20
    min_bytes: int = 1
    max_wait_ms: int = 500
    check_crcs: bool = True
    read_committed: bool = False
    """Whether to skip aborted transactions and to stop at the last stable offset."""
    rack: str = ""
    """The rack of the reader, for reads from followers there (KIP-392); empty: leaders only."""

    @property
    def isolation_level(self) -> int:
        """The isolation level, as requests carry it."""
        return READ_COMMITTED if self.read_committed else READ_UNCOMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The partitions to read. Exactly one of the three fields is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression. It may match any part of a topic's name."""
    assigned: tuple[TopicPartition, ...] = ()

    def includes(self, topic: str) -> bool:
        """Return whether a topic of this name belongs to the subscription."""
        if self.pattern is not None:
            return re.search(self.pattern, topic) is not None
        return topic in self.topics or any(tp.topic == topic for tp in self.assigned)


class Ago(NamedTuple):
    """A time before the query's first start, such as ``-2h``."""

    ms: int


Place = int | Ago
"""An offset; or a time in milliseconds since 1970, or before the start; or EARLIEST or LATEST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Where a new query starts, or where a batch read ends, as its options say.

    A partition has the place of its own entry, else that of its topic, else ``rest``. A partition
    without a place is an error.
    """

    option: str = "startingOffsets"
    """The option that decides, for error sentences."""
    partitions: Mapping[TopicPartition, Place] = field(default_factory=dict)
    topics: Mapping[str, Place] = field(default_factory=dict)
    """Places of all other partitions of a topic."""
    rest: Place | None = None
    """The place of every partition of other topics."""
    by_time: bool = False
    """Whether places are times. EARLIEST and LATEST mean the same in both."""
    no_match: int | None = None
    """The place if no record is that young: LATEST. None: an error."""
    group: str = ""
    """A consumer group whose committed offsets are the places; empty: none."""

    def place(self, tp: TopicPartition) -> Place | None:
        """Return the place of a partition, or None if no entry includes it."""
        return self.partitions.get(tp, self.topics.get(tp.topic, self.rest))

    def at_time(self, now_ms: int) -> Bound:
        """Return the bound with every relative time counted from ``now_ms`` (since 1970)."""

        def fixed(place: Place) -> int:
            return max(0, now_ms - place.ms) if isinstance(place, Ago) else place

        return replace(
            self,
            partitions={tp: fixed(place) for tp, place in self.partitions.items()},
            topics={topic: fixed(place) for topic, place in self.topics.items()},
            rest=None if self.rest is None else fixed(self.rest),
        )

    @property
    def moves(self) -> bool:
        """Whether the bound may give other offsets later: the log end, relative times, a group."""
        places = {*self.partitions.values(), *self.topics.values(), self.rest, self.no_match}
        return bool(self.group) or any(p == LATEST or isinstance(p, Ago) for p in places)

    @property
    def summary(self) -> str:
        """The bound in a few words."""
        if self.group:
            return f"offsets of group {self.group}"
        if not self.partitions and not self.topics and self.rest in (EARLIEST, LATEST):
            return "earliest" if self.rest == EARLIEST else "latest"
        return "given times" if self.by_time else "given offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonColumn:
    """How keys or values become structs: keyFormat=json, valueFormat=json."""

    column: str
    """``key`` or ``value``."""
    schema: str
    """Spark's DDL, or the JSON of a StructType."""
    mode: str = "permissive"
    """``permissive`` or ``failfast``, as in Spark's from_json."""
    time_zone: str = ""
    """The zone of times without one; empty if the schema needs none."""
    flat: bool = False
    """Whether the fields are columns of their own, in place of the struct: valueFields=flat."""
    registry: RegistryColumn | None = None
    """The registry if values are in Confluent's wire format."""

    @property
    def format(self) -> str:
        """The format's name."""
        return "json"

    @property
    def zone_option(self) -> str:
        """The option that names the zone."""
        return f"{self.column}TimeZone"

    @property
    def type_option(self) -> str:
        """The option that names the type."""
        return f"{self.column}Schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroColumn:
    """How keys or values become structs: keyFormat=avro, valueFormat=avro."""

    column: str
    """``key`` or ``value``."""
    schema: str
    """The writer's schema, as the JSON text of an .avsc file; empty with a registry."""
    reader_schema: str = ""
    """The schema of the struct; empty for the writer's, or until the registry has given it."""
    references: tuple[str, ...] = ()
    """Schemas whose types the reader's schema names, each behind those that it needs itself."""
    mode: str = "failfast"
    """``permissive`` or ``failfast``, as in Spark's from_avro."""
    flat: bool = False
    """Whether the fields are columns of their own, in place of the struct: valueFields=flat."""
    registry: RegistryColumn | None = None
    """The registry if values are in Confluent's wire format."""

    @property
    def format(self) -> str:
        """The format's name."""
        return "avro"

    @property
    def type_option(self) -> str:
        """The option that names the type."""
        if self.registry is not None and self.registry.subject:
            return f"{self.column}Subject"
        return f"{self.column}{'ReaderSchema' if self.reader_schema else 'Schema'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufColumn:
    """How keys or values become structs: keyFormat=protobuf, valueFormat=protobuf."""

    column: str
    """``key`` or ``value``."""
    path: str
    """The file with the FileDescriptorSet, on the driver's machine; empty for a registry's."""
    message: str
    """The message's full name; empty until the driver has asked the registry for the first one."""
    mode: str = "failfast"
    """``permissive`` or ``failfast``, as in Spark's from_protobuf."""
    flat: bool = False
    """Whether the fields are columns of their own, in place of the struct: valueFields=flat."""
    registry: RegistryColumn | None = None
    """The registry if values are in Confluent's wire format."""
    descriptors: bytes = field(default=b"", repr=False)
    """The file's bytes, which the driver reads and sends to the tasks."""

    @property
    def format(self) -> str:
        """The format's name."""
        return "protobuf"

    @property
    def type_option(self) -> str:
        """The option that names the type."""
        return f"{self.column}Message"


TypedColumn = JsonColumn | AvroColumn | ProtobufColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Every option of a query."""

    bootstrap: tuple[tuple[str, int], ...]
    """(host, port) of the brokers to ask first."""
    subscription: Subscription
    starting: Bound = field(default_factory=lambda: Bound(rest=LATEST))
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
    dead_letters: bool = False
    """Whether a column has the records that can't be decoded."""
    skip_corrupt_batches: bool = False
    """Whether to skip, log and count corrupt batches instead of failing."""
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    """A micro-batch of fewer offsets waits for more, ``max_trigger_delay_s`` at most."""
    max_trigger_delay_s: float = 900.0
    min_partitions: int | None = None
    """Large ranges are cut until there are about this many."""
    max_records_per_partition: int | None = None
    """Ranges of more offsets are cut."""
    rows_per_split: int = 100_000
    """Small ranges share a task up to this many offsets. 0 gives every range its own task."""
    push_filters: bool = False
    """Whether filters narrow a batch read. Spark 4.2 would reuse the narrowed ranges for every
    other query on the same ``load()``."""
    lookup_retries: int = 3
    lookup_retry_s: float = 1.0
    """The pause between two tries of a look-up."""
    api_timeout_s: float = 60.0
    """How long all tries of a look-up may take without a checkpoint."""
    poll_timeout_s: float = 120.0
    """A task that makes no progress for this time fails, and Spark retries it."""
    network: NetworkOptions = field(default_factory=NetworkOptions)
    fetch: FetchOptions = field(default_factory=FetchOptions)
    agent: str = DEFAULT_AGENT
    """The process with the fetch sessions: ``process`` is the executor's agent, ``inline`` the
    Python worker itself."""
    agent_memory_bytes: int = 256 << 20
    """The limit of replies and decoded batches together, per executor."""
    agent_lease_s: float = 120.0
    """The agent closes a query's sessions if no task has read for this time."""
    stats_directory: str = ""
    """The directory for files of fetch statistics, empty for none."""
    broker_report: str = ""
    """The path of the file that lists unreachable brokers; empty: none."""
    commit_group: str = ""
    """The consumer group for which the driver commits its progress; empty: none."""
    ignored: tuple[str, ...] = ()
    """Options that have no effect here. The source warns of each once."""

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
