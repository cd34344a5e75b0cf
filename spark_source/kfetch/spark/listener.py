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
from kfetch.spark.versions import reports_log_ends

log = logging.getLogger(__name__)


class LagListener(StreamingQueryListener):
    """Calls ``report`` with the Lag of each source after each micro-batch. The default logs it.

    Spark calls it in a thread of its own, one event after the other. While a query is idle or waits
    for ``minOffsetsPerTrigger``, there is no progress and no report. Before Spark 4.2, there is no
    report of kfetch's sources, because the progress lacks their log ends.
    """

    def __init__(self, report: Callable[[Lag], object] | None = None) -> None:
        self._report = report or (lambda lag: log.info("%s", lag))
        self._history: LagHistory | None = None
        """None before the first progress: with Spark Connect, nobody knows the server before."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: there is no progress yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report the lag after a micro-batch."""
        self._history = self._history or self._new_history()
        for lag in self._history.lags(json.loads(event.progress.json)):
            self._report(lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: Spark does not say whether new offsets wait."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget the run."""
        if self._history:
            self._history.forget(str(event.runId))

    def _new_history(self) -> LagHistory:
        session = self.spark
        if session is None or hasattr(session, "_jvm"):
            has_ends = reports_log_ends()
        else:
            has_ends = reports_log_ends(session.version)
        if not has_ends:
            log.warning(
                "kfetch: before Spark 4.2, the progress has no log ends of kfetch's sources, so "
                "LagListener reports only sources of Spark's connector. For tools that show the "
                "lag of consumer groups, set the source option kfetch.commitGroup."
            )
        return LagHistory(has_own_ends=has_ends)
