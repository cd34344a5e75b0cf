"""Maps Spark's settings for S3A to those of obstore, so that both see the same objects. Pure.

See hadoop-aws 3.5, "Authenticating with S3" and "Configuring different S3 buckets with Per-Bucket
Configuration". A setting ``fs.s3a.bucket.NAME.x`` overrides ``fs.s3a.x`` for the bucket NAME.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from kfetch.errors import OptionError
from kfetch.storage.settings import StoreSettings

SCHEMES = ("s3a", "s3", "s3n")
"""Schemes of URIs in S3. Spark distributions differ in which they serve."""

_SPARK = "spark.hadoop.fs.s3a.{}"
_HADOOP = "spark.hadoop.hadoop.{}"
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
_KEYSTORE = "security.credential.provider.path"
_WITHOUT_EQUAL = {
    _KEYSTORE: "give the keys by fs.s3a.access.key and fs.s3a.secret.key, or by the environment",
    "encryption.context": "remove it",
    "server-side-encryption-algorithm": "set fs.s3a.encryption.algorithm in its place",
    "accesspoint.arn": "name the access point's alias as the bucket in the URI",
    "endpoint.fips": "set fs.s3a.endpoint to s3-fips.REGION.amazonaws.com",
    "proxy.username": "use a proxy without a log-in",
}
"""Settings that kfetch can't follow, and what to do: a keystore of Java, say, and an old name."""
_ENCRYPTIONS = {"AES256": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}
"""S3A's names of what the store does by itself, and those of S3."""
_REGION = "us-east-1"
"""The region of a store with an endpoint and no region. Such stores mostly ignore it."""
_AWS = re.compile(
    r"(?:^|[.-])s3(?:-fips)?[.-](?:dualstack\.)?(?P<region>[a-z]{2}(?:-[a-z]+)+-\d+)"
    r"\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$"
)
"""An endpoint of AWS, which has the region in its name. S3A takes it from there, too."""
_DIRECTORY = "--x-s3"
"""Ends the name of a directory bucket. Its lists have no order, and begin nowhere else than at
their start. See the AWS documentation, "ListObjectsV2", about ``StartAfter``."""
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_URL = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
    r"(?P<port>:[0-9]{1,5})?(?P<path>(?:/[!-~]*)?)"
)
_PORT_MAX = 65535
_IN_HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]|(?<![.-])\.(?![.-])){1,61}[a-z0-9]")
"""The buckets that can be part of a host's name."""


def s3_config(bucket: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Returns the arguments of obstore's ``S3Store`` for a bucket.

    ``settings``: Spark's, by their full names. Without keys, obstore looks where AWS's own tools
    look: environment, web identity, container, instance. Raises OptionError, naming the setting, if
    kfetch can't follow one. The error shows no values: some people write keys in front of a bucket.
    """
    if not _BUCKET.fullmatch(bucket):
        raise OptionError(
            "the name of a bucket in S3 has only letters, digits, dots, hyphens and underscores",
            action="correct the URI; keys stand in fs.s3a.access.key and fs.s3a.secret.key",
        )
    if bucket.endswith(_DIRECTORY):
        raise OptionError(
            f"{bucket} is a directory bucket of S3 Express, which lists names in no order, and "
            "kfetch relies on the order",
            action="use a general purpose bucket",
        )
    own = _SPARK.format(f"bucket.{bucket}.{{}}")
    of_bucket = StoreSettings(settings, (own, _SPARK), _SPARK)
    for one in (of_bucket, StoreSettings(settings, (_HADOOP,), _HADOOP)):
        for name, action in _WITHOUT_EQUAL.items():
            idle = name == _KEYSTORE and not _has_keys_in_settings(of_bucket)
            if one.get(name, "false").lower() != "false" and not idle:
                raise one.error(name, "kfetch can't follow {}", action)
    endpoint = _endpoint(bucket, of_bucket)
    return {
        "bucket": bucket,
        **endpoint,
        **_client_options(endpoint.get("endpoint", ""), of_bucket),
        **({"request_payer": True} if of_bucket.is_true("requester.pays.enabled", "") else {}),
        **_credentials(of_bucket),
        **_encryption(of_bucket),
    }


def _endpoint(bucket: str, settings: StoreSettings) -> dict[str, Any]:
    text, region = settings.get("endpoint"), settings.get("endpoint.region")
    in_path = settings.is_true("path.style.access", "false")
    if not text:
        in_host = not in_path and _can_be_in_host(bucket, "https", "")
        result: dict[str, Any] = {"virtual_hosted_style_request": in_host}
        return {**result, "region": region} if region else result
    scheme, host, rest = _url(settings, text)
    secure = settings.is_true("connection.ssl.enabled", "true")
    scheme = scheme or ("https" if secure else "http")
    in_host = not in_path and _can_be_in_host(bucket, scheme, host)
    aws = _AWS.search(host)
    return {
        # obstore takes such an endpoint for one that begins with the bucket already.
        "endpoint": f"{scheme}://{f'{bucket}.' if in_host else ''}{host}{rest}",
        "virtual_hosted_style_request": in_host,
        "region": region or (aws["region"] if aws else _REGION),
    }


def _client_options(endpoint: str, settings: StoreSettings) -> dict[str, Any]:
    """Returns the options of the client for an endpoint, with the proxy that S3A has too."""
    secure = settings.is_true("connection.ssl.enabled", "true")
    port = settings.get("proxy.port") or ("443" if secure else "80")
    proxy = f"{host}:{port}" if (host := settings.get("proxy.host")) else ""
    return settings.client_options(endpoint, proxy, "proxy.host")


def _url(settings: StoreSettings, text: str) -> tuple[str, str, str]:
    """Returns scheme, host, and port with path. Raises OptionError if the text is no endpoint."""
    url = _URL.fullmatch(text)
    port = int((url["port"] or ":443")[1:]) if url else 0
    if url is None or not 0 < port <= _PORT_MAX or {"?", "#"} & set(url["path"]):
        action = "write host, host:port, or a URL such as https://host:9000"
        raise settings.error("endpoint", "{} is no address of a store", action)
    return url["scheme"] or "", url["host"], (url["port"] or "") + url["path"].rstrip("/")


def _can_be_in_host(bucket: str, scheme: str, host: str) -> bool:
    """Returns whether AWS's client puts a bucket in front of a host: not of an address.

    A certificate for all buckets fits none with a dot.
    """
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return bool(_IN_HOST.fullmatch(bucket)) and (scheme == "http" or "." not in bucket)
    return False


def _providers(settings: StoreSettings) -> set[str]:
    names = [part.strip() for part in settings.get(_PROVIDERS).split(",") if part.strip()]
    return {name.rpartition(".")[2] for name in names}


def _has_keys_in_settings(settings: StoreSettings) -> bool:
    providers = _providers(settings)
    return not providers or bool(providers & _FROM_KEYS)


def _credentials(settings: StoreSettings) -> dict[str, Any]:
    providers = _providers(settings)
    if unknown := providers - _FROM_KEYS - _FROM_ENVIRONMENT - _ANONYMOUS:
        sentence = f"kfetch can't use the class {min(unknown)} of {{}}"
        action = "name SimpleAWSCredentialsProvider with keys, or a provider of the environment"
        raise settings.error(_PROVIDERS, sentence, action)
    if providers and providers <= _ANONYMOUS:
        return {"skip_signature": True}
    return _keys(settings) if _has_keys_in_settings(settings) else {}


def _keys(settings: StoreSettings) -> dict[str, Any]:
    """Returns the keys by obstore's names. Raises OptionError for half a pair, and for no text."""
    given = [name for name in _KEYS if settings.get(name)]
    if given and (missing := {"access.key", "secret.key"}.difference(given)):
        action = "give both keys, or none if they are in the environment"
        raise settings.error(min(missing), "{} is missing", action)
    return {_KEYS[name]: settings.printable(name, "key has") for name in given}


def _encryption(settings: StoreSettings) -> dict[str, str]:
    """Returns how the store encrypts what kfetch writes, as it does what Spark writes."""
    name = "encryption.algorithm"
    if not (algorithm := settings.get(name)):
        return {}
    if algorithm not in _ENCRYPTIONS:
        sentence = f"kfetch can't use the algorithm {algorithm} of {{}}"
        raise settings.error(name, sentence, f"use {', '.join(_ENCRYPTIONS)} or none")
    result = {"server_side_encryption": _ENCRYPTIONS[algorithm]}
    if algorithm != "AES256" and (key := settings.printable("encryption.key", "key has")):
        result["sse_kms_key_id"] = key
    return result
