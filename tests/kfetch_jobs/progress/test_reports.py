"""The reports of a run: written, read, damaged, and those of another release."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch_jobs.progress import reports
from kfetch_jobs.progress.exit_report import ExitKind, ExitReport
from kfetch_jobs.progress.partition_lags import PartitionLags
from kfetch_jobs.progress.reports import Pulse


def test_the_last_word(tmp_path: Path) -> None:
    """It is read as it was written; where there is none, or half of one, the run was killed."""
    path = tmp_path / "word"
    assert ExitKind.KILLED is reports.read_exit_report(path).kind

    told = ExitReport(kind=ExitKind.FAILED, sentence="broken")
    reports.write_exit_report(path, told)
    assert told == reports.read_exit_report(path)

    path.write_text(path.read_text()[:20])
    assert ExitKind.KILLED is reports.read_exit_report(path).kind


def test_the_report_of_an_older_kfetch(tmp_path: Path) -> None:
    """A supervisor adopts a run that an older kfetch started. Its report has more keys."""
    path = tmp_path / "word"
    path.write_text('{"kind": "failed", "sentence": "broken", "batches": 2, "rows": 7, "lag": 1}')
    told = ExitReport(kind=ExitKind.FAILED, sentence="broken")
    assert told == reports.read_exit_report(path)


@pytest.mark.parametrize("kind", ExitKind)
def test_every_kind_is_good_repeats_or_is_tried_again(kind: ExitKind) -> None:
    """No kind of ending is both a success and a mistake to mend."""
    assert not (kind.succeeded and kind.needs_a_person)


def test_a_sentence_can_be_kept(tmp_path: Path) -> None:
    """A path in it may have bytes that are no UTF-8: the supervisor's database takes text alone."""
    word = tmp_path / "ending.json"
    reports.write_exit_report(
        word, ExitReport(kind=ExitKind.FAILED, sentence="cannot read b\udcff.yml")
    )

    assert r"cannot read b\udcff.yml" == reports.read_exit_report(word).sentence


def test_a_pulse_of_another_kfetch(tmp_path: Path) -> None:
    """The last release wrote these bytes: its supervisor and this one read the same pulse. A later
    release may write more keys."""
    told = Pulse(at=60.5, batch=4, lag=11, lag_s=2.5, query="8a04")
    reports.write_pulse(tmp_path, told)
    text = '{\n  "at": 60.5,\n  "batch": 4,\n  "lag": 11,\n  "lag_s": 2.5,\n  "query": "8a04"\n}\n'
    assert text == (tmp_path / "pulse.json").read_text()

    (tmp_path / "pulse.json").write_text(text.replace("{", '{"new": [],'))
    assert told == reports.read_pulse(tmp_path)


def test_a_pulse_of_an_earlier_run(tmp_path: Path) -> None:
    """The job's next run is silent until its own first pulse."""
    reports.write_pulse(tmp_path, Pulse(at=60.0, batch=4))

    assert reports.read_pulse(tmp_path, 60.0)
    assert not reports.read_pulse(tmp_path, 60.1)


@pytest.mark.parametrize("damage", ["", "{", "[]", "7", '{"at": "x", "batch": 1}', '{"at": 1}'])
def test_a_damaged_pulse_is_none(tmp_path: Path, damage: str) -> None:
    """After a power failure the file may be empty."""
    (tmp_path / "pulse.json").write_text(damage)

    assert reports.read_pulse(tmp_path) is None


def test_a_full_disk_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A report that cannot be written is a line in the log. The older report stays, whole."""
    told = Pulse(at=1.0, batch=4)
    reports.write_pulse(tmp_path, told)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("json.dump", full)
    reports.write_pulse(tmp_path, Pulse(at=2.0, batch=5))
    reports.write_partition_lags(tmp_path, PartitionLags(at=2.0, topics=()))
    reports.write_exit_report(tmp_path / "ending-1.json", ExitReport(kind=ExitKind.FINISHED))

    assert told == reports.read_pulse(tmp_path)
    assert ["pulse.json"] == [path.name for path in tmp_path.iterdir()]
    assert 3 == caplog.text.count("cannot be written: [Errno 28] No space left on device")
