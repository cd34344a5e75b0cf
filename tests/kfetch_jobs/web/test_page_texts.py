"""The page: nothing that others wrote gets through as HTML, and logs show no secrets."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from kfetch_jobs.config import Project
from kfetch_jobs.progress import progress_file as progress
from kfetch_jobs.progress.partition_lags import summarize
from kfetch_jobs.progress.reports import write_partition_lags
from kfetch_jobs.supervise.job_state import Phase
from tests.kfetch_jobs.pages import Html, browser
from tests.kfetch_jobs.progress.test_partition_lags import lag
from tests.kfetch_jobs.projects import ENVIRON, JOB
from tests.kfetch_jobs.web.clicks import batch, stands

EVIL = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> &amp; \x00 \udcff ${x} {{191*977}}"
)


def test_what_others_wrote_is_text(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows errors, descriptions, topics, phases and logs as text, never as HTML."""
    jobs = shop.path.parent / "jobs"
    (jobs / "clicks.yml").write_text(f"description: {json.dumps(EVIL[:-20])}\n{JOB}")
    (jobs / "<b>x.yml").write_text(JOB)
    (jobs / "broken.yml").write_text(f"{json.dumps(EVIL)}: 1\n")
    stands(shop, phase=Phase.FAILED, sentence=EVIL.replace("\udcff", ""))
    directory = shop.storage / "clicks"
    progress.append_entry(directory, replace(batch(3, time.time()), phases={EVIL[:40]: 0.5}))
    (directory / "run.log").write_text(EVIL, errors="surrogateescape")
    odd = replace(lag(x=[3]), partitions={})
    write_partition_lags(directory, summarize([odd, lag(**{EVIL[:30]: [3]})], 1.0))
    with browser(shop) as client:
        for path in ("/", "/jobs/clicks", "/jobs/clicks/log"):
            answer = client.get(path)
            assert 200 == answer.status_code, path
            told = Html(answer.text)
            assert "<script>alert" not in answer.text
            assert "<img" not in answer.text
            assert "186607" not in told.text
        assert "<script>alert(1)</script>" in told.text
        assert "<b>x" not in client.get("/").text  # the name of no job


def test_a_log_tells_no_secret(shop: Project) -> None:
    """In place of a secret from the environment, the log page shows the placeholder of the job's
    file."""
    (shop.storage / "clicks" / "run.log").write_text("options: fs.s3a.secret.key=hunter42, then\n")
    file = shop.path.parent / "jobs" / "clicks.yml"
    file.write_text(f"{JOB}spark:\n  spark.hadoop.fs.s3a.secret.key: ${{env:S3_SECRET}}\n")
    known = replace(shop, environ={**ENVIRON, "S3_SECRET": "hunter42"})
    with browser(known) as client:
        shown = client.get("/jobs/clicks/log").text
        assert "fs.s3a.secret.key=${env:S3_SECRET}, then" in Html(shown).text
        assert "hunter42" not in shown
        file.write_text("no: job")
        assert "kfetch does not know which texts are secret" in client.get("/jobs/clicks/log").text


def test_a_log_tells_no_secret_of_several_lines(shop: Project) -> None:
    """This holds for a whole secret, and if the displayed part of the log starts inside one."""
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqh\nkiG9w0BAQEFAASCB\nQ==\n-----END KEY-----"
    (shop.path.parent / "key.pem").write_text(f"{key}\n")
    file = shop.path.parent / "jobs" / "clicks.yml"
    file.write_text(f"{JOB}spark:\n  spark.x: ${{file:../key.pem}}\n")
    log = shop.storage / "clicks" / "run.log"
    with browser(shop) as client:
        log.write_text(f"options: {key}, then\n")
        assert "options: ${file:../key.pem}, then" in Html(client.get("/jobs/clicks/log").text).text
        for begun_at in (25, 45):
            rest = f"{key[begun_at:]}\n"
            log.write_text(key[:begun_at] + rest + "x" * ((1 << 20) - len(rest) - 6) + "\nlast\n")
            shown = client.get("/jobs/clicks/log").text
            assert "last" in Html(shown).text
            assert not [part for part in ("DANB", "gkqh", "w0BA", "ASCB") if part in shown]
