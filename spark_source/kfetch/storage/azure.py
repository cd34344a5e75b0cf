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

SCHEMES = ("abfss", "abfs")
"""Schemes of URIs in Azure's storage. ABFS may do without TLS for the second one."""

_SPARK = "spark.hadoop.fs.azure."
_AUTHORITY = re.compile(
    r"(?P<container>[A-Za-z0-9$][A-Za-z0-9$._-]*)@"
    r"(?P<host>(?P<account>[A-Za-z0-9-]+)\.(?:[A-Za-z0-9-]+\.)*(?:dfs|blob)\.[A-Za-z0-9.-]+)"
)
_ENDPOINT = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}")
"""ABFS looks only at an endpoint with a port, such as that of an emulator."""
_TOKEN_URL = re.compile(
    r"(?P<host>https://[A-Za-z0-9.-]+)/(?P<tenant>[A-Za-z0-9.-]+)/oauth2/(?:v2\.0/)?token/?"
)
_PRINTABLE = re.compile(r"[!-~]+")
_LOGIN = "https://login.microsoftonline.com/"
_IDENTITY_FILE = "/var/run/secrets/azure/tokens/azure-identity-token"
"""What ABFS takes by default."""
_KEY = "account.key"
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
    own = _Settings(parts["container"], parts["host"], settings)
    for name in _WITHOUT_EQUAL:
        if own.get(name):
            raise OptionError(
                f"kfetch can't follow {_SPARK}{name}", action="remove it", option=name
            )
    return {
        "container_name": parts["container"],
        "account_name": parts["account"],
        **_endpoint(scheme, parts["account"], parts["host"], own),
        **_credentials(own),
    }


class _Settings:
    """The settings of a container, by their names behind ``fs.azure.``."""

    def __init__(self, container: str, host: str, settings: Mapping[str, str]) -> None:
        self._behind = (f".{container}.{host}", f".{host}", "")
        self._all = settings

    def get(self, name: str, default: str = "") -> str:
        """Returns a value without blanks at its ends. Those of the container win."""
        names = (f"{_SPARK}{name}{behind}" for behind in self._behind)
        return next((self._all[one].strip() for one in names if one in self._all), "") or default

    def needed(self, name: str) -> str:
        """Returns a value. Raises OptionError without one, or if no request may have it."""
        if not (value := self.get(name)):
            raise OptionError(
                f"{_SPARK}{name}{self._behind[1]} is missing",
                action="give it among Spark's settings, or choose another account.auth.type",
                option=name,
            )
        if not _PRINTABLE.fullmatch(value):
            raise OptionError(
                f"{_SPARK}{name} has a character that no request may have",
                action="correct it: it may have a blank or a line's end within",
                option=name,
            )
        return value

    def class_name(self, name: str) -> str:
        """Returns a class of Java without its package."""
        return self.get(name).rpartition(".")[2]


def _endpoint(scheme: str, account: str, host: str, settings: _Settings) -> dict[str, Any]:
    secure = scheme == "abfss" or settings.get("always.use.https", "true").lower() != "false"
    address = host.replace(".dfs.", ".blob.", 1)
    if _ENDPOINT.fullmatch(emulator := settings.get("abfs.endpoint")):
        address = f"{emulator}/{account}"
    if secure:
        return {"endpoint": f"https://{address}"}
    return {"endpoint": f"http://{address}", "client_options": {"allow_http": True}}


def _credentials(settings: _Settings) -> dict[str, str]:
    kind = settings.get("account.auth.type", "SharedKey")
    if kind == "SharedKey":
        return _shared_key(settings)
    if kind == "SAS":
        return _sas(settings)
    if kind == "OAuth":
        return _oauth(settings)
    raise OptionError(
        f"kfetch can't use the type {kind} of {_SPARK}account.auth.type",
        action="use SharedKey, SAS or OAuth",
        option="account.auth.type",
    )


def _shared_key(settings: _Settings) -> dict[str, str]:
    if settings.class_name("account.keyprovider") not in ("", "SimpleKeyProvider"):
        raise _unknown_class(settings, "account.keyprovider", _KEY)
    key = settings.needed(_KEY)
    try:
        base64.b64decode(key, validate=True)
    except binascii.Error:
        raise OptionError(
            f"{_SPARK}{_KEY} is no key of an account", action="copy it again", option=_KEY
        ) from None
    return {"credential_type": "access_key", "account_key": key}


def _sas(settings: _Settings) -> dict[str, str]:
    # Hadoop takes the token without a class, and Databricks wants this one.
    if settings.class_name("sas.token.provider.type") not in ("", "FixedSASTokenProvider"):
        raise _unknown_class(settings, "sas.token.provider.type", "sas.fixed.token")
    return {
        "credential_type": "sas_token",
        "sas_key": settings.needed("sas.fixed.token").removeprefix("?"),
    }


def _oauth(settings: _Settings) -> dict[str, str]:
    provider = settings.class_name("account.oauth.provider.type")
    if provider == "ClientCredsTokenProvider":
        return _client_secret(settings)
    if provider == "WorkloadIdentityTokenProvider":
        return {
            "credential_type": "workload_identity",
            "authority_host": settings.get("account.oauth2.msi.authority", _LOGIN).rstrip("/"),
            "tenant_id": settings.needed("account.oauth2.msi.tenant"),
            "client_id": settings.needed("account.oauth2.client.id"),
            "federated_token_file": settings.get("account.oauth2.token.file", _IDENTITY_FILE),
        }
    if provider == "MsiTokenProvider":
        given = {
            "client_id": settings.get("account.oauth2.client.id"),
            "msi_endpoint": settings.get("account.oauth2.msi.endpoint"),
        }
        chosen = {name: value for name, value in given.items() if value}
        return {"credential_type": "managed_identity", **chosen}
    raise _unknown_class(settings, "account.oauth.provider.type", "ClientCredsTokenProvider")


def _client_secret(settings: _Settings) -> dict[str, str]:
    url = _TOKEN_URL.fullmatch(settings.needed(_TOKENS))
    if url is None:
        raise OptionError(
            f"{_SPARK}{_TOKENS} is no address of tokens",
            action="write https://login.microsoftonline.com/TENANT/oauth2/token",
            option=_TOKENS,
        )
    return {
        "credential_type": "client_secret",
        "authority_host": url["host"],
        "tenant_id": url["tenant"],
        "client_id": settings.needed("account.oauth2.client.id"),
        "client_secret": settings.needed("account.oauth2.client.secret"),
    }


def _unknown_class(settings: _Settings, name: str, instead: str) -> OptionError:
    return OptionError(
        f"kfetch can't use the class {settings.class_name(name) or '(none)'} of {_SPARK}{name}",
        action=f"use {instead}",
        option=name,
    )
