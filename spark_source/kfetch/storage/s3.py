"""Maps Spark's settings for S3A to those of obstore, so that both see the same objects. Pure.

See hadoop-aws 3.5, "Authenticating with S3" and "Configuring different S3 buckets with Per-Bucket
Configuration". A setting ``fs.s3a.bucket.NAME.x`` overrides ``fs.s3a.x`` for the bucket NAME.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kfetch.errors import OptionError

SCHEMES = ("s3a", "s3", "s3n")
"""Schemes of URIs in S3. Spark distributions differ in which they serve."""

_SPARK = "spark.hadoop."
_KEYS = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
}
_PROVIDERS = "aws.credentials.provider"
_FROM_KEYS = {"SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider"}
_FROM_ENVIRONMENT = {
    "ContainerCredentialsProvider",
    "DefaultCredentialsProvider",
    "EC2ContainerCredentialsProviderWrapper",
    "EnvironmentVariableCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "WebIdentityTokenCredentialsProvider",
}
"""Providers whose places obstore searches by itself: environment, web identity, container, EC2."""
_ANONYMOUS = {"AnonymousAWSCredentialsProvider", "AnonymousCredentialsProvider"}
_WITHOUT_EQUAL = ("security.credential.provider.path", "encryption.cs-key-provider")
"""Settings that the client can't follow: keys in a keystore of Java, encryption in the client."""
_REGION = "us-east-1"
"""The region of a store with an endpoint and no region. Such stores mostly ignore it."""


def s3_config(bucket: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Returns the configuration of obstore's ``S3Store`` for a bucket.

    ``settings``: Spark's, by their full names. Without keys, obstore looks where AWS's own tools
    look: environment, web identity, container, instance. Raises OptionError, naming the setting, if
    kfetch can't follow one.
    """
    of_bucket = _settings_of(bucket, settings)
    for name in _WITHOUT_EQUAL:
        if name in of_bucket:
            raise OptionError(
                f"kfetch can't follow {_SPARK}fs.s3a.{name}",
                action="give the keys by fs.s3a.access.key and fs.s3a.secret.key, or by the "
                "environment",
                option=name,
            )
    return {**_endpoint(of_bucket), **_credentials(of_bucket)}


def _settings_of(bucket: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the values by their names behind ``fs.s3a.``. The bucket's own ones win."""
    general, own = f"{_SPARK}fs.s3a.", f"{_SPARK}fs.s3a.bucket.{bucket}."
    shared = {
        name.removeprefix(general): value
        for name, value in settings.items()
        if name.startswith(general)
    }
    special = {
        name.removeprefix(own): value for name, value in settings.items() if name.startswith(own)
    }
    return {name: value.strip() for name, value in {**shared, **special}.items()}


def _endpoint(settings: Mapping[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    endpoint, region = settings.get("endpoint", ""), settings.get("endpoint.region", "")
    secure = _is_true(settings.get("connection.ssl.enabled", "true"))
    if endpoint and "://" not in endpoint:
        endpoint = f"{'https' if secure else 'http'}://{endpoint}"
    if endpoint:
        result["endpoint"] = endpoint
    if region or endpoint:
        result["region"] = region or _REGION
    if endpoint.startswith("http://"):
        result["client_options"] = {"allow_http": True}
    # S3A's default is the bucket in the host's name, which a local store rarely has.
    result["virtual_hosted_style_request"] = not _is_true(
        settings.get("path.style.access", "false")
    )
    return result


def _credentials(settings: Mapping[str, str]) -> dict[str, Any]:
    names = [part.strip() for part in settings.get(_PROVIDERS, "").split(",") if part.strip()]
    providers = {name.rpartition(".")[2] for name in names}
    if unknown := providers - _FROM_KEYS - _FROM_ENVIRONMENT - _ANONYMOUS:
        raise OptionError(
            f"kfetch can't use the class {min(unknown)} of {_SPARK}fs.s3a.{_PROVIDERS}",
            action="name SimpleAWSCredentialsProvider with keys, or a provider of the environment",
            option=_PROVIDERS,
        )
    if providers and providers <= _ANONYMOUS:
        return {"skip_signature": True}
    if providers and not providers & _FROM_KEYS:
        return {}
    return {ours: settings[name] for name, ours in _KEYS.items() if settings.get(name)}


def _is_true(text: str) -> bool:
    return text.lower() == "true"
