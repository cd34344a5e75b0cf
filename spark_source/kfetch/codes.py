"""Broker error codes: their names, and the recovery that each error needs.

Each recovery has one predicate. The caller decides what to do, this module knows what a code means.
``reactions`` holds the table of codes. The descriptions are kafka-python's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.errors import for_code

from kfetch.errors import AccessRefused, BrokerError
from kfetch.reactions import NAMES, Api, Reaction, reaction

NONE = 0
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
UNKNOWN_TOPIC_ID = 100
REBOOTSTRAP_REQUIRED = 129  # KIP-1102

# Refusals of SASL 33, 34, 58; by ACLs 29, 30, 31, 53, 65.
_TOPIC_AUTHORIZATION_FAILED = 29
_ACCESS = frozenset({_TOPIC_AUTHORIZATION_FAILED, 30, 31, 33, 34, 53, 58, 65})


def name(code: int) -> str:
    """Returns the protocol's name of a code and its number, as brokers log it."""
    return f"{NAMES.get(code, 'UNKNOWN')} ({code})"


def retriable(code: int, api: Api | None = None) -> bool:
    """Returns whether the same request can succeed later, after a metadata refresh.

    ``api``: the request; None for one that the table of ``reactions`` does not have.
    """
    return reaction(api, code) in (Reaction.RETRY, Reaction.ABSENT, Reaction.REBOOTSTRAP)


def error(
    code: int, request: str, *, api: Api | None = None, principal: str = "", **where: Any
) -> BrokerError:
    """Returns the exception for a code. ``request``: words for the request and its receiver.

    ``api``: as for ``retriable``. ``principal``: Kafka's name of the user, if it is known.
    """
    kind = AccessRefused if code in _ACCESS else BrokerError
    meaning = _meaning(code, api, principal or "this user", where)
    return kind(
        f"{request}: the broker answered {name(code)}: {meaning}",
        code=code,
        retriable=retriable(code, api),
        **where,
    )


def unreadable(topic: str, principal: str) -> str:
    """Returns the sentence for a topic that the user may describe and not read."""
    return (
        f"{principal} may describe topic {topic}, and lacks the operation Read: add Read with "
        "kafka-acls.sh"
    )


def _meaning(code: int, api: Api | None, principal: str, context: Mapping[str, object]) -> str:
    if code == _TOPIC_AUTHORIZATION_FAILED and "topic" in context:
        # Of kfetch's requests, only Fetch needs Read. Kafka's ACLs let who may read describe too.
        lacks = "Read" if api is Api.FETCH else "Describe"
        return (
            f"{principal} lacks the operation {lacks}, so the ACLs don't let it read topic "
            f"{context['topic']}: add Read and Describe with kafka-acls.sh"
        )
    if code == REBOOTSTRAP_REQUIRED:
        return "it asks for a new start at kafka.bootstrap.servers"
    return str(for_code(code).description)
