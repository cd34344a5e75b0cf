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
UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
UNKNOWN_TOPIC_ID = 100
REBOOTSTRAP_REQUIRED = 129  # KIP-1102

# Refusals of SASL 33, 34, 58; by ACLs 29, 30, 31, 53, 65.
_TOPIC_AUTHORIZATION_FAILED, _GROUP_AUTHORIZATION_FAILED, _CLUSTER_AUTHORIZATION_FAILED = 29, 30, 31
_ACCESS = frozenset({_TOPIC_AUTHORIZATION_FAILED, 30, 31, 33, 34, 53, 58, 65})


def name(code: int) -> str:
    """Returns the protocol's name of a code and its number, as brokers log it."""
    return f"{NAMES.get(code, 'UNKNOWN')} ({code})"


def description(code: int) -> str:
    """Returns Kafka's explanation of a code."""
    return str(for_code(code).description)


def retriable(code: int, api: Api | None = None) -> bool:
    """Returns whether the same request can succeed later, after a metadata refresh.

    ``api``: the request; None for one that the table of ``reactions`` does not have.
    """
    return reaction(api, code) in (Reaction.RETRY, Reaction.ABSENT, Reaction.REBOOTSTRAP)


def error(code: int, request: str, *, api: Api | None = None, **where: Any) -> BrokerError:
    """Returns the exception for a code. ``request``: words for the request and its receiver.

    ``api``: as for ``retriable``. ``where`` may hold the user's name as ``user``.
    """
    kind = AccessRefused if code in _ACCESS else BrokerError
    return kind(
        f"{request}: the broker answered {name(code)}: {_meaning(code, api, where)}",
        code=code,
        retriable=retriable(code, api),
        **where,
    )


def unreadable(topic: str, user: str) -> str:
    """Returns the sentence for a topic that a user may describe and not read."""
    return (
        f"the ACLs of topic {topic} let {_principal({'user': user})} describe it and not read it: "
        "add the operation READ with kafka-acls.sh"
    )


# What ACLs must allow for a request about a topic (org.apache.kafka.common.acl.AclOperation).
# Whoever may READ may DESCRIBE, too.
_OPERATIONS = {Api.FETCH: ("read", "READ")}
_DESCRIBE = ("describe", "DESCRIBE")


def _meaning(code: int, api: Api | None, context: Mapping[str, object]) -> str:
    if code == _TOPIC_AUTHORIZATION_FAILED and "topic" in context:
        verb, operation = _OPERATIONS.get(api, _DESCRIBE) if api else _DESCRIBE
        return (
            f"its ACLs don't let {_principal(context)} {verb} topic {context['topic']}: the "
            f"operation {operation} is missing; add it with kafka-acls.sh"
        )
    if code == _CLUSTER_AUTHORIZATION_FAILED:
        return (
            f"its ACLs don't let {_principal(context)} do this in the cluster: add the operation "
            "with kafka-acls.sh"
        )
    if code == _GROUP_AUTHORIZATION_FAILED and "group" in context:
        return (
            f"its ACLs don't let {_principal(context)} use group {context['group']}: add Describe "
            "and Read with kafka-acls.sh --group"
        )
    if code == REBOOTSTRAP_REQUIRED:
        return "it asks for a new start at kafka.bootstrap.servers"
    return description(code)


def _principal(context: Mapping[str, object]) -> str:
    if user := context.get("user"):
        return f"User:{user}"
    return "this user (User:ANONYMOUS where there is no log-in)"
