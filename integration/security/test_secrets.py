"""Passwords and keys stay where they belong: a search of files, logs, plans and processes.

The test's own file of options holds the secrets, and so do the files in the broker's directory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from integration.agent.processes import agents_of, all_ended
from integration.running.commands import Project
from integration.secured import SecuredCluster
from integration.security.access import VALUES, options, pem_values
from integration.security.search import (
    add_job,
    exposed,
    holders,
    named_in,
    secrets_of,
    write_project,
)
from integration.security.test_refusals import WRONG, wrong_password
from integration.streams import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(300)]
SCRIPT = Path(__file__).parent / "query.py"


@contextmanager
def running(directory: Path, file: Path) -> Iterator[subprocess.Popen[str]]:
    """The program. All of its output goes to ``output`` in the directory."""
    runtime = directory / "runtime"  # the agent's directory, with its log
    runtime.mkdir(mode=0o700)
    with (
        tempfile.TemporaryDirectory() as short,  # a socket's path has 107 bytes at most
        (directory / "output").open("w") as output,
        subprocess.Popen(
            [sys.executable, SCRIPT, directory, file],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"XDG_RUNTIME_DIR": f"{short}/runtime", "KFETCH_LOG": "DEBUG"},
        ) as process,
    ):
        Path(short, "runtime").symlink_to(runtime)
        try:
            yield process
        finally:
            with suppress(psutil.Error):
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()


def queries(
    cluster: SecuredCluster, topic: str, directory: Path, way: str
) -> dict[str, dict[str, str]]:
    """Returns the options of two queries: one that reads, and one whose broker refuses it."""
    sasl = options(cluster, "SASL_SSL", mechanism="SCRAM-SHA-512")
    if way == "password":
        sasl |= {"kafka.sasl.username": "reader"}
        sasl["kafka.sasl.password"] = cluster.credentials.passwords["reader"]
        wrong = sasl | {"kafka.sasl.password": WRONG}
        del sasl["kafka.sasl.jaas.config"], wrong["kafka.sasl.jaas.config"]
    else:
        wrong = wrong_password(sasl, directory)
        sasl = pem_values(options(cluster, "MTLS")) if way == "PEM" else sasl
    more = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kfetch.agent": "process",
        "kfetch.statsDirectory": str(directory / "statistics"),
        "kfetch.brokerReport": str(directory / "brokers.json"),
    }
    return {"right": sasl | more, "wrong": wrong | more}


@pytest.mark.parametrize("way", ["JAAS", "password", "PEM"])
def test_a_spark_program_shows_no_secret(
    secured: SecuredCluster, secret_topic: str, tmp_path: Path, way: str
) -> None:
    """Not in plans, progress, event log, checkpoint, statistics, the agent's log, or processes."""
    directory = tmp_path / "program"
    directory.mkdir()
    file = tmp_path / "options.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(queries(secured, secret_topic, directory, way)))
    secrets = secrets_of(secured)
    output = directory / "output"

    with running(directory, file) as process:
        root = psutil.Process(process.pid)
        wait_until(
            lambda: "\nreading\n" in output.read_text() or process.poll() is not None,
            what="the program's first query",
        )
        assert process.poll() is None, output.read_text()
        agents = agents_of(root)
        processes = [root, *root.children(recursive=True), *agents]
        assert len(processes) >= 4  # Python, the JVM, Spark's daemon, the agent
        assert [] == exposed(processes, secrets)
        process.communicate("\n", timeout=120)
    wait_until(lambda: all_ended(agents), what="the agent's end")

    text = output.read_text()
    assert "refuses the log-in of user reader by SCRAM-SHA-512" in text, text
    rows = "".join(path.read_text() for path in directory.glob("right/rows/*.json"))
    assert all(f'"{value}"' in rows for value in VALUES)
    assert [*(directory / "events").iterdir()]
    assert [*(directory / "runtime").rglob("*.log")]
    assert {} == holders(directory, secrets)


def test_a_project_shows_no_secret(
    secured: SecuredCluster, secret_topic: str, tmp_path: Path
) -> None:
    """Not in what the verbs print, and in no file below the project but the one of the password."""
    secrets = secrets_of(secured)
    project = Project(tmp_path, secured)
    write_project(project, secured)
    add_job(project, "clicks", secret_topic)
    said = [
        project.kfetch("validate"),
        project.kfetch("plan", "clicks"),
        project.kfetch("plan", "clicks", "--json"),
        project.kfetch("run", "clicks"),
        project.kfetch("lag"),
    ]
    doctor = project.run("doctor")
    status = project.run("status", "--json")
    said += [doctor.stdout, doctor.stderr, status.stdout, status.stderr]
    assert (
        f"ok    cluster main: 1 broker, reached by {secured.secure_listeners['SASL_SSL']}"
        in doctor.stdout
    )

    (tmp_path / "password").write_text(WRONG)
    for words in (("run", "clicks"), ("plan", "clicks"), ("lag",), ("doctor",)):
        failed = project.run(*words)
        assert failed.returncode
        assert "refuses the log-in of user reader" in failed.stdout + failed.stderr
        said += [failed.stdout, failed.stderr]

    assert [] == named_in("".join(said).encode(), secrets)
    assert {"password": "wrong password"} == holders(tmp_path, secrets)


def test_a_project_names_the_missing_operation(
    secured: SecuredCluster, secret_topic: str, tmp_path: Path
) -> None:
    """``plan``, ``lag`` and ``doctor`` name user, topic and operation before any job runs."""
    project = Project(tmp_path, secured)
    write_project(project, secured, "denied")
    add_job(project, "clicks", secret_topic)
    lacks = f"the ACLs of topic {secret_topic} let User:denied describe it and not read it"

    for words in (("plan", "clicks"), ("lag",), ("doctor",)):
        failed = project.run(*words)
        assert 1 == failed.returncode
        assert lacks in " ".join(failed.stdout.split())
