"""The report of a run's end: written, read, and its kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch_jobs.run import exit_report
from kfetch_jobs.run.exit_kind import ExitKind
from kfetch_jobs.run.exit_report import ExitReport


def test_the_last_word(tmp_path: Path) -> None:
    """It is read as it was written; where there is none, or half of one, the run was killed."""
    path = tmp_path / "word"
    assert ExitKind.KILLED is exit_report.read_exit_report(path).kind

    told = ExitReport(kind=ExitKind.FAILED, sentence="broken")
    exit_report.write_exit_report(path, told)
    assert told == exit_report.read_exit_report(path)

    path.write_text(path.read_text()[:20])
    assert ExitKind.KILLED is exit_report.read_exit_report(path).kind


def test_the_report_of_an_older_kfetch(tmp_path: Path) -> None:
    """A supervisor adopts a run that an older kfetch started. Its report has more keys."""
    path = tmp_path / "word"
    path.write_text('{"kind": "failed", "sentence": "broken", "batches": 2, "rows": 7, "lag": 1}')
    told = ExitReport(kind=ExitKind.FAILED, sentence="broken")
    assert told == exit_report.read_exit_report(path)


@pytest.mark.parametrize("kind", ExitKind)
def test_every_kind_is_good_repeats_or_is_tried_again(kind: ExitKind) -> None:
    """No kind of ending is both a success and a mistake to mend."""
    assert not (kind.succeeded and kind.needs_a_person)


def test_a_sentence_can_be_kept(tmp_path: Path) -> None:
    """A path in it may have bytes that are no UTF-8: the supervisor's database takes text alone."""
    word = tmp_path / "ending.json"
    exit_report.write_exit_report(
        word, ExitReport(kind=ExitKind.FAILED, sentence="cannot read b\udcff.yml")
    )

    assert r"cannot read b\udcff.yml" == exit_report.read_exit_report(word).sentence
