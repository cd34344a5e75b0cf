"""Settings of Spark's S3A connector mean the same for kfetch."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from kfetch.errors import OptionError
from kfetch.storage.open import stored_path
from kfetch.storage.s3 import s3_config

KEYS = {"access.key": "a", "secret.key": "b"}
AUTH = "org.apache.hadoop.fs.s3a."
NO_ENCRYPTION, NO_KMS_KEY = {"server_side_encryption": None}, {"sse_kms_key_id": None}
SDK = "software.amazon.awssdk.auth.credentials."
KEYSTORE = {"spark.hadoop.hadoop.security.credential.provider.path": "jceks://x"}


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        ({}, {"virtual_hosted_style_request": True}),
        (KEYS, {"access_key_id": "a", "secret_access_key": "b"}),
        ({**KEYS, "session.token": "t"}, {"session_token": "t"}),
        ({"endpoint.region": "eu-west-1"}, {"region": "eu-west-1"}),
        (
            {"endpoint": "minio:9000"},
            {"endpoint": "https://lake.minio:9000", "region": "us-east-1"},
        ),
        (
            {"endpoint": "minio:9000", "connection.ssl.enabled": "false"},
            {"endpoint": "http://lake.minio:9000", "client_options": {"allow_http": True}},
        ),
        (
            {"endpoint": "http://10.0.0.7:9000/"},
            {"endpoint": "http://10.0.0.7:9000", "virtual_hosted_style_request": False},
        ),
        ({"endpoint": "https://[::1]:9000"}, {"endpoint": "https://[::1]:9000"}),
        (
            {"endpoint": "s3.eu-west-1.amazonaws.com"},
            {"endpoint": "https://lake.s3.eu-west-1.amazonaws.com", "region": "eu-west-1"},
        ),
        ({"endpoint": "https://s3-fips.us-gov-west-1.amazonaws.com"}, {"region": "us-gov-west-1"}),
        ({"endpoint": "s3.dualstack.cn-north-1.amazonaws.com.cn"}, {"region": "cn-north-1"}),
        ({"endpoint": "b.vpce-1a.s3.eu-west-1.vpce.amazonaws.com"}, {"region": "eu-west-1"}),
        ({"endpoint": "s3.amazonaws.com"}, {"region": "us-east-1"}),
        ({"endpoint": "s3.eu-west-1.amazonaws.com", "endpoint.region": "x"}, {"region": "x"}),
        ({"endpoint": "http://minio", "path.style.access": "TRUE"}, {"endpoint": "http://minio"}),
        ({"path.style.access": "true"}, {"virtual_hosted_style_request": False}),
        ({**KEYS, "bucket.lake.access.key": "own"}, {"access_key_id": "own"}),
        ({**KEYS, "bucket.other.access.key": "own"}, {"access_key_id": "a"}),
        ({"encryption.algorithm": "AES256"}, {"server_side_encryption": "AES256", **NO_KMS_KEY}),
        ({"encryption.algorithm": "SSE-KMS"}, {"server_side_encryption": "aws:kms", **NO_KMS_KEY}),
        (
            {"encryption.algorithm": "DSSE-KMS", "encryption.key": "arn"},
            {"server_side_encryption": "aws:kms:dsse", "sse_kms_key_id": "arn"},
        ),
        (
            {"encryption.algorithm": "AES256", "bucket.lake.encryption.algorithm": "SSE-KMS"},
            {"server_side_encryption": "aws:kms"},
        ),
        ({"encryption.algorithm": " ", "encryption.key": "arn"}, {**NO_ENCRYPTION, **NO_KMS_KEY}),
        (
            {"aws.credentials.provider": f"{AUTH}AnonymousAWSCredentialsProvider"},
            {"skip_signature": True},
        ),
        (
            {**KEYS, "aws.credentials.provider": f"{AUTH}SimpleAWSCredentialsProvider"},
            {"access_key_id": "a"},
        ),
        (
            {"proxy.host": "proxy.corp", "proxy.port": "3128", "endpoint": "http://minio"},
            {"client_options": {"allow_http": True, "proxy_url": "http://proxy.corp:3128"}},
        ),
        ({"proxy.host": "p"}, {"client_options": {"proxy_url": "http://p:443"}}),
        (
            {"proxy.host": "p", "connection.ssl.enabled": "false"},
            {"client_options": {"proxy_url": "http://p:80"}},
        ),
        ({"requester.pays.enabled": "true"}, {"request_payer": True}),
        ({"requester.pays.enabled": "false"}, {"request_payer": None}),
        ({"endpoint.fips": "false"}, {"client_options": None}),
    ],
)
def test_settings_of_a_bucket(settings: dict[str, str], config: dict[str, Any]) -> None:
    """Each setting has its counterpart, and the bucket's own settings win."""
    full = {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}

    actual = s3_config("lake", full)

    assert config == {name: actual.get(name) for name in config}


@pytest.mark.parametrize(
    ("bucket", "endpoint", "expected"),
    [
        ("my.lake", "https://minio", "https://minio"),
        ("my.lake", "http://minio", "http://my.lake.minio"),
        ("My_Lake", "http://minio", "http://minio"),
        ("a..b", "http://minio", "http://minio"),
    ],
)
def test_buckets_that_cannot_be_in_a_hosts_name(bucket: str, endpoint: str, expected: str) -> None:
    """They are in the path, as for AWS's own client. No certificate fits a bucket with a dot."""
    config = s3_config(bucket, {"spark.hadoop.fs.s3a.endpoint": endpoint})

    assert (expected, expected != endpoint) == (
        config["endpoint"],
        config["virtual_hosted_style_request"],
    )


def test_a_bucket_with_a_dot_at_aws() -> None:
    """It is in the path there, too."""
    assert not s3_config("my.lake", {})["virtual_hosted_style_request"]


@pytest.mark.parametrize("bucket", ["AKID:pa55word@lake", "la ke", "lake?x", "-", ""])
def test_what_is_no_bucket(bucket: str) -> None:
    """The error does not repeat it: an old form of the URI has the keys there."""
    with pytest.raises(OptionError, match="name of a bucket") as told:
        s3_config(bucket, {})
    assert "pa55word" not in str(told.value)


@pytest.mark.parametrize(
    "endpoint",
    [
        *("http://", "http://[bad", "::", "http://a b", "ftp://x", "http://h:99999", "http://h:0"),
        *("http://h/?a", "http://user:pa55word@h", "h\n1"),
    ],
)
def test_what_is_no_endpoint(endpoint: str) -> None:
    """obstore would panic at the first request. The error names the setting, and no value."""
    with pytest.raises(OptionError, match=r"fs\.s3a\.endpoint is no address") as told:
        s3_config("lake", {"spark.hadoop.fs.s3a.endpoint": endpoint})
    assert "pa55word" not in str(told.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"access.key": "a"}, "secret.key is missing"),
        ({"secret.key": "pa55word"}, "access.key is missing"),
        ({"session.token": "pa55word"}, "access.key is missing"),
        ({"access.key": "a", "secret.key": "pa55\nword"}, "secret.key has a character"),
        ({"access.key": "a", "secret.key": "pa55word\udc80"}, "secret.key has a character"),
        ({"access.key": "a b", "secret.key": "pa55word"}, "access.key has a character"),
    ],
)
def test_keys_that_cannot_be_used(settings: dict[str, str], sentence: str) -> None:
    """Half a pair, and characters that no header of a request may have."""
    full = {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}

    with pytest.raises(OptionError, match=sentence) as told:
        s3_config("lake", full)
    assert "pa55" not in str(told.value)


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
        ("encryption.algorithm", "SSE-C", r"can't use the algorithm SSE-C of spark\..*\.algorithm"),
        ("encryption.algorithm", "CSE-KMS", r"can't use the algorithm CSE-KMS of spark\."),
        ("bucket.lake.encryption.algorithm", "SSE-C", "can't use the algorithm SSE-C"),
        ("encryption.context", "team=shop", r"follow spark\.hadoop\.fs\.s3a\.encryption\.context"),
        ("server-side-encryption-algorithm", "SSE-KMS", r"server-side.*: set fs\.s3a\.enc"),
        ("bucket.lake.accesspoint.arn", "arn:aws:s3:eu-west-1:1:accesspoint/x", "the bucket in"),
        ("endpoint.fips", "true", r"follow spark\.hadoop\.fs\.s3a\.endpoint\.fips"),
        ("proxy.username", "jo", r"follow spark\.hadoop\.fs\.s3a\.proxy\.username"),
        ("proxy.host", "http://jo:pa55word@proxy", r"fs\.s3a\.proxy\.host is no address"),
    ],
)
def test_settings_that_cannot_be_followed(name: str, value: str, sentence: str) -> None:
    """kfetch would see other objects than Spark, so the error names the setting."""
    with pytest.raises(OptionError, match=sentence):
        s3_config("lake", {f"spark.hadoop.fs.s3a.{name}": value})


def test_a_setting_that_is_off() -> None:
    """It has no effect, so kfetch need not follow it. Hadoop reads "False" too."""
    assert s3_config("lake", {"spark.hadoop.fs.s3a.endpoint.fips": "False"})


def test_a_keystore_of_hadoop() -> None:
    """Hadoop looks there before it takes the keys among the settings, and kfetch can't."""
    with pytest.raises(OptionError, match=r"follow spark\.hadoop\.hadoop\.security\.credential"):
        s3_config("lake", KEYSTORE)


@pytest.mark.parametrize("name", ["InstanceProfile", "Anonymous"])
def test_a_keystore_that_has_no_keys_of_s3(name: str) -> None:
    """These providers look for no keys there, so the keystore may be of another program."""
    provider = f"{SDK}{name}CredentialsProvider"
    assert s3_config("lake", KEYSTORE | {"spark.hadoop.fs.s3a.aws.credentials.provider": provider})


@pytest.mark.parametrize(
    ("token", "key", "refused"),
    [
        ({}, "", True),
        ({}, "other", True),
        ({}, KEYS["access.key"], False),
        ({"session.token": "own"}, "other", False),
    ],
)
def test_a_token_of_the_environment(
    token: dict[str, str], key: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs to the key of the environment. Both clients would send it with any key."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "theirs")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    full = {f"spark.hadoop.fs.s3a.{name}": value for name, value in {**KEYS, **token}.items()}
    told = (
        pytest.raises(OptionError, match="remove AWS_SESSION_TOKEN") if refused else nullcontext()
    )

    with told:
        stored_path("s3a://lake/x", full)


def test_a_directory_bucket() -> None:
    """S3 Express lists in no order, so kfetch would take an old micro-batch for the last one."""
    with pytest.raises(OptionError, match="a directory bucket of S3 Express"):
        s3_config("lake--usw2-az1--x-s3", {})
    assert s3_config("lake-x-s3", {})
