"""The limits of connections, requests and replies, and how long a query waits for answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from kfetch.model import READ_COMMITTED, READ_UNCOMMITTED
from kfetch.options.converters import (
    INT_MAX,
    boolean,
    byte_count,
    milliseconds,
    pause,
    second_of,
    seconds,
    whole,
)
from kfetch.options.option import Option, option_field
from kfetch.options.security import SecurityOptions

POLL_TIMEOUT = Option(
    "kafkaConsumer.pollTimeoutMs",
    "a task without progress fails after this time in ms",
    seconds,
    "120000",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """Limits of connections and requests. Times in seconds, sizes in bytes."""

    client_id: str = option_field(
        "kafka.client.id", "name in the brokers' logs and quotas", default="kfetch"
    )
    request_timeout_s: float = option_field(
        "kafka.request.timeout.ms", "deadline of a request", seconds, "30000"
    )
    retry_backoff_s: float = option_field(
        "kafka.retry.backoff.ms", "first pause after an error, at least 10", pause, "100"
    )
    retry_backoff_max_s: float = option_field(
        "kafka.retry.backoff.max.ms", "longest pause after errors, at least 10", pause, "1000"
    )
    metadata_max_age_s: float = option_field(
        "kafka.metadata.max.age.ms",
        "how often the driver looks for new partitions and topics",
        seconds,
        "30000",
    )
    """The driver looks for leaders earlier, after every error."""
    receive_buffer_bytes: int = option_field(
        "kafka.receive.buffer.bytes",
        "SO_RCVBUF; -1: the system chooses",
        whole(-1, INT_MAX, "a number of bytes, or -1"),
        "-1",
    )
    connect_timeout_s: float = option_field(
        "kafka.socket.connection.setup.timeout.ms", "deadline of connecting", seconds, "10000"
    )
    frame_bytes_max: int = 1 << 30
    """The largest accepted reply. A length read from the wire is not to be trusted."""
    security: SecurityOptions = field(default_factory=SecurityOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """The limits of a Fetch request (KIP-74). Sizes in bytes, times in milliseconds."""

    max_bytes: int = option_field(
        "kafka.fetch.max.bytes", "soft limit of a reply in bytes", byte_count, "52428800"
    )
    partition_max_bytes: int = option_field(
        "kafka.max.partition.fetch.bytes",
        "soft limit of a partition in a reply in bytes (Kafka's own default is 1 MiB)",
        byte_count,
        "4194304",
    )
    min_bytes: int = option_field(
        "kafka.fetch.min.bytes", "the broker waits for this many bytes", byte_count, "1"
    )
    max_wait_ms: int = option_field(
        "kafka.fetch.max.wait.ms", "the longest time that the broker waits", milliseconds, "500"
    )
    check_crcs: bool = option_field(
        "kafka.check.crcs", "check CRC-32C of every record batch", boolean, "true"
    )
    read_committed: bool = option_field(
        "kafka.isolation.level",
        "or `read_committed`: no aborted transactions",
        second_of("read_uncommitted", "read_committed"),
        "read_uncommitted",
    )
    """Whether to skip aborted transactions and to stop at the last stable offset."""
    rack: str = option_field(
        "kafka.client.rack",
        "tasks read from followers in this rack (KIP-392). `KFETCH_CLIENT_RACK` in an executor's "
        "environment overrides it there",
    )
    """Empty: leaders only."""

    @property
    def isolation_level(self) -> int:
        """The isolation level, as requests carry it."""
        return READ_COMMITTED if self.read_committed else READ_UNCOMMITTED
