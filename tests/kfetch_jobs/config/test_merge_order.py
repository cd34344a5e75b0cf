"""When a merge may leave out ``latestBy``: if the files show that a key has one partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch_jobs import config
from kfetch_jobs.config.merge_order import order_columns
from kfetch_jobs.errors import ConfigError
from tests.kfetch_jobs.projects import ENVIRON, JOB

ONE = "subscribe: clicks"
TWO = "subscribe: clicks,orders"
PATTERN = "subscribePattern: c.*"
ASSIGNED = """assign: '{"clicks": [3]}'"""
ASSIGNED_TWO = """assign: '{"clicks": [3, 4]}'"""


@pytest.mark.parametrize(
    ("topics", "keys", "valid"),
    [
        (ONE, "id", False),
        (ONE, "[id, partition]", True),
        (ONE, "[id, topic]", False),
        (TWO, "[id, partition]", False),
        (TWO, "[id, topic, Partition]", True),
        (PATTERN, "[id, partition]", False),
        (PATTERN, "[topic, partition]", True),
        (ASSIGNED, "id", True),
        (ASSIGNED_TWO, "id", False),
    ],
)
def test_the_default_order(project: Path, topics: str, keys: str, valid: bool) -> None:
    """The order is the offset, or the mistake says what to write."""
    file = project / "conf" / "jobs" / "clicks.yml"
    text = JOB.replace(ONE, topics).replace("  path:", f"  mode: merge\n  keys: {keys}\n  path:")
    file.write_text(text)
    if valid:
        job = config.load(config.find(project), ENVIRON).job("clicks")
        assert ["offset"] == order_columns(job)
        return
    with pytest.raises(
        ConfigError, match=r"clicks\.yml:11: sink\.latestBy is missing: .* write la"
    ):
        config.load(config.find(project), ENVIRON).job("clicks")


def test_a_misspelt_order(project: Path) -> None:
    """A typo in ``latestBy`` is the only mistake: the key is not missing."""
    file = project / "conf" / "jobs" / "clicks.yml"
    file.write_text(JOB.replace("  path:", "  mode: merge\n  keys: id\n  latestby: ts\n  path:"))
    with pytest.raises(ConfigError) as refused:
        config.load(config.find(project), ENVIRON).job("clicks")

    (mistake,) = refused.value.mistakes
    assert "the key sink.latestby is not known: did you mean latestBy?" in mistake


def test_a_named_order(project: Path) -> None:
    """Whoever names the columns is right; an append has no order."""
    file = project / "conf" / "jobs" / "clicks.yml"
    assert [] == order_columns(config.load(config.find(project), ENVIRON).job("clicks"))
    merge = "  mode: merge\n  keys: id\n  latestBy: [at, offset]\n  path:"
    file.write_text(JOB.replace("  path:", merge))

    job = config.load(config.find(project), ENVIRON).job("clicks")
    assert ["at", "offset"] == order_columns(job)
