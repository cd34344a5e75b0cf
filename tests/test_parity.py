"""Every test case of Spark's connector has a test or a reason, as docs/reference/parity.md says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.parity.cases import all_cases
from tests.parity.marks import ROOT, Mark, read_marks
from tests.parity.page import Parity, sort_out


@pytest.fixture(scope="module")
def marks() -> list[Mark]:
    """The marks of all tests."""
    return read_marks()


@pytest.fixture(scope="module")
def parity(marks: list[Mark]) -> Parity:
    """The cases with their marks."""
    return sort_out(marks)


def test_every_case_has_a_test_or_a_reason(parity: Parity) -> None:
    """No case is forgotten, none has both a test and a reason, and every mark names a case."""
    assert [] == parity.problems


def test_the_cases_of_spark() -> None:
    """The connector of Spark 4.2.0 has 210 cases, each with a name of its own."""
    assert 210 == len(all_cases()) == len(set(all_cases()))


def test_the_page_is_current(parity: Parity) -> None:
    """docs/reference/parity.md is what ``python -m tests.parity`` writes."""
    assert parity.page() == (ROOT / "docs/reference/parity.md").read_text()


def test_mistakes_are_noticed(marks: list[Mark]) -> None:
    """A test that is gone, a case that does not exist, and a test of an excused case are named."""
    example = replace(marks[0], suite="KafkaSourceSuiteBase", patterns=("no such case",))
    excused = replace(marks[0], suite="KafkaSparkConfSuite", patterns=("deprecated configs",))
    without = [mark for mark in marks if "KafkaSourceStress" not in mark.suite]

    assert ["no such case"] == [text[-12:] for text in sort_out([*marks, example]).problems]
    assert ["('KafkaSparkConfSuite', 'deprecated configs'): tests 1, reasons 1"] == (
        sort_out([*marks, excused]).problems
    )
    assert 2 == len(sort_out(without).problems)
