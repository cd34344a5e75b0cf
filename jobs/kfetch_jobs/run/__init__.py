"""Runs one job in this process until it ends, fails or is told to stop.

stream.py        sources, decoding and transform: from a job's description to a DataFrame
sink.py          the DataFrame into Delta, each micro-batch exactly once
dead_letters.py  how many records of a micro-batch could not be decoded
watch.py         what Spark tells of a query, kept in files
ending.py        why a run ended, for whoever has to decide what comes next
alone.py         one process at a time for a job
life.py          the run itself
"""

from kfetch_jobs.run.exit_kind import ExitKind
from kfetch_jobs.run.exit_report import ExitReport
from kfetch_jobs.run.runner import RunResult, run

__all__ = ["ExitKind", "ExitReport", "RunResult", "run"]
