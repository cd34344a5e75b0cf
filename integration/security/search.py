"""What the searches for secrets share: the secrets, the searches, and projects that have them."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from integration.running.commands import Project
from integration.secured import SecuredCluster
from integration.security.test_refusals import WRONG

PROJECT = """\
storage: storage
spark:
  spark.master: local[1]
  spark.driver.memory: 600m
  spark.local.dir: {directory}/local
  spark.eventLog.enabled: true
  spark.eventLog.compress: false
  spark.eventLog.rolling.enabled: false
  spark.eventLog.dir: file://{directory}/events
{spark}clusters:
"""
CLUSTER = """\
  {name}:
    bootstrap.servers: {servers}
    security.protocol: SASL_SSL
    ssl.truststore.type: PEM
    ssl.truststore.location: {ca}
    sasl.mechanism: SCRAM-SHA-512
    sasl.jaas.config: >-
      org.apache.kafka.common.security.scram.ScramLoginModule required
      username="{user}" password="${{file:{file}}}";
"""
JOB = """\
source:
  cluster: {cluster}
  subscribe: {topic}
  options:
    startingOffsets: earliest
sink:
  path: ${{storage}}/tables/{name}
trigger: {trigger}
"""


def secrets_of(cluster: SecuredCluster) -> dict[str, str]:
    """Returns what nobody may see, by name."""
    return {
        "password": cluster.credentials.passwords["reader"],
        "wrong password": WRONG,
        "key": key_body(cluster.credentials.path("reader.pem").read_text()),
    }


def key_body(pem: str) -> str:
    """Returns a line of a private key that no other text has."""
    return pem[pem.index("PRIVATE KEY-----") :].splitlines()[1]


def named_in(content: bytes, secrets: Mapping[str, str]) -> list[str]:
    """Returns the names of the secrets that stand in a content, in UTF-8 or UTF-16."""
    return [
        name
        for name, secret in secrets.items()
        if secret.encode() in content or secret.encode("utf-16-le") in content
    ]


def holders(directory: Path, secrets: Mapping[str, str]) -> dict[str, str]:
    """Returns the files below a directory that have a secret, with the secrets' names.

    A file that disappears meanwhile has none.
    """
    found = {}
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file() and (names := named_in(path.read_bytes(), secrets)):
                found[str(path.relative_to(directory))] = ", ".join(names)
    return found


def exposed(processes: Iterable[psutil.Process], secrets: Mapping[str, str]) -> list[str]:
    """Returns the processes whose arguments or environment have a secret."""
    found = []
    for process in processes:
        with suppress(psutil.Error, OSError):
            for kind in ("cmdline", "environ"):
                content = Path(f"/proc/{process.pid}/{kind}").read_bytes()
                names = named_in(content, secrets)
                found += [f"{kind} of {process.name()} has the {name}" for name in names]
    return found


def readable_by_others(paths: Iterable[Path]) -> list[Path]:
    """Returns the files that others than their owner may read."""
    return [path for path in paths if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)]


def write_project(
    project: Project, cluster: SecuredCluster, user: str = "reader", spark: str = ""
) -> None:
    """Write a project whose cluster ``main`` is secured. The password has a file of its own.

    ``spark``: further lines of Spark's settings.
    """
    directory = project.directory
    (directory / "jobs").mkdir()
    (directory / "events").mkdir()
    (directory / "kfetch.yml").write_text(PROJECT.format(directory=directory, spark=spark))
    add_cluster(project, cluster, "main", user, "password")
    keep(directory / "password", cluster.credentials.passwords[user] + "\n")


def add_cluster(project: Project, cluster: SecuredCluster, name: str, user: str, file: str) -> None:
    """Add a secured cluster whose password is in a file. The clusters stand last in their file."""
    text = CLUSTER.format(
        name=name,
        servers=cluster.secure_listeners["SASL_SSL"],
        ca=cluster.credentials.path("ca.pem"),
        user=user,
        file=file,
    )
    with (project.directory / "kfetch.yml").open("a") as project_file:
        project_file.write(text)


def add_job(
    project: Project,
    name: str,
    topic: str,
    *,
    cluster: str = "main",
    trigger: str = "availableNow",
) -> None:
    """Add a job that copies a topic to a table."""
    text = JOB.format(name=name, topic=topic, cluster=cluster, trigger=trigger)
    (project.directory / f"jobs/{name}.yml").write_text(text)


def keep(path: Path, secret: str) -> None:
    """Write a secret to a file that only its owner may read."""
    path.touch(mode=0o600)
    path.write_text(secret)
