"""The alert rules of conf/ in Prometheus' own tool: each fires when it should, else is silent."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.running.prometheus import RULES, program

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]

JOB = {"job_name": "clicks", "instance": "a:4747"}
HOSTS = [{"job": "kfetch", "instance": f"{host}:4747"} for host in "ab"]
EVENTS = "kfetch_job_fetch_session_events_total"
# An alert; series (metric, labels, values a minute apart) that make it fire, and such that almost
# do; the labels that it then has; its value as texts show it.
TABLE: list[tuple[str, list[Any], list[Any], dict[str, str], str]] = [
    (
        "KfetchSupervisorSilent",
        [("kfetch_supervisor_last_step_time_seconds", {"instance": "a:4747"}, "0x40")],
        [("kfetch_supervisor_last_step_time_seconds", {"instance": "a:4747"}, "0+60x40")],
        {"instance": "a:4747"},
        "30m 0s",
    ),
    (
        "KfetchSupervisorGone",
        [("kfetch_supervisor_info", {}, "1x20 _x20")],
        [("kfetch_supervisor_info", {}, "1x25 _x15")],
        {},
        "",
    ),
    (
        "KfetchSupervisorUnreachable",
        [("up", HOSTS[0], "1x40"), ("up", HOSTS[1], "0x40")],
        [("up", HOSTS[0], "1x40"), ("up", {"job": "node", "instance": "a:9100"}, "0x40")],
        HOSTS[1],
        "",
    ),
    (
        "KfetchNobodyLeads",
        [("kfetch_supervisor_leads", host, "0x40") for host in HOSTS],
        [
            ("kfetch_supervisor_leads", HOSTS[0], "1x29 0x11"),
            ("kfetch_supervisor_leads", HOSTS[1], "0x29 0x11"),
        ],
        {"job": "kfetch"},
        "",
    ),
    (
        "KfetchJobGivenUp",
        [("kfetch_job_state", JOB | {"state": "failed"}, "1x40")],
        [
            ("kfetch_job_state", JOB | {"state": "failed"}, "0x40"),
            ("kfetch_job_state", JOB | {"state": "backoff"}, "1x40"),
        ],
        JOB | {"state": "failed"},
        "",
    ),
    (
        "KfetchJobFailing",
        [("kfetch_job_consecutive_failures", JOB, "3x40")],
        [("kfetch_job_consecutive_failures", JOB, "2x40")],
        JOB,
        "3",
    ),
    (
        "KfetchJobUnhealthy",
        [("kfetch_job_healthy", JOB, "0x40"), ("kfetch_job_enabled", JOB, "1x40")],
        [("kfetch_job_healthy", JOB, "0x40"), ("kfetch_job_enabled", JOB, "0x40")],
        JOB,
        "",
    ),
    (
        "KfetchJobFileInvalid",
        [("kfetch_job_file_valid", JOB, "0x40")],
        [("kfetch_job_file_valid", JOB, "1x40")],
        JOB,
        "",
    ),
    (
        "KfetchJobFallsBehind",
        [
            ("kfetch_job_lag_seconds", JOB, "400x40"),
            ("kfetch_job_lag_offsets", JOB, "1000+10x40"),
        ],
        [
            ("kfetch_job_lag_seconds", JOB, "400x40"),
            ("kfetch_job_lag_offsets", JOB, "1000-10x40"),
        ],
        JOB,
        "6m 40s",
    ),
    (
        "KfetchJobSilent",
        [
            ("kfetch_job_last_activity_time_seconds", JOB, "0x40"),
            ("kfetch_job_state", JOB | {"state": "running"}, "1x40"),
        ],
        [
            ("kfetch_job_last_activity_time_seconds", JOB, "0x40"),
            ("kfetch_job_state", JOB | {"state": "running"}, "0x40"),
        ],
        JOB,
        "",
    ),
    (
        "KfetchBrokerUnreachable",
        [("kfetch_job_unreachable_brokers", JOB, "2x40")],
        [("kfetch_job_unreachable_brokers", JOB, "0x29 1x0 0x11")],
        JOB,
        "2",
    ),
    (
        "KfetchCheckpointDiskFull",
        [
            ("kfetch_job_checkpoint_free_bytes", JOB, "4000x40"),
            ("kfetch_job_checkpoint_size_bytes", JOB, "100000x40"),
        ],
        [
            ("kfetch_job_checkpoint_free_bytes", JOB, "11000000000x40"),
            ("kfetch_job_checkpoint_size_bytes", JOB, "900000000000x40"),
        ],
        JOB,
        "4%",
    ),
    (
        "KfetchRecordsLost",
        [("kfetch_job_losses_total", JOB | {"kind": "expired"}, "0x20 1x20")],
        [("kfetch_job_losses_total", JOB | {"kind": "expired"}, "7x40")],
        JOB | {"kind": "expired"},
        "",
    ),
    (
        "KfetchDeadLetters",
        [("kfetch_job_dead_letters_total", JOB, "0x20 1x20")],
        [("kfetch_job_dead_letters_total", JOB, "7x40")],
        JOB,
        "",
    ),
    (
        "KfetchUndecodedRecords",
        [("kfetch_job_fetch_undecoded_records_total", JOB | {"reader": "executor"}, "0x20 1x20")],
        [("kfetch_job_fetch_undecoded_records_total", JOB | {"reader": "executor"}, "7x40")],
        JOB,
        "",
    ),
    (
        "KfetchSessionsRefused",
        [(EVENTS, JOB | {"event": "refused", "reader": "executor"}, "0+1x40")],
        [
            (EVENTS, JOB | {"event": "refused", "reader": "executor"}, "0x20 1x20"),
            (EVENTS, JOB | {"event": "opened", "reader": "executor"}, "0+1x40"),
        ],
        JOB,
        "",
    ),
    (
        "KfetchSessionsEvicted",
        [(EVENTS, JOB | {"event": "lost", "reader": "executor"}, "0+1x40")],
        [(EVENTS, JOB | {"event": "lost", "reader": "executor"}, "0x20 9x20")],
        JOB,
        "",
    ),
    (
        "KfetchAgentMemoryShort",
        [("kfetch_job_fetch_memory_wait_seconds_total", JOB, "0+36x40")],
        [("kfetch_job_fetch_memory_wait_seconds_total", JOB, "0+24x40")],
        JOB,
        "",
    ),
    (
        "KfetchMetricsIncomplete",
        [("kfetch_metrics_collection_errors_total", {"part": "runs", "instance": "a"}, "0+1x40")],
        [("kfetch_metrics_collection_errors_total", {"part": "runs", "instance": "a"}, "5x40")],
        {"part": "runs", "instance": "a"},
        "",
    ),
]
AFTER = "30m"
_ALL = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
_BY_NAME = {rule["alert"]: rule for rule in _ALL}


def test_the_rules_are_prometheus_rules() -> None:
    """Prometheus' own check takes the file."""
    done = subprocess.run(
        [program("promtool"), "check", "rules", "--lint-fatal", str(RULES)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (0, True) == (done.returncode, f"{len(_ALL)} rules found" in done.stdout), done


def test_each_alert_fires_and_is_silent(tmp_path: Path) -> None:
    """With its words, over the series that it is for; and not over some that are nearly those."""
    assert set(_BY_NAME) == {alert for alert, *_ in TABLE}
    tests = [
        test
        for alert, fires, silent, labels, value in TABLE
        for test in (_test(alert, fires, [_told(alert, labels, value)]), _test(alert, silent, []))
    ]
    path = tmp_path / "tests.yml"
    path.write_text(
        json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests})
    )
    done = subprocess.run(
        [program("promtool"), "test", "rules", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert 0 == done.returncode, done.stdout + done.stderr


def _test(alert: str, series: list[Any], expected: list[Any]) -> dict[str, Any]:
    told = [
        {"series": f"{metric}{_labels(labels)}", "values": values}
        for metric, labels, values in series
    ]
    # absent_over_time would fire beside most others, and what another alert does is in its own row.
    asked = {"eval_time": AFTER, "alertname": alert, "exp_alerts": expected}
    return {"interval": "1m", "input_series": told, "alert_rule_test": [asked]}


def _labels(labels: dict[str, str]) -> str:
    """As PromQL writes them."""
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def _told(alert: str, labels: dict[str, str], value: str) -> dict[str, Any]:
    """The alert as people get it: no text keeps a brace."""

    def filled(text: str) -> str:
        text = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: labels[found[1]], text)
        return re.sub(r"{{ \$value[^}]*}}", value, text)

    rule = _BY_NAME[alert]
    texts = {name: filled(text) for name, text in rule["annotations"].items()}
    return {"exp_labels": labels | rule["labels"], "exp_annotations": texts}
