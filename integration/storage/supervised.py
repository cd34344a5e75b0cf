"""A host of a project with two supervisors, in processes of its own. Its runs need no Spark.

    python -m integration.storage.supervised '{"machine": …, "length_s": …}' up PROJECT
    python -m integration.storage.supervised … run PROJECT JOB REPORT      what ``up`` starts
    python -m integration.storage.supervised … kfetch status --project …   any other command

For leases, the processes are on a machine of this name. A run holds the lease of its checkpoint as
``kfetch run`` does. It writes micro-batches: lines in the file ``table`` of the job's table.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kfetch.storage import lease, processes

_MICRO_BATCH_S = 0.05


def _up(setting: str, files: str) -> None:
    from kfetch_jobs import config
    from kfetch_jobs.supervise.terms import Terms
    from kfetch_jobs.verbs.supervising import _log, _signals

    # A run's working directory is the project's.
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    project = config.load(Path(files), os.environ)

    def command(job: str, report_file: Path) -> Sequence[str]:
        here = [sys.executable, "-m", "integration.storage.supervised", setting]
        return [*here, "run", files, job, str(report_file)]

    from kfetch_jobs.supervise.supervisor_lock import hold_supervisor_lock

    with (
        _log(project, as_json=False, quiet=False),
        _signals() as (stop, hurry),
        hold_supervisor_lock(project.storage),
    ):
        Terms(project, stop, hurry, lambda _: None, command).run()


def _run(machine: str, files: str, name: str, report_file: str) -> None:
    from kfetch_jobs import config
    from kfetch_jobs.progress.exit_report import ExitKind, ExitReport
    from kfetch_jobs.progress.reports import write_exit_report
    from kfetch_jobs.run.job_lock import hold_job
    from kfetch_jobs.supervise.leadership import term_file

    project = config.load(Path(files), os.environ)
    job = project.job(name)
    job.directory.mkdir(parents=True, exist_ok=True)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    table = Path(str(job.target.path)) / "table"
    table.parent.mkdir(parents=True, exist_ok=True)
    with hold_job(job, f"run of job {name}", term_file(project.storage)) as fence:
        while not stopped:
            if trouble := fence.trouble():
                sys.exit(trouble)
            fence.check()
            lines = table.read_bytes().splitlines() if table.exists() else []
            line = json.dumps({"batch": len(lines), "machine": machine, "at": time.time()})
            with table.open("a") as file:
                file.write(f"{line}\n")
            time.sleep(_MICRO_BATCH_S)
    write_exit_report(Path(report_file), ExitReport(kind=ExitKind.STOPPED))


def main(setting: str, what: str, *rest: str) -> None:
    """Be one process of a host."""
    asked: dict[str, Any] = json.loads(setting)
    lease.LENGTH_S = asked["length_s"]
    processes._machine = lambda: str(asked["machine"])
    if what == "up":
        _up(setting, *rest)
    elif what == "run":
        _run(asked["machine"], *rest)
    else:
        from kfetch.admin.cli import main as kfetch

        sys.argv = ["kfetch", *rest]
        kfetch()


if __name__ == "__main__":
    main(*sys.argv[1:])
