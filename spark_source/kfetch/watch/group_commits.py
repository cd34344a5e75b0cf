"""Commits a query's progress for a consumer group: ``kfetch.commitGroup``, for tools that show lag.

Spark's checkpoint alone decides where a query continues. So a commit may be late or may fail, and
the query goes on. A thread of its own commits, because the driver must never wait for it.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback

from kfetch.errors import KfetchError
from kfetch.model import TopicPartition
from kfetch.offsets import Position, Positions
from kfetch.options import SourceOptions
from kfetch.wire.cluster import Cluster

log = logging.getLogger(__name__)

_INTERVAL_S = 5.0
"""The pause between two commits: the default of Kafka's ``auto.commit.interval.ms``."""
_AFTER_FAILURE_S = 30.0
_CLOSE_S = 1.0
"""How long closing waits for the last commit. Spark ends the process soon after."""


class GroupCommits:
    """Commits the latest positions of one query. ``note`` and ``close`` belong to one thread."""

    def __init__(self, group: str, options: SourceOptions) -> None:
        self._group = group
        self._options = options
        self._cluster = Cluster(options.bootstrap, options.network)
        self._noted: Positions = {}
        self._changed = threading.Condition()
        self._pending: dict[TopicPartition, Position] = {}
        self._closing = False
        self._failed = False
        self._thread: threading.Thread | None = None

    def note(self, positions: Positions) -> None:
        """Commit these positions soon. Spark has committed them in its checkpoint."""
        moved = {tp: at for tp, at in positions.items() if self._noted.get(tp) != at}
        with self._changed:
            self._noted = positions
            self._pending |= moved
            self._changed.notify()
        if self._thread is None and moved:
            self._thread = threading.Thread(target=self._run, name="group commits", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Commit what is pending, for a second at most."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        due, is_last = 0.0, False
        while not is_last:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._pending)
                pause_s = max(0.0, due - time.monotonic())
                is_last = self._changed.wait_for(lambda: self._closing, pause_s)
                positions, self._pending = self._pending, {}
            is_done = not positions or self._commit(positions)
            due = time.monotonic() + (_INTERVAL_S if is_done else _AFTER_FAILURE_S)
        self._cluster.close()

    def _commit(self, positions: dict[TopicPartition, Position]) -> bool:
        """Commit positions, or keep them for the next time. Only the first failure is logged.

        A partition that has left the query is not kept: its topic may be gone for good.
        No error ends the thread: without it, the group would have old offsets and no warning.
        """
        from kfetch.wire import groups

        limit_s = _CLOSE_S if self._closing else self._options.network.request_timeout_s
        deadline = time.monotonic() + limit_s
        try:
            groups.commit_offsets(self._cluster, self._group, positions, deadline)
        except Exception as cause:
            if not self._failed:
                log.warning("kfetch: kfetch.commitGroup: %s. The query goes on", _words(cause))
            self._failed = True
            with self._changed:
                kept = {tp: at for tp, at in positions.items() if tp in self._noted}
                self._pending = kept | self._pending
            return False
        self._failed = False
        return True


def _words(cause: Exception) -> str:
    """Returns an error's sentence. The text of a foreign error may hold a secret, so: its line."""
    if isinstance(cause, KfetchError):
        return cause.message
    line = traceback.extract_tb(cause.__traceback__)[-1]
    return f"{type(cause).__name__} at {line.filename}:{line.lineno}"
