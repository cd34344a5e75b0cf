"""What a project and its jobs are: models of ``kfetch.yml`` and ``jobs/*.yml``, strictly checked.

    project = load(find(Path.cwd()))
    job = project.job("clicks")
    job.source_options()      what format("kfetch") gets

A key nobody knows and a value that cannot be used are errors with file, line and a suggestion, and
so are the source's options: all of it is found without a broker and without Spark.
Running a job is ``run.py``'s.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from jobs import mistakes
from jobs.errors import ConfigError
from jobs.yamlfile import Document, display, read, suggestion
from spark_source.catalogue import STRATEGIES
from spark_source.errors import OptionError
from spark_source.options import parse

__all__ = ["PROJECT_FILE", "Job", "Project", "find", "load"]

PROJECT_FILE = "kfetch.yml"


def _option_text(value: Any) -> Any:
    """Options are text for Spark and Kafka; YAML's true and 5 are meant as ``true`` and ``5``."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Text = Annotated[str, BeforeValidator(_option_text)]
Options = dict[str, Text]


class Model(BaseModel):
    """A part of a file: no key but the known ones, no change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _spark_settings(settings: Options) -> Options:
    for name in settings:
        if not name.startswith("spark."):
            raise ValueError(f"{name} is no Spark setting: they start with spark.")
    return settings


M = TypeVar("M", bound=Model)


class ProjectFile(Model):
    """``kfetch.yml``."""

    storage: str
    spark: Options = Field(default_factory=dict)
    clusters: dict[str, Options]

    _spark = field_validator("spark")(_spark_settings)

    @field_validator("clusters")
    @classmethod
    def _reachable(cls, clusters: dict[str, Options]) -> dict[str, Options]:
        for name, properties in clusters.items():
            if "bootstrap.servers" not in properties:
                raise ValueError(f"cluster {name} needs bootstrap.servers")
        return clusters


class Source(Model):
    """Which records: a cluster of the project, and exactly one way to name its topics."""

    cluster: str
    subscribe: str | None = None
    subscribePattern: str | None = None
    assign: str | None = None
    options: Options = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_strategy(self) -> Self:
        if len(self.strategy()) != 1:
            raise ValueError(f"exactly one of {', '.join(STRATEGIES)} must be given")
        return self

    def strategy(self) -> Options:
        """The one of subscribe, subscribePattern and assign that is given."""
        given = {name: getattr(self, name) for name in STRATEGIES}
        return {name: text for name, text in given.items() if text is not None}


class Transform(Model):
    """What becomes of the records: a query over the view ``source``."""

    sql: str


class Sink(Model):
    """Where the rows go."""

    format: Literal["delta"]
    path: str
    options: Options = Field(default_factory=dict)


_DURATION = re.compile(
    r"(?P<count>\d+)\s*(?P<unit>ms|milliseconds?|s|seconds?|m|minutes?|h|hours?)"
)
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


def _duration(text: Any) -> str:
    match = _DURATION.fullmatch(str(text).strip())
    if match is None:
        raise ValueError("must be a number and a unit, as in 10 seconds, 500ms or 2m")
    return f"{match['count']} {_UNITS.get(match['unit'], match['unit'])}"


class Trigger(Model):
    """When a micro-batch starts: every so often, or until all that is there now is read."""

    processingTime: Annotated[str, BeforeValidator(_duration)] | None = None
    availableNow: Literal[True] | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"availableNow": True} if value == "availableNow" else value

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.processingTime is None) == (self.availableNow is None):
            raise ValueError("must be availableNow, or processingTime with a duration")
        return self

    def arguments(self) -> dict[str, Any]:
        """What ``DataStreamWriter.trigger`` gets."""
        return self.model_dump(exclude_none=True)


class JobFile(Model):
    """``jobs/<name>.yml``."""

    source: Source
    transform: Transform | None = None
    sink: Sink
    trigger: Trigger
    checkpoint: str | None = None
    spark: Options = Field(default_factory=dict)

    _spark = field_validator("spark")(_spark_settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, ready to run: its file, and what the project adds to it."""

    name: str
    file: JobFile
    directory: Path
    """Where the job keeps what is its own: progress, log, checkpoint."""
    table: Path
    checkpoint: Path
    spark: Mapping[str, str]
    cluster: Mapping[str, str] = field(repr=False)
    """The properties of the job's Kafka cluster; there may be a password among them."""

    def source_options(self) -> Options:
        """The options of ``format("kfetch")``: the cluster's properties, then the job's own."""
        kafka = {f"kafka.{name}": value for name, value in self.cluster.items()}
        return kafka | self.file.source.strategy() | self.file.source.options


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project file that was read and found right."""

    document: Document
    environ: Mapping[str, str] = field(repr=False)
    file: ProjectFile
    storage: Path

    @property
    def path(self) -> Path:
        """Where the file is; paths in it start from its directory."""
        return self.document.path

    def jobs(self) -> list[str]:
        """The names of all jobs."""
        return sorted(path.stem for path in self._directory.glob("*.yml"))

    def job(self, name: str) -> Job:
        """Read and check one job."""
        path = self._directory / f"{name}.yml"
        if not path.is_file():
            raise ConfigError(
                f"there is no job {name} in {display(self._directory)}: "
                f"{suggestion(name, self.jobs())}"
            )
        document = read(path, self.environ, {"storage": str(self.storage)})
        job = self._job(name, document, _validated(JobFile, document))
        self._check_options(job, document)
        return job

    @property
    def _directory(self) -> Path:
        return self.path.parent / "jobs"

    def _job(self, name: str, document: Document, file: JobFile) -> Job:
        clusters = self.file.clusters
        if file.source.cluster not in clusters:
            raise ConfigError(
                f"{document.place(('source', 'cluster'))}: {display(self.path)} has no cluster "
                f"{file.source.cluster}: {suggestion(file.source.cluster, clusters)}"
            )
        directory = self.storage / name
        return Job(
            name=name,
            file=file,
            directory=directory,
            table=self._resolved(file.sink.path),
            checkpoint=self._resolved(file.checkpoint or directory / "checkpoint"),
            spark=self.file.spark | file.spark,
            cluster=clusters[file.source.cluster],
        )

    def _resolved(self, path: str | Path) -> Path:
        return (self.path.parent / path).resolve()

    def _check_options(self, job: Job, document: Document) -> None:
        """The source itself judges its options; its sentence gets the line of the option."""
        try:
            parse(job.source_options())
        except OptionError as error:
            place = self._option_place(job, document, str(error.context.get("option", "")))
            raise ConfigError(f"{place}: {error}") from None

    def _option_place(self, job: Job, document: Document, option: str) -> str:
        for location in document.lines:
            if str(location[-1]).lower() == option.lower():
                return document.place(location)
        for name in job.cluster:
            if f"kafka.{name}".lower() == option.lower():
                return self.document.place(("clusters", job.file.source.cluster, name))
        return document.place(("source",))


def find(start: Path) -> Path:
    """The project file of a directory: its own, its conf/'s, or the nearest one above."""
    for directory in (start.absolute(), *start.absolute().parents):
        for candidate in (directory / PROJECT_FILE, directory / "conf" / PROJECT_FILE):
            if candidate.is_file():
                return candidate
    raise ConfigError(
        f"there is no {PROJECT_FILE} or conf/{PROJECT_FILE} in {start.absolute()} or above: "
        "change to a project's directory, or name its file with --project"
    )


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Project:
    """Read and check a project file; ``environ`` is what ``${env:…}`` means, here and in jobs."""
    document = read(path.absolute(), environ, {})
    file = _validated(ProjectFile, document)
    storage = (document.path.parent / file.storage).resolve()
    return Project(document=document, environ=environ, file=file, storage=storage)


def _validated(model: type[M], document: Document) -> M:
    try:
        return model.model_validate(document.value)
    except ValidationError as error:
        raise ConfigError(mistakes.sentence(model, document, error)) from None
