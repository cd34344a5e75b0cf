"""What a process says is without secrets before it is in a file."""

from __future__ import annotations

import io
import logging
import os
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs import config
from kfetch_jobs.errors import ConfigError, JobsError, SparkError
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.supervise.supervisor_log import log_file, log_handlers
from kfetch_jobs.util.redact import LineRedactor, RedactedStream, redacted_log, redacted_output
from tests.kfetch_jobs.projects import ENVIRON, JOB
from tests.kfetch_jobs.stage import locked_database

PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----"


def redacted(text: str) -> str:
    """As a document does it: the whole secret, and each line of it that tells."""
    for secret in (PEM, *PEM.splitlines(), "hunter22"):
        text = text.replace(secret, "${env:PASS}")
    return text


@given(st.lists(st.sampled_from(["hunter22", "hun", "ter22", PEM, "a", "\n", "\nb"]), max_size=30))
def test_pieces(pieces: list[str]) -> None:
    """However a text comes, no secret is in what is shown, and nothing else is missing."""
    lines = LineRedactor(redacted)
    shown = "".join(map(lines.add, pieces)) + lines.finish()

    assert "hunter22" not in shown
    assert "MIIEvQIBADANBg" not in shown
    whole = "".join(pieces)
    assert whole.count("\n") - 2 * whole.count(PEM) <= shown.count("\n") <= whole.count("\n")
    if "hunter22" not in whole and PEM not in whole:
        assert whole == shown


def test_a_line_without_end() -> None:
    """What could not be looked through is left out, all of it, and said to be; the next line is
    there."""
    lines = LineRedactor(redacted)
    shown = "".join(lines.add("x" * 65536) for _ in range(18)) + lines.add("hun")
    shown += lines.add("ter22\nnext hunter22\n") + lines.finish()

    assert shown == "(a line of more than 1,048,576 characters is left out)\nnext ${env:PASS}\n"


@given(st.lists(st.sampled_from(["hunter22", "hun", "ter22", "a" * 7, "\n", "\nb"]), max_size=30))
def test_lines_near_the_limit(pieces: list[str]) -> None:
    """Every line is shown redacted, or, if it is too long, left out as a whole."""
    lines = LineRedactor(redacted, 20)
    shown = "".join(map(lines.add, pieces)) + lines.finish()

    for told, line in zip(shown.splitlines(), "".join(pieces).splitlines(), strict=True):
        left_out = told == "(a line of more than 20 characters is left out)"
        assert len(line) > 20 if left_out else told == redacted(line)


def test_words_of_this_process(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints of any code, and a bug's traceback, are redacted; afterwards all is as before."""
    before = sys.stdout, sys.stderr, sys.excepthook
    try:
        with pytest.raises(RuntimeError):
            fail()
        assert before[:2] == (sys.stdout, sys.stderr)
        error = RuntimeError("hunter22 is wrong")
        sys.excepthook(type(error), error, None)
    finally:
        sys.excepthook = before[2]

    out, said = capsys.readouterr()
    assert "it is ${env:PASS}\n" == out
    assert "no end ${env:PASS}RuntimeError: ${env:PASS} is wrong\n" == said


def fail() -> None:
    with redacted_output(redacted):
        print("it is hun", end="")
        print("ter22", file=sys.stdout, flush=True)
        assert not sys.stderr.isatty()
        sys.stderr.write("no end hunter22")
        raise RuntimeError("hunter22 is wrong")


@pytest.mark.parametrize("error", [SparkError("hunter22"), ConfigError("hunter22", "more")])
def test_an_error_that_is_told_outside(error: JobsError) -> None:
    """The command line prints it: its text has no secret by then; its class is what it was."""
    told = str(error)
    with pytest.raises(type(error)) as raised, redacted_output(redacted):
        raise error

    assert told.replace("hunter22", "${env:PASS}") == str(raised.value)


@pytest.mark.timeout(120)
def test_a_word_within_a_word() -> None:
    """A collection of garbage may come anywhere, and a destructor complain to the same stream: it
    isn't waited for, and no text is lost or told twice."""
    said = io.StringIO()
    inner = ["unclosed\n"]

    def complaining(text: str) -> str:
        while inner:
            stream.write(inner.pop())
        return redacted(text)

    stream = RedactedStream(said, complaining)
    stream.write("it is ")
    stream.write("hunter22\nmore")
    stream.end()

    assert "unclosed\nit is ${env:PASS}\nmore" == said.getvalue()


def test_a_stream_of_words_has_what_streams_have() -> None:
    """Libraries ask for an encoding, and whether it can be written to."""
    stream = RedactedStream(io.TextIOWrapper(io.BytesIO(), "utf-8"), redacted)
    assert ("utf-8", True, False) == (stream.encoding, stream.writable(), stream.isatty())


def test_texts_together() -> None:
    """What writes several texts at once is no way round."""
    said = io.StringIO()
    RedactedStream(said, redacted).writelines(["it is hun", "ter22\n"])
    assert "it is ${env:PASS}\n" == said.getvalue()


def test_words_of_another_process(tmp_path: Path) -> None:
    """What a child says is in the file, redacted, for its owner alone, before the block is over."""
    log = tmp_path / "log"
    log.write_text("before\n")
    log.chmod(0o644)
    script = "echo it is hunter22; printf '\\377 no end'"
    with redacted_log(log, redacted) as output:
        subprocess.run(["sh", "-c", script], stdout=output, check=True)

    assert "before\nit is ${env:PASS}\n\ufffd no end" == log.read_text()
    assert 0o600 == stat.S_IMODE(log.stat().st_mode)


def test_a_child_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever keeps the descriptor is waited for a moment alone, and its words still come."""
    monkeypatch.setattr("kfetch_jobs.util.redact._LAST_LINES_WITHIN_S", 0.05)
    log = tmp_path / "log"
    began = time.monotonic()
    with redacted_log(log, redacted) as output:
        kept = os.dup(output)
    assert time.monotonic() - began < 30
    os.write(kept, b"late hunter22\n")
    os.close(kept)
    deadline = time.monotonic() + 60
    while not log.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "late ${env:PASS}\n" == log.read_text()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_supervisors_log(project: Path, as_json: bool) -> None:
    """Whatever job it is about, it has no secret of any file that was read, nor has a trace; and
    only its owner may read it."""
    job = project / "conf" / "jobs" / "clicks.yml"
    job.write_text(JOB + "spark: {spark.x.password: '${env:PASS}'}\n")
    loaded = config.load(config.find(project), ENVIRON | {"PASS": "hunter22"})
    logger = logging.getLogger("kfetch.test_redact")
    (handler,) = log_handlers(loaded.storage, loaded.redacted, as_json=as_json, quiet=True)
    logger.addHandler(handler)
    try:
        loaded.job("clicks")
        logger.error("it is %s", "hunter22", exc_info=RuntimeError("with hunter22"))
    finally:
        logger.removeHandler(handler)
        handler.close()

    text = log_file(loaded.storage).read_text()
    assert "hunter22" not in text
    assert "it is ${env:PASS}" in text
    assert "RuntimeError: with ${env:PASS}" in text
    assert "\n" not in text.rstrip() or not as_json
    assert 0o600 == stat.S_IMODE(log_file(loaded.storage).stat().st_mode)


def test_a_supervisors_database(tmp_path: Path) -> None:
    """It is its owner's alone, and one from before becomes so, while others have it open."""
    with Store(tmp_path / "db"):
        (tmp_path / "db").chmod(0o644)
        with locked_database(tmp_path / "db"), Store(tmp_path / "db"):
            locked = sqlite3.connect(tmp_path / "db", timeout=0, isolation_level=None)
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                locked.execute("BEGIN IMMEDIATE")
            locked.close()
    assert 0o600 == stat.S_IMODE((tmp_path / "db").stat().st_mode)
