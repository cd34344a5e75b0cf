"""A plugin of pytest: it collects the tests once, and runs them in forks of this process.

``python -m pytest -p tests.forks --forks 4``. A fork has what the collection imported. With its
last test, each takes the next one. It sends its reports to the first process: those of a failure at
once, others together, since each message costs more than a small test. With ``--by-file``, it takes
a whole file, whose tests share what they start.
"""

from __future__ import annotations

import gc
import os
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection, wait
from signal import (
    SIG_BLOCK,
    SIG_IGN,
    SIG_SETMASK,
    SIG_UNBLOCK,
    SIGINT,
    SIGKILL,
    pthread_sigmask,
    signal,
)
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from _pytest.threadexception import collect_thread_exception
from _pytest.unraisableexception import collect_unraisable

_TEARDOWN_S = 10
_LOOK_S = 1
_HOLD_S = 0.5


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the number of forks, and what they take."""
    parser.addoption("--forks", type=int, default=0, help="processes that run the tests")
    parser.addoption("--by-file", action="store_true", help="one process runs all tests of a file")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in forks, if there is a number of forks and something to run."""
    if not (session.config.option.forks and session.items) or session.config.option.collectonly:
        return None
    if session.testsfailed:
        return None  # the usual loop says that the collection failed
    _temporary_files(session.config).getbasetemp()  # this process removes it at the end
    _Forks(session).run()
    return True


class _Forks:
    """The processes, and how far they are in the list of tests."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        by_file = session.config.option.by_file
        grouped = groupby(
            range(len(session.items)), lambda n: session.items[n].path if by_file else n
        )
        self._parts = [list(part) for _, part in grouped]
        """The tests by their numbers, as the forks take them."""
        self._taken = get_context("fork").Value("i", 0)
        """The forks alone lock it: an interrupted fork may keep the lock."""
        self._stopped = get_context("fork").RawValue("b", 0)
        """Whether a fork runs the test that it has taken, and no other."""
        self._running = get_context("fork").RawArray("i", [-1] * session.config.option.forks)
        """The test that each fork runs now; -1 before its first one."""
        self._forks: dict[Connection, int] = {}
        """The number of the fork behind a connection."""
        self._pids: list[int] = []

    def run(self) -> None:
        """Start the forks and report their results. Raises for ``-x`` and for a lost fork."""
        try:
            assert threading.active_count() == 1, "a test file starts a thread when it is imported"
            # An interrupt waits until each fork is known.
            before = pthread_sigmask(SIG_BLOCK, {SIGINT})
            try:
                for number in range(self._session.config.option.forks):
                    self._start(number)
            finally:
                pthread_sigmask(SIG_SETMASK, before)
            while self._forks:
                # An interrupt that comes just before the wait is seen after it.
                for connection in wait(list(self._forks), _LOOK_S):
                    assert isinstance(connection, Connection)
                    self._receive(connection)
        except BaseException:
            self._stop()
            raise
        finally:
            for pid in self._pids:
                os.waitpid(pid, 0)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _stop(self) -> None:
        """Let the forks tear down what their tests set up, and end those that take too long."""
        for pid in self._pids:
            os.kill(pid, SIGINT)
        deadline = time.monotonic() + _TEARDOWN_S
        while self._forks and time.monotonic() < deadline:
            for connection in wait(list(self._forks), 0.1):
                assert isinstance(connection, Connection)
                self._receive(connection)
        for pid in self._pids:
            os.kill(pid, SIGKILL)

    def _start(self, number: int) -> None:
        ours, theirs = Pipe(duplex=False)
        with warnings.catch_warnings():
            # Python 3.12 warns of forks of a process with threads. Those of numpy are prepared.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            try:
                self._work(number, theirs)
            finally:
                os._exit(0)
        theirs.close()
        self._pids.append(pid)
        self._forks[ours] = number

    def _work(self, number: int, connection: Connection) -> None:
        """Run tests until none is left, or until an interrupt, and tear down what they set up."""
        session, reporter = self._session, _Reporter(connection)
        try:
            signal(SIGINT, _interrupt)
            pthread_sigmask(SIG_UNBLOCK, {SIGINT})
            _be_independent(session.config, number)
            session.config.pluginmanager.register(reporter)
            tests = self._tests()
            index = next(tests, None)
            while index is not None:
                following = next(tests, None)
                self._running[number] = reporter.index = index
                then = None if following is None else session.items[following]
                item = session.items[index]
                item.ihook.pytest_runtest_protocol(item=item, nextitem=then)
                index = following
            reporter.flush()
            gc.collect()  # what is left of the last tests may fail, as at the end of a usual run
            collect_unraisable(session.config)
            collect_thread_exception(session.config)
            connection.send(None)
        except KeyboardInterrupt:
            with suppress(BaseException):
                reporter.flush()  # the first process says so, and waits for the teardown
        except BaseException:
            traceback.print_exc()
        with suppress(BaseException):
            session._setupstate.teardown_exact(None)

    def _tests(self) -> Iterator[int]:
        """Yields the tests that no fork has taken yet."""
        while True:
            with self._taken.get_lock():
                part = self._taken.value
                self._taken.value += 1
            if part >= len(self._parts):
                return
            for index in self._parts[part]:
                if self._stopped.value:
                    return
                yield index

    def _receive(self, connection: Connection) -> None:
        """Handle the next message: reports of tests, a warning, or the fork is done."""
        try:
            message = connection.recv()
        except (EOFError, OSError):  # the process ended, perhaps within a message
            index = self._running[self._forks[connection]]
            test = self._session.items[index].nodeid if index >= 0 else "no test yet"
            message = None
            self._session.shouldfail = f"the process that ran {test} is gone"
            self._stopped.value = 1
        if message is None:
            del self._forks[connection]
        elif isinstance(message, dict):
            hook = self._session.config.hook
            hook.pytest_warning_recorded.call_historic(kwargs=message)
        else:
            for index, reports in message:
                self._report(self._session.items[index], reports)

    def _report(self, item: pytest.Item, reports: list[dict[str, Any]]) -> None:
        hook = item.ihook
        for data in reports:
            report = hook.pytest_report_from_serializable(config=item.config, data=data)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if self._session.shouldfail or self._session.shouldstop:
            self._stopped.value = 1


def _interrupt(*_: object) -> None:
    """Interrupt a test once: the teardown is not interrupted."""
    signal(SIGINT, SIG_IGN)
    raise KeyboardInterrupt


def _be_independent(config: pytest.Config, number: int) -> None:
    """Write captured output and temporary files to places that no other fork has."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    factory = _temporary_files(config)
    factory._basetemp = factory.mktemp(f"fork-{number}", numbered=False)


def _temporary_files(config: pytest.Config) -> Any:
    return config._tmp_path_factory  # type: ignore[attr-defined]


class _Reporter:
    """Sends reports, in place of printing them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._held: list[tuple[int, list[dict[str, Any]]]] = []
        self._held_since = time.monotonic()
        self.index = -1
        """The number of the test that runs."""

    def flush(self) -> None:
        """Send the reports that wait for others."""
        self._connection.send(self._held)
        self._held = []
        self._held_since = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test, within what other plugins put around it."""
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        serialize, config = item.ihook.pytest_report_to_serializable, item.config
        self._held.append((self.index, [serialize(config=config, report=one) for one in reports]))
        late = time.monotonic() - self._held_since > _HOLD_S
        if late or any(report.outcome != "passed" for report in reports):
            self.flush()
        return True

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        """Send a warning, without the object that it is about."""
        warning_message.source = None
        self._connection.send(
            {
                "warning_message": warning_message,
                "when": when,
                "nodeid": nodeid,
                "location": location,
            }
        )
