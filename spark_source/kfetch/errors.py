"""Every error that kfetch raises, as one tree.

    KfetchError
    ├── OptionError            an option is missing, unknown or malformed; the user must correct it
    │   ├── NoSuchPartition    a topic or partition that a new query names does not exist
    │   └── NotBuilt           the option is known, but kfetch has no such feature yet
    ├── CheckpointError        the checkpoint's offset cannot be used
    │   ├── CheckpointInUse    a query may run on the checkpoint, so a command does not change it
    │   └── CheckpointMismatch ``kfetch checkpoint verify`` finds offsets that Kafka does not have
    ├── LeaseLost              this process could not renew its lease, so another may write
    ├── DataLoss               records that the query has not read are gone (see ``failOnDataLoss``)
    │   ├── LogTruncated       the log was cut below the position (unclean leader election)
    │   ├── TopicRecreated     the topic's name has another topic id now
    │   ├── RecordsExpired     the position is below the log start offset (retention, DeleteRecords)
    │   ├── PartitionGone      the partition or its topic no longer exists
    │   └── OffsetBeyondLog    the position is past the log's end, and epochs show no truncation
    ├── BrokerError            the broker answered with an error code
    │   └── AccessRefused      its ACLs refuse the request
    │       └── AuthenticationFailed   it refuses the log-in; or there is nothing to log in with
    ├── WireError              bytes that do not follow the protocol
    │   ├── UnsupportedVersion the broker and kfetch have no common version of an API
    │   └── CorruptBatch       a record batch that fails its checks
    ├── MalformedTimestamp     a record's time does not fit into Spark's type
    ├── MalformedValue         a value does not fit valueSchema, or a key keySchema, with FAILFAST
    ├── ConnectionLost         a connection died; carries the first cause
    │   ├── WrongListener      what listens there does not fit the options, or is no Kafka broker
    │   ├── TlsFailed          the two sides can't agree on TLS, or one refuses a certificate
    │   ├── TokenUnavailable   a service that gives tokens or tickets for log-ins does not answer
    │   └── RegistryUnavailable  a schema registry does not answer
    ├── RegistryRefused        a schema registry refuses the log-in, or answers as no registry does
    ├── ReadStalled            a task read nothing for too long; carries the first cause
    ├── AgentError             the agent cannot be started or reached, or is of another release
    ├── ReleasesDiffer         driver and executors have two releases of kfetch
    ├── TableRefused           ``kfetch.delta`` can't write the Delta table, or its columns differ
    ├── ClusterUnusable        ``kfetch check`` finds a problem that prevents queries from reading
    ├── ArchiveError           Spark's ``pyspark.zip`` cannot be found or changed
    └── BrokenPlugin           verbs of another distribution cannot be loaded

Every error says what happened, where, and what to do, in one sentence. Its class has a stable
code for programs and for searches. docs/reference/errors.md lists all codes, and ``kfetch explain``
prints the page of one. Pickling preserves every attribute, because Spark sends errors from
executors to the driver. A test checks that.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self


class KfetchError(Exception):
    """An error that kfetch expects, and that has no class of its own.

    Read the sentence: it says what to do.
    """

    condition: ClassVar[str] = "KFETCH_ERROR"
    """The stable code of this class; no other class has it."""
    exit_code: ClassVar[int] = 1
    """The exit code of the command ``kfetch`` after this error."""

    def __init__(self, what: str, /, *, action: str = "", **where: Any) -> None:
        """Make an error from ``what`` happened and the ``action`` that the user can take.

        ``where``: values that the sentence names: topic, partition, offset, option, file, …
        They must be picklable and never secret. They are attributes of the error, too.
        """
        super().__init__(what)
        self.what = what
        self.action = action
        self.where = where

    @property
    def message(self) -> str:
        """The sentence without the code."""
        # An action that begins with a capital letter is a sentence of its own.
        separator = ". " if self.action[:1].isupper() else ": "
        return f"{self.what}{separator}{self.action}" if self.action else self.what

    @property
    def code_path(self) -> str:
        """The code at the end of the sentence. A subclass may add a second part."""
        return self.condition

    def prefixed(self, activity: str) -> Self:
        """Returns the same error with ``activity`` and a colon before its sentence."""
        return type(self)(f"{activity}: {self.what}", action=self.action, **self.where)

    def __str__(self) -> str:
        code = f"[{self.code_path}]"
        return self.message if self.message.startswith(code) else f"{self.message} {code}"

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for names that are not attributes.
        try:
            return self.__dict__["where"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[KfetchError], args: tuple[Any, ...], state: dict[str, Any]) -> KfetchError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class OptionError(KfetchError, ValueError):
    """An option is missing, unknown or malformed, or contradicts another.

    Change the option that the sentence names; `kfetch options` lists all.
    """

    condition = "OPTION_INVALID"

    @classmethod
    def about(cls, option: str, what: str, /, *, action: str = "") -> Self:
        """Returns the error of one option. ``what``: what is wrong, behind the option's name."""
        return cls(f"option {option} {what}", action=action, option=option)


class NoSuchPartition(OptionError):
    """A topic or partition that a new query's options name does not exist.

    Create it, or change `subscribe` or `assign`.

    ``missing``: their names.
    """

    condition = "NO_SUCH_PARTITION"


class NotBuilt(OptionError):
    """kfetch does not have this feature yet. Spark's connector may have it.

    Remove the option or the column, or do what the sentence says. If Spark's connector has the
    feature, you can use it for this query.
    """

    condition = "NOT_BUILT"


class CheckpointError(KfetchError):
    """The offset that Spark read from the checkpoint cannot be used.

    Run the kfetch that wrote it or a newer one, or use a new checkpoint.
    """

    condition = "CHECKPOINT_UNUSABLE"


class CheckpointInUse(CheckpointError):
    """A query may run on the checkpoint, so the command does not change it.

    Stop the query, and run the command again.
    """

    condition = "CHECKPOINT_IN_USE"


class CheckpointMismatch(CheckpointError):
    """`kfetch checkpoint verify` found offsets that do not fit the logs in Kafka.

    Do what the sentences say, then run `kfetch checkpoint verify` again.
    """

    condition = "CHECKPOINT_MISMATCH"


class LeaseLost(KfetchError):
    """This process could not renew the lease of the checkpoint, so another process may write there.

    The run has stopped, and wrote nothing since. Check the storage. `kfetch checkpoint show`
    names the host that runs the job now.
    """

    condition = "CHECKPOINT_LEASE_LOST"


class DataLoss(KfetchError):
    """Records between two offsets of a partition can no longer be read.

    Set `failOnDataLoss=false` to continue with the remaining records, or use a new checkpoint. A
    batch read has no checkpoint: give it other `startingOffsets`.
    """

    condition = "DATA_LOSS"


class LogTruncated(DataLoss):
    """The log was truncated below the position, so its records were lost or replaced.

    Set `failOnDataLoss=false` to continue, or use a new checkpoint. Avoid unclean leader elections.
    """

    condition = "LOG_TRUNCATED"


class TopicRecreated(DataLoss):
    """The topic was deleted and created again: it has the same name and another id.

    Set `failOnDataLoss=false` to continue, or use a new checkpoint. kfetch then reads
    the new topic from its start.
    """

    condition = "TOPIC_RECREATED"


class RecordsExpired(DataLoss):
    """The position lies below the log start: retention or DeleteRecords removed records.

    Set `failOnDataLoss=false` to continue, or use a new checkpoint. Keep records
    longer, or read sooner.
    """

    condition = "RECORDS_EXPIRED"


class PartitionGone(DataLoss):
    """A partition of the checkpoint is not subscribed any more, or no broker names it for 10 s.

    Set `failOnDataLoss=false` to continue, or use a new checkpoint. If the change was a mistake,
    subscribe to its topic again.
    """

    condition = "PARTITION_GONE"


class OffsetBeyondLog(DataLoss):
    """The position lies past the log's end, and the leader epochs show no truncation.

    Set `failOnDataLoss=false` to continue, or use a new checkpoint. Check `startingOffsets` for a
    number past the end.
    """

    condition = "OFFSET_BEYOND_LOG"


class BrokerError(KfetchError):
    """A broker answered with an error code.

    Read the broker's message. kfetch has already retried if a retry can help.

    ``code``: the broker's number. ``retriable``: whether a retry can help.
    """

    condition = "BROKER_ERROR"


class AccessRefused(BrokerError):
    """A broker's ACLs refuse the request.

    Give the user the rights that the sentence names.
    """

    condition = "ACCESS_REFUSED"


class AuthenticationFailed(AccessRefused):
    """A broker or a token server refuses the log-in, or the log-in lacks something on this machine.

    Correct the user, the password or the option that the sentence names. kfetch does not retry.
    """

    condition = "AUTHENTICATION_FAILED"


class WireError(KfetchError):
    """A reply does not follow Kafka's protocol.

    Check that the address is a Kafka broker's, and `kafka.security.protocol` is its listener's.
    """

    condition = "PROTOCOL_VIOLATED"


class UnsupportedVersion(WireError):
    """The broker and kfetch have no common version of a request.

    Use brokers of Kafka 0.11 or newer.
    """

    condition = "UNSUPPORTED_VERSION"


class CorruptBatch(WireError):
    """A record batch fails its checks: length, CRC, count or structure.

    Set `kfetch.onCorruptBatch=skip` to skip it, or restore the partition's log.
    """

    condition = "CORRUPT_BATCH"


class MalformedTimestamp(KfetchError):
    """A record's timestamp does not fit into Spark's microseconds. The code is Spark's own.

    Write timestamps in milliseconds in the producer.
    """

    condition = "KAFKA_MALFORMED_RECORD_TIMESTAMP"


class MalformedValue(KfetchError):
    """A value or key does not fit the type that its options name, in the mode `FAILFAST`.

    Correct the producer or the schema, or use `valueMode=PERMISSIVE` or `keyMode=PERMISSIVE`.
    """

    condition = "MALFORMED_VALUE"


class ConnectionLost(KfetchError):
    """The connection to a broker ended or could not be made.

    Check that the broker runs and that its advertised address can be reached.

    The sentence names the first cause.
    """

    condition = "CONNECTION_LOST"

    def __init__(self, what: str, /, *, action: str = "", **where: Any) -> None:
        """Make the error. Without a ``cause`` in ``where``, the cause is ``what`` itself."""
        super().__init__(what, action=action, **{"cause": what, **where})


class WrongListener(ConnectionLost):
    """The listener at the address does not fit the options, or is no Kafka broker's.

    Change the option that the sentence names.

    ``listener``: TLS, plaintext, SASL, no SASL, controller or HTTP.
    """

    condition = "WRONG_LISTENER"


class TlsFailed(ConnectionLost):
    """A broker and kfetch can't agree on TLS, or one of them refuses the other's certificate.

    Do what the sentence says: correct a certificate, a store or `kafka.ssl.*`.

    ``problem``: what is wrong, such as expired, unknown authority, other name.
    """

    condition = "TLS_FAILED"


class TokenUnavailable(ConnectionLost):
    """A service that gives tokens, keys or tickets for log-ins gives no usable answer.

    Check the service that the sentence names. kfetch has already retried.
    """

    condition = "TOKEN_UNAVAILABLE"


class RegistryUnavailable(ConnectionLost):
    """A schema registry gives no usable answer.

    Check the registry that the sentence names. kfetch has already retried for
    `kfetch.registry.timeout`.
    """

    condition = "REGISTRY_UNAVAILABLE"


class RegistryRefused(KfetchError):
    """A schema registry refuses the log-in, has no valid certificate, or is no schema registry.

    Correct the option that the sentence names. kfetch does not retry.
    """

    condition = "REGISTRY_REFUSED"


class ReadStalled(KfetchError):
    """A task made no progress within `kafkaConsumer.pollTimeoutMs`.

    Look at the first cause in the sentence, and at the broker that it names.
    """

    condition = "READ_STALLED"


class AgentError(KfetchError):
    """The executor's agent cannot be started or reached, or is of another release.

    Read the agent's log; `kfetch.agent=inline` works without an agent.
    """

    condition = "AGENT_ERROR"


class ReleasesDiffer(KfetchError):
    """The driver and an executor, or two processes of the driver, have two releases of kfetch.

    Install the same release for the driver and all executors, and restart the query.

    ``sent``: the release that sent an object. ``installed``: that of the process that refuses it.
    """

    condition = "RELEASES_DIFFER"


class TableRefused(KfetchError):
    """`kfetch.delta` can't write the Delta table: its features or its columns do not fit.

    Do what the sentence says, or write the table with Spark's own sink and the same checkpoint.
    """

    condition = "TABLE_REFUSED"


class ClusterUnusable(KfetchError):
    """`kfetch check` found a problem that prevents queries from reading.

    Do what the sentence says, then run `kfetch check` again.
    """

    condition = "CLUSTER_UNUSABLE"


class ArchiveError(KfetchError):
    """Spark's `pyspark.zip` cannot be found, read or replaced.

    Run `kfetch warm --pyspark` as the owner of pyspark's files.
    """

    condition = "ARCHIVE_UNUSABLE"


class BrokenPlugin(KfetchError):
    """Another distribution's verbs for the command `kfetch` cannot be loaded.

    Reinstall that distribution, or uninstall it.
    """

    condition = "PLUGIN_BROKEN"
