"""The thread of one broker of one query: it fetches for every task that reads there.

A thread that has had no range for the query's lease, and for a minute, retires: it closes its
session and ends. So a broker that moved to another address costs nothing, nor does one that leads
none of the partitions any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack

from kfetch.agent.budget import Budget
from kfetch.agent.shared_broker import SharedBroker
from kfetch.fetch.replicas import ReadReplicas
from kfetch.fetch.totals import Totals
from kfetch.model import Broker
from kfetch.options import SourceOptions

log = logging.getLogger(__name__)

# A thread without a range lives so long at least, however short the lease is: Spark may give an
# executor no task of a broker for several micro-batches.
_IDLE_MIN_S = 60.0


class BrokerThread(SharedBroker):
    """A SharedBroker with a thread of its own. Commands carry the tasks' calls over."""

    def __init__(
        self,
        query: str,
        broker: Broker,
        options: SourceOptions,
        budget: Budget,
        totals: Totals,
        replicas: ReadReplicas,
        on_end: Callable[[SharedBroker], None],
    ) -> None:
        super().__init__(broker, options, budget, totals, replicas)
        self._on_end = on_end
        self._commands: deque[Callable[[], object]] = deque()
        self._command_came = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(
            target=self._run, name=f"{query[:8]} {broker.node_id}", daemon=True
        )
        self._thread.start()  # may raise for want of threads

    def request_close(self) -> None:
        """Ask the thread to close its session and end. Returns at once."""
        self._post(self._close)

    def close(self) -> None:
        """Close the session and end the thread. Waits two seconds and one long poll at most."""
        self.request_close()
        self._thread.join(timeout=2 + self._options.fetch.max_wait_ms / 1000)

    def _run(self) -> None:
        """Fetch until closed. An unexpected error fails the tasks and never gets lost."""
        with ExitStack() as at_end:  # each step runs whatever the others raise, the last one first
            at_end.callback(self._on_end, self)
            at_end.callback(super().close)
            at_end.callback(self._retire)
            while not self._closing:
                try:
                    self._step()
                except Exception as cause:
                    log.exception("%s", self._thread.name)
                    self._fail_tasks(cause)

    def _retire(self) -> None:
        """Accept no more ranges. A range comes either before this, or to another thread."""
        with self._command_came:
            self.retired = self._closing = True

    def _step(self) -> None:
        """Run commands. Then receive the reply in flight, send, or wait for a command."""
        self._run_commands()
        if self._closing:
            return
        if self.idle:
            self._rest()
        elif pause_s := self.step(time.monotonic() + self._options.poll_timeout_s):
            self._wait_for_command(pause_s)

    def _rest(self) -> None:
        """Wait for a command while there is no range. Retire if none comes during the lease."""
        self._memory.stop_waiting()
        self._wait_for_command(max(_IDLE_MIN_S, self._options.agent.lease_s))
        with self._command_came:
            # Under the lock: a range comes either before this, or to another thread.
            self.retired = self._closing = not self._commands

    def _post(self, command: Callable[[], object]) -> bool:
        with self._command_came:
            if not self.retired:
                self._commands.append(command)
                self._command_came.notify()
            return not self.retired

    def _wait_for_command(self, timeout_s: float) -> None:
        with self._command_came:
            self._command_came.wait_for(lambda: bool(self._commands), timeout_s)

    def _run_commands(self) -> None:
        while self._commands:  # one by one: a command that raises does not lose the next ones
            self._commands.popleft()()

    def _close(self) -> None:
        self._closing = True
