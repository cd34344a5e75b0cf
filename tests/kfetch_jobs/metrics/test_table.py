"""Alerts and dashboard use the metrics of the table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import promql_parser
import pytest
import yaml

from kfetch_jobs.metrics.table import METRICS
from tests.kfetch_jobs.metrics.scrape import series_of

ROOT = Path(__file__).parents[3]
_RULES = yaml.safe_load((ROOT / "conf" / "prometheus" / "alerts.yml").read_text())["groups"]
_ALERTS = [rule for group in _RULES for rule in group["rules"]]
_BOARD = json.loads((ROOT / "conf" / "grafana" / "kfetch.json").read_text())
_PANELS = [
    (panel["title"], target["expr"], target["legendFormat"])
    for panel in _BOARD["panels"]
    for target in panel["targets"]
]
_SERIES = {name: entry for entry in METRICS.values() for name in series_of(entry)}
_TARGET_LABELS = {"instance", "job", "le"}


def _check(expression: str, told: set[str]) -> None:
    """It parses; its metrics exist; the labels that it names, and those told, are theirs."""
    whole = expression.replace("$__rate_interval", "1m")
    promql_parser.parse(whole)
    used = set(re.findall(r"\b(?:kfetch_\w+|up\b)", whole))
    assert used
    used.discard("up")  # Prometheus' own
    assert used <= set(_SERIES)
    known = {label for name in used for label in _SERIES[name].labels} | _TARGET_LABELS
    matched = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", whole))
    grouped = re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", whole)
    assert told | matched | {label.strip() for group in grouped for label in group.split(",")} <= (
        known
    )


@pytest.mark.parametrize("rule", _ALERTS, ids=[rule["alert"] for rule in _ALERTS])
def test_alerts_use_what_there_is(rule: dict[str, str]) -> None:
    """Every alert's expression is PromQL over metrics and labels of the table."""
    _check(rule["expr"], set(re.findall(r"\$labels\.(\w+)", json.dumps(rule))))


def test_the_dashboard_uses_what_there_is() -> None:
    """Every panel's and variable's expression is PromQL over metrics and labels of the table."""
    assert len(_PANELS) > 20
    for _, expression, legend in _PANELS:
        _check(expression, set(re.findall(r"{{(\w+)}}", legend)))
    asked = [one["definition"] for one in _BOARD["templating"]["list"] if "definition" in one]
    for series, label in (re.findall(r"\((.*), (\w+)\)", text)[0] for text in asked):
        _check(series, {label})


def test_every_metric_of_the_jobs_is_seen() -> None:
    """The dashboard or an alert uses every metric of a job."""
    shown = json.dumps([*_PANELS, *(rule["expr"] for rule in _ALERTS)])
    unseen = [name for name, entry in METRICS.items() if entry.kind == "counter"]

    assert ["kfetch_job_fetch_records_total", "kfetch_job_fetch_connections_opened_total"] == [
        name for name in unseen if name not in shown
    ]
