"""Settings of Google's connector mean the same for kfetch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kfetch.errors import OptionError
from kfetch.storage.gcs import gcs_config
from kfetch.storage.open import stored_path

FILE = {"auth.service.account.json.keyfile": "/etc/key.json"}
TYPE = {"auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"}


def config(settings: dict[str, str], prefix: str = "fs.gs.") -> dict[str, Any]:
    return gcs_config("lake", {f"spark.hadoop.{prefix}{name}": settings[name] for name in settings})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        ({"auth.type": "COMPUTE_ENGINE"}, {}),
        ({"auth.type": "APPLICATION_DEFAULT"}, {}),
        ({"auth.type": "UNAUTHENTICATED", **FILE}, {"skip_signature": True}),
        ({**TYPE, **FILE}, {"service_account": "/etc/key.json"}),
        (FILE, {"service_account": "/etc/key.json"}),
        ({"storage.root.url": "https://gcs.example/"}, {"base_url": "https://gcs.example"}),
        (
            {"storage.root.url": "http://127.0.0.1:1"},
            {"base_url": "http://127.0.0.1:1", "client_options": {"allow_http": True}},
        ),
        (
            {"proxy.address": "proxy.corp:3128"},
            {"client_options": {"proxy_url": "http://proxy.corp:3128"}},
        ),
        ({"project.id": "p", "encryption.key": ""}, {}),
    ],
)
@pytest.mark.parametrize("prefix", ["fs.gs.", "google.cloud."])
def test_settings(settings: dict[str, str], expected: dict[str, Any], prefix: str) -> None:
    """Each setting has its counterpart, by its name of today and by that of earlier versions."""
    assert {"bucket": "lake", **expected} == config(settings, prefix)


def test_the_name_of_today_wins() -> None:
    """The connectors look for it first."""
    settings = {
        "spark.hadoop.fs.gs.auth.service.account.json.keyfile": "/new",
        "spark.hadoop.google.cloud.auth.service.account.json.keyfile": "/old",
    }
    assert "/new" == gcs_config("lake", settings)["service_account"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (TYPE, r"fs\.gs\.auth\.service\.account\.json\.keyfile is missing"),
        (
            {"auth.type": "USER_CREDENTIALS"},
            "type USER_CREDENTIALS of spark.hadoop.fs.gs.auth.type",
        ),
        ({"auth.service.account.private.key": "pa55"}, "follow .*account.private.key"),
        ({"auth.service.account.keyfile": "/pa55.p12"}, "follow .*service.account.keyfile"),
        ({"auth.impersonation.service.account.for.user.x": "pa55"}, "follow .*impersonation"),
        ({"auth.access.token.provider.impl": "com.pa55"}, "follow .*auth.access.token.provider"),
        ({"encryption.key": "pa55"}, "follow .*encryption.key"),
        ({"proxy.username": "pa55"}, "follow .*proxy.username"),
        ({"proxy.address": "pa55@host"}, r"fs\.gs\.proxy\.address is no address of a proxy"),
        ({"storage.root.url": "ftp://pa55"}, r"storage\.root\.url is no address of a store"),
    ],
)
def test_settings_that_cannot_be_followed(settings: dict[str, str], sentence: str) -> None:
    """kfetch would see other objects than Spark, or none. The error names the setting, no value."""
    with pytest.raises(OptionError, match=sentence) as told:
        config(settings)
    assert "pa55" not in str(told.value)


@pytest.mark.parametrize("bucket", ["La ke", "a:b@lake", ""])
def test_what_is_no_bucket(bucket: str) -> None:
    """The error says so before anybody asks a store."""
    with pytest.raises(OptionError, match="name of a bucket"):
        gcs_config(bucket, {})


def test_a_file_without_a_key(tmp_path: Path) -> None:
    """The error says what to correct, and shows nothing of the file."""
    (tmp_path / "key.json").write_text("pa55word")
    name = "spark.hadoop.fs.gs.auth.service.account.json.keyfile"
    with pytest.raises(OptionError, match="no complete keys for gs://lake/ck: correct the") as told:
        stored_path("gs://lake/ck", {name: str(tmp_path / "key.json")})
    assert "pa55word" not in str(told.value)
