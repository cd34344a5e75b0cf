"""Logs that rotate while their writer lives."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kfetch_jobs.supervise.log_tail import last_lines
from kfetch_jobs.util import redact, rotating_log
from kfetch_jobs.util.redact import _RotatingFile, redacted_log
from kfetch_jobs.util.rotating_log import LogStream, RunLog, older_log

_WRITER = """
import sys
from pathlib import Path
from kfetch_jobs.util.rotating_log import RunLog
RunLog(Path(sys.argv[1]), bytes_max=2000, now=lambda: 0.0).install()
for number in range(100):
    print(f"line {number}", file=sys.stderr if number % 2 else sys.stdout, flush=True)
print("two\\nlines")
raise SystemExit("the end")
"""


def test_a_run_rotates_its_log(tmp_path: Path) -> None:
    """Each line has its time. A full log is renamed while its writer lives, and no line is lost."""
    log = tmp_path / "run.log"
    with log.open("ab") as output:
        subprocess.run(
            [sys.executable, "-c", _WRITER, str(log)], stdout=output, stderr=output, timeout=30
        )
    lines = older_log(log).read_text().splitlines() + log.read_text().splitlines()
    stamp = "1970-01-01T00:00:00Z "
    expected = [*(f"line {number}" for number in range(100)), "two", "lines", "the end"]

    assert [stamp + text for text in expected] == lines
    assert 2000 < older_log(log).stat().st_size < 2200
    assert 0o600 == log.stat().st_mode & 0o777
    assert [stamp + "line 98", stamp + "line 99"] == last_lines(log, 5)[:2]


@pytest.mark.parametrize(
    "stamped",
    [
        "from kfetch_jobs.util.rotating_log import RunLog; RunLog(Path('unused')).install(); use()",
        "from kfetch.admin import cli; cli.command = lambda: lambda prog_name: use(); cli.main()",
    ],
    ids=["supervised", "by hand"],
)
def test_a_line_reaches_the_log_at_once(stamped: str, tmp_path: Path) -> None:
    """A log has each printed line while the run goes on, so SIGKILL loses none. The lines of stdout
    and stderr stand in order.
    """
    writer = f"""
import sys
from pathlib import Path
def use():
    print("to stdout")
    print("to stderr", file=sys.stderr)
    print("more to stdout")
    sys.stdin.read()
{stamped}
"""
    log = tmp_path / "run.log"
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with log.open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-c", writer],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=bare,
        )
    deadline = time.monotonic() + 60
    while log.read_bytes().count(b"\n") < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    child.kill()
    child.communicate()

    lines = [line.split("Z ")[-1] for line in log.read_text().splitlines()]
    assert ["to stdout", "to stderr", "more to stdout"] == lines


def test_the_output_of_spark_rotates(tmp_path: Path) -> None:
    """The log of Spark and its workers has a limit too, for jobs that run for months."""
    log = tmp_path / "spark.log"
    with redacted_log(log, str, bytes_max=1000) as output:
        for number in range(60):
            os.write(output, b"line %03d of Spark\n" % number)
            if number == 29:  # the copying thread has seen the first half
                deadline = time.monotonic() + 60
                while not older_log(log).exists() and time.monotonic() < deadline:
                    os.write(output, b"more of it\n")
                    time.sleep(0.001)
    text = older_log(log).read_text() + log.read_text()

    assert older_log(log).stat().st_size > 1000
    assert log.stat().st_size <= 1000
    assert "line 059 of Spark\n" == text[-18:]


def test_a_rotation_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No new file can be opened: the process has no descriptor left. The full log keeps its name,
    and gets the lines until a new one can be opened."""
    run, spark = tmp_path / "run.log", tmp_path / "spark.log"
    with run.open("ab") as output:
        log = RunLog(run, bytes_max=100, descriptors=(output.fileno(),))
        redacted = _RotatingFile(spark, 100)

        def lines() -> None:
            os.write(output.fileno(), b"x" * 150 + b"\n")
            with suppress(OSError):
                log._rotate_if_full()
            redacted.append("x" * 150 + "\n")

        with monkeypatch.context() as full:
            for module in (rotating_log, redact):
                full.setattr(module, "owner_only", no_descriptor, raising=False)
            lines()
            lines()
        assert [302, 302] == [path.stat().st_size for path in (run, spark)]
        lines()
        assert [453, 453] == [older_log(path).stat().st_size for path in (run, spark)]
        assert [0, 0] == [path.stat().st_size for path in (run, spark)]
        redacted.close()


def no_descriptor(path: str, flags: int) -> int:
    raise OSError(errno.EMFILE, "Too many open files")


def test_the_last_lines_of_a_rotated_log(tmp_path: Path) -> None:
    """A log that has just begun anew is read together with the one before it."""
    log = tmp_path / "run.log"
    log.write_text("c\nd\n")
    older_log(log).write_text("a\nb\n")

    assert ["b", "c", "d"] == last_lines(log, 3)
    assert ["d"] == last_lines(log, 1)


def test_a_line_on_a_full_disk(tmp_path: Path) -> None:
    """It is lost, and the run goes on. A stream that flushes each line fails in its write."""
    written = list[int]()
    with suppress(OSError), open("/dev/full", "w", buffering=1) as full:  # its close fails, too
        stream = LogStream(full, RunLog(tmp_path / "run.log"))
        written.extend(stream.write(f"batch {number}: ok\n") for number in (1, 2))
    assert [12, 12] == written
