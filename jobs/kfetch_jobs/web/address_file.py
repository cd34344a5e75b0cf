"""Where a supervisor's page is, for who has started one in the background: it leaves a note, and
the page is asked before anybody is sent there.
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

from kfetch_jobs.supervise.log import log_file
from kfetch_jobs.supervise.store import directory
from kfetch_jobs.util.files import write_json
from kfetch_jobs.web.address import TOKEN_VARIABLE, Address

__all__ = ["remove", "wait_for_page", "write"]

_PAGE_TIMEOUT_S = 15.0
_ANSWER_TIMEOUT_S = 5.0
_POLL_S = 0.1
_ANY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where one is reached from here


@dataclass(frozen=True, slots=True, kw_only=True)
class _PageAddress:
    """Of one supervisor."""

    pid: int
    host: str = ""
    port: int = 0
    token: bool = False
    """Whether people have to log in."""
    closed: str = ""
    """Why there is no page; empty if there is one."""

    @property
    def address(self) -> Address:
        """Where it is asked from this machine."""
        return Address(_ANY_INTERFACE.get(self.host, self.host), self.port)

    @property
    def sentence(self) -> str:
        """What people are told."""
        if self.closed:
            return f"no page: {self.closed}"
        others = f", elsewhere at port {self.port} of this machine"
        told = f"page: http://{self.address}/{others if self.host in _ANY_INTERFACE else ''}"
        return f"{told}; log in with the token in {TOKEN_VARIABLE}" if self.token else told


def write(storage: Path, address: Address | None, *, token: bool, closed: str) -> None:
    """Note where this process's page is, or why there is none."""
    host, port = (address.host, address.port) if address else ("", 0)
    note = _PageAddress(pid=os.getpid(), host=host, port=port, token=token, closed=closed)
    write_json(_file(storage), asdict(note))


def remove(storage: Path) -> None:
    """Remove an earlier supervisor's note: the next one may get the same pid."""
    _file(storage).unlink(missing_ok=True)


def wait_for_page(storage: Path, pid: int, check: Callable[[], None]) -> str:
    """Where the page of this supervisor is, once it answers, or why there is none: a sentence.

    ``check`` is called meanwhile; it may raise.
    """
    deadline = time.monotonic() + _PAGE_TIMEOUT_S
    told = "the supervisor has not said where"
    while time.monotonic() < deadline:
        check()
        note = _read(storage, pid)
        if note is not None:
            told = f"http://{note.address}/ does not answer"
            if note.closed or _answers(note.address):
                return note.sentence
        time.sleep(_POLL_S)
    return f"no page after {_PAGE_TIMEOUT_S:.0f} s: {told} (see {log_file(storage)})"


def _file(storage: Path) -> Path:
    return directory(storage) / "page.json"


def _read(storage: Path, pid: int) -> _PageAddress | None:
    """The note, unless it is an earlier supervisor's."""
    try:
        note = _PageAddress(**json.loads(_file(storage).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return note if note.pid == pid else None


def _answers(address: Address) -> bool:
    """Whether somebody who asks for the first page gets it, or is told to log in."""
    connection = HTTPConnection(address.host, address.port, timeout=_ANSWER_TIMEOUT_S)
    with closing(connection):
        try:
            connection.request("GET", "/")
            return connection.getresponse().status < 500
        except (OSError, HTTPException):
            return False
