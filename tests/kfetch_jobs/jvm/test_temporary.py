"""Temporary files of Spark sessions: those of killed ones do not stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kfetch_jobs.jvm.spark import temporary_directory

SESSION = """
import sys
from pathlib import Path
from kfetch_jobs.jvm.spark import temporary_directory
with temporary_directory(Path(sys.argv[1])) as own:
    (own / "blockmgr").mkdir()
    (own / "blockmgr" / "data").write_bytes(bytes(1000))
    print(own, flush=True)
    sys.stdin.read()
"""


def session(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a session, and its directory."""
    command = [sys.executable, "-c", SESSION, str(parent)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def directories(parent: Path) -> set[Path]:
    return {path for path in parent.iterdir() if path.is_dir()}


def test_a_killed_session_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    """The next session removes the files of a killed one. A session removes its own."""
    killed, left = session(tmp_path)
    with killed:
        killed.kill()
        killed.wait()
    assert {left} == directories(tmp_path)
    with temporary_directory(tmp_path) as own:
        assert {own} == directories(tmp_path)
    assert set() == directories(tmp_path)


def test_files_of_an_earlier_release(tmp_path: Path) -> None:
    """It had one directory for all sessions, and left its files there."""
    (tmp_path / "spark-1").mkdir()
    (tmp_path / "spark-1" / "a.jar").touch()
    (tmp_path / ".1.sock").touch()
    (tmp_path / "link").symlink_to("/nowhere")
    with temporary_directory(tmp_path) as own:
        assert {own.name} == {path.name for path in tmp_path.iterdir()}
        assert 0o700 == own.stat().st_mode & 0o777


def test_a_link_to_another_disk(tmp_path: Path) -> None:
    """Files of killed sessions go there too, and the link stays."""
    (tmp_path / "disk" / "killed").mkdir(parents=True)
    link = tmp_path / "tmp"
    link.symlink_to("disk")
    with temporary_directory(link) as own:
        assert [own.name] == [path.name for path in (tmp_path / "disk").iterdir()]
    assert link.is_symlink()
