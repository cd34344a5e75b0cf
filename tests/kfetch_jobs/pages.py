"""A project as its page sees it, and a look at HTML that a browser would forgive."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from threading import Event, Thread

import psutil
from starlette.testclient import TestClient

from kfetch_jobs import config
from kfetch_jobs.config import Project
from kfetch_jobs.supervise.job_state import Order
from kfetch_jobs.supervise.store import Store, SupervisorRecord
from kfetch_jobs.web.app import application
from kfetch_jobs.web.login import Logins
from tests.kfetch_jobs.projects import ENVIRON

PEOPLE = {"Accept": "text/html,*/*;q=0.8"}
_VOID = {"meta", "link", "input", "br", "img", "hr"}


def loaded(project: Path) -> Project:
    """The project of the fixture."""
    return config.load(project / "conf" / "kfetch.yml", ENVIRON)


def browser(
    project: Project, token: str = "", host: str = "127.0.0.1", metrics_token: str = ""
) -> TestClient:
    """Somebody who looks at the project's pages."""
    return TestClient(
        application(project, Logins(token, metrics_token), time.time),
        base_url=f"http://{host}",
        headers=PEOPLE,
        follow_redirects=False,
    )


@contextmanager
def supervised(project: Project, answer: str = "") -> Iterator[list[tuple[str, Order]]]:
    """This process as the supervisor, who answers each order so; the orders that came."""
    came: list[tuple[str, Order]] = []
    ended = Event()

    def loop() -> None:
        with Store.of(project.storage) as store:
            while not ended.wait(0.01):
                for asked in store.waiting_orders():
                    came.append((asked.job, asked.order))
                    store.record_reply(asked.id, answer)

    me = psutil.Process()
    with Store.of(project.storage) as store:
        store.record_start(
            SupervisorRecord(
                pid=me.pid,
                process_started_s=me.create_time(),
                environment=None,
                started_s=time.time() - 60,
                ended_s=None,
            )
        )
    thread = Thread(target=loop)
    thread.start()
    try:
        yield came
    finally:
        ended.set()
        thread.join()


class Html(HTMLParser):
    """Raises AssertionError for what no page of ours may have."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.texts: list[str] = []
        self.fields: dict[str, str] = {}
        self.actions: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert [] == self._open
        assert len(set(self.ids)) == len(self.ids)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self._open.append(tag)
        given = {name: value or "" for name, value in attrs}
        assert not [name for name in given if name == "style" or name.startswith("on")], given
        for name in ("href", "src", "action", "hx-get", "hx-post"):
            address = given.get(name, "/")
            assert address[:1] in "/#", f"{tag} leads to another host: {address}"
            assert not address.startswith("//"), address
        assert tag not in ("script", "style") or "src" in given
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "input":
            self.fields[given["name"]] = given.get("value", "")
        if tag == "form":
            self.actions.append(given["action"])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> of nothing"
        assert tag == self._open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        """All that is read, with single blanks."""
        return " ".join(" ".join(self.texts).split())
