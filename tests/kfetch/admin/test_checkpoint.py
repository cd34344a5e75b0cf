"""A query's progress, read from its checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kfetch.admin.checkpoint import checkpoint_directory, read_checkpoint
from kfetch.errors import CheckpointError
from kfetch.offsets import Offsets
from tests.kfetch.admin.checkpoints import QUERY, commit, initial, ours, plan, theirs, write
from tests.kfetch.admin.conftest import Stored


def at(offsets: Offsets | None) -> list[int] | None:
    """The next offset of each partition."""
    return None if offsets is None else [p.offset for _, p in sorted(offsets.positions.items())]


START = {"clicks": {"0": [1, 0], "1": [2, 0]}}

Make = Callable[[Path], None]


def done(path: Path) -> None:
    plan(path, 6, ours(3, 3))
    plan(path, 7, ours(5, 6))
    commit(path, 6, 7)


def pending(path: Path) -> None:
    plan(path, 6, theirs(3, 3))
    plan(path, 7, ours(5, 6))
    commit(path, 6)


def first(path: Path) -> None:
    plan(path, 0, ours(5, 6, **{"from": START}))


def first_and_empty(path: Path) -> None:
    plan(path, 0, ours(5, 6))


def first_of_connector(path: Path) -> None:
    plan(path, 0, theirs(5, 6))
    initial(path, "0", theirs(1, 2))


def first_of_connector_without_its_start(path: Path) -> None:
    plan(path, 0, theirs(5, 6))


def asynchronous(path: Path) -> None:
    plan(path, 3, theirs(3, 3))
    plan(path, 7, theirs(5, 6))
    commit(path, 3)


@pytest.mark.parametrize(
    ("make", "is_pending", "start"),
    [
        (done, False, [5, 6]),
        (pending, True, [3, 3]),
        (first, True, [1, 2]),
        (first_and_empty, True, [5, 6]),
        (first_of_connector, True, [1, 2]),
        (first_of_connector_without_its_start, True, None),
        (asynchronous, True, [3, 3]),
    ],
)
def test_where_the_next_start_continues(
    tmp_path: Path, stored: Stored, make: Make, is_pending: bool, start: list[int] | None
) -> None:
    """A batch that is done is behind the next start, and any other batch is read again."""
    make(tmp_path)

    checkpoint = read_checkpoint(stored(tmp_path))

    assert is_pending is checkpoint.pending
    assert start == at(checkpoint.start(0))
    assert [5, 6] == at(checkpoint.end(0))
    assert QUERY == checkpoint.query


def test_an_empty_checkpoint(tmp_path: Path, stored: Stored) -> None:
    """Before the first batch there is nothing but what the connector has noted as its start."""
    initial(tmp_path, "0", theirs(4))

    checkpoint = read_checkpoint(stored(tmp_path))

    assert (None, None, False, 0) == (
        checkpoint.planned,
        checkpoint.committed,
        checkpoint.pending,
        checkpoint.sources,
    )
    assert {"0": [4]} == {name: at(start) for name, start in checkpoint.initial.items()}


def test_files_of_other_sources_are_no_starts(tmp_path: Path, stored: Stored) -> None:
    """A file source keeps a log of its own at ``sources/0/0``."""
    plan(tmp_path, 0, '{"logOffset":0}')
    write(tmp_path / "sources/0/0", 'v1\n{"path":"/x"}')

    assert {} == read_checkpoint(stored(tmp_path)).initial


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("offsets/7", "", "offsets/7 is empty"),
        ("offsets/7", "v9\n{}\n-", "offsets/7 is of version v9"),
        ("offsets/7", "v1\n{}\n{broken", "offsets/7 is no plan of a micro-batch"),
        ("offsets/6", "v1\n{}\n{broken", "offsets/6 is no plan of a micro-batch"),
        ("sources/0/0", "\x00v2\n{}", "sources/0/0 is of version v2"),
        ("sources/0/0", "\x00v1\n{", "sources/0/0 holds no start"),
    ],
)
def test_a_damaged_file_is_named(
    tmp_path: Path, stored: Stored, file: str, text: str, sentence: str
) -> None:
    """One sentence names the file, what is wrong with it, and what to do."""
    pending(tmp_path)
    write(tmp_path / file, text)

    with pytest.raises(CheckpointError) as raised:
        read_checkpoint(stored(tmp_path))

    assert sentence in raised.value.message
    assert "restore the checkpoint's directory from a backup" in raised.value.message


def test_bytes_that_are_no_text_are_named(tmp_path: Path, stored: Stored) -> None:
    """A file of other bytes is an error of the same form."""
    plan(tmp_path, 0, "-").write_bytes(b"v1\n\xff\xfe")

    with pytest.raises(CheckpointError, match="offsets/0 is no text in UTF-8"):
        read_checkpoint(stored(tmp_path))


def test_the_batch_before_must_be_there(tmp_path: Path, stored: Stored) -> None:
    """Spark refuses to repeat a batch without the plan before it, and kfetch names that file."""
    plan(tmp_path, 7, ours(5))

    with pytest.raises(
        CheckpointError, match=r"offsets/6 can't be read: (No such file|no such object)"
    ):
        read_checkpoint(stored(tmp_path))


def test_commits_without_plans(tmp_path: Path, stored: Stored) -> None:
    """Such a checkpoint would start anew, and reads nothing that was read before."""
    commit(tmp_path, 4)

    with pytest.raises(CheckpointError, match="has commits, but offsets has no plan of them"):
        read_checkpoint(stored(tmp_path))


def test_a_path_or_a_file_uri(tmp_path: Path) -> None:
    """A URI of this machine is as good as a path."""
    (tmp_path / "a b/offsets").mkdir(parents=True)

    assert tmp_path / "a b" == checkpoint_directory(f"{tmp_path}/a b")
    assert tmp_path / "a b" == checkpoint_directory(f"file://{tmp_path}/a%20b")


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b", "ä ö"])
@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file://localhost{}"])
def test_any_name_of_a_directory(tmp_path: Path, name: str, form: str) -> None:
    """A URI has Spark's form: no character of a name has a meaning. The neighbour is not taken."""
    for each in (name, "a", "a b"):
        plan(tmp_path / each, 0, ours(1))

    assert tmp_path / name == checkpoint_directory(form.format(tmp_path / name))


@pytest.mark.parametrize("text", [".", "./", "../c", "offsets/.."])
def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The directory has a name, so that the lock of a job and the backup lie beside it."""
    plan(tmp_path / "c", 0, ours(1))
    monkeypatch.chdir(tmp_path / "c")

    assert tmp_path / "c" == checkpoint_directory(text)


@pytest.mark.parametrize(
    "uri", ["hdfs://name:8020/x", "wasbs://b/x", "dbfs:/x", "hdfs:/x", "s3a:/x", "s3a://lake/x"]
)
def test_other_file_systems_are_refused(uri: str) -> None:
    """The error says what to copy. kfetch asks no store before that."""
    with pytest.raises(CheckpointError, match=r"is not on this machine.* Copy its directories"):
        checkpoint_directory(uri)


def test_a_directory_that_is_no_checkpoint(tmp_path: Path) -> None:
    """A wrong directory is an error, not an empty checkpoint."""
    with pytest.raises(CheckpointError, match="is no checkpoint of a query"):
        checkpoint_directory(str(tmp_path))


def test_an_empty_source_beside_one_of_the_connector(tmp_path: Path, stored: Stored) -> None:
    """Azure keeps an empty directory as an object of its name, with nothing below. The start of the
    other source counts nevertheless."""
    first_of_connector(tmp_path)
    write(tmp_path / "sources/1", "")

    assert [1, 2] == at(read_checkpoint(stored(tmp_path)).start(0))


def test_a_source_that_cannot_be_listed(tmp_path: Path, stored: Stored) -> None:
    """It is named by an error, as a file would be. A store may refuse it, or fail just then."""
    plan(tmp_path, 0, ours())
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "0").symlink_to(tmp_path / "sources" / "0")

    with pytest.raises(CheckpointError, match="sources/0 can't be read: Too many levels"):
        read_checkpoint(tmp_path)
