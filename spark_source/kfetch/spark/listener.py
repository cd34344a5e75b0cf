"""A listener that reports the lag of queries, for ``spark.streams.addListener``.

It works for every query of the session that reads with kfetch or with Spark's own Kafka connector.
It sends no request to Kafka: the lag is in the progress that Spark reports after each micro-batch.
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

from kfetch.spark.lag import Lag, LagHistory

log = logging.getLogger(__name__)


class LagListener(StreamingQueryListener):
    """Calls ``report`` with the Lag of each source after each micro-batch. The default logs it.

    Spark calls it in a thread of its own, one event after the other. While a query is idle or waits
    for ``minOffsetsPerTrigger``, there is no progress and no report.
    """

    def __init__(self, report: Callable[[Lag], object] | None = None) -> None:
        self._report = report or (lambda lag: log.info("%s", lag))
        self._history = LagHistory()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: there is no progress yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report the lag after a micro-batch."""
        for lag in self._history.lags(json.loads(event.progress.json)):
            self._report(lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: Spark does not say whether new offsets wait."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget the run."""
        self._history.forget(str(event.runId))
