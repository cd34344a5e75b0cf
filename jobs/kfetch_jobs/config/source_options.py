"""Checks a job's options with the source's own parser. Each sentence names the option's line."""

from __future__ import annotations

from collections.abc import Iterator

from kfetch.admin.query import options_without_effect, parse_options
from kfetch.errors import OptionError
from kfetch_jobs.config.decode import KEYS, conflicts
from kfetch_jobs.config.field_types import Options
from kfetch_jobs.config.job import Job, option_name
from kfetch_jobs.config.models import JobFile

_PLACE = ("topic", "partition", "offset", "timestamp")
_SERVERS = "kafka.bootstrap.servers"
_VALID = {
    _SERVERS: "localhost:9092",
    "subscribe": "topic",
    "subscribePattern": "topic",
    "assign": '{"topic": [0]}',
}
"""Values in place of invalid ones. Without these options, the parser would stop at their lack."""


def option_mistakes(job: Job) -> Iterator[str]:
    """Yields a sentence for each unusable option of each source."""
    for view, source in job.file.views().items():
        if source.cluster in job.clusters:
            options = job.source_options(view)
        else:  # a mistake of its own
            servers = {_SERVERS: _VALID[_SERVERS]}
            options = servers | source.strategy() | source.options
        if job.file.sink.deadLetters and (missing := _missing_places(options)):
            yield (
                f"{_option_line(job, view, 'columns')}: sink.deadLetters needs the place of each "
                f"record: add {', '.join(missing)} to option columns"
            )
        for option in conflicts(source.options) if source.decode else ():
            yield (
                f"{_option_line(job, view, option)}: decode is a synonym for valueFormat=json, so "
                f"it excludes option {option}: remove one of the two"
            )
        for error in _option_errors(options):
            option = str(error.where.get("option", ""))
            sentence = job.with_file_names(job.with_placeholders(error.message))
            yield f"{_option_line(job, view, option)}: {sentence}"


def _missing_places(options: Options) -> list[str]:
    """Returns the columns that the dead letters need and the option columns leaves out."""
    try:
        columns = {column.name for column in parse_options(options).columns}
    except OptionError:
        return []  # a mistake of its own
    return [name for name in _PLACE if columns and name not in columns]


def _option_errors(options: Options) -> Iterator[OptionError]:
    """Yields the parser's errors. It stops at the first, so it gets the other options again.

    An error of an option that is left out already is only the consequence of that.
    """
    left_out: set[str] = set()
    while True:
        try:
            _check(options)
        except OptionError as error:
            option = str(error.where.get("option", "")).lower()
            if option in left_out:
                return
            yield error
            left_out.add(option)
            others = {name: text for name, text in options.items() if name.lower() != option}
            valid = {name: text for name, text in _VALID.items() if name.lower() == option}
            if len(others) == len(options) or (valid and valid.items() <= options.items()):
                return  # it would find the same again
            options = others | valid
        else:
            return


def _check(options: Options) -> None:
    """Raises OptionError for options that no query can have, also for mistakes in schemas."""
    parsed = parse_options(options)
    if parsed.typed_columns:
        from kfetch.admin.sources import check_schemas  # it imports pyspark

        check_schemas(parsed)


def option_warnings(job: Job) -> list[str]:
    """Returns a sentence for each option without effect, and for each secret that others can read.

    The job must be valid. A run logs the warnings of options at its start.
    """
    readable = dict.fromkeys(line for document in job.documents for line in document.warnings)
    return [*readable] + [
        f"{_option_line(job, view, option)}: {job.with_file_names(warning)}"
        for view in job.file.views()
        for option, warning in options_without_effect(job.parsed_options(view)).items()
    ]


def source_location(file: JobFile, view: str) -> tuple[str, ...]:
    """Returns the keys under which a source stands in its file."""
    return ("source",) if file.source else ("sources", view)


def _option_line(job: Job, view: str, option: str) -> str:
    """The line of an option in the job's file, or of a property in the project's."""
    source, cluster = source_location(job.file, view), job.file.views()[view].cluster
    own = [location for location in job.document.lines if location[: len(source)] == source]
    found = [location for location in own if str(location[-1]).lower() == option.lower()]
    found = found or [location for location in own if location[len(source) :] == KEYS.get(option)]
    if found:
        return job.document.file_line(found[0])
    for document in reversed(job.shared):
        for location in document.lines:
            inside = location[:2] == ("clusters", cluster)
            if inside and option_name(str(location[-1])).lower() == option.lower():
                return document.file_line(location)
    return job.document.file_line(source)
