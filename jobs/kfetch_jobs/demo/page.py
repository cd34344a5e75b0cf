"""The end of the demo on request: the job runs under a supervisor, with its page in the browser."""

from __future__ import annotations

import time
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from kfetch_jobs.demo.worker import Worker
from kfetch_jobs.kafka.ready import free_ports, is_free

EVENTS_PER_S = 200
"""A slow stream, so that the page's curves move."""
EVENTS_MAX = EVENTS_PER_S * 3600 * 24
_LOOK_S = 0.5


def open_until_interrupted(
    project: Path, environ: Mapping[str, str], storage: Path, announce: Callable[[str], None]
) -> None:
    """Run ``kfetch up`` and open its page. Returns after Ctrl-C, when the job has ended.

    Raises DemoError if the supervisor ends by itself.
    """
    # A token of the user's shell would ask for a log-in. This page is for this machine alone.
    variables = {**environ, "KFETCH_TOKEN": "", "KFETCH_METRICS_TOKEN": ""}
    port = free_ports(1)[0]
    page = f"http://127.0.0.1:{port}/"
    words = ("up", "--quiet", "--listen", f"127.0.0.1:{port}")
    supervisor = Worker(words, project, variables, storage / "up.log")
    try:
        with suppress(KeyboardInterrupt):
            while is_free(port):
                supervisor.check()
                time.sleep(_LOOK_S)
            announce(f"page: {page}")
            if not webbrowser.open(page):
                announce("kfetch found no browser: open the page yourself")
            announce("press Ctrl-C to stop the job and Kafka")
            while True:
                supervisor.check()
                time.sleep(_LOOK_S)
    finally:
        supervisor.stop()
