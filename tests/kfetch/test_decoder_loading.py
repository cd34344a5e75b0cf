"""Loading the record decoder: once per process, with a sentence for the user."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kfetch import decoding
from kfetch.compiled import native
from kfetch.compiled.code_cache import CodeOrigin
from kfetch.decoding import DecoderLoad, describe, load_decoder


@pytest.mark.parametrize(
    ("load", "sentence"),
    [
        (
            DecoderLoad(CodeOrigin(compiled=False, directory="/cache"), 0.42),
            "the record decoder was ready in 0.4 s, from /cache",
        ),
        (
            DecoderLoad(CodeOrigin(compiled=True, directory="/cache"), 5.04),
            "the record decoder was compiled in 5.0 s; it is cached in /cache: keep that "
            "directory, or fill it with `kfetch warm` when you build an image",
        ),
        (
            DecoderLoad(CodeOrigin(compiled=True), 5.04),
            "the record decoder was compiled in 5.0 s; it can't be cached: set KFETCH_CACHE to a "
            "directory that only this user can write",
        ),
        (
            DecoderLoad(
                CodeOrigin(False, "/tmp/code", "/none/cache (No such file or directory)"), 0.1
            ),
            "the record decoder was ready in 0.1 s, from /tmp/code; KFETCH_CACHE can't be used: "
            "/none/cache (No such file or directory)",
        ),
    ],
)
def test_the_sentence_for_the_user(load: DecoderLoad, sentence: str) -> None:
    """Loaded, compiled and cached, compiled without a cache: each has its own sentence.

    A KFETCH_CACHE that can't be used is named, with the reason."""
    assert sentence == describe(load)


def test_loaded_once() -> None:
    """A process loads the decoder once, and remembers how long that took."""
    assert load_decoder() is load_decoder()
    assert load_decoder().seconds > 0


@pytest.mark.parametrize(("compiled", "level"), [(True, logging.WARNING), (False, logging.INFO)])
def test_readers_that_come_together_load_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, compiled: bool, level: int
) -> None:
    """The first tasks of an executor start side by side: only one of them compiles. The log says so
    once, as a warning if it had to compile."""

    def compiling() -> CodeOrigin:
        time.sleep(0.05)
        return CodeOrigin(compiled=compiled, directory="/cache")

    decoding._load_decoder.cache_clear()
    monkeypatch.setattr(decoding, "load", compiling)
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(4) as readers:
        loads = [reader.result() for reader in [readers.submit(load_decoder) for _ in range(4)]]
    decoding._load_decoder.cache_clear()

    assert 1 == len({id(load) for load in loads})
    assert [level] == [record.levelno for record in caplog.records]


def test_an_unusable_cache_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """A process that can't use KFETCH_CACHE warns, although another directory has the code."""
    native.load()
    (tmp_path / "file").touch()
    monkeypatch.setenv("KFETCH_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(native, "load", native.load.__wrapped__)
    decoding._load_decoder.cache_clear()
    with caplog.at_level(logging.INFO):
        load = load_decoder()
    decoding._load_decoder.cache_clear()

    assert not load.origin.compiled
    assert [logging.WARNING] == [record.levelno for record in caplog.records]
    assert f"KFETCH_CACHE can't be used: {tmp_path}/file/cache (Not a directory)" in caplog.text
