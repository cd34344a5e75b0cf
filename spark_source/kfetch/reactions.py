"""The table of broker errors: for each request and error code, kfetch's reaction.

``codes`` decides by this table, and tests compare both it and the table with the behaviour.
docs/reference/broker-errors.md shows the table beside the reactions of Kafka's client.

Kafka's client takes a code that it does not know for UNKNOWN_SERVER_ERROR, and so does kfetch. The
names and kinds of the codes are kafka-python's. A test compares them with Kafka's own table.
"""

from __future__ import annotations

from enum import Enum

from kafka.errors import kafka_errors

UNKNOWN_SERVER_ERROR = -1


class Api(Enum):
    """The requests that kfetch sends. The value is the request's name in Kafka's documentation."""

    FETCH = "Fetch"
    LIST_OFFSETS = "ListOffsets"
    EPOCH_ENDS = "OffsetForLeaderEpoch"
    METADATA = "Metadata"
    API_VERSIONS = "ApiVersions"
    SASL_HANDSHAKE = "SaslHandshake"
    SASL_AUTHENTICATE = "SaslAuthenticate"


class Reaction(Enum):
    """What a client does after an error code. The value is the word in the documentation."""

    RETRY = "retry"
    """Ask again after a back-off, and after fresh metadata."""
    FAIL = "fail"
    """Raise the error at once."""
    REPOSITION = "find position"
    """Ask for the log's start and end: the position may be lost."""
    ABSENT = "absent"
    """Take the topic for one that does not exist now."""
    REBOOTSTRAP = "bootstrap"
    """Leave the known brokers, and ask the bootstrap servers."""
    OLDER_VERSION = "version 0"
    """Ask again with version 0 of the request."""
    DISCONNECT = "disconnect"
    """Close the connection, and treat the broker as one that cannot be reached."""


_NAMES = {
    # kafka-python has other names for these.
    UNKNOWN_SERVER_ERROR: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
    # It does not know these yet.
    128: "INVALID_REGULAR_EXPRESSION",
    129: "REBOOTSTRAP_REQUIRED",
    130: "STREAMS_INVALID_TOPOLOGY",
    131: "STREAMS_INVALID_TOPOLOGY_EPOCH",
    132: "STREAMS_TOPOLOGY_FENCED",
    133: "SHARE_SESSION_LIMIT_REACHED",
}
_KINDS = {code: kind for code, kind in kafka_errors.items() if code is not None}
NAMES = dict(sorted({**{code: kind.message for code, kind in _KINDS.items()}, **_NAMES}.items()))
"""Every error code of Kafka 4.3.1 by number (``org.apache.kafka.common.protocol.Errors``)."""

RETRIABLE = frozenset({code for code, kind in _KINDS.items() if kind.retriable} | {2, 133})
"""Codes whose exception in ``Errors`` is a RetriableException. kafka-python lacks the last two."""

_SASL = (Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE)
_LOGIN_REFUSED = frozenset({33, 34, 58})
"""Codes whose exception is an AuthenticationException."""
_SPECIAL = {
    (Api.FETCH, 1): Reaction.REPOSITION,
    # A damaged batch on the broker's disk stays damaged.
    (Api.FETCH, 2): Reaction.FAIL,
    # The broker may just not know the topic yet, so the caller asks more than once.
    (Api.METADATA, 3): Reaction.ABSENT,
    (Api.METADATA, 100): Reaction.ABSENT,
    (Api.METADATA, 129): Reaction.REBOOTSTRAP,  # KIP-1102
    (Api.API_VERSIONS, 35): Reaction.OLDER_VERSION,
}


def reaction(api: Api | None, code: int) -> Reaction:
    """Returns kfetch's reaction to an error code other than 0 in the reply to a request.

    ``api``: None for a request that the table does not have.
    """
    if api and (special := _SPECIAL.get((api, code))):
        return special
    if api is Api.API_VERSIONS:
        return Reaction.DISCONNECT
    if api in _SASL:
        return Reaction.FAIL if code in _LOGIN_REFUSED else Reaction.DISCONNECT
    # A broker answers with UNKNOWN_SERVER_ERROR after an exception that it did not expect. Most of
    # these pass, such as a timeout of its disk or of its remote storage.
    retried = code in RETRIABLE or code not in NAMES or code == UNKNOWN_SERVER_ERROR
    return Reaction.RETRY if retried else Reaction.FAIL
