"""Kills what lives of runs. A round of the supervisor's loop waits for no process to die."""

from __future__ import annotations

import logging
import time
from collections.abc import Container
from pathlib import Path

from kfetch_jobs.progress.exit_report import interruption
from kfetch_jobs.progress.progress_file import committed_since
from kfetch_jobs.progress.reports import (
    exit_report_path,
    read_exit_report,
    write_exit_report,
)
from kfetch_jobs.supervise.processes import GONE_WITHIN_S, RunProcess
from kfetch_jobs.supervise.run_process import remove_settings, run_process
from kfetch_jobs.supervise.store import Run, Store

log = logging.getLogger("kfetch_jobs.supervisor")


def record_own_end(store: Store, storage: Path, run: Run, now: float, killed_because: str) -> None:
    """Record the end of a run whose supervisor died: as its exit report tells, if it has one.

    ``killed_because`` is the sentence for a run that ended by a signal.
    """
    report_file = exit_report_path(storage / run.job, run.id)
    report = read_exit_report(report_file)
    sentence = killed_because if report.by_signal else report.sentence
    batches, rows = committed_since(storage / run.job, run.started_s)
    store.end(run.id, now, report.kind, sentence, batches=batches, rows=rows)
    report_file.unlink(missing_ok=True)


def report_interruption(storage: Path, run: int, job: str, sentence: str) -> None:
    """Report that this host has interrupted a run, unless the run has ended by itself.

    The next leader records the end.
    """
    report_file = exit_report_path(storage / job, run)
    if read_exit_report(report_file).by_signal:
        write_exit_report(report_file, interruption(sentence))


class RunKiller:
    """Kills runs, and remembers those that are not gone yet."""

    def __init__(self, storage: Path, store: Store) -> None:
        self._storage = storage
        self._store = store
        self._unwanted: list[Run] = []
        self._logged_s: dict[int, float] = {}
        """When the log last named a run that is not gone, or its first kill: monotonic."""

    def kill(self, run: int, job: str, process: RunProcess, within_s: float = 0.0) -> bool:
        """Kill what lives of a run, and return whether nothing is left. If not, call it again."""
        if process.kill(within_s):
            self._logged_s.pop(run, None)
            return True
        now = time.monotonic()
        if now - self._logged_s.setdefault(run, now) >= GONE_WITHIN_S:
            log.error("job %s: some of its processes do not die", job)
            self._logged_s[run] = now
        return False

    def add_unwanted(self, run: Run) -> None:
        """Remember a run that an earlier supervisor has left, and that nobody wants."""
        self._unwanted.append(run)

    def end_unwanted(self, supervised: Container[str], now: float, within_s: float = 0.0) -> None:
        """Kill the unwanted runs, and record the ends of those that are gone."""
        for run in tuple(self._unwanted):
            process = run_process(self._storage, run)
            if not self.kill(run.id, run.job, process, within_s):
                continue
            if run.job not in supervised:  # else the file may be that of the job's newer run
                remove_settings(self._storage, run.job)
            reason = "its job is not supervised any more"
            record_own_end(self._store, self._storage, run, now, reason)
            self._unwanted.remove(run)
