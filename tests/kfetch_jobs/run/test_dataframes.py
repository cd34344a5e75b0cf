"""Which errors of a query's definition are the user's mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkRuntimeError,
)

from kfetch_jobs import config
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.run import dataframes
from tests.kfetch_jobs.projects import ENVIRON


@pytest.mark.parametrize(
    ("cause", "at", "mistake"),
    [
        (AnalysisException("[TABLE_NOT_FOUND] x"), ("sink",), True),
        (ParseException("[PARSE_SYNTAX_ERROR] x"), ("transform",), True),
        (IllegalArgumentException("x"), ("sink",), True),
        (KeyError("column"), ("transform",), True),
        (KeyError("column"), ("sink",), False),
        (OSError("no route to the object store"), ("transform",), False),
        (PySparkRuntimeError("the JVM is gone"), ("transform",), False),
    ],
)
def test_what_another_attempt_could_not_mend(
    project: Path, cause: Exception, at: tuple[str, ...], mistake: bool
) -> None:
    """Spark's analysis and the project's code make mistakes; whatever else fails may pass."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    with (
        pytest.raises(ConfigError if mistake else type(cause)),
        dataframes.user_mistakes(job, *at),
    ):
        raise cause
