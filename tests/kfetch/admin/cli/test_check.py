"""What ``kfetch check`` tells about a machine: versions, limits, and whether an agent can run."""

from __future__ import annotations

import json
import os
import resource
import sys
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException

from kfetch import __version__
from kfetch.admin import platform
from kfetch.admin.cli import check
from tests.kfetch.admin.cli.conftest import Kfetch


def test_this_machine() -> None:
    """The versions are the installed ones, and an agent can run where the tests run."""
    here = platform.describe()

    assert (__version__, metadata.version("pyspark")) == (
        here.versions["kfetch"],
        here.versions["pyspark"],
    )
    assert ("process", (), "") == (here.agent, here.problems, here.advice)
    assert here.cpus >= 1
    assert not list((Path("/tmp") / f"kfetch-{os.getuid()}").glob("check-*.sock"))


def test_json_round_trip() -> None:
    """What an executor sends is what it has found."""
    here = platform.describe()

    assert here == platform.from_json(json.loads(json.dumps(asdict(here))))


def _refuse(*_: Any) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("memfd_create", "no shared memory can be made (memfd_create): [Errno 1] Operation"),
        ("pidfd_open", "processes can't be watched (pidfd_open): [Errno 1] Operation"),
    ],
)
def test_a_system_call_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, function: str, sentence: str
) -> None:
    """A sandbox that forbids a system call is a problem, with the advice to do without an agent."""
    monkeypatch.setattr(os, function, _refuse)
    here = platform.describe()

    assert [True] == [problem.startswith(sentence) for problem in here.problems]
    assert "set kfetch.agent=inline" == here.advice


def test_no_unix_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A directory of sockets that others may enter is a problem in one line."""
    directory = tmp_path / f"kfetch-{os.getuid()}"
    directory.mkdir()
    directory.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (problem,) = platform.describe().problems

    assert problem.startswith(f"no Unix socket can be used: {directory} must be a directory of")


def test_a_small_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """spark.executor.pyspark.memory below an agent's need is a problem that names the setting."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (200 << 20, 200 << 20))
    problems = platform.describe().problems

    assert "the address space is limited to 200 MiB (spark.executor.pyspark.memory)" in problems[-1]


@pytest.mark.parametrize(
    ("text", "limit"),
    [("max", 0), ("536870912", 512 << 20), ("9223372036854771712", 0)],
)
def test_the_limit_of_the_cgroup(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, limit: int
) -> None:
    """No limit is 0, in both versions of cgroups. A small one is a warning with two settings."""
    (tmp_path / "memory.max").write_text(f"{text}\n")
    (tmp_path / "memory.current").write_text("1048576\n")
    monkeypatch.setattr(platform, "_CGROUP", tmp_path)
    here = platform.describe()

    assert (limit, 1 << 20) == (here.memory_limit, here.memory_used)
    assert (limit > 0) == any("lower kfetch.agent.memory" in text for text in here.warnings)


@pytest.mark.parametrize(
    ("own", "above", "expected"),
    [
        ("max", "536870912", (512 << 20, 7)),
        ("268435456", "536870912", (256 << 20, 5)),
        ("536870912", "268435456", (256 << 20, 7)),
        ("max", "max", (0, 5)),
    ],
)
def test_the_lowest_limit_counts(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    own: str,
    above: str,
    expected: tuple[int, int],
) -> None:
    """A cgroup keeps the limits of all above it, such as that of a slice of systemd."""
    for name, limit, used in (("slice", above, "7"), ("slice/own", own, "5")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "memory.max").write_text(f"{limit}\n")
        (tmp_path / name / "memory.current").write_text(f"{used}\n")
    (tmp_path / "line").write_text("0::/slice/own\n")
    monkeypatch.setattr(platform, "_CGROUP", tmp_path)
    monkeypatch.setattr(platform, "_OWN_CGROUP", tmp_path / "line")
    here = platform.describe()

    assert expected == (here.memory_limit, here.memory_used)


def test_a_platform_of_another_release() -> None:
    """Executors may have another kfetch. Fields that only one of both has do no harm."""
    document = {"host": "a", "problems": ["none"], "colour": "blue"}
    found = platform.from_json(document)

    assert ("a", 0, {}, ("none",), ()) == (
        found.host,
        found.memory_limit,
        found.versions,
        found.problems,
        found.warnings,
    )


class _Session:
    """A session whose executors are this process."""

    def range(self, *_: int) -> _Session:
        return self

    def mapInArrow(self, function: Any, _schema: str) -> _Session:
        self._batches = list(function(iter([pa.RecordBatch.from_pydict({"id": [1]})])))
        return self

    def collect(self) -> list[Any]:
        rows = pa.Table.from_batches(self._batches * 2).to_pylist()
        return [type("Row", (), row)() for row in rows]


def test_executors_come_once() -> None:
    """Many tasks of one executor are one platform."""
    here = platform.describe()
    (found,) = platform.on_executors(_Session())

    assert (here.host, here.versions) == (found.host, found.versions)


def test_a_problem_of_one_executor_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors of one host are one platform, with the problem that one of them has."""
    here = platform.describe()
    others = [replace(here, memory_used=number) for number in range(30)]
    rows = [*others, replace(here, problems=("no Unix socket can be used",)), *others]
    texts = [json.dumps(asdict(one)) for one in rows]
    monkeypatch.setattr(_Session, "collect", lambda _: [SimpleNamespace(text=t) for t in texts])
    (found,) = platform.on_executors(_Session())

    assert ("no Unix socket can be used",) == found.problems


def test_the_verb_without_servers(kfetch: Kfetch) -> None:
    """``kfetch check`` alone tells the versions, and that an agent runs; --json has the same."""
    code, out, said = kfetch("check")
    state = json.loads(kfetch("check", "--json")[1])

    assert (0, "") == (code, said)
    assert f"kfetch {__version__}, python 3." in out
    assert "  agent: runs in its own process, the default (kfetch.agent=process)\n" in out
    assert ("process", []) == (
        state["platforms"]["driver"]["agent"],
        state["platforms"]["executors"],
    )


def test_the_verb_where_no_agent_runs(kfetch: Kfetch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says why, names the setting, and exits with 1. With the setting it succeeds."""
    here = replace(platform.describe(), problems=("no process can be started: no",))
    monkeypatch.setattr(platform, "describe", lambda: here)
    code, out, said = kfetch("check")

    assert 1 == code
    assert "  agent: can't run here, set kfetch.agent=inline\n    no process" in out
    assert f"no agent can run on {here.host}: no process can be started: no" in said
    for text in ("kfetch.agent=inline", "KFETCH.Agent=INLINE"):  # case does not matter to queries
        assert 0 == kfetch("check", "--option", text)[0]


def test_the_verb_needs_pyspark_for_executors(
    kfetch: Kfetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kfetch does not require pyspark. The error is one line that says how to get it."""
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    code, _, said = kfetch("check", "--executors")

    assert (1, 1) == (code, said.count("\n"))
    assert "pip install 'kfetch[spark]'" in said


class _WithoutKfetch:
    """Builds a session whose executors lack kfetch, and is that session."""

    def appName(self, _: str) -> _WithoutKfetch:
        return self

    def getOrCreate(self) -> _WithoutKfetch:
        return self

    def range(self, *_: int) -> _WithoutKfetch:
        trace = "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module"
        raise PythonException(f"An exception was thrown from the Python worker:\n{trace}\n")

    def stop(self) -> None:
        pass


def test_executors_without_kfetch(kfetch: Kfetch, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a task fails, the error is its last line, and says what executors need."""
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", _WithoutKfetch())
    code, _, said = kfetch("check", "--executors")

    assert 1 == code
    assert said.startswith("kfetch: no executor could be asked (ModuleNotFoundError: No module): ")


def test_lines_without_linux() -> None:
    """Elsewhere queries run without an agent, and the line says why."""
    here = replace(platform.describe(), agent="inline", problems=("the agent needs Linux",))

    assert "  agent: none by default (kfetch.agent=inline), because it needs Linux" in (
        check._lines("this machine", here)
    )


class _OtherRelease(_WithoutKfetch, _Session):
    """Builds a session whose executors have another release."""

    def range(self, *_: int) -> Any:
        return self

    def collect(self) -> list[Any]:
        here = platform.describe()
        other = replace(here, host="worker-3", versions={**here.versions, "kfetch": "9.9.9"})
        return [SimpleNamespace(text=json.dumps(asdict(one))) for one in (here, other)]


def test_executors_of_another_release(kfetch: Kfetch, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor with another release of kfetch fails the check, because no task could read."""
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", _OtherRelease())
    code, out, said = kfetch("check", "--executors")

    assert (1, True) == (code, "  kfetch 9.9.9, " in out)
    assert said.startswith(
        f"kfetch: the executor worker-3 has kfetch 9.9.9, and the driver has kfetch {__version__}: "
        "install the same release for the driver and all executors"
    )
