"""Settings of Spark's S3A connector mean the same for kfetch."""

from __future__ import annotations

from typing import Any

import pytest

from kfetch.errors import OptionError
from kfetch.storage.s3 import s3_config

KEYS = {"access.key": "a", "secret.key": "b"}
AUTH = "org.apache.hadoop.fs.s3a."
SDK = "software.amazon.awssdk.auth.credentials."


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        ({}, {"virtual_hosted_style_request": True}),
        (KEYS, {"access_key_id": "a", "secret_access_key": "b"}),
        ({**KEYS, "session.token": "t"}, {"session_token": "t"}),
        ({"endpoint.region": "eu-west-1"}, {"region": "eu-west-1"}),
        ({"endpoint": "minio:9000"}, {"endpoint": "https://minio:9000", "region": "us-east-1"}),
        (
            {"endpoint": "minio:9000", "connection.ssl.enabled": "false"},
            {"endpoint": "http://minio:9000", "client_options": {"allow_http": True}},
        ),
        ({"endpoint": "http://minio", "path.style.access": "TRUE"}, {"endpoint": "http://minio"}),
        ({"path.style.access": "true"}, {"virtual_hosted_style_request": False}),
        ({"access.key": "x", "bucket.lake.access.key": "own"}, {"access_key_id": "own"}),
        ({"access.key": "x", "bucket.other.access.key": "own"}, {"access_key_id": "x"}),
        (
            {"aws.credentials.provider": f"{AUTH}AnonymousAWSCredentialsProvider"},
            {"skip_signature": True},
        ),
        (
            {**KEYS, "aws.credentials.provider": f"{AUTH}SimpleAWSCredentialsProvider"},
            {"access_key_id": "a"},
        ),
    ],
)
def test_settings_of_a_bucket(settings: dict[str, str], config: dict[str, Any]) -> None:
    """Each setting has its counterpart, and the bucket's own settings win."""
    full = {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}

    actual = s3_config("lake", full)

    assert config == {name: actual.get(name) for name in config}


def test_keys_are_left_out_for_a_provider_of_the_environment() -> None:
    """S3A does not look at the keys then, and neither does kfetch."""
    provider = {"aws.credentials.provider": f"{SDK}EnvironmentVariableCredentialsProvider"}
    full = {f"spark.hadoop.fs.s3a.{name}": value for name, value in {**KEYS, **provider}.items()}

    assert not {"access_key_id", "skip_signature"} & s3_config("lake", full).keys()


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("aws.credentials.provider", "com.acme.Vault", "can't use the class Vault of spark.hadoop"),
        ("security.credential.provider.path", "jceks://x", "follow spark.hadoop.fs.s3a.security"),
        ("bucket.lake.security.credential.provider.path", "x", "follow spark.hadoop.fs.s3a.secur"),
    ],
)
def test_settings_that_cannot_be_followed(name: str, value: str, sentence: str) -> None:
    """kfetch would see other objects than Spark, so the error names the setting."""
    with pytest.raises(OptionError, match=sentence):
        s3_config("lake", {f"spark.hadoop.fs.s3a.{name}": value})
