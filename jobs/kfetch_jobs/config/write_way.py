"""What in a job's file needs Spark for the rows of the table. Other jobs may be written straight.

``sink.write`` says which way a job wants. The table itself may need Spark, too: ``run.straight``
looks at it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from kfetch.errors import KfetchError
from kfetch.storage.open import READABLE, stored_path
from kfetch_jobs.config.job import Job
from kfetch_jobs.config.selection import Field, NeedsSpark, Selected, read_select, resolved

_PACKAGES = ("deltalake", "sqlglot")
AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
_DELTA_SETTINGS = "spark.databricks.delta."
_HONOURED = {AUTO_MERGE.lower(), "spark.databricks.delta.snapshotpartitions"}
"""Settings of Delta that mean the same for both ways, or nothing."""


def write_mistakes(job: Job) -> Iterator[str]:
    """Yields a sentence if a job asks for what its file does not allow."""
    if job.file.sink.write == "straight" and (clause := needs_spark(job, job.spark)):
        yield refusal(job, clause)


def refusal(job: Job, clause: str) -> str:
    """Returns the sentence for a job that asks to be written straight and can't be."""
    line = job.document.file_line(("sink", "write"))
    return (
        f"{line}: sink.write is straight, and these rows need Spark: {clause}: "
        "change it, or set sink.write to spark"
    )


def needs_spark(job: Job, settings: Mapping[str, str]) -> str:
    """Returns the clause of a job's file that needs Spark; empty if none does.

    ``settings``: those of Spark. They may name another file system for paths.
    """
    return next(_clauses(job, settings), "")


def _clauses(job: Job, settings: Mapping[str, str]) -> Iterator[str]:
    sink, transform = job.file.sink, job.file.transform
    if sink.mode == "merge":
        yield "sink.mode is merge"
    for key, table in (("sink", job.target), ("sink.deadLetters", job.dead_letters)):
        if table is not None and table.path is None:
            yield f"{key}.table, because only a catalog of Spark knows where that table is"
        elif table is not None and (why := _unreadable(str(table.path), settings)):
            yield f"{key}.path, because {why}"
    if job.dead_letters is not None and (why := _unreadable(job.checkpoint, settings)):
        yield f"sink.deadLetters with this checkpoint, because {why}"
    yield from (f"sink.options.{name}" for name in sink.options if name.lower() != "mergeschema")
    yield from _settings(settings)
    if len(job.file.views()) > 1:
        yield "several sources"
    if transform is not None and transform.python:
        yield f"transform, the function {transform.python}"
    if any(find_spec(name) is None for name in _PACKAGES):
        yield "pip install 'kfetch-jobs[straight]' is missing"
    elif transform is not None and transform.sql:
        yield from _of_sql(job)


def _unreadable(location: str, settings: Mapping[str, str]) -> str:
    """Returns why kfetch can't read and write a location; empty if it can. It asks no store."""
    try:
        return "" if stored_path(location, settings) else f"kfetch reads and writes only {READABLE}"
    except KfetchError as cause:
        return cause.what


def _settings(settings: Mapping[str, str]) -> Iterator[str]:
    for name, value in settings.items():
        lower = name.lower()
        if lower.startswith(_DELTA_SETTINGS) and lower not in _HONOURED:
            yield f"the setting {name}"
        if lower == "spark.sql.casesensitive" and value.lower() != "false":
            yield f"the setting {name}"


def _of_sql(job: Job) -> Iterator[str]:
    try:
        _read(job)
    except NeedsSpark as clause:
        yield _in_sql(job, clause)


def _in_sql(job: Job, clause: NeedsSpark) -> str:
    return f"{job.with_placeholders(str(clause))} in transform.sql"


def _read(job: Job) -> tuple[str, list[Selected]]:
    assert job.file.transform is not None
    (view,) = job.file.views()
    return read_select(str(job.file.transform.sql), view)


def may_evolve(job: Job, settings: Mapping[str, str]) -> bool:
    """Returns whether the job's table may get columns. Options and values count in any case."""
    options = {name.lower(): value for name, value in job.file.sink.options.items()}
    option = options.get("mergeschema") or options.get("overwriteschema")
    return (option or settings.get(AUTO_MERGE, "")).lower() == "true"


def selection(job: Job, fields: list[Field]) -> dict[str, str] | None:
    """Returns the names of the table's columns, and what each is, such as ``date(timestamp)``.

    None: they are the source's. ``fields``: the source's columns. The job must not need Spark.
    Raises NeedsSpark.
    """
    (source,) = job.file.views().values()
    columns = {str(field["name"]): field for field in fields}
    if job.dead_letters is not None:
        del columns["deadLetter"]
    if source.decode and source.decode.into != "value":
        columns[source.decode.into] = columns.pop("value")
    if job.file.transform is not None:
        alias, items = _read(job)
        try:
            return resolved(items, alias, columns)
        except NeedsSpark as clause:
            raise NeedsSpark(_in_sql(job, clause)) from None
    if source.decode is None:
        return None
    return {name: str(field["name"]) for name, field in columns.items()}
