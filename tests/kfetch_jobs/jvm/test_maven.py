"""The cache of resolved jars, with a stand-in for jgo: no network here."""

from __future__ import annotations

import multiprocessing
import os
import pwd
import resource
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kfetch.compiled import code_cache
from kfetch_jobs.errors import MavenError
from kfetch_jobs.jvm import maven

BROKER = "org.example:broker:1"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KFETCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_jar(cache: Path, name: str) -> Path:
    path = cache / "maven" / "repository" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("content", name)
    return path


class Downloads:
    """Stands in for ``_download``: makes two jars, and counts how often it was asked."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, cache: Path, coordinates: Any, transitive: bool) -> set[Path]:
        self.count += 1
        return {make_jar(cache, "broker-1.jar"), make_jar(cache, "snappy-java-2.jar")}


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> Downloads:
    stand_in = Downloads()
    monkeypatch.setattr(maven, "_download", stand_in)
    return stand_in


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def test_a_cache_for_compiled_code_too(cache: Path, downloads: Downloads) -> None:
    """Other users of the group can't write to the cache, whatever the umask. The decoder's code
    lies there too, and nobody runs code that others may have changed."""
    before = os.umask(0o002)
    try:
        maven.jars(BROKER)
    finally:
        os.umask(before)
    assert 0o755 == cache.stat().st_mode & 0o777

    _, origin = code_cache.read_or_make("x.o", lambda: b"code", os.environ)
    assert (str(cache / "code"), "") == (origin.directory, origin.named_directory_problem)


@pytest.mark.parametrize("given", ["", "~/cache"])
def test_a_user_without_a_home_directory(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """A container may run as a user id that its system does not know. The error names the variable
    that the user can set."""
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KFETCH_CACHE", given)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(MavenError, match="set KFETCH_CACHE to the directory"):
        maven.jars(BROKER)


def test_the_second_call_downloads_nothing(downloads: Downloads) -> None:
    """A warm cache answers from its list."""
    assert not maven.is_cached(BROKER)
    assert maven.jars(BROKER) == maven.jars(BROKER)
    assert (downloads.count, maven.is_cached(BROKER)) == (1, True)


def test_excluded_names_are_left_out(downloads: Downloads) -> None:
    """``exclude`` works by prefix, and does not change what is cached."""
    assert names(maven.jars(BROKER, exclude=["snappy", "zstd"])) == ["broker-1.jar"]
    assert names(maven.jars(BROKER)) == ["broker-1.jar", "snappy-java-2.jar"]
    assert downloads.count == 1


def test_the_order_of_coordinates_does_not_matter(downloads: Downloads) -> None:
    """The same set of coordinates is the same entry; another set is another."""
    maven.jars("a:a:1", "b:b:1")
    maven.jars("b:b:1", "a:a:1")
    assert downloads.count == 1
    maven.jars("a:a:1", "b:b:1", transitive=False)
    assert downloads.count == 2


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"PK")])
def test_a_damaged_jar_is_fetched_again(downloads: Downloads, harm: Any) -> None:
    """A jar that is gone or cut short since is noticed."""
    harm(maven.jars(BROKER)[0])
    assert all(zipfile.is_zipfile(path) for path in maven.jars(BROKER))
    assert downloads.count == 2


def test_a_damaged_list_is_written_again(downloads: Downloads, cache: Path) -> None:
    """A list that is no JSON counts as none."""
    maven.jars(BROKER)
    (listing,) = (cache / "maven").glob("*.json")
    listing.write_text("{")
    maven.jars(BROKER)
    assert downloads.count == 2


def test_a_filled_cache_may_be_moved(
    downloads: Downloads, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing in the cache depends on where it is."""
    maven.jars(BROKER)
    moved = cache.rename(cache.parent / "moved")
    monkeypatch.setenv("KFETCH_CACHE", str(moved))
    assert all(path.is_relative_to(moved) and path.exists() for path in maven.jars(BROKER))
    assert downloads.count == 1


def _ask(into: Any) -> None:
    def slow(cache: Path, *_: Any) -> set[Path]:
        into.put("download")
        return {make_jar(cache, "broker-1.jar")}

    maven._download = slow
    into.put(names(maven.jars(BROKER)))


def test_two_processes_download_once() -> None:
    """The one that comes second waits, and finds the work done."""
    context = multiprocessing.get_context("spawn")
    said = context.SimpleQueue()
    both = [context.Process(target=_ask, args=(said,)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
        process.close()
    heard = []
    while not said.empty():
        heard.append(said.get())
    said.close()
    assert sorted(heard, key=str) == sorted([["broker-1.jar"]] * 2 + ["download"], key=str)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"KFETCH_CACHE": "/a"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/kfetch"),
        ({"HOME": "/c"}, "/c/.cache/kfetch"),
        ({"KFETCH_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
    ],
)
def test_where_the_cache_is(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KFETCH_CACHE goes before XDG_CACHE_HOME, which goes before the home directory."""
    for name in ("KFETCH_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert maven.cache_directory() == Path(expected)


def test_an_impossible_download_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the coordinate, the cause, and both ways out."""

    def refuse(*_: Any) -> Any:
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(maven, "_artifacts", refuse)
    with pytest.raises(MavenError) as caught:
        maven.jars(BROKER)
    assert caught.value.message == (
        f"cannot download {BROKER} (no route to host): check the connection, "
        "or set KFETCH_CACHE to a directory with a filled cache"
    )


def test_what_is_no_jar_is_refused_and_removed(cache: Path) -> None:
    """An error page saved as a jar does not stay in the cache."""
    page = cache / "page.jar"
    page.parent.mkdir(parents=True)
    page.write_text("<html>")
    artifact: Any = SimpleNamespace(resolve=lambda: page)
    with pytest.raises(MavenError, match="not a jar"):
        maven._jar(artifact)
    assert not page.exists()


def test_half_a_download_is_dropped(tmp_path: Path) -> None:
    """What a killed process was writing is removed before the next download."""
    half, whole = tmp_path / "g" / "half.jar", tmp_path / "g" / "whole.jar"
    marker = tmp_path / "unfinished" / "half.jar"
    for path in (half, whole, marker):
        path.parent.mkdir(exist_ok=True)
        path.write_text("g/half.jar")
    maven._drop_unfinished(tmp_path)
    assert (half.exists(), whole.exists(), marker.exists()) == (False, True, False)


def test_a_disk_that_is_full_at_a_download(cache: Path) -> None:
    """The error says so, and no marker stays. An empty marker of an earlier version names no file,
    and the next call passes over it."""
    repository = cache / "maven" / "repository"
    repository.mkdir(parents=True)
    context = SimpleNamespace(repo_cache=repository)
    artifact: Any = SimpleNamespace(context=context, cached_path=repository / "g" / "x.pom")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # files can be made, not written
    try:
        with pytest.raises(OSError, match="File too large"):
            maven._resolver().download(artifact)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [] == [*(repository / "unfinished").iterdir()]

    marker = repository / "unfinished" / "x.pom"
    marker.touch()
    maven._drop_unfinished(repository)
    assert (False, True) == (marker.exists(), repository.is_dir())
