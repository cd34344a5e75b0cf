"""The plugin ``tests.forks``: what its processes find, print and lose comes to the report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import os, pytest, signal, time, warnings
from pathlib import Path

IMPORTED = os.getpid()
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs of a shell ignore it

@pytest.fixture(scope="session", autouse=True)
def torn_down():
    yield
    Path("pids", f"{Path(__file__).stem}.{os.getpid()}.down").touch()

def test_lost():
    os._exit(0)

@pytest.mark.parametrize("number", range(40))
def test_good(number, tmp_path, capfd):
    os.write(1, b"one of many")
    assert "one of many" == capfd.readouterr().out
    Path("pids", f"{Path(__file__).stem}.{os.getpid()}").touch()
    assert IMPORTED == os.getppid()
    time.sleep(float(os.environ.get("PACE_S", "0")))

def test_bad():
    print("a hint")
    assert 1 == 2

def test_warning():
    warnings.warn("an old way")

def test_skipped():
    pytest.skip("a reason")

def test_interrupt():
    Path("pids", "waits").touch()
    os.kill(os.getppid(), 2)
    while True:  # an interrupt that comes just before a wait is seen after it
        time.sleep(0.1)

class Left:
    def __del__(self):
        raise OSError("a file was not closed")

def test_garbage():
    left = Left()
    left.itself = left
"""


def run(directory: Path, *words: str, pace_s: float = 0) -> tuple[int, str]:
    """Run some of TESTS in three forks. Returns the exit code and the output.

    ``pace_s``: how long each good test takes.
    """
    (directory / "pids").mkdir()
    (directory / "test_it.py").write_text(TESTS)
    (directory / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.forks", "--forks", "3", "-ra", *words]
    root = str(Path(__file__).parent.parent)
    (directory / "files").mkdir()
    environ = {"PYTHONPATH": root, "PYTEST_DEBUG_TEMPROOT": str(directory / "files")}
    environ |= {"PACE_S": str(pace_s), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(
        command, cwd=directory, env=environ, capture_output=True, text=True, timeout=60
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_results_of_all_forks(tmp_path: Path) -> None:
    """Several forks of one process run the tests, each with its own output and files. A failure
    shows what its test printed."""
    code, output = run(tmp_path, "-k", "not lost and not interrupt and not garbage")
    assert 1 == code
    assert "1 failed, 41 passed, 1 skipped, 3 deselected, 1 warning in" in output
    assert "an old way" in output
    assert output.count("a hint") == 2  # in the code, and as captured
    assert "a reason" in output
    assert 1 < len(list((tmp_path / "pids").glob("*.down"))) <= 3
    (base,) = (tmp_path / "files").glob("pytest-of-*/pytest-[0-9]*")
    assert {"fork-0", "fork-1", "fork-2"} == {path.name for path in base.iterdir()}


def test_a_lost_fork(tmp_path: Path) -> None:
    """A process that ends within a test fails the run, with the name of the test. The others run
    the test that they have taken, and no other."""
    code, output = run(tmp_path, "-k", "lost or good", pace_s=0.05)
    assert 1 == code
    assert "the process that ran test_it.py::test_lost is gone" in output
    assert "40 passed" not in output


def test_an_interrupt(tmp_path: Path) -> None:
    """All processes tear down what their tests set up."""
    code, _ = run(tmp_path, "-k", "interrupt")
    assert 2 == code
    assert ["waits"] == [one.name for one in (tmp_path / "pids").glob("waits")]
    assert 1 == len(list((tmp_path / "pids").glob("*.down")))


def test_what_the_last_test_leaves(tmp_path: Path) -> None:
    """An error of garbage that no test's end has collected is seen, as in a usual run."""
    _, output = run(tmp_path, "-k", "garbage", "-W", "error")
    assert "a file was not closed" in output


def test_tests_of_a_file_stay_together(tmp_path: Path) -> None:
    """With ``--by-file``, one fork runs all tests of a file, and another one those of the next."""
    (tmp_path / "test_other.py").write_text(TESTS)
    code, output = run(tmp_path, "-k", "good", "--by-file")
    assert (0, True) == (code, "80 passed" in output)
    names = sorted(path.name for path in (tmp_path / "pids").glob("*.down"))
    assert ["test_it", "test_other"] == [name.partition(".")[0] for name in names]
