"""Every error that kfetch raises, as one tree.

    KfetchError
    ├── OptionError            an option is missing, unknown, malformed (the user's to mend)
    │   ├── NoSuchPartition    a topic or partition that a new query names does not exist
    │   └── NotBuilt           the option is known, but kfetch has no such feature yet
    ├── CheckpointError        the checkpoint's offset cannot be used
    ├── DataLoss               records that were promised are gone (see ``failOnDataLoss``)
    │   ├── LogTruncated       the log was cut below the position (unclean leader election)
    │   ├── TopicRecreated     the topic's name has another topic id now
    │   ├── RecordsExpired     the position is below the log start offset (retention, DeleteRecords)
    │   ├── PartitionGone      the partition or its topic no longer exists
    │   └── OffsetBeyondLog    the position is past the log's end, and no epoch explains why
    ├── BrokerError            the broker answered with an error code
    │   └── AccessRefused      it refuses the log-in, or its ACLs what is asked
    ├── WireError              bytes that do not follow the protocol
    │   ├── UnsupportedVersion no version of an API that both sides speak
    │   └── CorruptBatch       a record batch that fails its checks
    ├── MalformedTimestamp     a record's time does not fit into Spark's type
    ├── ConnectionLost         a connection died; carries the first cause
    ├── ReadStalled            a task read nothing for too long; carries the first cause
    ├── AgentError             the executor's agent cannot be started, found or understood
    ├── ClusterUnusable        ``kfetch check`` found what keeps a query from reading
    ├── ArchiveError           Spark's ``pyspark.zip`` cannot be found or changed
    └── BrokenPlugin           verbs of another distribution cannot be loaded

Every error is one clear sentence: what, where, what to do. Every error survives pickling with
all its attributes, because errors cross from executors to the driver (and a test checks it).
"""

from __future__ import annotations

from typing import Any, ClassVar


class KfetchError(Exception):
    """Root of the tree. ``context`` holds what the sentence names: topic, partition, offset, …

    Context must be picklable and must never hold a secret.
    """

    exit_code: ClassVar[int] = 1
    """Of the command ``kfetch``, when this error ends it."""

    def __init__(self, message: str, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.context = context

    def __getattr__(self, name: str) -> Any:
        # Only reached for names that are not attributes: the context reads as attributes.
        try:
            return self.__dict__["context"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.context))


def _rebuild(cls: type[KfetchError], message: str, context: dict[str, Any]) -> KfetchError:
    return cls(message, **context)


class OptionError(KfetchError, ValueError):
    """An option is missing, unknown, malformed or contradicts another."""


class NoSuchPartition(OptionError):
    """A topic or partition that a new query's options name does not exist. ``missing`` list."""


class NotBuilt(OptionError):
    """A feature that Spark's connector has and kfetch does not have yet."""


class CheckpointError(KfetchError):
    """The offset that Spark read from the checkpoint cannot be used."""


class DataLoss(KfetchError):
    """Records between two offsets of a partition can no longer be read."""


class LogTruncated(DataLoss):
    """The log was truncated below the position: those records were lost or replaced."""


class TopicRecreated(DataLoss):
    """The topic was deleted and created again: same name, another topic id."""


class RecordsExpired(DataLoss):
    """The position lies below the log start offset."""


class PartitionGone(DataLoss):
    """A partition of the checkpoint no longer exists."""


class OffsetBeyondLog(DataLoss):
    """The position lies past the log's end without an epoch that would explain it."""


class BrokerError(KfetchError):
    """The broker answered with an error code. ``code`` int, ``retriable`` bool."""


class AccessRefused(BrokerError):
    """The broker refuses who asks, or what: asking again does not help."""


class WireError(KfetchError):
    """Bytes that do not follow Kafka's protocol."""


class UnsupportedVersion(WireError):
    """Broker and kfetch have no common version of an API."""


class CorruptBatch(WireError):
    """A record batch fails its checks: length, CRC, count, varint."""


class MalformedTimestamp(KfetchError):
    """A record's timestamp overflows Spark's microseconds (KAFKA_MALFORMED_RECORD_TIMESTAMP)."""


class ConnectionLost(KfetchError):
    """The connection to a broker died, or could not be made. The first cause is kept."""


class ReadStalled(KfetchError):
    """A task made no progress within ``kafkaConsumer.pollTimeoutMs``."""


class AgentError(KfetchError):
    """The executor's agent cannot be started or reached, or speaks another version."""


class ClusterUnusable(KfetchError):
    """Something in a Kafka cluster keeps a query from reading; ``kfetch check`` found it."""


class ArchiveError(KfetchError):
    """Spark's ``pyspark.zip`` cannot be found, read or replaced."""


class BrokenPlugin(KfetchError):
    """A distribution's entry point of the group ``kfetch.verbs`` cannot be loaded."""
