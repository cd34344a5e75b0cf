"""One job as a value: its file, merged with the project's files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from kfetch.admin.query import SourceOptions, known_options, parse_options
from kfetch.errors import KfetchError
from kfetch.storage.locations import place
from kfetch_jobs.config.decode import with_decode, with_decode_names
from kfetch_jobs.config.field_types import Options
from kfetch_jobs.config.models import JobFile
from kfetch_jobs.config.yamlfile import Document, with_placeholders

_PATHS = frozenset(
    {
        *("kafka.ssl.truststore.location", "kafka.ssl.keystore.location"),
        *("valuedescriptor", "keydescriptor", "kfetch.statsdirectory"),
    }
)
"""Options that name files or a directory of this machine, in lower case."""
_KAFKA_NAME = re.compile(r"(?<![\w.-])kafka\.(?P<property>[a-z][a-z.]*[a-z*])")
"""What may be an option of Kafka. It may also be a host's name."""


@cache
def _kafka_options() -> frozenset[str]:
    return frozenset(option.name.lower() for option in known_options("kafka."))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """The path or the name of a Delta table; the other one is None."""

    path: str | None
    """An absolute path, or a URI."""
    table: str | None
    """A name in Spark's catalog."""

    def __str__(self) -> str:
        return str(self.path or self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, ready to run: its file, and the project's settings for it."""

    name: str
    file: JobFile
    document: Document = field(repr=False)
    shared: tuple[Document, ...] = field(repr=False)
    """The project's file, and its environment's."""
    environment: str | None
    """The name of the project's environment; None without one."""
    directory: Path
    """The job's own directory: progress, log, checkpoint."""
    target: TableLocation
    dead_letters: TableLocation | None
    checkpoint: str
    """An absolute path, or a URI."""
    code: tuple[Path, ...]
    """Python looks for the transform's module here first."""
    spark: Mapping[str, str] = field(repr=False)
    clusters: Mapping[str, Options] = field(repr=False)
    """The properties of the project's Kafka clusters. They may contain passwords."""
    shared_directories: tuple[Path, ...] = ()
    """Directories that all machines of the Spark cluster mount."""
    _parsed: dict[str, SourceOptions] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def appended_tables(self) -> list[TableLocation]:
        """The tables that a second reading would fill twice. A merge replaces its rows."""
        target = [self.target] if self.file.sink.mode == "append" else []
        return [*target, *([self.dead_letters] if self.dead_letters else [])]

    @property
    def tables(self) -> list[TableLocation]:
        """All tables that the job writes."""
        return [self.target, *([self.dead_letters] if self.dead_letters else [])]

    def place(self, table: TableLocation) -> str:
        """Returns one text for a table, however its location is written, to compare tables.

        It does not know where the catalog has a named table.
        """
        return place(table.path, self.spark) if table.path else str(table.table).lower()

    def source_options(self, view: str = "source", zone: str | None = None) -> Options:
        """Returns the options of ``format("kfetch")``: the cluster's, overridden by the job's.

        Relative paths of files and directories start from the project file's directory.
        ``zone``: the zone of Spark's session, which only a run knows for certain.
        """
        source = self.file.views()[view]
        cluster = cluster_options(self.clusters[source.cluster])
        options = cluster | source.strategy() | source.options
        if source.decode is not None:
            zone = zone or self.spark.get("spark.sql.session.timeZone", "UTC")
            fails = self.dead_letters is None
            options = with_decode(options, source.decode, fails=fails, zone=zone)
        if self.dead_letters is not None:
            options = with_dead_letters(options)
        return self._with_absolute_paths(options)

    def _with_absolute_paths(self, options: Options) -> Options:
        return with_absolute_paths(options, self.shared[0].path.parent)

    def parsed_options(self, view: str = "source") -> SourceOptions:
        """Returns the values of a source's options. The first call parses them.

        Raises OptionError, but not for a job that the project has checked.
        """
        if view not in self._parsed:
            self._parsed[view] = parse_options(self.source_options(view))
        return self._parsed[view]

    @property
    def statistics(self) -> list[str]:
        """The absolute directories of ``kfetch.statsDirectory`` in the job's own options.

        A directory of the cluster has the statistics of other jobs, too.
        """
        sources = (self._with_absolute_paths(one.options) for one in self.file.views().values())
        options = (item for one in sources for item in one.items())
        found = {text for name, text in options if name.lower() == "kfetch.statsdirectory"}
        return sorted(found - {""})

    def named_topics(self, view: str = "source") -> set[str]:
        """Returns the topics that the options of a source name. A pattern names none."""
        subscription = self.parsed_options(view).subscription
        return {*subscription.topics, *(tp.topic for tp in subscription.assigned)}

    def redacted(self, sentence: str) -> str:
        """Returns a sentence with placeholders for the secrets in the job's files.

        Other values from ``${…}``, such as addresses, stay.
        """
        return with_placeholders(sentence, merged(one.secrets for one in self.documents))

    def user_sentence(self, sentence: str) -> str:
        """Returns a sentence without secrets, and with options as the job's files name them.

        A cluster's properties have no ``kafka.`` in front. Options of a source keep it.
        """
        return self.with_file_names(self.redacted(sentence))

    def with_file_names(self, sentence: str) -> str:
        """Returns a sentence that names the options of Kafka as the job's files do."""
        sources = self.file.views().values()
        names = [name for one in sources for name in one.options]
        if any(one.decode for one in sources):
            sentence = with_decode_names(sentence, names)
        return with_property_names(sentence, names)

    def error(self, before: str, cause: KfetchError) -> KfetchError:
        """Returns an error of the source with ``before`` in front, and a ``user_sentence``.

        Its class and its code are those of the cause.
        """
        what, action = self.user_sentence(cause.what), self.user_sentence(cause.action)
        return type(cause)(f"{before}: {what}", action=action, **cause.where)

    def with_placeholders(self, sentence: str) -> str:
        """Returns a sentence about the job's files with ``${…}`` in place of every filled value."""
        return with_placeholders(sentence, merged(one.placeholders for one in self.documents))

    @property
    def documents(self) -> tuple[Document, ...]:
        """The job's file, the project's, and its environment's."""
        return (self.document, *self.shared)


def with_dead_letters(options: Options) -> Options:
    """Returns options with which the source has the column of dead letters."""
    names = {name.lower(): name for name in options}
    added = {} if "deadletters" in names else {"deadLetters": "column"}
    name = names.get("columns", "")
    if name and "deadletter" not in options[name].lower():
        added[name] = f"{options[name]},deadLetter"
    return options | added


def option_name(property_name: str) -> str:
    """Returns the source's option for a property of a cluster.

    The properties are Kafka's, and get ``kafka.`` in front. kfetch's own options have their names.
    """
    own = property_name.lower().startswith("kfetch.")
    return property_name if own else f"kafka.{property_name}"


def cluster_options(properties: Mapping[str, str]) -> Options:
    """Returns the options of ``format("kfetch")`` for the properties of a cluster."""
    return {option_name(name): value for name, value in properties.items()}


def with_property_names(sentence: str, kept: Iterable[str] = ()) -> str:
    """Returns a sentence that names the options of Kafka without ``kafka.``, as clusters do.

    ``kept``: options that keep it.
    """
    others = [name.lower() for name in kept]

    def named(match: re.Match[str]) -> str:
        option = match[0].lower()
        is_family = option.startswith(("kafka.sasl.", "kafka.ssl."))
        known = is_family or option in _kafka_options()
        is_kept = any(name.startswith(option.removesuffix("*")) for name in others)
        return match["property"] if known and not is_kept else match[0]

    return _KAFKA_NAME.sub(named, sentence)


def with_absolute_paths(options: Options, directory: Path) -> Options:
    """Returns options in which the paths are absolute: they start from ``directory``."""
    return {
        name: str((directory / text).absolute()) if name.lower() in _PATHS and text else text
        for name, text in options.items()
    }


def merged(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Returns all entries in one dict.

    Separate replacements would also replace inside the placeholders of the one before.
    """
    return {text: placeholder for part in parts for text, placeholder in part.items()}
