"""Maps Spark's settings for ABFS, Azure's file system, to those of obstore. Pure.

See hadoop-azure 3.5, "Configuring ABFS" and "Authentication". ``fs.azure.x.CONTAINER.HOST``
overrides ``fs.azure.x.HOST``, and that overrides ``fs.azure.x``. ABFS writes to the host with
``.dfs.`` in its name, and obstore reads the same files behind ``.blob.``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from kfetch.errors import OptionError
from kfetch.storage.settings import StoreSettings

SCHEMES = ("abfss", "abfs")
"""Schemes of URIs in Azure's storage. ABFS may do without TLS for the second one."""

_SPARK = "spark.hadoop.fs.azure.{}"
_AUTHORITY = re.compile(
    r"(?P<container>[A-Za-z0-9$][A-Za-z0-9$._-]*)@"
    r"(?P<host>(?P<account>[A-Za-z0-9-]+)\.(?:[A-Za-z0-9-]+\.)*(?:dfs|blob)\.[A-Za-z0-9.-]+)"
)
_ENDPOINT = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}")
"""ABFS looks only at an endpoint with a port, such as that of an emulator."""
_TOKEN_URL = re.compile(
    r"(?P<host>https://[A-Za-z0-9.-]+)/(?P<tenant>[A-Za-z0-9.-]+)/oauth2/(?:v2\.0/)?token/?"
)
_LOGIN = "https://login.microsoftonline.com/"
_IDENTITY_FILE = "/var/run/secrets/azure/tokens/azure-identity-token"
"""What ABFS takes by default."""
_KEY = "account.key"
_PROVIDER = "account.oauth.provider.type"
_TOKENS = "account.oauth2.client.endpoint"
_WITHOUT_EQUAL = (
    "encryption.encoded.client-provided-key",
    "encryption.context.provider.type",
    "account.oauth2.client.assertion.provider.type",
)
"""Settings that the client can't follow."""


def azure_config(scheme: str, authority: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Returns the arguments of obstore's ``AzureStore`` for the beginning of a URI.

    ``settings``: Spark's, by their full names. Raises OptionError, naming the setting, if kfetch
    can't follow one. The error shows no values.
    """
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise OptionError(
            "a URI in Azure names a container and the host of an account",
            action="write abfss://container@account.dfs.core.windows.net/path",
        )
    of_host = f"{_SPARK}.{parts['host']}"
    of_container = f"{_SPARK}.{parts['container']}.{parts['host']}"
    own = StoreSettings(settings, (of_container, of_host, _SPARK), _SPARK)
    for name in _WITHOUT_EQUAL:
        if own.get(name):
            raise own.error(name, "kfetch can't follow {}", "remove it")
    return {
        "container_name": parts["container"],
        "account_name": parts["account"],
        **_endpoint(scheme, parts["account"], parts["host"], own),
        **_credentials(own),
    }


def _endpoint(scheme: str, account: str, host: str, settings: StoreSettings) -> dict[str, Any]:
    secure = scheme == "abfss" or settings.get("always.use.https", "true").lower() != "false"
    address = host.replace(".dfs.", ".blob.", 1)
    if _ENDPOINT.fullmatch(emulator := settings.get("abfs.endpoint")):
        address = f"{emulator}/{account}"
    if secure:
        return {"endpoint": f"https://{address}"}
    return {"endpoint": f"http://{address}", "client_options": {"allow_http": True}}


def _credentials(settings: StoreSettings) -> dict[str, str]:
    kind = settings.get("account.auth.type", "SharedKey")
    makers = {"SharedKey": _shared_key, "SAS": _sas, "OAuth": _oauth}
    if kind not in makers:
        sentence = f"kfetch can't use the type {kind} of {{}}"
        raise settings.error("account.auth.type", sentence, "use SharedKey, SAS or OAuth")
    return makers[kind](settings)


def _needed(settings: StoreSettings, name: str) -> str:
    """Returns a value. Raises OptionError without one, or if no request may have it."""
    if not settings.get(name):
        raise OptionError(
            f"{settings.forms[1].format(name)} is missing",
            action="give it among Spark's settings, or choose another account.auth.type",
            option=name,
        )
    return settings.printable(name, "request may have")


def _check_class(settings: StoreSettings, name: str, known: set[str], instead: str) -> None:
    if (given := _class_name(settings, name)) not in known:
        sentence = f"kfetch can't use the class {given or '(none)'} of {{}}"
        raise settings.error(name, sentence, f"use {instead}")


def _shared_key(settings: StoreSettings) -> dict[str, str]:
    _check_class(settings, "account.keyprovider", {"", "SimpleKeyProvider"}, _KEY)
    key = _needed(settings, _KEY)
    try:
        base64.b64decode(key, validate=True)
    except binascii.Error:
        raise settings.error(_KEY, "{} is no key of an account", "copy it again") from None
    return {"credential_type": "access_key", "account_key": key}


def _sas(settings: StoreSettings) -> dict[str, str]:
    # Hadoop takes the token without a class, and Databricks wants this one.
    name, instead = "sas.token.provider.type", "sas.fixed.token"
    _check_class(settings, name, {"", "FixedSASTokenProvider"}, instead)
    return {"credential_type": "sas_token", "sas_key": _needed(settings, instead).removeprefix("?")}


def _oauth(settings: StoreSettings) -> dict[str, str]:
    provider = _class_name(settings, _PROVIDER)
    if provider == "ClientCredsTokenProvider":
        return _client_secret(settings)
    if provider == "WorkloadIdentityTokenProvider":
        return {
            "credential_type": "workload_identity",
            "authority_host": settings.get("account.oauth2.msi.authority", _LOGIN).rstrip("/"),
            "tenant_id": _needed(settings, "account.oauth2.msi.tenant"),
            "client_id": _needed(settings, "account.oauth2.client.id"),
            "federated_token_file": settings.get("account.oauth2.token.file", _IDENTITY_FILE),
        }
    _check_class(settings, _PROVIDER, {"MsiTokenProvider"}, "ClientCredsTokenProvider")
    given = {
        "client_id": settings.get("account.oauth2.client.id"),
        "msi_endpoint": settings.get("account.oauth2.msi.endpoint"),
    }
    chosen = {name: value for name, value in given.items() if value}
    return {"credential_type": "managed_identity", **chosen}


def _client_secret(settings: StoreSettings) -> dict[str, str]:
    url = _TOKEN_URL.fullmatch(_needed(settings, _TOKENS))
    if url is None:
        action = "write https://login.microsoftonline.com/TENANT/oauth2/token"
        raise settings.error(_TOKENS, "{} is no address of tokens", action)
    return {
        "credential_type": "client_secret",
        "authority_host": url["host"],
        "tenant_id": url["tenant"],
        "client_id": _needed(settings, "account.oauth2.client.id"),
        "client_secret": _needed(settings, "account.oauth2.client.secret"),
    }


def _class_name(settings: StoreSettings, name: str) -> str:
    """Returns a class of Java without its package."""
    return settings.get(name).rpartition(".")[2]
