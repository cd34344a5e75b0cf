"""The keys of ``kfetch.yml``, ``env/*.yml`` and ``jobs/*.yml``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    field_validator,
    model_validator,
)

from kfetch.options.catalogue import STRATEGIES
from kfetch_jobs.config.ddl import mistake as ddl_mistake
from kfetch_jobs.config.trigger import Trigger
from kfetch_jobs.config.values import Duration, Options, SparkSettings

__all__ = [
    "DeadLetters",
    "Decode",
    "EnvironmentFile",
    "Health",
    "JobFile",
    "Model",
    "ProjectFile",
    "Restart",
    "Sink",
    "Source",
    "Target",
    "Transform",
]

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"


class Model(BaseModel):
    """A part of a file: no key but the known ones, no change after reading.

    Where a secret may stand is not in the repr.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[
    list[str],
    BeforeValidator(_listed, json_schema_input_type=str | list[str]),
]
"""One name, or several in a list."""


class ProjectFile(Model):
    """``kfetch.yml``: what all jobs share."""

    storage: str
    """Where jobs keep checkpoints, progress and logs."""
    environment: str | None = None
    """The file of ``env/`` that counts when neither --env nor KFETCH_ENV names another."""
    spark: SparkSettings = Field(default_factory=dict, repr=False)
    """Spark settings for every job."""
    clusters: dict[str, Options] = Field(repr=False)
    """Kafka clusters: properties of Kafka's consumer."""
    concurrency: int = Field(default=16, ge=1, le=1000)
    """How many jobs the supervisor runs at once; each is a Spark driver."""


class EnvironmentFile(Model):
    """``env/<name>.yml``: what is different there. It goes over ``kfetch.yml``."""

    storage: str | None = None
    """In place of the project's."""
    spark: SparkSettings = Field(default_factory=dict, repr=False)
    """Over the project's, one by one; a job's own have the last word."""
    clusters: dict[str, Options] = Field(default_factory=dict, repr=False)
    """Properties over the project's, one by one; or more clusters."""
    concurrency: int | None = Field(default=None, ge=1, le=1000)
    """In place of the project's."""


class Decode(Model):
    """Values as JSON: the view gets their fields as a struct. Without dead letters, a value that
    is not of the schema fails the job."""

    format: Literal["json"] = "json"
    """Avro and others: with a transform of your own."""
    fields: str = Field(min_length=1)
    """Spark's DDL: ``event_id BIGINT, page STRING``."""
    into: str = Field(default="event", pattern=f"^{_NAME}$")
    """The struct's column."""
    options: Options = Field(default_factory=dict, repr=False)
    """Of Spark's JSON reader."""

    @field_validator("fields")
    @classmethod
    def _can_be_parsed(cls, fields: str) -> str:
        if wrong := ddl_mistake(fields):
            raise ValueError(wrong)
        return fields


class Source(Model):
    """Which records: a cluster of the project, and exactly one way to name its topics."""

    cluster: str
    """One of the project's ``clusters``."""
    subscribe: str | None = None
    """Topics, comma-separated; exactly one of the three."""
    subscribePattern: str | None = None
    """Regular expression searched in topic names."""
    assign: str | None = None
    """Partitions, as in ``{"clicks": [0, 1]}``."""
    decode: Decode | None = None
    """How values are read."""
    options: Options = Field(default_factory=dict, repr=False)
    """Any option of ``format("kfetch")``."""

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
    """What becomes of the records: a query over the view ``source``, or a function of the project.

    The function gets the DataFrame (with several sources: a dict of them) and returns one.
    """

    sql: str | None = Field(default=None, min_length=1)
    """A query over the view ``source``, or over the names of ``sources``."""
    python: str | None = Field(default=None, pattern=rf"^{_NAME}(\.{_NAME})*:{_NAME}$")
    """``module:function``"""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"python": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.sql is None) == (self.python is None):
            raise ValueError("must be sql with a query, or module:function")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> Any:
        schema = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [{"type": "string", "pattern": ":"}, schema]}


class Target(Model):
    """A Delta table: a path or URI, or the name of a table in Spark's catalog."""

    path: str | None = None
    """A directory or URI."""
    table: str | None = Field(default=None, pattern=rf"^{_NAME}(\.{_NAME}){{0,2}}$")
    """A name in Spark's catalog: ``lake.shop.clicks``."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.path is None) == (self.table is None):
            raise ValueError("path is missing, or table in place of it")
        return self


class DeadLetters(Target):
    """Where records go whose value cannot be decoded: their place, the error, the raw bytes."""


class Sink(Target):
    """Where the rows go."""

    format: Literal["delta"] = "delta"
    """Delta Lake alone so far."""
    mode: Literal["append", "merge"] = "append"
    """Add rows, or replace those with the same keys."""
    keys: Names = Field(default_factory=list)
    """Merge: a row replaces the row with the same values of these columns."""
    latestBy: Names = Field(default_factory=list)
    """Merge: of a micro-batch's rows with one key the one that is greatest by these columns counts;
    ``offset`` if the transform keeps it and nothing is said here."""
    deleteWhen: str | None = Field(default=None, min_length=1)
    """Merge: a row for which this holds (SQL over the row's columns) deletes its key."""
    partitionBy: Names = Field(default_factory=list)
    """Columns by which a new table is partitioned."""
    deadLetters: DeadLetters | None = None
    """The table of records that cannot be decoded."""
    options: Options = Field(default_factory=dict, repr=False)
    """Of Delta's writer; for a merge only ``mergeSchema``."""

    @model_validator(mode="after")
    def _merge_needs_keys(self) -> Self:
        if self.mode == "merge" and not self.keys:
            raise ValueError("mode merge needs keys: the columns that name a row")
        for name in ("keys", "latestBy", "deleteWhen"):
            if self.mode == "append" and getattr(self, name):
                raise ValueError(f"{name} belongs to mode: merge")
        if self.mode == "merge" and (others := sorted(set(self.options) - {"mergeSchema"})):
            raise ValueError(f"options: {others[0]} has no effect on a merge: only mergeSchema has")
        for name in ("keys", "latestBy", "partitionBy"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} names a column twice")
        return self


class Restart(Model):
    """What happens after a failure. Never after mistakes in files, refused log-ins, lost data."""

    initial: Duration = 5.0
    """The first pause after a failure."""
    max: Duration = 300.0
    """The longest."""
    factor: float = Field(default=2.0, ge=1, le=100)
    """Each pause is so many times the one before."""
    jitter: float = Field(default=0.2, ge=0, le=1)
    """A pause is longer by up to this share of it, so that jobs don't come back in step."""
    resetAfter: Duration = 600.0
    """A run that lasted so long makes the failures before it forgotten."""
    attempts: int | None = Field(default=None, ge=0, le=1_000_000)
    """Restarts in a row until the job is given up; none: no limit."""

    @model_validator(mode="after")
    def _grows(self) -> Self:
        if self.max < self.initial:
            raise ValueError("max is shorter than initial")
        return self


class Health(Model):
    """Beyond these a job counts as unhealthy; none given: it never does while it runs."""

    lagRecords: int | None = Field(default=None, ge=0)
    """Offsets behind the log's end."""
    lagSeconds: float | None = Field(default=None, gt=0)
    """For so long the next offset has been waiting."""
    noProgress: Duration | None = None
    """The query has neither finished a micro-batch nor said that it is idle: it is also ended and
    started again, as after a failure."""


class JobFile(Model):
    """``jobs/<name>.yml``."""

    description: str = ""
    """A line for ``kfetch list``."""
    enabled: bool = True
    """``false``: the supervisor leaves it alone."""
    source: Source | None = None
    """The stream, as the view ``source``."""
    sources: dict[str, Source] = Field(default_factory=dict)
    """Several streams, each a view of its name."""
    transform: Transform | None = None
    """What becomes of the records; nothing: they go as they are."""
    sink: Sink
    """The Delta table."""
    trigger: Trigger
    """When it runs."""
    after: Names = Field(default_factory=list)
    """The job starts when each of these has finished."""
    checkpoint: str | None = None
    """A directory or URI; else in the project's storage."""
    restart: Restart = Field(default_factory=Restart)
    """What follows a failure."""
    health: Health = Field(default_factory=Health)
    """When it counts as unhealthy."""
    stopWithin: Duration = 60.0
    """The micro-batch in flight may take so long to end when the job is stopped."""
    spark: SparkSettings = Field(default_factory=dict, repr=False)
    """Spark settings of this job."""

    @field_validator("sources")
    @classmethod
    def _views(cls, sources: dict[str, Source]) -> dict[str, Source]:
        for name in sources:
            if not re.fullmatch(_NAME, name):
                raise ValueError(f"{name} cannot name a view: letters, digits and _ can")
        return sources

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.source is None) == (not self.sources):
            raise ValueError("source is missing, or sources in place of it")
        if len(self.sources) > 1 and self.transform is None:
            raise ValueError("several sources need a transform that makes one stream of them")
        if self.sink.deadLetters and (self.source is None or self.source.decode is None):
            raise ValueError("deadLetters need source.decode: it says which values can be read")
        if self.after and self.trigger.cron:
            raise ValueError("after and cron exclude each other: both say when the job starts")
        return self

    def views(self) -> dict[str, Source]:
        """The sources by the names of their views."""
        return {"source": self.source} if self.source else dict(self.sources)
