"""A plugin of pytest: runs only the tests of some features, and writes what became of them.

``--features KEY,KEY`` chooses, ``--short`` takes a few tests of each, and ``--results FILE`` gets
``{"feature": {"outcome or reason": number}}``.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from integration.spark_versions.features import feature_of

PASSED, FAILED = "passed", "failed"
_results: dict[str, Counter[str]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the three options."""
    parser.addoption("--features", default="")
    parser.addoption("--short", action="store_true")
    parser.addoption("--results", default="")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop the tests of other features."""
    keys = config.getoption("--features").split(",")
    short = config.getoption("--short")
    items[:] = [item for item in items if _is_chosen(item.nodeid, keys, short)]


def _is_chosen(test: str, keys: list[str], short: bool) -> bool:
    feature = feature_of(test)
    if feature is None or feature.key not in keys:
        return False
    return not short or test.startswith(feature.short)


def pytest_runtest_logreport(report: Any) -> None:
    """Count a result. A skipped test counts by its reason."""
    feature = feature_of(report.nodeid)
    if feature is None or (report.passed and report.when != "call"):
        return
    outcome = PASSED if report.passed else FAILED if report.failed else _reason(report)
    _results.setdefault(feature.key, Counter())[outcome] += 1


def _reason(report: Any) -> str:
    text = report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(text).removeprefix("Skipped: ")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the results."""
    Path(session.config.getoption("--results")).write_text(json.dumps(_results))
