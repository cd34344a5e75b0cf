"""The file with the address of a supervisor's page, for the command that started the supervisor.

The supervisor writes it. The command waits until the page answers before it prints the address.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from kfetch_jobs.supervise.store import supervisor_directory
from kfetch_jobs.supervise.supervisor_log import log_file
from kfetch_jobs.util.files import write_json
from kfetch_jobs.web.address import TOKEN_VARIABLE, Address

_PAGE_TIMEOUT_S = 15.0
_ANSWER_TIMEOUT_S = 5.0
_POLL_S = 0.1
_ANY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - how this machine reaches them


@dataclass(frozen=True, slots=True, kw_only=True)
class _PageAddress:
    """The content of the file."""

    pid: int
    host: str = ""
    port: int = 0
    token: bool = False
    """Whether people must log in."""
    closed: str = ""
    """Why there is no page; empty if there is one."""

    @property
    def address(self) -> Address:
        """The address to use on this machine."""
        return Address(_ANY_INTERFACE.get(self.host, self.host), self.port)

    @property
    def sentence(self) -> str:
        """The sentence for people: the address, or why there is no page."""
        if self.closed:
            return f"no page: {self.closed}"
        others = f", from other machines at port {self.port} of this one"
        page = f"page: http://{self.address}/{others if self.host in _ANY_INTERFACE else ''}"
        return f"{page}; log in with the token of {TOKEN_VARIABLE}" if self.token else page


def write(storage: Path, address: Address | None, *, token: bool, closed: str) -> None:
    """Write the address of this process's page, or the reason why there is none."""
    host, port = (address.host, address.port) if address else ("", 0)
    content = _PageAddress(pid=os.getpid(), host=host, port=port, token=token, closed=closed)
    write_json(_file(storage), asdict(content))


def remove(storage: Path) -> None:
    """Remove an earlier supervisor's file: the next supervisor may get the same pid."""
    _file(storage).unlink(missing_ok=True)


def wait_for_page(storage: Path, pid: int, check: Callable[[], None]) -> str:
    """Wait until the page of the supervisor ``pid`` answers.

    Returns a sentence: the address, or why there is no page. It calls ``check`` while it waits;
    ``check`` may raise.
    """
    deadline = time.monotonic() + _PAGE_TIMEOUT_S
    reason = "the supervisor has written no address"
    while time.monotonic() < deadline:
        check()
        page = _read(storage, pid)
        if page is not None:
            reason = f"http://{page.address}/ does not answer"
            if page.closed or _answers(page.address):
                return page.sentence
        time.sleep(_POLL_S)
    return f"no page after {_PAGE_TIMEOUT_S:.0f} s: {reason} (see {log_file(storage)})"


def _file(storage: Path) -> Path:
    return supervisor_directory(storage) / "page.json"


def _read(storage: Path, pid: int) -> _PageAddress | None:
    """Returns the file's content; None if it is missing or another supervisor's."""
    try:
        content = _PageAddress(**json.loads(_file(storage).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return content if content.pid == pid else None


def _answers(address: Address) -> bool:
    """Returns whether a request for the first page gets the page or the log-in."""
    connection = HTTPConnection(address.host, address.port, timeout=_ANSWER_TIMEOUT_S)
    with closing(connection):
        try:
            connection.request("GET", "/")
            return connection.getresponse().status < 500
        except (OSError, HTTPException):
            return False
