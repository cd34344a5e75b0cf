"""What the demo reads of a checkpoint. integration/wheels runs the whole demo."""

from __future__ import annotations

from pathlib import Path

from kfetch_jobs.demo.scenario import batch_in_flight


def test_a_batch_in_flight_is_planned_and_not_committed(tmp_path: Path) -> None:
    """The checkpoint says which batch runs: an offset without a commit."""
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    assert batch_in_flight(tmp_path) is None

    (tmp_path / "offsets" / "9").touch()
    (tmp_path / "commits" / ".8.crc").touch()
    assert 9 == batch_in_flight(tmp_path)

    (tmp_path / "offsets" / "10").touch()
    (tmp_path / "commits" / "9").touch()
    assert 10 == batch_in_flight(tmp_path)

    (tmp_path / "commits" / "10").touch()
    assert batch_in_flight(tmp_path) is None
