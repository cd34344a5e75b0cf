"""Metadata that the tasks of a query share: a failover costs one request, not one per task.

When a broker fails, all of its tasks lose their leaders at once. Each task announces its topics
then, and looks up their leaders after its back-off. The first one asks for all announced topics.
The others take its answer, because its request left after they lost their leaders.

Queries do not share metadata. They may have different rights, and an error about a topic of one
query must not end a task of another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kfetch.errors import ConnectionLost
from kfetch.model import ClusterView
from kfetch.options import SourceOptions
from kfetch.wire.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    view: ClusterView
    topics: AbstractSet[str]
    """The topics that the request named."""
    asked_at: float


class SharedMetadata:
    """The LeaderMetadata of all tasks of a query."""

    def __init__(self, options: SourceOptions) -> None:
        # One task at a time uses the cluster, while ``_asking`` is true.
        self._cluster = Cluster(options.bootstrap, options.network)
        self._changed = threading.Condition()
        self._asking = False
        self._announced: set[str] = set()
        self._answer: _Answer | None = None

    def announce(self, topic: str) -> None:
        """See LeaderMetadata."""
        with self._changed:
            self._announced.add(topic)

    def view(self, topics: AbstractSet[str], since: float, deadline: float) -> ClusterView:
        """See LeaderMetadata."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._asking, deadline - time.monotonic()):
                raise ConnectionLost("the metadata request of another task got no answer")
            answer = self._answer
            if answer and answer.asked_at >= since and topics <= answer.topics:
                return answer.view
            self._asking = True
            topics, self._announced = topics | self._announced, set()
        try:
            return self._ask(topics, deadline)
        finally:
            with self._changed:
                self._asking = False
                self._changed.notify_all()

    def _ask(self, topics: AbstractSet[str], deadline: float) -> ClusterView:
        asked_at = time.monotonic()
        try:
            view = self._cluster.view(topics, deadline)
        finally:
            # The next failover may be weeks away: no connection stays open until then.
            self._cluster.close()
        self._answer = _Answer(view=view, topics=topics, asked_at=asked_at)
        return view
