"""Which jobs may have dead letters beside a transform with state."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch_jobs import config
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.run.dead_letter_frames import check_no_registry

_JOB = """\
source:
  cluster: local
  subscribe: clicks
  options: {%s}
transform:
  sql: SELECT 1 AS x FROM source
sink:
  path: ${storage}/clicks/table
  deadLetters: {path: dead}
trigger: availableNow
"""


def _job(project: Path, options: str) -> config.Job:
    (project / "conf" / "jobs" / "clicks.yml").write_text(_JOB % options)
    return config.load(project / "conf" / "kfetch.yml", {"SERVERS": "127.0.0.1:9092"}).job("clicks")


def test_a_registry_could_learn_of_a_schema_between_two_reads(project: Path) -> None:
    """So the record would be in neither table. The error names the line of the dead letters."""
    options = "valueFormat: avro, ValueRegistry: 'http://127.0.0.1:1', valueSubject: s"
    with pytest.raises(ConfigError, match=r"clicks\.yml:9: .* schema registry"):
        check_no_registry(_job(project, options))


def test_without_a_registry_both_reads_agree(project: Path) -> None:
    """The same bytes are decoded twice in the same way."""
    check_no_registry(_job(project, "valueFormat: json, valueSchema: id INT"))
