"""Access control lists of topics, at brokers that have an authorizer."""

from __future__ import annotations

import time

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
)

from integration.streams import PATIENCE_S
from kfetch_jobs.kafka import Cluster

__all__ = ["deny"]

_ANONYMOUS = "User:ANONYMOUS"
"""Who connects without a log-in."""


def deny(cluster: Cluster, topic: str, operation: ACLOperation) -> None:
    """Nobody may do this to the topic any more; everything else as before."""
    pattern = ResourcePattern(ResourceType.TOPIC, topic)
    # Once there is a rule about a topic, only what rules allow is allowed.
    kept = ACL(_ANONYMOUS, "*", ACLOperation.ALL, ACLPermissionType.ALLOW, pattern)
    denied = ACL(_ANONYMOUS, "*", operation, ACLPermissionType.DENY, pattern)
    both = ACLFilter(_ANONYMOUS, "*", ACLOperation.ANY, ACLPermissionType.ANY, pattern)
    deadline = time.monotonic() + PATIENCE_S
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_acls([kept, denied])
        # The controller has them; the broker hears of them a moment later.
        while len(admin.describe_acls(both)[0]) < 2:
            assert time.monotonic() < deadline, f"the broker never heard of {denied}"
            time.sleep(0.05)
