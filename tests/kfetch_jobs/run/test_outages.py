"""Outages and mistakes, by the innermost cause: an example for each row of the two tables."""

from __future__ import annotations

import re
import socket
import sqlite3
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from kfetch_jobs import config
from kfetch_jobs.errors import ConfigError, SparkError
from kfetch_jobs.progress.exit_report import ExitKind, exit_kind_of
from kfetch_jobs.run import dataframes
from kfetch_jobs.run.outages import JAVA, PYTHON, outage
from tests.kfetch_jobs.projects import ENVIRON

_JAVA = [
    "java.net.NoRouteToHostException: No route to host",
    "java.net.UnknownHostException: nn1.shop",
    "java.nio.channels.ClosedChannelException",
    "java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]",
    "org.apache.hadoop.net.ConnectTimeoutException: 20000 millis timeout while waiting",
    "org.apache.http.conn.HttpHostConnectException: Connect to s3.shop:9000 failed",
    "org.apache.hadoop.ipc.StandbyException: Operation category READ is not supported",
    "org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.ipc.StandbyException): standby",
    "org.apache.hadoop.hdfs.server.namenode.SafeModeException: Name node is in safe mode.",
    "MetaException(message:Could not connect to meta store using any of the URIs provided. "
    "Most recent failure: org.apache.thrift.transport.TTransportException: Connection refused",
    "org.apache.thrift.transport.TTransportException: Connection refused",
    "software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request",
    "software.amazon.awssdk.services.s3.model.S3Exception: Slow Down (Service: S3, "
    "Status Code: 503, Request ID: 1)",
    "org.apache.hadoop.fs.s3a.AWSStatus500Exception: Internal error",
    "org.apache.hadoop.fs.azurebfs.contracts.exceptions.AbfsRestOperationException: "
    'Operation failed: "The server is busy.", 503, PUT, https://a.dfs.core.windows.net/c/x',
    "java.sql.SQLTransientConnectionException: HikariPool-1 - Connection is not available",
    "com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure",
    "org.postgresql.util.PSQLException: FATAL: the database system is starting up",
    "io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException: Error while "
    "forwarding; error code: 50003",
]
"""The innermost cause in a trace, in the order of the table."""

_MISTAKES = [
    "org.apache.spark.sql.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] shop.clicks",
    "java.lang.ClassNotFoundException: org.postgresql.Driver",
    'org.postgresql.util.PSQLException: ERROR: relation "clicks" does not exist',
    "MetaException(message:Version information not found in metastore.)",
    "software.amazon.awssdk.services.s3.model.S3Exception: Access Denied (Service: S3, "
    "Status Code: 403, Request ID: 1)",
    "software.amazon.awssdk.core.exception.SdkClientException: Unable to load region",
    "org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.security.AccessControlException): no",
    "io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException: Subject not "
    "found; error code: 40401",
    "java.sql.SQLSyntaxErrorException: Unknown column",
]


def _analysis(innermost: str) -> AnalysisException:
    """Spark's words for a failure with this innermost cause."""
    trace = (
        "org.apache.spark.sql.AnalysisException: [UNEXPECTED] it failed\n"
        "\tat org.apache.spark.sql.hive.HiveExternalCatalog.withClient(HiveExternalCatalog.scala)\n"
        "\tSuppressed: java.net.ConnectException: of another attempt\n"
        "\tCaused by: java.net.ConnectException: of another attempt\n"
        "Caused by: java.lang.RuntimeException: unable to instantiate the client\n"
        "\t... 20 more\n"
        f"Caused by: {innermost}\n"
        "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
    )
    error = AnalysisException("[UNEXPECTED] it failed")
    error._desc, error._stackTrace = "[UNEXPECTED] it failed", trace  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize("row", range(len(JAVA)), ids=lambda row: JAVA[row].name)
def test_causes_of_java(row: int) -> None:
    """Each row of the table has its example, and no other row is needed for it."""
    assert len(_JAVA) == len(JAVA)
    text = outage(_analysis(_JAVA[row]))
    assert text
    message = JAVA[row].message
    name, sentence = re.split(r": |\(|$", _JAVA[row], maxsplit=1)
    assert re.match(JAVA[row].name, name)
    assert re.search(message, _JAVA[row])
    assert sentence in text


@pytest.mark.parametrize("innermost", _MISTAKES)
def test_mistakes_of_java(innermost: str) -> None:
    """A name, a right or a syntax that is wrong stays wrong, however often a run tries."""
    assert "" == outage(_analysis(innermost))


class OperationalError(Exception):
    """As in psycopg, PyMySQL and SQLAlchemy."""


class ServiceUnavailable(Exception):
    """As in the drivers of several databases."""


class SchemaRegistryError(Exception):
    """As in confluent_kafka."""

    def __init__(self, http_status_code: int) -> None:
        super().__init__(f"HTTP {http_status_code}")
        self.http_status_code = http_status_code


_PYTHON: list[BaseException] = [
    ConnectionRefusedError(111, "Connection refused"),
    TimeoutError("timed out"),
    socket.gaierror(-2, "Name or service not known"),
    OperationalError("could not translate host name"),
    ServiceUnavailable("no leader"),
    SchemaRegistryError(503),
]
"""In the order of the table."""


@pytest.mark.parametrize("row", range(len(PYTHON)))
def test_causes_of_python(row: int) -> None:
    """Each row of the table has its example, also behind an exception of another class."""
    assert len(_PYTHON) == len(PYTHON)
    assert PYTHON[row](_PYTHON[row])
    outer = ValueError("the table of users can't be read")
    outer.__cause__ = _PYTHON[row]
    assert outage(outer) == f"{type(_PYTHON[row]).__name__}: {_PYTHON[row]}"


@pytest.mark.parametrize(
    "error",
    [
        KeyError("column"),
        FileNotFoundError(2, "No such file"),
        sqlite3.OperationalError("no such table: users"),
        SchemaRegistryError(404),
        ValueError("java.net.ConnectException is what the docs say"),
    ],
)
def test_mistakes_of_python(error: BaseException) -> None:
    """What the project's own code does wrong is no outage."""
    assert "" == outage(error)


def test_an_error_inside_the_handling_of_an_outage() -> None:
    """Without ``from``, Python still remembers the exception that was handled."""
    handled = RuntimeError("no users")
    handled.__context__ = ConnectionResetError(104, "reset")
    assert outage(handled)

    silenced = RuntimeError("no users")
    silenced.__context__, silenced.__suppress_context__ = TimeoutError(), True
    assert "" == outage(silenced)


@pytest.mark.parametrize(("at", "line"), [(("sink",), 9), (("transform",), 7)])
def test_an_outage_at_a_start_is_tried_again(project: Path, at: tuple[str, ...], line: int) -> None:
    """The supervisor restarts such a run. The sentence has the line, the cause and what follows."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    with pytest.raises(SparkError) as raised, dataframes.user_mistakes(job, *at):
        raise _analysis("java.net.UnknownHostException: nn1.shop")

    assert ExitKind.FAILED is exit_kind_of(raised.value)
    assert raised.value.message == (
        f"conf/jobs/clicks.yml:{line}: UnknownHostException: nn1.shop: another system is away: "
        "the next run tries it again"
    )
    with pytest.raises(ConfigError), dataframes.user_mistakes(job, *at):
        raise _analysis("java.lang.ClassNotFoundException: org.postgresql.Driver")
