"""Why a run ended: from Spark's pages and our own errors to a word the supervisor acts on."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch import codes
from kfetch_jobs.errors import ConfigError, JobsError, SparkError
from kfetch_jobs.run import ending
from kfetch_jobs.run.ending import Ending
from kfetch_jobs.run.kinds import Kind

TRACE = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
kfetch.errors.{name}: what happened
\tat org.apache.spark.Something"""


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (TRACE.format(name="RecordsExpired"), Kind.DATA_LOSS),
        (TRACE.format(name="TopicRecreated"), Kind.DATA_LOSS),
        (TRACE.format(name="OptionError"), Kind.CONFIG),
        (TRACE.format(name="NoSuchPartition"), Kind.CONFIG),
        (TRACE.format(name="CheckpointError"), Kind.CONFIG),
        (TRACE.format(name="BrokerError"), Kind.FAILED),
        (TRACE.format(name="AccessRefused"), Kind.AUTH),
        (TRACE.format(name="ConnectionLost"), Kind.FAILED),
        (TRACE.format(name="NoSuchError"), Kind.FAILED),
        ("[USER_RAISED_EXCEPTION] cannot decode t-0, offset 1: value is not JSON", Kind.CONFIG),
        ("java.lang.OutOfMemoryError: Java heap space", Kind.FAILED),
        ("", Kind.FAILED),
    ],
)
def test_kinds(cause: str, kind: Kind) -> None:
    """The class that Spark's text names decides whether another attempt could help."""
    error = ending.error_from(RuntimeError(cause), "job a failed", Path("spark.log"))

    assert kind is ending.kind_of(error)
    assert error.message.startswith("job a failed: ")
    assert error.message.endswith("(see spark.log)")


def test_the_code_of_the_cause_is_shown_once() -> None:
    """The source's code leaves its sentence and follows that of the run; a wrong option has one."""
    text = TRACE.replace("happened", "happened [{code}]").replace("[STREAM_FAILED]", "")
    lost, wrong = (
        str(ending.error_from(RuntimeError(text.format(**each)), "job a failed", Path("log")))
        for each in (
            {"name": "LogTruncated", "code": "LOG_TRUNCATED"},
            {"name": "OptionError", "code": "OPTION_INVALID"},
        )
    )

    assert "job a failed: what happened (see log) [RECORDS_LOST.LOG_TRUNCATED]" == lost
    assert "job a failed: what happened (see log) [CONFIG_INVALID]" == wrong


@pytest.mark.parametrize(
    ("code", "kind"), [(29, Kind.AUTH), (31, Kind.AUTH), (58, Kind.AUTH), (6, Kind.FAILED)]
)
def test_what_a_broker_answers(code: int, kind: Kind) -> None:
    """A refusal for good is known in Spark's text by the error that the source raises for it."""
    told = codes.error(code, "watching clicks-0", topic="clicks")
    text = TRACE.replace("what happened", str(told)).format(name=type(told).__name__)

    assert kind is ending.kind_of(ending.error_from(RuntimeError(text), "failed", Path("log")))


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
    error = ending.error_from(
        RuntimeError(text), "job a failed", Path("log"), code=[Path("/shop/conf"), Path("/shop")]
    )

    told = f"{place}integer division or modulo by zero"
    assert f"job a failed: {told} (see log)" == error.message


@pytest.mark.parametrize("error", [ConfigError("a.yml:1: wrong"), SparkError("no Java")])
def test_our_own_errors_stay(error: JobsError) -> None:
    """An error that is one sentence already is told as it is."""
    assert error is ending.error_from(error, "job a failed", Path("spark.log"))


def test_the_last_word(tmp_path: Path) -> None:
    """It is read as it was written; where there is none, or half of one, the run was killed."""
    path = tmp_path / "word"
    assert Kind.KILLED is ending.read(path).kind

    told = Ending(kind=Kind.FAILED, sentence="broken", batches=2, rows=7, lag=1)
    ending.write(path, told)
    assert told == ending.read(path)

    path.write_text(path.read_text()[:20])
    assert Kind.KILLED is ending.read(path).kind


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_is_good_repeats_or_is_tried_again(kind: Kind) -> None:
    """No kind of ending is both a success and a mistake to mend."""
    assert not (kind.good and kind.repeats)


def test_a_sentence_can_be_kept(tmp_path: Path) -> None:
    """A path in it may have bytes that are no UTF-8: the supervisor's database takes text alone."""
    word = tmp_path / "ending.json"
    ending.write(word, Ending(kind=Kind.FAILED, sentence="cannot read b\udcff.yml"))

    assert r"cannot read b\udcff.yml" == ending.read(word).sentence
