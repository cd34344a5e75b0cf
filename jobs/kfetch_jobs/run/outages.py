"""Tells an outage of another system from a mistake, by the innermost cause of an exception.

Spark wraps an unreachable metastore in an AnalysisException, and a library wraps an unreachable
database in an exception of its own. The outermost exception says "mistake" and the innermost one
says "connection refused". The two tables below list the causes that another attempt may not meet.
A cause that no row has is no outage.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kfetch_jobs.jvm.spark import text_of


@dataclass(frozen=True, slots=True)
class JavaCause:
    """A row: the innermost exception in a trace of Java."""

    name: str
    """Regular expression of the whole name of the class."""
    message: str = ""
    """Regular expression that the message must have; empty: any message."""


JAVA = (
    # The network
    JavaCause(r"java\.net\.(No|Port)\w+Exception"),
    JavaCause(r"java\.net\.(Connect|Socket|SocketTimeout|UnknownHost|HttpRetry)Exception"),
    JavaCause(r"java\.nio\.channels\.(ClosedChannel|UnresolvedAddress)Exception"),
    JavaCause(r"java\.util\.concurrent\.TimeoutException"),
    JavaCause(r"org\.apache\.hadoop\.net\.ConnectTimeoutException"),
    JavaCause(r"(\w+\.)+(HttpHostConnect|ConnectTimeout|NoHttpResponse|ConnectionClosed)Exception"),
    # A namenode
    JavaCause(r"org\.apache\.hadoop\.ipc\.(Standby|Retriable|ServerTooBusy)Exception"),
    JavaCause(
        r"org\.apache\.hadoop\.ipc\.RemoteException",
        r"StandbyException|RetriableException|SafeModeException|in safe mode",
    ),
    JavaCause(r"org\.apache\.hadoop\.hdfs\.server\.namenode\.SafeModeException"),
    # A metastore
    JavaCause(
        r"(\w+\.)*MetaException",
        r"Could not connect|Connection refused|TTransportException|timed out",
    ),
    JavaCause(r"(\w+\.)*TTransportException"),
    # An object store
    JavaCause(r"(\w+\.)+SdkClientException", r"Unable to execute HTTP request|Unable to load cred"),
    JavaCause(r"(\w+\.)+(Amazon)?(S3|Dynamo\w+|Glue|Sts)Exception", r"Status Code: (5\d\d|429)"),
    JavaCause(r"org\.apache\.hadoop\.fs\.s3a\.AWS(Status500|ServiceThrottled)Exception"),
    JavaCause(r"org\.apache\.hadoop\.fs\.azurebfs\.(\w+\.)+AbfsRest\w+", r", (5\d\d|429), "),
    # A database
    JavaCause(r"java\.sql\.SQL(Transient\w*|Recoverable|NonTransientConnection|Timeout)Exception"),
    JavaCause(r"(\w+\.)+CommunicationsException"),
    JavaCause(
        r"(\w+\.)+(SQL|PSQL|SQLServer)Exception",
        r"(?i)connection (to \S+ )?(refused|reset|timed out|attempt failed)|starting up|"
        r"shutting down|TCP/IP connection|too many (clients|connections)|connect to server",
    ),
    # A schema registry
    JavaCause(r"(\w+\.)+RestClientException", r"(error code|status): 5\d\d"),
)
"""Causes in a trace of Java. They all end, and nobody has to change a file for it."""

_HTTP = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of HTTP with which a server asks for another attempt (RFC 9110, 6585, 8470)."""


def _named(*names: str) -> Callable[[BaseException], bool]:
    """Match a class of these names, or one that inherits from such a class, of any library."""
    return lambda error: any(one.__name__ in names for one in type(error).__mro__)


def _status(error: BaseException) -> object:
    owners = (error, getattr(error, "response", None))
    names = ("http_status_code", "status_code", "status")
    found = (getattr(owner, name, None) for owner in owners for name in names)
    return next((status for status in found if isinstance(status, int)), None)


PYTHON: tuple[Callable[[BaseException], bool], ...] = (
    lambda error: isinstance(error, ConnectionError),
    lambda error: isinstance(error, TimeoutError),
    lambda error: isinstance(error, socket.gaierror),
    # A database (PEP 249: the cause is not under the programmer's control). SQLite has no server,
    # and raises this for a missing table.
    lambda error: (
        _named("OperationalError")(error) and not type(error).__module__.startswith("sqlite3")
    ),
    # A library's own classes
    _named(
        *("ConnectionError", "ConnectError", "ConnectTimeout", "ReadTimeout", "TimeoutError"),
        *("ConnectionFailure", "ServiceUnavailable", "RemoteProtocolError"),
    ),
    # An HTTP server
    lambda error: _status(error) in _HTTP,
)
"""Causes among Python's exceptions."""


def outage(error: BaseException) -> str:
    """Returns the innermost cause as ``class: sentence`` if it is an outage, else an empty text."""
    innermost = list(_chain(error))[-1]
    if any(matches(innermost) for matches in PYTHON):
        return f"{type(innermost).__name__}: {innermost}".split("\n")[0]
    name, message = _java_cause(text_of(innermost))
    if any(re.fullmatch(row.name, name) and re.search(row.message, message) for row in JAVA):
        return f"{name.rpartition('.')[2]}: {message}"
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields the exception and its causes, the innermost last."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


# A suppressed exception is indented, and so are its causes.
# Thrift and Hadoop's RemoteException write a part of the message in parentheses.
_JAVA_CLASS = re.compile(
    r"^(?P<caused>Caused by: |: )?(?P<name>(?:[A-Za-z_]\w*\.)*[\w$]+)(?P<message>(?:: |\().*)?$",
    re.MULTILINE,
)


def _java_cause(text: str) -> tuple[str, str]:
    """The class and the message of the last cause in a trace; empty texts without one."""
    classes = [
        match for match in _JAVA_CLASS.finditer(text) if match["caused"] or _is_class(match["name"])
    ]
    if not classes:
        return "", ""
    return classes[-1]["name"], (classes[-1]["message"] or "").strip("(: ")


def _is_class(name: str) -> bool:
    return "." in name and name.endswith(("Exception", "Error"))
