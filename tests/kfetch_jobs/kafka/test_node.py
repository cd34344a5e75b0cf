"""One Kafka node."""

from __future__ import annotations

import pytest

from kfetch_jobs.kafka.node import cause_line


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("[1] INFO fine (a)\n[2] ERROR broken (b)\n[3] INFO bye (a)", "broken (b)"),
        ("[2] ERROR x (b)\nCaused by: a.BindException: in use\n", "a.BindException: in use"),
        ('Exception in thread "main" a.b.ConfigException: bad\n\tat x', "a.b.ConfigException: bad"),
        ("Unrecognized VM option\nError: Could not create\n", "Error: Could not create"),
        ("\n", "its log is empty"),
    ],
)  # fmt: skip
def test_the_line_that_tells_why(log: str, line: str) -> None:
    """The error quotes the last cause of a log, else the last exception, error or line."""
    assert cause_line(log) == line
