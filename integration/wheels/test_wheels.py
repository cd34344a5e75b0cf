"""Both wheels work in an empty environment, without the source tree.

Beside each project are a user's own ``jobs/``, ``jobs.py``, ``conf/`` and ``spark_source/``.
"""

from __future__ import annotations

import json
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer

from integration.wheels.environment import ROOT, Environment, install, uv
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

STOP = "\nspark.stop()  # calls all its listeners before\n"


def blocks(page: str) -> list[str]:
    """The blocks of Python in a page of docs/."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_an_sdist_builds_the_same_wheel(wheels: Path, tmp_path: Path) -> None:
    """Each sdist, unpacked elsewhere, builds a wheel with the same files, licences included."""
    for sdist in wheels.glob("*.tar.gz"):
        with tarfile.open(sdist) as archive:
            archive.extractall(tmp_path, filter="data")
        source = tmp_path / sdist.name.removesuffix(".tar.gz")
        uv("build", "--quiet", "--wheel", "--out-dir", str(tmp_path / "again"), str(source))
    built = {wheel.name: contents(wheel) for wheel in wheels.glob("*.whl")}

    assert 2 == len(built)
    assert built == {wheel.name: contents(wheel) for wheel in (tmp_path / "again").glob("*.whl")}
    for files in built.values():
        assert any(name.endswith("licenses/LICENSE") for name in files)
        assert any(name.endswith("py.typed") for name in files)


def test_the_wheels_add_no_other_modules(environment: Environment, tmp_path: Path) -> None:
    """The wheels install ``kfetch`` and ``kfetch_jobs``, but not ``jobs`` or ``spark_source``."""
    packages = environment.packages()
    size = environment.megabytes()
    print(f"installed in {environment.install_s:.1f} s, {size:.0f} MB: {' '.join(packages)}")
    for name in ("jobs", "spark_source", "conf", "tests", "integration"):
        environment.run("python", "-c", f"import {name}", cwd=tmp_path, code=1)
    environment.run("python", "-c", "import kfetch, kfetch_jobs, pyspark_kfetch", cwd=tmp_path)

    assert {"kfetch", "kfetch-jobs"} <= {line.partition("==")[0] for line in packages}


def test_the_source_alone(wheels: Path, tmp_path: Path) -> None:
    """Without kfetch-jobs and Spark, the package can be imported and the command has its verbs."""
    alone = install(tmp_path / "venv", wheels, "kfetch")
    code = "import kfetch, sys; print(kfetch.__version__, kfetch.errors.LogTruncated.__name__)"
    version, name = alone.run("python", "-c", code, cwd=tmp_path).split()
    usage = alone.run("kfetch", "--help", cwd=tmp_path)
    page = alone.run("kfetch", "explain", "LOG_TRUNCATED", cwd=tmp_path)

    assert (version, "LogTruncated") == (
        alone.run("kfetch", "--version", cwd=tmp_path).split()[1],
        name,
    )
    assert "## What to do" in page
    assert {"agents", "warm", "options", "check", "explain"} <= {
        *re.findall(r"^  (\w+) ", usage, re.MULTILINE)
    }
    assert "pyspark" not in " ".join(alone.packages())


def test_the_first_stream_needs_no_activation(
    environment: Environment, kafka: Cluster, topic: Callable[..., str], user_directory: Path
) -> None:
    """``path/to/venv/bin/python script.py`` of docs/start/ shows the rows, and prints the lag."""
    name = topic(2)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(name, key=b"k%d" % number, value=b"hello %d" % number)
    (query,) = blocks("start/first-stream.md")
    (listener,) = [block for block in blocks("how-to/monitor.md") if "LagListener" in block]
    query = query.replace("localhost:9092", kafka.bootstrap_servers)
    query = query.replace('"subscribe", "clicks"', f'"subscribe", "{name}"')
    script = query.replace("query = (", f"{listener}\nquery = (") + STOP
    (user_directory / "script.py").write_text(script)
    printed = environment.run("python", "script.py", cwd=user_directory)

    assert [f"hello {n}" for n in range(10)] == sorted(re.findall(r"hello \d", printed))
    assert ": 0 offsets behind\n" in printed


def test_demo_in_an_empty_directory(environment: Environment, tmp_path: Path) -> None:
    """``kfetch demo`` brings its own job: nothing is lost and nothing is twice. It leaves nothing
    but its picture."""
    empty, temporary = tmp_path / "empty", tmp_path / "temporary"
    for directory in (empty, temporary):
        directory.mkdir()
    words = ("--seconds", "8", "--rate", "5000", "--json")
    printed = environment.run("kfetch", "demo", *words, cwd=empty, TMPDIR=str(temporary))
    summary = json.loads(printed)

    assert (40_000, 40_000) == (summary["produced"], summary["in_delta"])
    assert (0, 0) == (summary["lost"], summary["duplicated"])
    assert summary["killed_processes"] >= 3
    # One session at least in each of the job's two lives.
    assert summary["sessions_opened"] >= 2
    assert summary["records"] >= summary["in_delta"]
    assert [] == [path.name for path in temporary.glob("kfetch-demo-*")]
