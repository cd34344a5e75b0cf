"""What a job needs of this machine and its clusters, looked at piece by piece.

Nothing is changed, downloaded, compiled or started, but for ``java -version`` and a nameless file
in the project's storage, which is gone when it is closed.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from kfetch.errors import KfetchError
from kfetch.model import Broker
from kfetch.options import parse
from kfetch.wire.cluster import Cluster
from kfetch_jobs.config import Project
from kfetch_jobs.errors import JobsError
from kfetch_jobs.jvm.java import find_java, java_version
from kfetch_jobs.looks.source import LOOKUP_TIMEOUT_S
from kfetch_jobs.util.plural import counted

__all__ = ["Finding", "State", "examine", "installed_packages", "java"]

PYTHON_MINIMUM = (3, 11)
_PACKAGES = ("pyspark", "delta-spark", "pyarrow", "numba", "kafka-python")
_FILES_MIN = 4096
"""A Spark driver with its jars, sockets and shuffle files needs some hundreds; the JVM takes what
the hard limit gives."""
_FREE_BYTES_MIN = 1 << 30
"""Less in the storage is soon full of logs and tables."""


class State(StrEnum):
    """How one piece is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One piece: what it is, how it is, and what to do if it is not well."""

    state: State
    what: str
    told: str
    advice: str = ""


def examine(project: Project | None) -> Iterator[Finding]:
    """Every piece, one after the other; without a project, those of the machine alone."""
    yield python(sys.version_info[:2])
    yield java()
    yield from installed_packages()
    yield decoder()
    yield files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    if project is not None:
        yield jobs(project)
        yield storage(project.storage)
        for name, properties in project.file.clusters.items():
            yield from cluster(name, properties)


def python(version: tuple[int, ...]) -> Finding:
    """The Python that runs this, and with it Spark's workers."""
    told = f"{version[0]}.{version[1]}, {sys.executable}"
    if version >= PYTHON_MINIMUM:
        return Finding(state=State.OK, what="python", told=told)
    advice = f"install Python {'.'.join(map(str, PYTHON_MINIMUM))} or newer, and kfetch into it"
    return Finding(state=State.FAIL, what="python", told=told, advice=advice)


def java() -> Finding:
    """The Java that Spark starts."""
    try:
        found = find_java()
        return Finding(state=State.OK, what="java", told=f"{java_version(found)}, {found}")
    except JobsError as cause:
        sentence, _, advice = str(cause).rpartition(": ")
        return Finding(state=State.FAIL, what="java", told=sentence, advice=advice)


def installed_packages() -> Iterator[Finding]:
    """Check the installed packages against the requirements of kfetch and kfetch-jobs."""
    return packages([*_requirements("kfetch"), *_requirements("kfetch-jobs")], _installed)


def packages(requires: list[str], installed: Callable[[str], str | None]) -> Iterator[Finding]:
    """The packages that have to fit each other, held against what kfetch asks for."""
    wanted: dict[str, Requirement] = {}
    for text in requires:
        requirement = Requirement(text)
        wanted[requirement.name] = requirement
    for name in _PACKAGES:
        if name in wanted:
            yield _package(name, wanted[name], installed(name))


def _package(name: str, wanted: Requirement, version: str | None) -> Finding:
    advice = f"pip install '{name}{wanted.specifier}'"
    if version is None:
        return Finding(state=State.FAIL, what=name, told="is not installed", advice=advice)
    if not wanted.specifier.contains(version, prereleases=True):
        told = f"is {version}, but kfetch needs {wanted.specifier}"
        return Finding(state=State.FAIL, what=name, told=told, advice=advice)
    return Finding(state=State.OK, what=name, told=version)


def _requirements(distribution: str) -> list[str]:
    return metadata.requires(distribution) or []


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def decoder() -> Finding:
    """Whether the record decoder has been compiled for this machine."""
    try:
        from kfetch import decoding
        from kfetch.compiled import native

        if decoding.IMPLEMENTATION != "kernel":
            told = "KFETCH_RECORDS=reference: the slow decoder in pure Python"
            advice = "unset KFETCH_RECORDS"
            return Finding(state=State.WARN, what="decoder", told=told, advice=advice)
        directory = native.kept()
    except Exception as cause:  # a broken llvmlite raises whatever it likes
        advice = "pip install --force-reinstall numba llvmlite"
        told = f"can't be loaded ({cause})"
        return Finding(state=State.FAIL, what="decoder", told=told, advice=advice)
    if directory:
        return Finding(state=State.OK, what="decoder", told=f"compiled, in {directory}")
    told = "is not compiled yet: the first read waits for it, some seconds"
    return Finding(state=State.WARN, what="decoder", told=told, advice="kfetch warm")


def files(soft: int, hard: int) -> Finding:
    """How many files a process may open. The JVM raises its own limit to the hard one."""
    told = f"{_limit(soft)} at once, {_limit(hard)} at most"
    if hard == resource.RLIM_INFINITY or hard >= _FILES_MIN:
        return Finding(state=State.OK, what="open files", told=told)
    advice = f"raise the hard limit (ulimit -Hn) to {_FILES_MIN} or more"
    return Finding(state=State.WARN, what="open files", told=told, advice=advice)


def _limit(value: int) -> str:
    return "any number" if value == resource.RLIM_INFINITY else str(value)


def jobs(project: Project) -> Finding:
    """Whether the files of the project's jobs are right."""
    found, mistakes = project.checked()
    if not mistakes:
        return Finding(state=State.OK, what="jobs", told=f"{len(found)}, {project.path}")
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    told, advice = f"{mistakes[0]}{more}", "kfetch validate tells all"
    return Finding(state=State.FAIL, what="jobs", told=told, advice=advice)


def storage(directory: Path) -> Finding:
    """Whether the project's storage, or the nearest directory above that exists, can be written."""
    place = next(path for path in (directory, *directory.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"kfetch")
            file.flush()
        free = shutil.disk_usage(place).free
    except OSError as cause:
        told = f"{place} can't be written: {cause.strerror}"
        advice = f"give {_user()} the right to write there, or name another storage in kfetch.yml"
        return Finding(state=State.FAIL, what="storage", told=told, advice=advice)
    told = f"{directory}, {free / (1 << 30):,.1f} GiB free"
    if free >= _FREE_BYTES_MIN:
        return Finding(state=State.OK, what="storage", told=told)
    return Finding(state=State.WARN, what="storage", told=told, advice="make room on that disk")


def _user() -> str:
    return f"user {os.getuid()}"


def cluster(name: str, properties: Mapping[str, str]) -> Iterator[Finding]:
    """Whether a cluster answers, and each broker at the address that it gives to clients."""
    what = f"cluster {name}"
    kafka = {f"kafka.{key}": value for key, value in properties.items()}
    try:
        # Any topic will do: none is asked for.
        options = parse(kafka | {"subscribe": "none"})
    except KfetchError as cause:
        advice = f"mend clusters.{name} in kfetch.yml or env/"
        yield Finding(state=State.FAIL, what=what, told=cause.message, advice=advice)
        return
    servers = ",".join(f"{host}:{port}" for host, port in options.bootstrap)
    with closing(Cluster(options.bootstrap, options.network)) as asked:
        try:
            view = asked.view((), time.monotonic() + LOOKUP_TIMEOUT_S)
        except KfetchError as cause:
            advice = f"start the cluster, or mend clusters.{name}.bootstrap.servers in kfetch.yml"
            yield Finding(state=State.FAIL, what=what, told=cause.message, advice=advice)
            return
        told = f"{counted(len(view.brokers), 'broker')}, by {servers}"
        yield Finding(state=State.OK, what=what, told=told)
        for broker in view.brokers.values():
            yield from _broker(what, asked, broker)


def _broker(what: str, asked: Cluster, broker: Broker) -> Iterator[Finding]:
    try:
        asked.connection(broker, time.monotonic() + LOOKUP_TIMEOUT_S)
    except KfetchError as cause:
        advice = "its advertised.listeners must name an address that this machine can reach"
        told = f"{broker}: {cause.message}"
        yield Finding(state=State.FAIL, what=what, told=told, advice=advice)
