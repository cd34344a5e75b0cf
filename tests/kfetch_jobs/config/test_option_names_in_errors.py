"""Errors about a job name options as the job's files do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch.errors import AuthenticationFailed
from kfetch_jobs import config
from kfetch_jobs.config import Job
from tests.kfetch_jobs.projects import ENVIRON, JOB


@pytest.fixture
def job(project: Path) -> Job:
    """A job whose source sets ``kafka.ssl.protocol`` itself, beside its cluster's properties."""
    file = project / "conf" / "jobs" / "clicks.yml"
    file.write_text(JOB.replace("includeHeaders: true", "kafka.ssl.protocol: TLS"))
    return config.load(config.find(project), environ=ENVIRON).job("clicks")


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("check kafka.sasl.*.", "check sasl.*."),
        ("set kafka.sasl.jaas.config, or leave", "set sasl.jaas.config, or leave"),
        ("kafka.security.protocol=SSL", "security.protocol=SSL"),
        ("kafka.ssl.ca.location is librdkafka's", "ssl.ca.location is librdkafka's"),
        # An option of the source, and texts that are no options.
        ("kafka.ssl.protocol and kafka.ssl.*", "kafka.ssl.protocol and kafka.ssl.*"),
        ("kafka.default.svc:9092 refuses", "kafka.default.svc:9092 refuses"),
        ("b-1.kafka.sasl.example refuses", "b-1.kafka.sasl.example refuses"),
        ("schema.registry.ssl.protocol", "schema.registry.ssl.protocol"),
    ],
)
def test_names_of_options(job: Job, sentence: str, expected: str) -> None:
    """A cluster's properties have no ``kafka.`` in front. Options of a source keep it."""
    assert expected == job.user_sentence(sentence)


def test_an_error_of_the_source(job: Job) -> None:
    """``Job.error`` keeps the class, the code and the values of an error."""
    cause = AuthenticationFailed("h refuses", action="Check kafka.sasl.mechanism", code=58)
    error = job.error("job clicks", cause)

    assert "job clicks: h refuses. Check sasl.mechanism [AUTHENTICATION_FAILED]" == str(error)
    assert (AuthenticationFailed, 58) == (type(error), error.code)
