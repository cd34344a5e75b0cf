"""Why a run ended: a word for programs, a sentence for people.

Spark's exceptions hold whole tracebacks of two languages; the classes of kfetch's own errors are
named in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kfetch import errors as source_errors
from kfetch_jobs.errors import ConfigError, JobsError, RecordsLost, RefusedByBroker, SparkError
from kfetch_jobs.jvm.spark import cause_of, text_of
from kfetch_jobs.run.kinds import Kind
from kfetch_jobs.util.files import write_json

__all__ = ["UNDECODED", "Ending", "error_from", "is_own", "kind_of", "read", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended, and what it did."""

    kind: Kind
    sentence: str = ""
    """The error; empty if there was none."""
    batches: int = 0
    rows: int = 0
    lag: int = 0
    """Offsets behind when it ended."""


def write(path: Path, ending: Ending) -> None:
    """Leave word for the supervisor."""
    write_json(path, asdict(ending))


def read(path: Path) -> Ending:
    """The word that was left; without any, the process was killed."""
    try:
        found = json.loads(path.read_text())
        # A path in it may have bytes that are no UTF-8, which no database takes.
        sentence = found.get("sentence", "").encode(errors="backslashreplace").decode()
        return Ending(**found | {"kind": Kind(found["kind"]), "sentence": sentence})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Ending(kind=Kind.KILLED, sentence="the process ended without a word")


_CLASS = re.compile(r"\bkfetch\.errors\.(?P<name>\w+): ")

UNDECODED = "cannot decode "
"""How the sentence about a value that is not of the job's fields begins."""


def error_from(
    cause: BaseException,
    before: str,
    log: Path,
    redacted: Callable[[str], str] = str,
    code: Sequence[Path] = (),
) -> JobsError:
    """The error that tells one of Spark's, of the class that says what kind it is.

    If the project's own code raised, its line is told too: ``code`` is where that is.
    """
    if isinstance(cause, JobsError):
        return cause
    text = text_of(cause)
    names = _CLASS.findall(text)
    told = ("" if names else _raised(text, code)) + cause_of(cause)
    sentence = f"{before}: {redacted(told)} (see {log})"
    return _class_for(names[-1] if names else "", text)(sentence)


_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)
_RAISED = re.compile(r"^(?P<name>(?:\w+\.)*\w+(?:Error|Exception)): ", re.MULTILINE)


def _raised(text: str, code: Sequence[Path]) -> str:
    """The line of the project's code in a worker's traceback, and the class of what it raised."""
    places = [f"{file}:{line}" for file, line in _FRAME.findall(text) if is_own(file, code)]
    names = _RAISED.findall(text)
    return f"{places[-1]}: {names[-1]}: " if places and names else ""


_OURS = f"{Path(__file__).resolve().parents[1]}/"
"""Files of kfetch_jobs itself."""


def is_own(file: str, code: Sequence[Path]) -> bool:
    """Whether a file is the project's, which may have an environment and kfetch itself below it."""
    below = any(file.startswith(f"{directory}/") for directory in code)
    return below and "site-packages" not in file and not file.startswith(_OURS)


def _class_for(name: str, text: str) -> type[JobsError]:
    """``name`` is that of one of the source's errors, or empty."""
    found = getattr(source_errors, name, source_errors.KfetchError)
    if issubclass(found, source_errors.DataLoss):
        return RecordsLost
    if issubclass(found, source_errors.AccessRefused):
        return RefusedByBroker
    # A checkpoint that cannot be used is as unusable at the next attempt.
    wrong = (source_errors.OptionError, source_errors.CheckpointError)
    if issubclass(found, wrong) or f"] {UNDECODED}" in text:
        return ConfigError
    return SparkError


def kind_of(error: BaseException) -> Kind:
    """The word for an error that ended a run."""
    if isinstance(error, ConfigError):
        return Kind.CONFIG
    if isinstance(error, RefusedByBroker):
        return Kind.AUTH
    return Kind.DATA_LOSS if isinstance(error, RecordsLost) else Kind.FAILED
