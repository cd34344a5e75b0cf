"""A listener that reports how far queries are behind, for ``spark.streams.addListener``.

Works for every query of the session that reads with kfetch or with Spark's own Kafka connector.
Nothing is asked of Kafka: the lag is in the progress that Spark reports after each micro-batch.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from kfetch.lag import Lag, LagHistory

log = logging.getLogger(__name__)


class LagListener(StreamingQueryListener):
    """Calls ``report`` with the Lag of each source after each micro-batch; logs it by default.

    Spark calls it in a thread of its own, one event after the other. While a query is idle, or
    waits for ``minOffsetsPerTrigger``, there is no progress and so no report.
    """

    def __init__(self, report: Callable[[Lag], object] | None = None) -> None:
        self._report = report or (lambda lag: log.info("%s", lag))
        self._history = LagHistory()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing to tell yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A micro-batch is done."""
        for lag in self._history.lags(json.loads(event.progress.json)):
            self._report(lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing new, or held back: Spark does not say which."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The run is over."""
        self._history.forget(str(event.runId))
