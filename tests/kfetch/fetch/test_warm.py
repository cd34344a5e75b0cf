"""What a user is told of loading the record decoder."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kfetch import decoding
from kfetch.fetch import warm
from kfetch.fetch.warm import Loaded, load, sentence


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            Loaded(compiled=False, seconds=0.42, directory="/cache"),
            "the record decoder was ready in 0.4 s, from /cache",
        ),
        (
            Loaded(compiled=True, seconds=5.04, directory="/cache"),
            "the record decoder was compiled in 5.0 s; it is kept in /cache: keep that directory, "
            "or fill it with `kfetch warm` when an image is built",
        ),
        (
            Loaded(compiled=True, seconds=5.04, directory=""),
            "the record decoder was compiled in 5.0 s; it can't be kept: set KFETCH_CACHE to a "
            "directory that only this user can write",
        ),
    ],
)
def test_sentences(found: Loaded, expected: str) -> None:
    """Ready, compiled and kept, or compiled and lost: each is one sentence with what to do."""
    assert expected == sentence(found)


def test_loaded_once() -> None:
    """A process loads the decoder once, and remembers how long that took."""
    assert load() is load()
    assert load().seconds > 0


@pytest.mark.parametrize(("compiled", "level"), [(True, logging.WARNING), (False, logging.INFO)])
def test_readers_that_come_together_load_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, compiled: bool, level: int
) -> None:
    """The first tasks of an executor start side by side: one of them compiles, and it is told once,
    as a warning if it took compiling."""

    def compiling() -> decoding.CodeOrigin:
        time.sleep(0.05)
        return decoding.CodeOrigin(compiled=compiled, directory="/cache")

    warm._load.cache_clear()
    monkeypatch.setattr(decoding, "load", compiling)
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(4) as readers:
        found = {id(reader.result()) for reader in [readers.submit(load) for _ in range(4)]}
    warm._load.cache_clear()

    assert 1 == len(found)
    assert [level] == [told.levelno for told in caplog.records]
