"""Finds, reads, merges and checks the files of a project."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from pydantic import ValidationError

from kfetch.errors import KfetchError
from kfetch.storage.locations import absolute_location, has_scheme
from kfetch.storage.open import READABLE, StoredPath, stored_path
from kfetch_jobs.config import cross_checks, mistakes
from kfetch_jobs.config.cluster_paths import cluster_path_mistakes
from kfetch_jobs.config.functions import code_directories
from kfetch_jobs.config.functions import mistake as function_mistake
from kfetch_jobs.config.job import Job, TableLocation
from kfetch_jobs.config.merge_order import order_mistakes
from kfetch_jobs.config.models import EnvironmentFile, JobFile, Model, ProjectFile, Target
from kfetch_jobs.config.source_options import option_mistakes, source_location
from kfetch_jobs.config.write_way import write_mistakes
from kfetch_jobs.config.yamlfile import Document, display, read, suggestion, with_placeholders
from kfetch_jobs.errors import ConfigError

PROJECT_FILE = "kfetch.yml"
ENVIRONMENT_VARIABLE = "KFETCH_ENV"

_JOB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
"""A job's name is also the name of its directory and of its query in Spark."""
_VISIBLE = "[!.]*"
"""Editors and macOS leave hidden files beside those of jobs."""

M = TypeVar("M", bound=Model)

_STAND_INS = {
    "source": {"cluster": "", "subscribe": "topic"},
    "sink": {"path": "table"},
    "trigger": "availableNow",
}
"""Parts in place of a job's invalid ones, so that the rest of its file can be checked."""


def is_job_name(name: str) -> bool:
    """Returns whether this is a valid name of a job."""
    return _JOB_NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project whose own file is valid. It reads the jobs' files on demand."""

    document: Document
    environ: Mapping[str, str] = field(repr=False)
    file: ProjectFile
    environment: Document | None = None
    """The selected file of ``env/``."""
    storage: Path
    texts: Mapping[Path, str] = field(default_factory=dict, repr=False)
    """Texts that count in place of their files."""
    secrets: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Secrets of all files that were read so far, with their placeholders. The supervisor's log
    must not show them."""

    @property
    def path(self) -> Path:
        """The path of the project file. Relative paths in it start at its directory."""
        return self.document.path

    @property
    def environment_name(self) -> str | None:
        """The name of the environment's file, without ``.yml``."""
        return self.environment.path.stem if self.environment else None

    def shared_state(self, *, request_s: float | None = None) -> StoredPath | None:
        """Returns the path of ``sharedState``; None without one. It asks no store.

        ``request_s``: see ``stored_path``. Raises ConfigError if kfetch can't use the location.
        """
        if (text := self.file.sharedState) is None:
            return None
        reason = f"kfetch writes only to {READABLE}"
        try:
            path = stored_path(self._resolved(text), self.file.spark, request_s=request_s)
            if isinstance(path, Path) and not any(map(path.is_relative_to, self._shared())):
                reason = (
                    "it is a directory of this machine: name a URI of a store, or list a directory "
                    "that all hosts mount under sharedDirectories"
                )
            elif path is not None:
                return path
        except KfetchError as cause:
            reason = cause.message
        own = self.environment and "sharedState" in self.environment.value
        document = self.environment if own and self.environment else self.document
        raise ConfigError(f"{document.file_line(('sharedState',))}: sharedState {text}: {reason}")

    def redacted(self, sentence: str) -> str:
        """Returns a sentence with placeholders for the secrets of all files that were read."""
        return with_placeholders(sentence, dict(self.secrets))  # a copy: other threads read files

    def jobs(self) -> list[str]:
        """Returns the names of all jobs, sorted. No other name gets further than a mistake."""
        return sorted(path.stem for path in self._directory.glob("*.yml") if is_job_name(path.stem))

    def job(self, name: str) -> Job:
        """Read, check and return one job. Raises ConfigError with all of its mistakes."""
        path = self._directory / f"{name}.yml"
        if name not in self.jobs() and path not in self.texts:
            raise ConfigError(
                f"there is no job {name} in {display(self._directory)}: "
                f"{suggestion(name, self.jobs())}"
            )
        document = read(path, self.environ, {"storage": str(self.storage)}, self.texts)
        self.secrets.update(document.secrets)
        file, wrong = mistakes.validated_parts(JobFile, document, _STAND_INS)
        if file is None:
            raise ConfigError(*wrong)
        job = self._job(name, document, file)
        wrong += [
            *self._unknown_clusters(job),
            *option_mistakes(job),
            *_transform_mistakes(job),
            *_table_mistakes(job),
            *write_mistakes(job),
            *cluster_path_mistakes(
                job,
                job.spark.get("spark.master", "local"),
                several_hosts=self.file.sharedState is not None,
            ),
        ]
        wrong = wrong or [*order_mistakes(job)]  # behind a typo, ``latestBy`` only seems missing
        if wrong:
            raise ConfigError(*wrong)
        return job

    def read_jobs(self) -> dict[str, Job | ConfigError]:
        """Returns each job, or the error with all mistakes in its file."""
        return {name: self._job_or_error(name) for name in self.jobs()}

    def _job_or_error(self, name: str) -> Job | ConfigError:
        try:
            return self.job(name)
        except ConfigError as error:
            return error
        except Exception as error:  # a bug that one job triggers must not stop the others
            return ConfigError(mistakes.unexpected_mistake(name, error))

    def jobs_and_mistakes(self) -> tuple[dict[str, Job], list[str]]:
        """Returns the jobs with valid files, and the mistakes of all files."""
        read, wrong = self.read_jobs(), list(self._misnamed_files())
        jobs = {name: job for name, job in read.items() if isinstance(job, Job)}
        for error in read.values():
            wrong += error.mistakes if isinstance(error, ConfigError) else ()
        # A mistake in the project's file comes up for each job, and is listed once.
        return jobs, [*dict.fromkeys(wrong), *cross_checks.mistakes(jobs, read)]

    def _misnamed_files(self) -> Iterator[str]:
        """Yields the mistakes of files that kfetch does not read because of their names."""
        for path in sorted(self._directory.glob(_VISIBLE)):
            if path.suffix == ".yaml":
                wrong = f"is not read: name it {path.stem}.yml"
            elif path.suffix == ".yml" and not is_job_name(path.stem):
                wrong = f"{path.stem} cannot name a job: use letters, digits, _ and -, no - first"
            else:
                continue
            # A name may have bytes that are not UTF-8.
            yield f"{display(path)}:1: {wrong}".encode(errors="backslashreplace").decode()

    @property
    def _directory(self) -> Path:
        return self.path.parent / "jobs"

    def _unknown_clusters(self, job: Job) -> Iterator[str]:
        for view, source in job.file.views().items():
            if source.cluster and source.cluster not in self.file.clusters:
                at = (*source_location(job.file, view), "cluster")
                yield (
                    f"{job.document.file_line(at)}: "
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
            environment=self.environment_name,
            directory=directory,
            target=self._table_location(file.sink),
            dead_letters=self._table_location(file.sink.deadLetters)
            if file.sink.deadLetters
            else None,
            checkpoint=self._resolved(file.checkpoint or str(directory / "checkpoint")),
            code=tuple(code_directories(self.path)),
            spark=self.file.spark | file.spark,
            clusters=self.file.clusters,
            shared_directories=self._shared(),
        )

    def _shared(self) -> tuple[Path, ...]:
        names = self.file.sharedDirectories
        return tuple(self.path.parent.joinpath(one).resolve() for one in names)

    def _table_location(self, target: Target) -> TableLocation:
        path = None if target.path is None else self._resolved(target.path)
        return TableLocation(path=path, table=target.table)

    def _resolved(self, path: str) -> str:
        return absolute_location(path, self.path.parent)


def _transform_mistakes(job: Job) -> Iterator[str]:
    transform = job.file.transform
    if transform and transform.python:
        wrong = function_mistake(transform.python, job.code)
        if wrong:
            yield f"{job.document.file_line(('transform',))}: {wrong}"


def _table_mistakes(job: Job) -> Iterator[str]:
    if job.dead_letters == job.target:
        line = job.document.file_line(("sink", "deadLetters"))
        yield f"{line}: sink.deadLetters is the sink's own table: {job.target}: name another"


def find(start: Path) -> Path:
    """Returns the project file of a directory, of its ``conf/``, or of the nearest one above."""
    for directory in (start.absolute(), *start.absolute().parents):
        if (candidate := _file_in(directory)) is not None:
            return candidate
    raise ConfigError(
        f"there is no {PROJECT_FILE} or conf/{PROJECT_FILE} in {start.absolute()} or above: "
        "change to a project's directory, name its file with --project, or make one with "
        "kfetch init DIR"
    )


def _file_in(directory: Path) -> Path | None:
    candidates = (directory / PROJECT_FILE, directory / "conf" / PROJECT_FILE)
    return next((path for path in candidates if path.is_file()), None)


def located(path: Path) -> Path:
    """Returns the project file that a path names: the file itself, or the one of its directory.

    Raises ConfigError for a directory without one.
    """
    if not path.is_dir():
        return path
    if (found := _file_in(path)) is None:
        raise ConfigError(
            f"there is no {PROJECT_FILE} or conf/{PROJECT_FILE} in {path.absolute()}: name a "
            "project's directory or its file with --project"
        )
    return found


def load(
    path: Path,
    environ: Mapping[str, str] = os.environ,
    environment: str | None = None,
    texts: Mapping[Path, str] = MappingProxyType({}),
) -> Project:
    """Read and check a project file. Raises ConfigError, also with the mistakes in jobs' files.

    ``environ`` has the variables for ``${env:…}``, here and in the jobs' files. ``environment``
    names a file of ``env/``. The default is KFETCH_ENV, then the project file's ``environment``.
    ``texts`` has texts that count in place of their files, here and for the jobs.
    """
    try:
        return _loaded(path.absolute(), environ, environment, texts)
    except ConfigError as error:
        alone = _job_file_mistakes(path.absolute().parent, environ, texts)
        raise ConfigError(*error.mistakes, *alone) from None


def _loaded(
    path: Path, environ: Mapping[str, str], environment: str | None, texts: Mapping[Path, str]
) -> Project:
    document = read(path, environ, {}, texts)
    file = _validated(ProjectFile, document)
    name = environment or environ.get(ENVIRONMENT_VARIABLE) or file.environment
    overrides = _environment(document, name, environ, texts) if name else None
    if overrides:
        file = _merged(file, _validated(EnvironmentFile, overrides))
    _check_servers(file, document)
    _check_local(file, overrides if overrides and "storage" in overrides.value else document)
    storage = (document.path.parent / file.storage).resolve()
    project = Project(
        document=document,
        environ=environ,
        file=file,
        environment=overrides,
        storage=storage,
        texts=texts,
        secrets=document.secrets | (overrides.secrets if overrides else {}),
    )
    project.shared_state()  # raises an error for a location that can't be used
    return project


def _job_file_mistakes(
    directory: Path, environ: Mapping[str, str], texts: Mapping[Path, str]
) -> Iterator[str]:
    """Yields the mistakes in each job's file alone, beside a project file that can't be used."""
    for path in sorted((directory / "jobs").glob(_VISIBLE + ".yml")):
        try:
            document = read(path, environ, {"storage": ""}, texts)
            yield from mistakes.validated_parts(JobFile, document, _STAND_INS)[1]
        except ConfigError as error:
            yield from error.mistakes


def _environment(
    project: Document, name: str, environ: Mapping[str, str], texts: Mapping[Path, str]
) -> Document:
    directory = project.path.parent / "env"
    known = sorted(path.stem for path in directory.glob("*.yml"))
    if name not in known and directory / f"{name}.yml" not in texts:
        raise ConfigError(
            f"there is no environment {name} in {display(directory)}: {suggestion(name, known)}"
        )
    return read(directory / f"{name}.yml", environ, {}, texts)


def _merged(file: ProjectFile, overrides: EnvironmentFile) -> ProjectFile:
    clusters = {
        name: file.clusters.get(name, {}) | overrides.clusters.get(name, {})
        for name in file.clusters | overrides.clusters
    }
    changes: dict[str, object] = {"spark": file.spark | overrides.spark, "clusters": clusters}
    changes |= {
        name: value
        for name in ("storage", "concurrency", "sharedDirectories", "sharedState")
        if (value := getattr(overrides, name)) is not None
    }
    return file.model_copy(update=changes)


def _check_servers(file: ProjectFile, document: Document) -> None:
    unreachable = [
        f"{document.file_line(('clusters', name))}: cluster {name} needs bootstrap.servers"
        for name, properties in file.clusters.items()
        if "bootstrap.servers" not in properties
    ]
    if unreachable:
        raise ConfigError(*unreachable)


def _check_local(file: ProjectFile, document: Document) -> None:
    if has_scheme(file.storage):
        raise ConfigError(
            f"{document.file_line(('storage',))}: storage must be a local directory, for logs, "
            "locks and the supervisor's database: give URIs to sink.path and checkpoint"
        )


def _validated(model: type[M], document: Document) -> M:
    try:
        return model.model_validate(document.value)
    except ValidationError as error:
        raise ConfigError(*mistakes.validation_mistakes(model, document, error)) from None
