"""Which errors of a query's definition are the user's mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


class Session:
    """What ``source_frames`` asks of Spark's session. It collects the options of each source."""

    def __init__(self, **conf: str) -> None:
        self.conf = {"spark.sql.session.timeZone": "UTC"} | {
            f"spark.kfetch.{name}": value for name, value in conf.items()
        }
        self.loaded: dict[str, str] = {}

    @property
    def readStream(self) -> Session:
        return self

    def format(self, name: str) -> Session:
        return self

    def options(self, **options: str) -> Session:
        self.loaded |= options
        return self

    def load(self) -> Session:
        return self


def test_each_source_of_a_run_asks_before_it_plans(project: Path) -> None:
    """It gets the socket of the run that holds the lease. A query outside a run gets none."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    run: Any = Session(planPermission="/tmp/kfetch-x/permission")
    other: Any = Session()
    for session in (run, other):
        dataframes.source_frames(session, job)

    assert "/tmp/kfetch-x/permission" == run.loaded["kfetch.planPermission"]
    assert "kfetch.planPermission" not in other.loaded
