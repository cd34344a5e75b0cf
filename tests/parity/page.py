"""Makes docs/reference/parity.md from the connector's cases, the marks and the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.parity.cases import SPARK_VERSION, Name, all_cases, matching
from tests.parity.marks import Mark
from tests.parity.reasons import DIFFERENCES, REASONS, Reason

__all__ = ["Parity", "sort_out"]

GROUPS = (
    ("Subscriptions and JSON", ("ConsumerStrategySuite", "JsonUtilsSuite")),
    ("Options", ("KafkaSourceProviderSuite",)),
    ("Streams: starts, subscriptions and options", ("KafkaSourceSuiteBase",)),
    (
        "Streams: triggers, limits, losses and content",
        ("KafkaMicroBatchSourceSuiteBase", "KafkaMicroBatchV2SourceSuite"),
    ),
    (
        "Data loss and changing topics",
        (
            "KafkaDontFailOnDataLossSuite",
            "KafkaSourceStressForDontFailOnDataLossSuite",
            "KafkaSourceStressSuite",
        ),
    ),
    ("Batch reads", ("KafkaRelationSuiteBase", "KafkaRelationSuiteV1")),
    (
        "Look-ups, planning and tasks",
        ("KafkaOffsetReaderSuite", "KafkaOffsetRangeCalculatorSuite", "KafkaDataConsumerSuite"),
    ),
    ("Offsets in the checkpoint", ("KafkaSourceOffsetSuite",)),
)
BAR = r"\|"
LOSS = " (failOnDataLoss: {})"
HEAD = """\
# Parity with Spark's connector

Spark's Kafka connector (`spark-sql-kafka-0-10`, Apache Spark {version}) has {total} test cases. For
each of them, this page names the tests of kfetch that prove the same fact, or says why none does.

| | cases |
|---|---|
| kfetch does the same, and a test proves it | {same} |
| kfetch does something else on purpose; a test proves that, and the table says why | {different} |
| not applicable to a source in Python; [the reasons](#not-applicable) are at the end | {outside} |
| all | {total} |

The command beside a test runs it: `make test` has no broker, `make integration` and `make faults`
have Apache Kafka and Spark. {quick} cases have a test in `make test`. {integration} more have one
in `make integration`, and {faults} more in `make faults`.

`python -m tests.parity` writes this page from marks at the tests. A unit test fails if a case has
neither a test nor a reason.
"""


@dataclass(frozen=True)
class Parity:
    """Every case with its marks, and what is wrong with marks and reasons."""

    marks: dict[Name, list[Mark]]
    problems: list[str]

    def page(self) -> str:
        """Returns the text of docs/reference/parity.md."""
        parts = [self._head()]
        for title, suites in GROUPS:
            parts.append(f"## {title}\n")
            parts += [self._suite(suite) for suite in suites]
        parts.append("## Not applicable\n")
        parts += [_reason(reason) for reason in REASONS]
        return "\n".join(parts)

    def _head(self) -> str:
        different = len(self.marks.keys() & _different().keys())
        commands = [{mark.command for mark in marks} for marks in self.marks.values()]
        quick = sum("make test" in used for used in commands)
        faults = sum(used == {"make faults"} for used in commands)
        return HEAD.format(
            version=SPARK_VERSION,
            total=len(all_cases()),
            same=len(self.marks) - different,
            different=different,
            outside=sum(len(reason.cases()) for reason in REASONS),
            quick=quick,
            integration=len(commands) - quick - faults,
            faults=faults,
        )

    def _suite(self, suite: str) -> str:
        rows: dict[tuple[str, str], list[str]] = {}
        for case in all_cases():
            if case[0] == suite and case in self.marks:
                marks = self.marks[case]
                cells = (_says(marks, _different().get(case)), _tests(marks))
                rows.setdefault(cells, []).append(case[1])
        lines = [f"`{suite}`\n", "| case | kfetch | test |", "|---|---|---|"]
        lines += [_row("<br>".join(_paired(names)), *cells) for cells, names in rows.items()]
        return "\n".join([*lines, ""])


def sort_out(marks: Iterable[Mark]) -> Parity:
    """Returns every case with its marks. Sorts out contradictions and what is missing."""
    found: dict[Name, list[Mark]] = {}
    problems = []
    for mark in marks:
        problems += _problems_of(mark)
        for pattern in mark.patterns:
            for case in matching(mark.suite, pattern):
                found.setdefault(case, []).append(mark)
    excused = [case for reason in REASONS for case in reason.cases()]
    shown = {suite for _, suites in GROUPS for suite in suites}
    for case in all_cases():
        if (tested := case in found) == (times := excused.count(case)) or times > 1:
            problems.append(f"{case}: tests {len(found.get(case, []))}, reasons {times}")
        elif tested and case[0] not in shown:
            problems.append(f"{case}: no group of the page has its suite")
    problems += [f"{case}: differs, and has no test" for case in _different().keys() - found.keys()]
    return Parity(found, problems)


def _different() -> dict[Name, str]:
    """Returns why kfetch differs, by case."""
    return {case: why for names, why in DIFFERENCES.items() for case in matching(*names)}


def _problems_of(mark: Mark) -> Iterator[str]:
    for pattern in mark.patterns:
        if "*" in mark.suite or not matching(mark.suite, pattern):
            yield f"{mark.path}::{mark.test}: no case {mark.suite}: {pattern}"
    if not mark.says:
        yield f"{mark.path}::{mark.test}: no docstring"


def _says(marks: list[Mark], why: str | None) -> str:
    sentences = [mark.says for mark in marks]
    return "<br>".join(dict.fromkeys([f"**Differs.** {why}", *sentences] if why else sentences))


def _tests(marks: list[Mark]) -> str:
    named = [f"`{mark.test}` in `{mark.path}`, `{mark.command}`" for mark in marks]
    return "<br>".join(dict.fromkeys(named))


def _reason(reason: Reason) -> str:
    names = [_row(suite, name) for suite, name in reason.cases()]
    head = f"**{reason.part}** ({len(names)}). {reason.sentence}\n"
    return "\n".join([head, "| suite | case |", "|---|---|", *names, ""])


def _paired(names: list[str]) -> list[str]:
    """Returns the names, with one for two that differ in the value of failOnDataLoss only."""
    paired = []
    for name in names:
        stem = name.removesuffix(LOSS.format("true")).removesuffix(LOSS.format("false"))
        both = stem != name and {stem + LOSS.format(v) for v in ("true", "false")} <= {*names}
        paired.append(stem + LOSS.format("true, false") if both else name)
    return list(dict.fromkeys(paired))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', BAR).replace('``', '`') for cell in cells)} |"
