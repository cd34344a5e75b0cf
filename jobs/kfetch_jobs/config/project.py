"""The files of a project: found, read, merged with their environment, checked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from kfetch_jobs.config import mistakes, sources, whole
from kfetch_jobs.config.functions import code_directories
from kfetch_jobs.config.functions import mistake as function_mistake
from kfetch_jobs.config.models import EnvironmentFile, JobFile, Model, ProjectFile, Target
from kfetch_jobs.config.values import Options
from kfetch_jobs.config.yamlfile import Document, display, hidden, read, suggestion
from kfetch_jobs.errors import ConfigError

__all__ = ["PROJECT_FILE", "Job", "Place", "Project", "can_name", "find", "load"]

PROJECT_FILE = "kfetch.yml"
ENVIRONMENT_VARIABLE = "KFETCH_ENV"

_JOB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
"""It names a directory, and a query in Spark."""

M = TypeVar("M", bound=Model)


def can_name(name: str) -> bool:
    """Whether a job can be called so."""
    return _JOB_NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a Delta table is: exactly one of the two is given."""

    path: str | None
    """An absolute path, or a URI."""
    table: str | None
    """A name in Spark's catalog."""

    def __str__(self) -> str:
        return str(self.path or self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, ready to run: its file, and what the project adds to it."""

    name: str
    file: JobFile
    document: Document = field(repr=False)
    shared: tuple[Document, ...] = field(repr=False)
    """The project's file, and its environment's."""
    directory: Path
    """Where the job keeps what is its own: progress, log, checkpoint."""
    target: Place
    dead_letters: Place | None
    checkpoint: str
    """An absolute path, or a URI."""
    code: tuple[Path, ...]
    """Where the transform's module is looked for first."""
    spark: Mapping[str, str] = field(repr=False)
    clusters: Mapping[str, Options] = field(repr=False)
    """The properties of the project's Kafka clusters; there may be passwords among them."""

    def source_options(self, view: str = "source") -> Options:
        """The options of ``format("kfetch")``: the cluster's properties, then the job's own."""
        source = self.file.views()[view]
        kafka = {f"kafka.{name}": value for name, value in self.clusters[source.cluster].items()}
        return kafka | source.strategy() | source.options

    def redacted(self, sentence: str) -> str:
        """A sentence about something else, without the secrets that the job's files refer to:
        addresses may show."""
        return hidden(sentence, _all(document.secrets for document in self._documents))

    def warnings(self) -> list[str]:
        """What its files ask for and will not get, with file and line: no mistakes."""
        return list(sources.warnings(self))

    def hidden(self, sentence: str) -> str:
        """A sentence about the job's files, with what ``${…}`` brought as it was written."""
        return hidden(sentence, _all(document.filled for document in self._documents))

    @property
    def _documents(self) -> tuple[Document, ...]:
        return (self.document, *self.shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project file that was read and found right."""

    document: Document
    environ: Mapping[str, str] = field(repr=False)
    file: ProjectFile
    environment: Document | None = None
    """The file of ``env/`` that counts."""
    storage: Path
    secrets: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """What was read so far, in jobs' files too: whoever logs for all of them must not tell it."""

    @property
    def path(self) -> Path:
        """Where the file is; paths in it start from its directory."""
        return self.document.path

    @property
    def environment_name(self) -> str | None:
        """Its file's name without ``.yml``."""
        return self.environment.path.stem if self.environment else None

    def redacted(self, sentence: str) -> str:
        """A sentence without the secrets of any file that was read."""
        return hidden(sentence, dict(self.secrets))  # a copy: other threads read files

    def jobs(self) -> list[str]:
        """The names of all jobs."""
        return sorted(path.stem for path in self._directory.glob("*.yml"))

    def job(self, name: str) -> Job:
        """Read and check one job. Raises ConfigError with all of its mistakes."""
        path = self._directory / f"{name}.yml"
        if name not in self.jobs():
            raise ConfigError(
                f"there is no job {name} in {display(self._directory)}: "
                f"{suggestion(name, self.jobs())}"
            )
        if not can_name(name):
            raise ConfigError(
                f"{display(path)}:1: {name} cannot name a job: letters, digits, _ and - can"
            )
        document = read(path, self.environ, {"storage": str(self.storage)})
        self.secrets.update(document.secrets)
        file = _validated(JobFile, document)
        found = list(self._unknown_clusters(file, document))
        if not found:
            job = self._job(name, document, file)
            found = [*sources.mistakes(job), *_functions(job), *_places(job)]
        if found:
            raise ConfigError(*found)
        return job

    def check(self) -> dict[str, Job]:
        """Every job, by itself and with the others. Raises ConfigError with all mistakes."""
        jobs, found = self.checked()
        if found:
            raise ConfigError(*found)
        return jobs

    def checked(self) -> tuple[dict[str, Job], list[str]]:
        """The jobs whose files are right, and all mistakes."""
        jobs: dict[str, Job] = {}
        found = list(self._unread())
        for name in self.jobs():
            try:
                jobs[name] = self.job(name)
            except ConfigError as error:
                found += error.mistakes
            except Exception as error:  # at night the other jobs go on without it
                found.append(mistakes.unforeseen(name, error))
        # What is wrong in the project's file is wrong for each job, and told once.
        # Among the right ones alone: a job with a mistake is no reason to call others' names wrong.
        return jobs, list(dict.fromkeys(found)) or whole.mistakes(jobs)

    def _unread(self) -> Iterator[str]:
        """Files that look like a job's, and are not taken for one."""
        for path in sorted(self._directory.glob("*.yaml")):
            yield f"{display(path)}:1: is not read: name it {path.stem}.yml"

    @property
    def _directory(self) -> Path:
        return self.path.parent / "jobs"

    def _unknown_clusters(self, file: JobFile, document: Document) -> Iterator[str]:
        for view, source in file.views().items():
            if source.cluster not in self.file.clusters:
                yield (
                    f"{document.place((*sources.location(file, view), 'cluster'))}: "
                    f"{display(self.path)} has no cluster {source.cluster}: "
                    f"{suggestion(source.cluster, self.file.clusters)}"
                )

    def _job(self, name: str, document: Document, file: JobFile) -> Job:
        directory = self.storage / name
        return Job(
            name=name,
            file=file,
            document=document,
            shared=tuple(filter(None, (self.document, self.environment))),
            directory=directory,
            target=self._place(file.sink),
            dead_letters=self._place(file.sink.deadLetters) if file.sink.deadLetters else None,
            checkpoint=self._resolved(file.checkpoint or str(directory / "checkpoint")),
            code=tuple(code_directories(self.path)),
            spark=self.file.spark | file.spark,
            clusters=self.file.clusters,
        )

    def _place(self, target: Target) -> Place:
        path = None if target.path is None else self._resolved(target.path)
        return Place(path=path, table=target.table)

    def _resolved(self, path: str) -> str:
        return path if "://" in path else str((self.path.parent / path).resolve())


def _all(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Together: one after the other, each would look into what the one before has written."""
    return {text: written for part in parts for text, written in part.items()}


def _functions(job: Job) -> Iterator[str]:
    transform = job.file.transform
    if transform and transform.python:
        wrong = function_mistake(transform.python, job.code)
        if wrong:
            yield f"{job.document.place(('transform',))}: {wrong}"


def _places(job: Job) -> Iterator[str]:
    if job.dead_letters == job.target:
        place = job.document.place(("sink", "deadLetters"))
        yield f"{place}: sink.deadLetters is the sink's own table: {job.target}: name another"


def find(start: Path) -> Path:
    """The project file of a directory: its own, its conf/'s, or the nearest one above."""
    for directory in (start.absolute(), *start.absolute().parents):
        for candidate in (directory / PROJECT_FILE, directory / "conf" / PROJECT_FILE):
            if candidate.is_file():
                return candidate
    raise ConfigError(
        f"there is no {PROJECT_FILE} or conf/{PROJECT_FILE} in {start.absolute()} or above: "
        "change to a project's directory, name its file with --project, or make one with "
        "kfetch init DIR"
    )


def load(
    path: Path, environ: Mapping[str, str] = os.environ, environment: str | None = None
) -> Project:
    """Read and check a project file; ``environ`` is what ``${env:…}`` means, here and in jobs.

    ``environment`` names a file of ``env/``; else KFETCH_ENV does, else the project file, else
    there is none.
    """
    document = read(path.absolute(), environ, {})
    file = _validated(ProjectFile, document)
    name = environment or environ.get(ENVIRONMENT_VARIABLE) or file.environment
    special = _environment(document, name, environ) if name else None
    if special:
        file = _merged(file, _validated(EnvironmentFile, special))
    _check_reachable(file, document)
    _check_local(file, special if special and "storage" in special.value else document)
    storage = (document.path.parent / file.storage).resolve()
    return Project(
        document=document,
        environ=environ,
        file=file,
        environment=special,
        storage=storage,
        secrets=document.secrets | (special.secrets if special else {}),
    )


def _environment(project: Document, name: str, environ: Mapping[str, str]) -> Document:
    directory = project.path.parent / "env"
    known = sorted(path.stem for path in directory.glob("*.yml"))
    if name not in known:
        raise ConfigError(
            f"there is no environment {name} in {display(directory)}: {suggestion(name, known)}"
        )
    return read(directory / f"{name}.yml", environ, {})


def _merged(file: ProjectFile, special: EnvironmentFile) -> ProjectFile:
    clusters = {
        name: file.clusters.get(name, {}) | special.clusters.get(name, {})
        for name in file.clusters | special.clusters
    }
    over: dict[str, object] = {"spark": file.spark | special.spark, "clusters": clusters}
    over |= {
        name: value
        for name in ("storage", "concurrency")
        if (value := getattr(special, name)) is not None
    }
    return file.model_copy(update=over)


def _check_reachable(file: ProjectFile, document: Document) -> None:
    found = [
        f"{document.place(('clusters', name))}: cluster {name} needs bootstrap.servers"
        for name, properties in file.clusters.items()
        if "bootstrap.servers" not in properties
    ]
    if found:
        raise ConfigError(*found)


def _check_local(file: ProjectFile, document: Document) -> None:
    if "://" in file.storage:
        raise ConfigError(
            f"{document.place(('storage',))}: storage must be a local directory, for logs, locks "
            "and the supervisor's database: give URIs to sink.path and checkpoint"
        )


def _validated(model: type[M], document: Document) -> M:
    try:
        return model.model_validate(document.value)
    except ValidationError as error:
        raise ConfigError(*mistakes.sentences(model, document, error)) from None
