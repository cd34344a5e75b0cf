"""The project whose pages the tests open."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kfetch.admin import agents
from kfetch_jobs.config import Project
from kfetch_jobs.progress import progress_file as progress
from kfetch_jobs.progress.partition_lags import summarize
from kfetch_jobs.progress.reports import Pulse, write_partition_lags, write_pulse
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.util.process import start_of
from kfetch_jobs.web import html
from tests.kfetch.admin.cli.test_text import QUERY, STATUS
from tests.kfetch_jobs.pages import loaded
from tests.kfetch_jobs.progress.test_partition_lags import lag
from tests.kfetch_jobs.web.clicks import batch, running

for _name in html._TEMPLATES.list_templates():
    html._TEMPLATES.get_template(_name)  # is compiled once, and not in each fork of the tests


@pytest.fixture
def shop(project: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the job clicks, which has read two micro-batches; one agent reads for it."""
    status = replace(STATUS, queries=(replace(QUERY, stream="8a04"),))
    monkeypatch.setattr(agents, "find", lambda *_: [status])
    found, now = loaded(project), time.time()
    directory = found.storage / "clicks"
    directory.mkdir(parents=True)
    for number in (1, 2):
        progress.append_entry(directory, batch(number, now - 20 + 5 * number))
    with Store.of(found.storage) as store:
        run = store.begin({"clicks": running(now)}, now - 90)["clicks"]
        store.started(run, os.getpid(), now - 90, start_of(os.getpid()))
    write_pulse(directory, Pulse(at=now, batch=2, lag=1234, lag_s=5.0, query="8a04"))
    write_partition_lags(directory, summarize([lag(clicks=[0, 1234])], now))
    return found
