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

from kfetch.admin.query import FORMATS, SUBSCRIPTION_OPTIONS
from kfetch_jobs.config.field_types import Duration, Location, Options, SparkSettings
from kfetch_jobs.config.trigger import Trigger

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_FORMATS = ("keyformat", "valueformat")
_JSON_OPTIONS = ("mode", "timezone")
_EXPONENT_MAX = 64
"""No back-off grows so often. A larger exponent would overflow."""


class Model(BaseModel):
    """A part of a file: unknown keys are mistakes, and values do not change.

    The repr leaves out the keys that may have secrets.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[
    list[str],
    BeforeValidator(_listed, json_schema_input_type=str | list[str]),
]
"""One name, or a list of names."""


class ProjectFile(Model):
    """``kfetch.yml``: the settings that all jobs share."""

    storage: str
    """The directory for checkpoints, progress and logs of the jobs."""
    environment: str | None = None
    """The file of ``env/`` to use if neither --env nor KFETCH_ENV names one."""
    spark: SparkSettings = Field(default_factory=dict, repr=False)
    """Spark settings for every job."""
    clusters: dict[str, Options] = Field(repr=False)
    """Kafka clusters: properties of Kafka's consumer, and options of kfetch by their full names."""
    concurrency: int = Field(default=16, ge=1, le=1000)
    """How many jobs the supervisor runs at once. Each is a Spark driver."""
    sharedDirectories: Names = Field(default_factory=list)
    """Directories that all machines of the Spark cluster mount at the same place. On a cluster,
    paths of tables and checkpoints must be URIs of a store, or be below one of these."""
    sharedState: str | None = None
    """A directory or URI for the supervisors of several hosts: one runs the jobs, the others wait.
    Each host has its own `storage`. Checkpoints and tables must be where all hosts see them."""


class EnvironmentFile(Model):
    """``env/<name>.yml``: the settings of one environment. They override ``kfetch.yml``."""

    storage: str | None = None
    """Replaces the project's storage."""
    spark: SparkSettings = Field(default_factory=dict, repr=False)
    """Each setting overrides the project's. A job's own settings override both."""
    clusters: dict[str, Options] = Field(default_factory=dict, repr=False)
    """Each property overrides the project's. A new name adds a cluster."""
    concurrency: int | None = Field(default=None, ge=1, le=1000)
    """Replaces the project's concurrency."""
    sharedDirectories: Names | None = None
    """Replaces the project's list."""
    sharedState: str | None = None
    """Replaces the project's location."""


class Decode(Model):
    """A synonym for the options ``valueFormat: json`` and ``valueSchema``, for older files.

    The struct has a name of its own. Without dead letters, a value that does not fit the fields
    fails the job.
    """

    format: Literal["json"] = "json"
    """For Avro and Protobuf, set the option `valueFormat`."""
    fields: str = Field(min_length=1)
    """Fields in Spark's DDL, as in `valueSchema`: ``event_id BIGINT, page STRING``."""
    into: str = Field(default="event", pattern=f"^{_NAME}$")
    """The name of the struct's column. It takes the place of ``value``."""
    options: Options = Field(default_factory=dict, repr=False)
    """``mode`` and ``timeZone``, as in `valueMode` and `valueTimeZone`. The default zone is that of
    Spark's session."""

    @model_validator(mode="after")
    def _has_options_of_kfetch(self) -> Self:
        for name in self.options:
            if name.lower() not in _JSON_OPTIONS:
                raise ValueError(
                    f"options: {name} is an option of Spark's from_json, and kfetch decodes the "
                    "values: leave it out, or remove decode and call from_json in the transform, "
                    "as in from_json(string(value), 'id BIGINT', map('allowComments', 'true'))"
                )
        return self


class Source(Model):
    """The records to read: a cluster of the project, and exactly one way to name its topics."""

    cluster: str
    """One of the project's ``clusters``."""
    subscribe: str | None = None
    """Topics, comma-separated. Give exactly one of the three keys."""
    subscribePattern: str | None = None
    """Regular expression searched in topic names."""
    assign: str | None = None
    """Partitions, as in ``{"clicks": [0, 1]}``."""
    decode: Decode | None = None
    """How to decode values: a synonym for `valueFormat: json`."""
    options: Options = Field(default_factory=dict, repr=False)
    """Any option of ``format("kfetch")``."""

    @field_validator("options")
    @classmethod
    def _no_strategy(cls, options: Options) -> Options:
        known = {name.lower() for name in SUBSCRIPTION_OPTIONS}
        for name in options:
            if name.lower() in known:
                raise ValueError(f"{name} belongs beside options, and not into them")
        return options

    @model_validator(mode="after")
    def _one_strategy(self) -> Self:
        if len(self.strategy()) != 1:
            raise ValueError(f"exactly one of {', '.join(SUBSCRIPTION_OPTIONS)} must be given")
        return self

    @property
    def decodes(self) -> bool:
        """Whether some records may not be decodable: dead letters can have them."""
        given = {name.lower(): text.lower() for name, text in self.options.items()}
        return self.decode is not None or any(given.get(name) in FORMATS for name in _FORMATS)

    def strategy(self) -> Options:
        """Returns the given one of subscribe, subscribePattern and assign."""
        values = {name: getattr(self, name) for name in SUBSCRIPTION_OPTIONS}
        return {name: text for name, text in values.items() if text is not None}


class Transform(Model):
    """Changes the records: a query over the view ``source``, or a function of the project.

    The function gets the DataFrame and returns one. With several sources, it gets a dict of them.
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
    """A Delta table, by its path or URI, or by its name in Spark's catalog."""

    path: Location | None = None
    """A directory or URI."""
    table: str | None = Field(default=None, pattern=rf"^{_NAME}(\.{_NAME}){{0,2}}$")
    """A name in Spark's catalog: ``lake.shop.clicks``."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.path is None) == (self.table is None):
            raise ValueError("path is missing, or table in place of it")
        return self


class DeadLetters(Target):
    """The table for records that cannot be decoded: topic, partition, offset, error, raw bytes."""


class Sink(Target):
    """The table for the rows."""

    format: Literal["delta"] = "delta"
    """Only Delta Lake so far."""
    mode: Literal["append", "merge"] = "append"
    """Append rows, or replace rows with the same keys."""
    keys: Names = Field(default_factory=list)
    """For merge: a row replaces the row with the same values in these columns."""
    latestBy: Names = Field(default_factory=list)
    """For merge: columns that order the rows of a key. The greatest row counts, and no older row
    replaces it. The table must have these columns. Only rows of one partition can be ordered by
    ``offset``. It is the default if ``keys`` have the column ``partition``."""
    deleteWhen: str | None = Field(default=None, min_length=1)
    """For merge: a row that fulfils this SQL condition deletes its key. The table forgets how old
    that row was."""
    partitionBy: Names = Field(default_factory=list)
    """The partition columns of a new table."""
    write: Literal["spark", "straight", "auto"] = "spark"
    """``straight``: tasks write the table's files themselves, for jobs that only copy. ``auto``:
    do so if the job and the table allow it. Both need ``pip install 'kfetch-jobs[straight]'``."""
    deadLetters: DeadLetters | None = None
    """The table for records that cannot be decoded."""
    repeatRows: bool = False
    """A job without a checkpoint may start anew although it has run before, or although a renamed
    or deleted job has written the same topics to this table. Rows may come twice or be missing."""
    options: Options = Field(default_factory=dict, repr=False)
    """Options of Delta's writer. A merge takes only ``mergeSchema``."""

    @model_validator(mode="after")
    def _merge_needs_keys(self) -> Self:
        if self.mode == "merge" and not self.keys:
            raise ValueError("mode merge needs keys: the columns that name a row")
        for name in ("keys", "latestBy", "deleteWhen"):
            if self.mode == "append" and getattr(self, name):
                raise ValueError(f"{name} belongs to mode: merge")
        if self.mode == "merge" and (others := sorted(set(self.options) - {"mergeSchema"})):
            raise ValueError(f"options: {others[0]} has no effect on a merge: only mergeSchema has")
        if self.options.get("mergeSchema", "true").lower() not in ("true", "false"):
            raise ValueError("options: mergeSchema must be true or false")
        for name in ("keys", "latestBy", "partitionBy"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} names a column twice")
        return self


class Restart(Model):
    """Restarts after a failure. Mistakes in files, refused log-ins and lost data never restart."""

    initial: Duration = 5.0
    """The first back-off after a failure."""
    max: Duration = 300.0
    """The longest back-off."""
    factor: float = Field(default=2.0, ge=1, le=100)
    """Each back-off is this many times the one before."""
    jitter: float = Field(default=0.2, ge=0, le=1)
    """Up to this share is added to a back-off at random, so that jobs don't restart in step."""
    resetAfter: Duration = 600.0
    """After a run of this length, the count of failures starts again."""
    attempts: int | None = Field(default=None, ge=0, le=1_000_000)
    """Restarts in a row before the supervisor gives the job up. Without it, there is no limit."""

    @model_validator(mode="after")
    def _grows(self) -> Self:
        if self.max < self.initial:
            raise ValueError("max is shorter than initial")
        return self

    def pause_s(self, failures: int, chance: float) -> float:
        """Returns the back-off after so many failures in a row, in seconds.

        ``chance`` is a random number from 0 to 1. It spreads restarts of jobs that failed together.
        """
        grown = self.initial * self.factor ** min(failures - 1, _EXPONENT_MAX)
        return min(self.max, grown) * (1 + self.jitter * chance)


class Health(Model):
    """Limits beyond which a job counts as unhealthy."""

    startWithin: Duration = 300.0
    """How long a due job may wait for room beside others, or a run for the start of its query."""
    lagRecords: int | None = Field(default=None, ge=0)
    """Offsets behind the log end."""
    lagSeconds: float | None = Field(default=None, gt=0)
    """How long the next offset may wait, in seconds."""
    noProgress: Duration | None = None
    """How long the query may go without a finished task, micro-batch or idle report. Beyond it,
    the supervisor also restarts the job, at most three times at one micro-batch."""


class JobFile(Model):
    """``jobs/<name>.yml``."""

    description: str = ""
    """A line for ``kfetch list``."""
    enabled: bool = True
    """``false``: the supervisor does not run the job."""
    source: Source | None = None
    """The stream. Its view is named ``source``."""
    sources: dict[str, Source] = Field(default_factory=dict)
    """Several streams, by the names of their views."""
    transform: Transform | None = None
    """Changes the records. Without it, they stay as they are."""
    sink: Sink
    """The Delta table."""
    trigger: Trigger
    """When the job runs."""
    after: Names = Field(default_factory=list)
    """The job starts when each of these has finished."""
    checkpoint: Location | None = None
    """A directory or URI. The default is in the project's storage."""
    singleHost: bool = False
    """``true``: no other host ever runs the job. kfetch then runs it even if it can hold no lease
    on its checkpoint: it has no driver for that file system, or can't follow its settings."""
    restart: Restart = Field(default_factory=Restart)
    """Restarts after a failure."""
    health: Health = Field(default_factory=Health)
    """When the job counts as unhealthy."""
    stopWithin: Duration = 60.0
    """How long a stop waits for the running micro-batch."""
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
        if self.sink.deadLetters and (self.source is None or not self.source.decodes):
            raise ValueError(
                "deadLetters need source.decode, or valueFormat json, avro or protobuf in "
                "source.options: they say which values can be read"
            )
        if self.after and self.trigger.cron:
            raise ValueError("after and cron exclude each other: both say when the job starts")
        return self

    def views(self) -> dict[str, Source]:
        """Returns the sources by the names of their views."""
        return {"source": self.source} if self.source else dict(self.sources)
