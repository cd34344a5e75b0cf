"""From Spark's exceptions to kfetch's errors, whose class decides about a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch import codes
from kfetch.errors import LeaseLost
from kfetch_jobs.errors import ConfigError, JobsError, SparkError
from kfetch_jobs.progress.exit_report import ExitKind, ExitReport, error_report, exit_kind_of
from kfetch_jobs.run import spark_errors

TRACE = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
kfetch.errors.{name}: what happened
\tat org.apache.spark.Something"""


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (TRACE.format(name="RecordsExpired"), ExitKind.DATA_LOSS),
        (TRACE.format(name="TopicRecreated"), ExitKind.DATA_LOSS),
        (TRACE.format(name="OptionError"), ExitKind.CONFIG),
        (TRACE.format(name="NoSuchPartition"), ExitKind.CONFIG),
        (TRACE.format(name="CheckpointError"), ExitKind.CONFIG),
        (TRACE.format(name="LeaseLost"), ExitKind.FAILED),
        (TRACE.format(name="BrokerError"), ExitKind.FAILED),
        (TRACE.format(name="AccessRefused"), ExitKind.AUTH),
        (TRACE.format(name="ConnectionLost"), ExitKind.FAILED),
        (TRACE.format(name="NoSuchError"), ExitKind.FAILED),
        (TRACE.format(name="MalformedValue"), ExitKind.CONFIG),
        ("[USER_RAISED_EXCEPTION] cannot order the rows of a key by offset: t", ExitKind.CONFIG),
        (TRACE.replace("kfetch.", "kfetch_jobs.").format(name="ConfigError"), ExitKind.CONFIG),
        (TRACE.replace("kfetch.", "kfetch_jobs.").format(name="SparkError"), ExitKind.FAILED),
        ("[DELTA_METADATA_MISMATCH] A metadata mismatch was detected", ExitKind.CONFIG),
        ("[DELTA_FAILED_TO_MERGE_FIELDS] Failed to merge fields 'a' and 'a'", ExitKind.CONFIG),
        ("[DELTA_MERGE_UNRESOLVED_EXPRESSION] Cannot resolve s in UPDATE clause", ExitKind.CONFIG),
        ("[DELTA_CONCURRENT_APPEND] Files were added", ExitKind.FAILED),
        ("java.lang.OutOfMemoryError: Java heap space", ExitKind.FAILED),
        ("", ExitKind.FAILED),
    ],
)
def test_kinds(cause: str, kind: ExitKind) -> None:
    """The class that Spark's text names decides whether another attempt could help."""
    error = spark_errors.job_error(RuntimeError(cause), "job a failed", Path("spark.log"))

    assert kind is exit_kind_of(error)
    assert error.message.startswith("job a failed: ")
    assert error.message.endswith("(see spark.log)")


def test_a_lost_lease() -> None:
    """Its own sentence and code, and another attempt may help: no JVM has failed."""
    lost = LeaseLost("the lease ck.lease could not be renewed", action="the run has stopped")

    error = spark_errors.job_error(lost, "job a failed", Path("spark.log"))

    assert (
        "job a failed: the lease ck.lease could not be renewed: the run has stopped "
        "[SPARK_FAILED.CHECKPOINT_LEASE_LOST]"
    ) == str(error)
    assert ExitKind.FAILED is exit_kind_of(error)


@pytest.mark.parametrize(
    ("name", "interrupted"), [("LeaseLost", True), ("BrokerError", False), ("OptionError", False)]
)
def test_the_report_of_a_fenced_run(name: str, interrupted: bool) -> None:
    """A run that ends because another process may go on has not failed, whoever noticed it."""
    error = spark_errors.job_error(RuntimeError(TRACE.format(name=name)), "job a", Path("log"))
    report = error_report(error, "why")
    assert (interrupted, "why") == (report.interrupted, report.sentence)
    lost = LeaseLost("the supervisor of this host does not lead the project any more")
    assert ExitReport(kind=ExitKind.STOPPED, sentence="s", interrupted=True) == error_report(
        lost, "s"
    )


def test_the_code_of_the_cause_is_shown_once() -> None:
    """The source's code leaves its sentence and follows that of the run; a wrong option has one."""
    text = TRACE.replace("happened", "happened [{code}]").replace("[STREAM_FAILED]", "")
    of_jobs = text.replace("kfetch.errors", "kfetch_jobs.errors")
    lost, wrong, own, failed = (
        str(spark_errors.job_error(RuntimeError(one), "job a failed", Path("log")))
        for one in (
            text.format(name="LogTruncated", code="LOG_TRUNCATED"),
            text.format(name="OptionError", code="OPTION_INVALID"),
            of_jobs.format(name="ConfigError", code="CONFIG_INVALID"),
            of_jobs.format(name="SparkError", code="SPARK_FAILED.CONNECTION_LOST"),
        )
    )

    assert "job a failed: what happened (see log) [RECORDS_LOST.LOG_TRUNCATED]" == lost
    assert "job a failed: what happened (see log) [CONFIG_INVALID]" == wrong == own
    assert "job a failed: what happened (see log) [SPARK_FAILED]" == failed


@pytest.mark.parametrize(
    ("code", "kind"),
    [(29, ExitKind.AUTH), (31, ExitKind.AUTH), (58, ExitKind.AUTH), (6, ExitKind.FAILED)],
)
def test_what_a_broker_answers(code: int, kind: ExitKind) -> None:
    """A refusal for good is known in Spark's text by the error that the source raises for it."""
    told = codes.error(code, "watching clicks-0", topic="clicks")
    text = TRACE.replace("what happened", str(told)).format(name=type(told).__name__)

    assert kind is exit_kind_of(spark_errors.job_error(RuntimeError(text), "failed", Path("log")))


RAISED = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/env/lib/site-packages/pyspark/worker.py", line 1, in main
{frame}
    return 1 // number
           ~~^^~~~~~~~
ZeroDivisionError: integer division or modulo by zero
\tat org.apache.spark.Something"""


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("/shop/agg.py", "/shop/agg.py:21: ZeroDivisionError: "),
        ("/shop/conf/agg.py", "/shop/conf/agg.py:21: ZeroDivisionError: "),
        ("/shop/.venv/lib/site-packages/other.py", ""),
        ("/shopping/agg.py", ""),
    ],
)
def test_where_the_projects_code_raised(file: str, place: str) -> None:
    """A function of the project that raises in a worker is told by its line; a library's is not."""
    text = RAISED.format(frame=f'  File "{file}", line 21, in g')
    error = spark_errors.job_error(
        RuntimeError(text), "job a failed", Path("log"), code=[Path("/shop/conf"), Path("/shop")]
    )

    told = f"{place}integer division or modulo by zero"
    assert f"job a failed: {told} (see log)" == error.message


@pytest.mark.parametrize("error", [ConfigError("a.yml:1: wrong"), SparkError("no Java")])
def test_our_own_errors_stay(error: JobsError) -> None:
    """An error that is one sentence already is told as it is."""
    assert error is spark_errors.job_error(error, "job a failed", Path("spark.log"))
