"""Runs one job in this process until it ends, fails or gets a stop signal.

runner.py          the run, from its lock to its end
job_lock.py        one process at a time for a job and its checkpoint
start_checks.py    what a run checks before its query starts
dataframes.py      from a job's description to a DataFrame: sources, transform
dead_letter_frames.py  dead letters apart from good records, and beside rows
letters_table.py   writes dead letters, and replaces those of a half-written micro-batch
tables.py          Delta tables by path or name, and the micro-batches in their logs
sink_columns.py    compares the result's columns with the sink's and the table's
used_columns.py    the columns of the source that a job's SQL uses
stateless.py       finds an operator that needs more than one micro-batch
merging.py         merges rows, so that a key's row never becomes older
delta_sink.py      writes the DataFrame to Delta, each micro-batch exactly once
straight.py        which jobs' tasks write the table's files themselves
batch_counts.py    counts of micro-batches that Spark does not know
query_recorder.py  records Spark's reports, for ``progress/``
watching.py        unreachable brokers, for the run's log, and whether tasks of Spark finish
outages.py         an outage of another system, by the innermost cause: pure
spark_errors.py    kfetch's errors from Spark's exceptions
"""

from kfetch_jobs.run.runner import RunResult, run

__all__ = ["RunResult", "run"]
