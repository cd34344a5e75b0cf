"""Checks what a job needs: this machine, the project's storage, its clusters.

The checks change, download and compile nothing. They start ``java -version``. They write one
unnamed file in the project's storage, which is gone when it is closed.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from kfetch.admin import brokers
from kfetch.errors import AccessRefused, KfetchError, OptionError
from kfetch_jobs.config import Project
from kfetch_jobs.config.job import cluster_options, with_absolute_paths, with_property_names
from kfetch_jobs.errors import JobsError
from kfetch_jobs.jvm.java import find_java, java_version
from kfetch_jobs.util.wording import counted

LOOKUP_TIMEOUT_S = brokers.WAIT_S
_PACKAGES = ("pyspark", "delta-spark", "pyarrow", "numba", "kafka-python")
_FILES_MIN = 4096
"""A Spark driver needs some hundreds, for jars, sockets and shuffle files. The JVM uses the hard
limit."""
_FREE_BYTES_MIN = 1 << 30
"""With less free space, logs and tables soon fill the disk."""


class Grade(StrEnum):
    """The result of one check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its subject, its result, and what the user can do."""

    grade: Grade
    subject: str
    """What was checked."""
    text: str
    advice: str = ""
    """What the user can do."""

    def to_json(self) -> dict[str, str]:
        """Returns the finding for scripts."""
        return {
            "state": self.grade,
            "what": self.subject,
            "told": self.text,
            "advice": self.advice,
        }


def examine(project: Project | None) -> Iterator[Finding]:
    """Run all checks, one after the other. Without a project, check the machine alone."""
    yield python()
    yield java()
    yield from installed_packages()
    yield decoder()
    yield files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    if project is not None:
        yield jobs(project)
        yield storage(project.storage)
        for name, properties in project.file.clusters.items():
            yield from cluster(name, properties, _topics(project, name), project.path.parent)


def python() -> Finding:
    """Name the Python that runs this process and Spark's workers."""
    return Finding(Grade.OK, "python", f"{platform.python_version()}, {sys.executable}")


def java() -> Finding:
    """Check the Java that Spark starts."""
    try:
        path = find_java()
        return Finding(Grade.OK, "java", f"{java_version(path)}, {path}")
    except JobsError as cause:
        sentence, _, advice = cause.message.rpartition(": ")
        return Finding(Grade.FAIL, "java", sentence, advice)


def installed_packages() -> Iterator[Finding]:
    """Check the installed packages against the requirements of kfetch and kfetch-jobs."""
    requires = [*(metadata.requires("kfetch") or ()), *(metadata.requires("kfetch-jobs") or ())]
    return packages(requires, _installed)


def packages(requires: list[str], installed: Callable[[str], str | None]) -> Iterator[Finding]:
    """Check the versions of packages that must fit each other.

    ``requires`` are requirements as in package metadata. ``installed`` returns the version of a
    package, or None.
    """
    requirements = {one.name: one for one in map(Requirement, requires)}
    for name in _PACKAGES:
        if name in requirements:
            yield _package(name, requirements[name], installed(name))


def _package(name: str, requirement: Requirement, version: str | None) -> Finding:
    advice = f"pip install '{name}{requirement.specifier}'"
    if version is None:
        return Finding(Grade.FAIL, name, "is not installed", advice)
    if not requirement.specifier.contains(version, prereleases=True):
        text = f"is {version}, but kfetch needs {requirement.specifier}"
        return Finding(Grade.FAIL, name, text, advice)
    return Finding(Grade.OK, name, version)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def decoder() -> Finding:
    """Check whether the record decoder is compiled for this machine."""
    try:
        from kfetch.admin.decoder import state

        ready = state()
    except Exception as cause:  # a broken llvmlite raises errors of any type
        advice = "pip install --force-reinstall numba llvmlite"
        return Finding(Grade.FAIL, "decoder", f"can't be loaded ({cause})", advice)
    if ready.compiled:
        return Finding(Grade.OK, "decoder", f"compiled, in {ready.directory}")
    text = "is not compiled yet: the first read waits some seconds for it"
    return Finding(Grade.WARN, "decoder", text, "kfetch warm")


def files(soft: int, hard: int) -> Finding:
    """Check how many files a process may open. The JVM raises its own limit to the hard one."""
    text = f"{_limit(soft)} at once, {_limit(hard)} at most"
    if hard == resource.RLIM_INFINITY or hard >= _FILES_MIN:
        return Finding(Grade.OK, "open files", text)
    advice = f"raise the hard limit (ulimit -Hn) to {_FILES_MIN} or more"
    return Finding(Grade.WARN, "open files", text, advice)


def _limit(value: int) -> str:
    return "any number" if value == resource.RLIM_INFINITY else str(value)


def jobs(project: Project) -> Finding:
    """Check the files of the project's jobs."""
    names, mistakes = project.jobs_and_mistakes()
    if not mistakes:
        return Finding(Grade.OK, "jobs", f"{len(names)}, {project.path}")
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    advice = "kfetch validate lists all mistakes"
    return Finding(Grade.FAIL, "jobs", f"{mistakes[0]}{more}", advice)


def storage(directory: Path) -> Finding:
    """Check that the project's storage, or the nearest directory above it, can be written."""
    existing = directory
    try:
        existing = next(path for path in (directory, *directory.parents) if path.exists())
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"kfetch")
            file.flush()
        free = shutil.disk_usage(existing).free
    except OSError as cause:
        text = f"{existing} can't be written: {cause.strerror}"
        advice = (
            f"give user {os.getuid()} the right to write there, or name another storage in "
            "kfetch.yml"
        )
        return Finding(Grade.FAIL, "storage", text, advice)
    text = f"{directory}, {free / (1 << 30):,.1f} GiB free"
    if free >= _FREE_BYTES_MIN:
        return Finding(Grade.OK, "storage", text)
    return Finding(Grade.WARN, "storage", text, "make room on that disk")


def _topics(project: Project, cluster: str) -> set[str]:
    """Returns the topics that jobs name at a cluster. Patterns name none, nor do invalid jobs."""
    named: set[str] = set()
    for job in project.jobs_and_mistakes()[0].values():
        for view, source in job.file.views().items():
            if source.cluster == cluster:
                named |= job.named_topics(view)
    return named


def cluster(
    name: str,
    properties: Mapping[str, str],
    topics: Collection[str] = (),
    directory: Path = Path(),
) -> Iterator[Finding]:
    """Check that a cluster answers, and each of its brokers at its advertised address.

    ``topics``: the cluster's user must be able to read them, if they exist.
    ``directory``: relative paths of stores start there.
    """
    for found in _cluster(name, properties, topics, directory):
        text, advice = with_property_names(found.text), with_property_names(found.advice)
        yield replace(found, text=text, advice=advice)


def _cluster(
    name: str, properties: Mapping[str, str], topics: Collection[str], directory: Path
) -> Iterator[Finding]:
    subject = f"cluster {name}"
    try:
        options = with_absolute_paths(cluster_options(properties), directory)
        state = brokers.check(options, topics, wait_s=LOOKUP_TIMEOUT_S)
    except OptionError as cause:
        advice = f"correct clusters.{name} in kfetch.yml or env/"
        yield Finding(Grade.FAIL, subject, cause.message, advice)
        return
    except AccessRefused as cause:  # its sentence names the missing operation
        yield Finding(Grade.FAIL, subject, cause.message)
        return
    except KfetchError as cause:
        other = f"start the cluster, or correct clusters.{name}.bootstrap.servers in kfetch.yml"
        advice = cause.action or other
        yield Finding(Grade.FAIL, subject, cause.what, advice)
        return
    text = f"{counted(len(state.brokers), 'broker')}, reached by {state.servers}"
    yield Finding(Grade.OK, subject, text)
    for broker_state in state.brokers:
        if broker_state.error:
            advice = "its advertised.listeners must name an address that this machine can reach"
            text = f"{broker_state.broker}: {broker_state.error}"
            yield Finding(Grade.FAIL, subject, text, advice)
    for sentence in state.unreadable:
        text, _, advice = sentence.rpartition(": ")
        yield Finding(Grade.FAIL, subject, text, advice)
