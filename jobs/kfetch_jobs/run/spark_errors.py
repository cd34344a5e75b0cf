"""From an exception that ended a query to one of kfetch's errors, with one sentence.

Spark's exceptions hold tracebacks of Java and of Python. These tracebacks name the classes of
kfetch's own errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from kfetch import errors as source_errors
from kfetch_jobs.errors import ConfigError, JobsError, RecordsLost, RefusedByBroker, SparkError
from kfetch_jobs.jvm.spark import cause_of, lost_jvm, text_of

UNORDERED = "cannot order "
"""The sentence about rows of a merge that have no order begins with this."""

_KFETCH_JOBS = f"{Path(__file__).resolve().parents[1]}/"
"""The directory of kfetch_jobs."""

_OWN_MISTAKE = f"{ConfigError.__module__}.{ConfigError.__name__}: "
"""A function of ``foreachBatch`` raised it."""
_OTHER_COLUMNS = re.compile(
    r"\[DELTA_(?:METADATA_MISMATCH|FAILED_TO_MERGE_FIELDS|MERGE_\w+|UPDATE_SCHEMA_MISMATCH_\w+)\b"
)
"""Delta refuses columns or types that do not fit the table. They fit no better the next time."""
_CLASS = re.compile(r"\bkfetch\.errors\.(?P<name>\w+): ")
_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)
_RAISED = re.compile(r"^(?P<name>(?:\w+\.)*\w+(?:Error|Exception)): ", re.MULTILINE)


def job_error(
    cause: BaseException,
    before: str,
    log: Path,
    redacted: Callable[[str], str] = str,
    code: Sequence[Path] = (),
) -> JobsError:
    """Returns the error for one of Spark's exceptions; its class tells whether a restart may help.

    The sentence starts with ``before`` and names ``log``. ``redacted`` removes secrets. If code of
    the project raised, the sentence names the line; ``code`` lists the project's directories.
    """
    if isinstance(cause, JobsError):
        return cause
    if isinstance(cause, source_errors.LeaseLost):
        sentence = f"{before}: {redacted(cause.message)}"
        return SparkError(sentence, cause_condition=cause.condition)
    if ended := lost_jvm(cause):
        return SparkError(f"{before}: {ended} (see {log})")
    text = text_of(cause)
    class_names = _CLASS.findall(text)
    reason = ("" if class_names else _raised_at(text, code)) + cause_of(cause)
    if "MalformedValue" in class_names:
        reason += ", or give sink.deadLetters a table"
    sentence = f"{before}: {redacted(reason)} (see {log})"
    return _error(class_names[-1] if class_names else "", text, sentence)


def _raised_at(text: str, code: Sequence[Path]) -> str:
    """The line of the project's code in a worker's traceback, and the class of its exception."""
    lines = [f"{file}:{line}" for file, line in _FRAME.findall(text) if is_project_code(file, code)]
    class_names = _RAISED.findall(text)
    return f"{lines[-1]}: {class_names[-1]}: " if lines and class_names else ""


def is_project_code(file: str, code: Sequence[Path]) -> bool:
    """Returns whether a file belongs to the project.

    A virtual environment and kfetch itself may lie below the project's directories.
    """
    below = any(file.startswith(f"{directory}/") for directory in code)
    return below and "site-packages" not in file and not file.startswith(_KFETCH_JOBS)


def _error(name: str, text: str, sentence: str) -> JobsError:
    """``name``: the class of one of the source's errors, or empty."""
    source_error = getattr(source_errors, name, source_errors.KfetchError)
    # The next run could not use this checkpoint or decode this value either.
    mistakes = (
        source_errors.OptionError,
        source_errors.CheckpointError,
        source_errors.MalformedValue,
    )
    unordered = f"] {UNORDERED}" in text
    refused = _OWN_MISTAKE in text or _OTHER_COLUMNS.search(text)
    if unordered or refused or issubclass(source_error, mistakes):
        return ConfigError(sentence)
    condition = source_error.condition if name else ""
    return _error_class(source_error)(sentence, cause_condition=condition)


def _error_class(source_error: type[source_errors.KfetchError]) -> type[SparkError]:
    if issubclass(source_error, source_errors.DataLoss):
        return RecordsLost
    if issubclass(source_error, source_errors.AccessRefused):
        return RefusedByBroker
    return SparkError
