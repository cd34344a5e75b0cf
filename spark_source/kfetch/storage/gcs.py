"""Maps Spark's settings for Google's connector to those of obstore. Pure.

The names are those of Hadoop's own connector (hadoop-gcp 3.5) and of Google's, versions 2 to 4. The
connectors take each setting of a log-in behind ``fs.gs.`` or, if it is not there, behind
``google.cloud.``. Version 2 has no ``auth.type``, and looks whether there is a file with a key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kfetch.errors import OptionError
from kfetch.storage.settings import StoreSettings

SCHEMES = ("gs",)
"""The scheme of URIs in Google's Cloud Storage."""

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]*")
_FORMS = ("spark.hadoop.fs.gs.{}", "spark.hadoop.google.cloud.{}")
_KEY_FILE = "auth.service.account.json.keyfile"
_PROXY = "proxy.address"
_ROOT = "storage.root.url"
_URL = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?/?")
_FROM_ENVIRONMENT = {"APPLICATION_DEFAULT", "COMPUTE_ENGINE"}
"""Types whose places obstore searches by itself: the file of gcloud, and the instance."""
_WITHOUT_EQUAL = (
    "auth.impersonation.service.account",
    "auth.access.token.provider",
    "auth.service.account.private.key",
    "auth.service.account.keyfile",
    "encryption.key",
    "proxy.username",
)
"""Beginnings of settings that the client can't follow."""


def gcs_config(bucket: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Returns the arguments of obstore's ``GCSStore`` for a bucket.

    ``settings``: Spark's, by their full names. Raises OptionError, naming the setting, if kfetch
    can't follow one. The error shows no values.
    """
    if not _BUCKET.fullmatch(bucket):
        raise OptionError(
            "the name of a bucket has only small letters, digits, dots, hyphens and underscores",
            action="correct the URI: gs://bucket/path",
        )
    own = StoreSettings(settings, _FORMS, _FORMS[0])
    prefixes = tuple(form.format("") for form in _FORMS)
    names = {name.removeprefix(prefix) for prefix in prefixes for name in settings}
    for name in sorted(names):
        if name.startswith(_WITHOUT_EQUAL) and own.get(name):
            raise own.error(name, "kfetch can't follow {}", f"use {_KEY_FILE}")
    url = own.get(_ROOT)
    if url and not _URL.fullmatch(url):
        raise own.error(_ROOT, "{} is no address of a store", "write https://host")
    return {
        "bucket": bucket,
        **({"base_url": url.rstrip("/")} if url else {}),
        **own.client_options(url, own.get(_PROXY), _PROXY),
        **_credentials(own),
    }


def _credentials(settings: StoreSettings) -> dict[str, Any]:
    file = settings.get(_KEY_FILE)
    kind = settings.get("auth.type") or (
        "SERVICE_ACCOUNT_JSON_KEYFILE" if file else "COMPUTE_ENGINE"
    )
    if kind == "UNAUTHENTICATED":
        return {"skip_signature": True}
    if kind in _FROM_ENVIRONMENT:
        return {}
    if kind != "SERVICE_ACCOUNT_JSON_KEYFILE":
        raise settings.error(
            "auth.type", f"kfetch can't use the type {kind} of {{}}", f"use {_KEY_FILE}"
        )
    if not file:
        raise settings.error(_KEY_FILE, "{} is missing", "name the file with the account's key")
    return {"service_account": file}
