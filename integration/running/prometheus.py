"""A real Prometheus that scrapes a supervisor, with the rules of conf/."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration.streams import PATIENCE_S
from kfetch_jobs.kafka.ready import free_ports

__all__ = ["RULES", "Prometheus", "program", "scraping"]

CONF = Path(__file__).parents[2] / "conf"
RULES = CONF / "prometheus" / "alerts.yml"
_MAY_BE_EMPTY = {
    "Runs started and ended",
    "Records lost, batches left out",
    "Keys and values that do not fit",
    "Fields that schemas lack",
}
"""Curves of runs that ended meanwhile, of losses, which a job with ``kfetch.statsDirectory`` tells,
and of values that do not fit: this job has none."""
BOARD = json.loads((CONF / "grafana" / "kfetch.json").read_text())


def program(name: str) -> str:
    """Where a program of Debian's package is."""
    found = shutil.which(name)
    assert found, f"{name} is missing: make prometheus installs it"
    return found


class Prometheus:
    """One that runs."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, path: str, **words: str) -> Any:
        """What its API answers."""
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            told = json.loads(answer.read())
        assert "success" == told["status"], told
        return told["data"]

    def query(self, expression: str) -> list[Any]:
        """The series of an expression, now."""
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found

    def target(self) -> Any:
        """The supervisor, as it was last scraped."""
        (found,) = self.ask("targets")["activeTargets"] or [{"health": "unknown"}]
        return found

    def rules(self) -> list[Any]:
        """All rules of conf/."""
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def until(self, condition: Any) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if condition():
                    return
            except OSError:
                pass  # it is not up yet
            assert time.monotonic() < deadline, (self.target(), self.rules())
            time.sleep(0.2)

    def check(self) -> None:
        """It takes what the supervisor serves, evaluates every rule, and draws every curve of the
        panels but of those that may be empty."""
        scraped = "kfetch_metrics_collected_time_seconds"
        self.until(lambda: self.target()["health"] == "up" and self.query(f"rate({scraped}[1m])"))
        self.until(lambda: {rule["health"] for rule in self.rules()} == {"ok"})
        empty = {title for title, expression in _expressions() if not self.query(expression)}
        assert empty <= _MAY_BE_EMPTY, empty
        for variable in BOARD["templating"]["list"][1:]:
            assert self.ask(f"label/{variable['name'].replace('job', 'job_name')}/values")


def _expressions() -> Iterator[tuple[str, str]]:
    """Those of the dashboard's panels, with the panel's title, for everything."""
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            found = target["expr"].replace("$__rate_interval", "1m")
            yield panel["title"], found.replace("$instance", ".*").replace("$job", ".*")


@contextmanager
def scraping(directory: Path, target: str) -> Iterator[Prometheus]:
    """A Prometheus of its own, as docs/how-to/monitor.md tells to configure it, but quicker."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    directory.mkdir()
    (directory / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
                "rule_files": [str(RULES)],
                "scrape_configs": [
                    {"job_name": "kfetch", "static_configs": [{"targets": [target]}]}
                ],
            }
        )
    )
    command = [program("prometheus"), f"--config.file={directory}/prometheus.yml"]
    command += [f"--storage.tsdb.path={directory}/data", f"--web.listen-address={address}"]
    with (directory / "log").open("wb") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Prometheus(address)
    finally:
        child.kill()
        child.wait()
