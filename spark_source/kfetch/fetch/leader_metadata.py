"""Where a reader looks up the leaders of its partitions."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Protocol

from kfetch.model import ClusterView
from kfetch.wire.cluster import Cluster


class LeaderMetadata(Protocol):
    """Metadata for the topics of ranges that have lost their leader."""

    def announce(self, topic: str) -> None:
        """Note that a ``view`` of this topic will be asked for, after a back-off."""

    def view(self, topics: AbstractSet[str], since: float, deadline: float) -> ClusterView:
        """Returns metadata of these topics that was asked for at ``since`` or later.

        ``since`` and ``deadline`` are monotonic times. Retries up to the deadline. Raises
        ConnectionLost, BrokerError.
        """


class FreshMetadata:
    """The LeaderMetadata of one reader: each view is a request."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def announce(self, topic: str) -> None:
        """See LeaderMetadata."""

    def view(self, topics: AbstractSet[str], since: float, deadline: float) -> ClusterView:
        """See LeaderMetadata."""
        return self._cluster.view(topics, deadline)
