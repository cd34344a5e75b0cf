"""Broker error codes: their names, and what an error asks of us.

One predicate per recovery, so that the caller decides what to do and this file decides what the
code means. The table of codes is kafka-python's.
"""

from __future__ import annotations

from kafka.errors import for_code

from spark_source.errors import BrokerError

NONE = 0
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
UNSUPPORTED_VERSION = 35
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
UNKNOWN_TOPIC_ID = 100
INCONSISTENT_TOPIC_ID = 103

# Errors after which the topic itself must be looked up: deleted, created again, or not yet known
# to a broker that was just started.
_TOPIC_CHANGED = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID})
# KIP-320: the client's or the broker's leader epoch is behind.
_EPOCH_BEHIND = frozenset({FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH})


def name(code: int) -> str:
    """The protocol's name of a code, e.g. ``NOT_LEADER_OR_FOLLOWER``-like, for messages."""
    known: str = for_code(code).__name__
    return f"{known.removesuffix('Error')} ({code})"


def retriable(code: int) -> bool:
    """Whether the same request can succeed later, after a metadata refresh."""
    return code in _TOPIC_CHANGED or code in _EPOCH_BEHIND or bool(for_code(code).retriable)


def error(code: int, what: str, **context: object) -> BrokerError:
    """The exception for a code: ``what`` says which request to whom about what."""
    return BrokerError(
        f"{what}: the broker answered {name(code)}: {for_code(code).description}",
        code=code,
        retriable=retriable(code),
        **context,
    )
