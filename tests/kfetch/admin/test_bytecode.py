"""Bytecode in an archive of Python sources, as Spark's pyspark.zip is one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from kfetch.admin.bytecode import add_bytecode
from kfetch.errors import ArchiveError


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    made = tmp_path / "pyspark.zip"
    with ZipFile(made, "w") as file:
        file.writestr("pyspark/__init__.py", "")
        file.writestr("pyspark/worker.py", "import sys\nWHERE = sys._getframe().f_code\n")
        file.writestr("pyspark/py.typed", "")
    made.chmod(0o640)
    return made


def test_modules_come_from_bytecode(archive: Path) -> None:
    """Python imports from the bytecode, the sources stay, another name of the old file keeps it,
    and a second time changes nothing."""
    other = archive.with_name("other.zip")
    other.hardlink_to(archive)
    before = ZipFile(other).namelist()

    assert [2, 2] == [add_bytecode(archive), add_bytecode(archive)]

    compiled = {"pyspark/__init__.pyc", "pyspark/worker.pyc"}
    assert {*before, *compiled} == {n for n in ZipFile(archive).namelist() if n[-1] != "/"}
    assert before == ZipFile(other).namelist()
    assert 0o640 == archive.stat().st_mode & 0o777
    assert [archive, other] == sorted(archive.parent.iterdir(), reverse=True)
    code = f"import sys; sys.path[:0] = [{str(archive)!r}]; import pyspark.worker as w; "
    code += "print(w.__cached__ if hasattr(w, '__cached__') else w.__file__)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip().endswith(".pyc")


@pytest.mark.parametrize("content", [None, b"no archive"])
def test_no_archive(tmp_path: Path, content: bytes | None) -> None:
    """What is missing or damaged is one sentence with its path, and stays as it is."""
    archive = tmp_path / "pyspark.zip"
    if content is not None:
        archive.write_bytes(content)

    with pytest.raises(ArchiveError, match=r"bytecode to .*pyspark\.zip \(.+\): run this as"):
        add_bytecode(archive)

    assert ([] if content is None else [archive]) == [*tmp_path.iterdir()]
