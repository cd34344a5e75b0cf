"""Options of Spark, Kafka and kfetch are the text that stands in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch_jobs import config
from kfetch_jobs.errors import ConfigError
from tests.kfetch_jobs.projects import ENVIRON, JOB, PROJECT


@pytest.mark.parametrize(
    "written",
    [
        *("0123456", "0123", "12:30:45", "1.10", "yes", "No", "True", "1_000", "0x1F", "1e3"),
        *(".inf", "2024-01-01", "2024-01-01 10:00:00", "=", "<<"),
    ],
)
def test_options_keep_their_text(project: Path, written: str) -> None:
    """YAML takes such words for numbers, dates or truth values. A password is what stands there."""
    secret = f"    sasl.password: {written}\n"
    (project / "conf" / "kfetch.yml").write_text(PROJECT + secret)
    own = JOB.replace("  options:\n", f"  options:\n    kafka.client.id: {written}\n")
    (project / "conf" / "jobs" / "clicks.yml").write_text(f"{own}spark:\n  spark.x: {written}\n")
    loaded = config.load(config.find(project), ENVIRON)

    assert written == loaded.file.clusters["local"]["sasl.password"]
    file = loaded.job("clicks").file
    assert file.source is not None
    assert (written, written) == (file.source.options["kafka.client.id"], file.spark["spark.x"])


def test_an_option_without_a_value(project: Path) -> None:
    """Nothing, ~ and null are no text, so they are a mistake and never the word."""
    for nothing in ("", "~", "null"):
        (project / "conf" / "kfetch.yml").write_text(f"{PROJECT}    client.id: {nothing}\n")
        with pytest.raises(ConfigError, match=r":8: clusters\.local\.client\.id is None: "):
            config.load(config.find(project), ENVIRON)
