"""The agent behind TLS: tasks read, and a mistake in the options reaches the task as it is."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from kfetch.agent.budget import Budget
from kfetch.agent.shared_query import SharedQuery
from kfetch.errors import OptionError, TlsFailed
from tests.kfetch.agent.helpers import T0, expected, options, part, read
from tests.kfetch.wire.certificates import Authority, server_context
from tests.kfetch.wire.little import LittleKafka

AUTHORITY = Authority()


def query(kafka: LittleKafka, truststore: Path, budget: Budget) -> SharedQuery:
    """A query whose certificates to trust are in this file."""
    tls = {"kafka__security__protocol": "SSL", "kafka__ssl__truststore__location": str(truststore)}
    return SharedQuery("q", options(kafka, **tls), budget)


def test_tasks_read_behind_tls(kafka: LittleKafka, budget: Budget, tmp_path: Path) -> None:
    """The agent's connections are behind TLS."""
    kafka.nodes[1].tls = server_context(AUTHORITY.issue("127.0.0.1"), tmp_path)
    truststore = tmp_path / "ca"
    truststore.write_text(AUTHORITY.pem)
    with closing(query(kafka, truststore, budget)) as shared:
        assert expected(kafka, part(kafka, T0)) == read(shared, part(kafka, T0))


def test_a_missing_file_is_named(kafka: LittleKafka, budget: Budget, tmp_path: Path) -> None:
    """A file that this executor lacks fails the task at once, with its name."""
    truststore = tmp_path / "missing"
    shared = query(kafka, truststore, budget)
    with closing(shared), pytest.raises(OptionError) as caught:
        read(shared, part(kafka, T0))

    assert str(truststore) == caught.value.path


def test_a_bad_certificate_fails_the_task(
    kafka: LittleKafka, budget: Budget, tmp_path: Path
) -> None:
    """A certificate of an unknown authority fails the task at once, and not after its timeout."""
    kafka.nodes[1].tls = server_context(Authority("other").issue("127.0.0.1"), tmp_path)
    truststore = tmp_path / "ca"
    truststore.write_text(AUTHORITY.pem)
    shared = query(kafka, truststore, budget)
    with closing(shared), pytest.raises(TlsFailed, match="no trusted authority has signed"):
        read(shared, part(kafka, T0))
