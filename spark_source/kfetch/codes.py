"""Broker error codes: their names, and the recovery that each error needs.

Each recovery has one predicate. The caller decides what to do, this module knows what a code means.
The table of codes is kafka-python's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.errors import for_code

from kfetch.errors import AccessRefused, BrokerError

NONE = 0
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
UNSUPPORTED_VERSION = 35
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
UNKNOWN_TOPIC_ID = 100
INCONSISTENT_TOPIC_ID = 103
REBOOTSTRAP_REQUIRED = 129  # KIP-1102; kafka-python does not know it

# After these errors the caller looks up the topic: it was deleted or re-created, or a broker that
# has just started does not know it yet.
_TOPIC_CHANGED = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID})
# KIP-320: the client's or the broker's leader epoch is behind.
_EPOCH_BEHIND = frozenset({FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH})


# Refusals of SASL 33, 34, 58; by ACLs 29, 30, 31, 53, 65.
_TOPIC_AUTHORIZATION_FAILED = 29
_ACCESS = frozenset({_TOPIC_AUTHORIZATION_FAILED, 30, 31, 33, 34, 53, 58, 65})


def name(code: int) -> str:
    """Returns the protocol's name of a code and its number, as brokers log it."""
    if code == REBOOTSTRAP_REQUIRED:
        return f"REBOOTSTRAP_REQUIRED ({code})"
    return f"{for_code(code).message} ({code})"


def retriable(code: int) -> bool:
    """Returns whether the same request can succeed later, after a metadata refresh."""
    if code == REBOOTSTRAP_REQUIRED or code in _TOPIC_CHANGED or code in _EPOCH_BEHIND:
        return True
    return bool(for_code(code).retriable)


def error(code: int, request: str, **where: Any) -> BrokerError:
    """Returns the exception for a code. ``request``: words for the request and its receiver."""
    kind = AccessRefused if code in _ACCESS else BrokerError
    return kind(
        f"{request}: the broker answered {name(code)}: {_meaning(code, where)}",
        code=code,
        retriable=retriable(code),
        **where,
    )


def _meaning(code: int, context: Mapping[str, object]) -> str:
    if code == _TOPIC_AUTHORIZATION_FAILED and "topic" in context:
        return (
            "its ACLs don't let this user (User:ANONYMOUS where there is no log-in) read topic "
            f"{context['topic']}: add Read and Describe with kafka-acls.sh"
        )
    if code == REBOOTSTRAP_REQUIRED:
        return "it asks for a new start at kafka.bootstrap.servers"
    return str(for_code(code).description)
