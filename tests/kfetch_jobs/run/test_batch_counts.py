"""How many records a micro-batch had, and how many went to the dead letters: from the thread that
writes them to the listener's, to the progress file and the lines for people."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs import config
from kfetch_jobs.progress import progress_file as progress
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.progress.spark_progress import batch_from_spark
from kfetch_jobs.run import batch_counts, query_recorder
from kfetch_jobs.run.batch_counts import BatchCounts, Letters
from kfetch_jobs.verbs import running
from tests.examples import examples
from tests.kfetch_jobs.progress.test_spark_progress import TOLD
from tests.kfetch_jobs.projects import ENVIRON


def test_a_count_is_its_batchs_and_taken_once() -> None:
    """Whatever is put besides; a batch that comes again in a run has its last count, once."""
    counts = BatchCounts()
    counts.put(3, Letters(7))
    counts.put(3, Letters(2))
    counts.put(4, Letters(5))

    assert [0, 2, 0, 5, 0] == [counts.take(number).records for number in (2, 3, 3, 4, 5)]


@examples(30)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=40))
def test_nothing_is_kept_for_a_batch_that_nobody_asks_for(steps: list[tuple[bool, int]]) -> None:
    """Spark tells of batches in their order, and may leave some out: those before are forgotten."""
    counts, model = BatchCounts(), dict[int, Letters]()
    for puts, number in steps:
        if puts:
            counts.put(number, Letters(number + 1))
            model[number] = Letters(number + 1)
        else:
            assert model.get(number, Letters()) == counts.take(number)
            model = {other: many for other, many in model.items() if other > number}
    kept = {number: counts.take(number) for number in range(31)}
    assert model == {number: letters for number, letters in kept.items() if letters != Letters()}


def test_counts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that hears nothing any more does not fill the memory of a job."""
    monkeypatch.setattr(batch_counts, "_BATCHES_MAX", 3)
    counts = BatchCounts()
    for number in range(10):
        counts.put(number, Letters(1))

    assert [7, 8, 9] == [number for number in range(10) if counts.take(number) != Letters()]


def test_two_threads_lose_nothing(eager_threads: None) -> None:
    """The query's thread puts while the listener's takes: all counts are there afterwards."""
    counts, batches = BatchCounts(), 2000
    writer = threading.Thread(target=lambda: [counts.put(n, Letters(n)) for n in range(batches)])
    writer.start()
    while writer.is_alive():
        counts.take(-1)
    writer.join()

    assert [Letters(n) for n in range(batches)] == [counts.take(n) for n in range(batches)]


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads take turns 500 times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 500)
    yield
    sys.setswitchinterval(before)


def test_progress_has_what_was_buried(project: Path) -> None:
    """A micro-batch's line and the sum of the run have its count; a batch without has none."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    job.directory.mkdir(parents=True)
    reported: list[Batch] = []
    watched = query_recorder.QueryRecorder(job, reported.append)
    watched.counts.put(4, Letters(3, "t-0, offset 7: why"))
    for number in (4, 5):
        watched.record_progress(TOLD | {"batchId": number, "runId": "1", "id": "2"})

    assert [3, 0] == [batch.dead_letters for batch in reported]
    assert ["t-0, offset 7: why", ""] == [batch.dead_letter for batch in reported]
    assert reported == progress.read_batches(job.directory)
    assert 3 == watched.dead_letters


def test_rows_are_counted_once(project: Path) -> None:
    """A plan that reads each record twice has the rows of one that reads it once."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    job.directory.mkdir(parents=True)
    reported: list[Batch] = []
    watched = query_recorder.QueryRecorder(job, reported.append)
    watched.counts.reads = 2
    watched.record_progress(TOLD | {"runId": "1", "id": "2"})

    assert [TOLD["numInputRows"] // 2] == [batch.rows for batch in reported]


def test_rows_of_files(project: Path) -> None:
    """Where tasks write files, Spark counts those. A micro-batch without a count has Spark's, also
    one that comes again in another run."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    job.directory.mkdir(parents=True)
    reported: list[Batch] = []
    watched = query_recorder.QueryRecorder(job, reported.append)
    watched.counts.put_rows(4, 1_000_000)
    watched.counts.put_rows(5, 0)
    for number in (4, 5, 6):
        watched.record_progress(TOLD | {"batchId": number, "runId": "1", "id": "2"})

    assert [1_000_000, 0, 40] == [batch.rows for batch in reported]
    assert 1_000_040 == watched.rows


@pytest.mark.parametrize(
    ("many", "told"), [(0, ""), (1, ", 1 dead letter"), (2000, ", 2,000 dead letters")]
)
def test_a_line_for_people(many: int, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Dead letters are told where there are some."""
    running._print_batch(batch_from_spark(TOLD, now=1.0, dead_letters=many))

    assert (
        f"batch 4: 40 records in 1.5 s (27 records/s), 5 behind{told}\n" == capsys.readouterr().err
    )


def test_a_line_tells_late_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """What a watermark dropped is told with the micro-batch that had it."""
    operators = [{"numRowsDroppedByWatermark": 550}]
    running._print_batch(batch_from_spark(TOLD | {"stateOperators": operators}, now=1.0))

    assert capsys.readouterr().err.endswith("5 behind, 550 rows dropped by the watermark\n")
