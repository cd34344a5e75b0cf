"""Following progress files: every line once, however they are put aside, and in small parts."""

from __future__ import annotations

from pathlib import Path

from kfetch_jobs.progress.follower import Follower
from kfetch_jobs.progress.progress_file import rotated_path


def _write(path: Path, *numbers: int) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{number}\n" for number in numbers)


def _all(follower: Follower, looks: int = 1, bytes_max: int = 1000) -> list[int]:
    found = [dict(follower.read_added(bytes_max)) for _ in range(looks)]
    return [int(line) for look in found for line in look.get("clicks", [])]


def test_all_that_is_kept_comes_first(tmp_path: Path) -> None:
    """What was put aside, then the file, then what is added; in small parts, too."""
    path = tmp_path / "clicks" / "progress.jsonl"
    _write(path, *range(10))
    path.rename(rotated_path(path))
    _write(path, *range(10, 20))
    whole, parts = (Follower(tmp_path) for _ in range(2))

    assert list(range(20)) == _all(whole)
    first = _all(parts, bytes_max=6)
    assert (first, {"clicks"}) == ([0, 1, 2], parts.unfinished)
    assert list(range(3, 20)) == _all(parts, looks=20, bytes_max=6)
    assert [] == _all(parts)
    assert set() == whole.unfinished == parts.unfinished
    _write(path, 20)
    assert ([20], [20]) == (_all(whole), _all(parts))


def test_a_file_that_is_put_aside_is_read_to_its_end(tmp_path: Path) -> None:
    """Between two looks the file was filled, put aside, and begun anew."""
    path = tmp_path / "clicks" / "progress.jsonl"
    _write(path, 0)
    follower = Follower(tmp_path, from_now_on=True)
    assert [] == _all(follower)
    _write(path, 1)
    path.rename(rotated_path(path))
    _write(path, 2)

    assert [1, 2] == _all(follower)


def test_a_line_without_an_end_is_passed_over(tmp_path: Path) -> None:
    """A damaged file of one endless line does not stop what comes behind it."""
    path = tmp_path / "clicks" / "progress.jsonl"
    path.parent.mkdir()
    path.write_text("x" * 100)
    follower = Follower(tmp_path)
    assert [] == _all(follower, looks=10, bytes_max=10)
    _write(path, 7)

    assert [7] == _all(follower, bytes_max=10)
