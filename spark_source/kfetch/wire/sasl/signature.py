"""The message of AWS_MSK_IAM: a request to connect, signed as AWS's Signature Version 4.

Source: github.com/aws/aws-msk-iam-auth, "Details". The signature is that of a presigned GET.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from kfetch.options.secret import Secret

_SERVICE, _ACTION = "kafka-cluster", "kafka-cluster:Connect"
_ALGORITHM = "AWS4-HMAC-SHA256"
_EXPIRES_S = "900"
"""As in AWS's own client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsKeys:
    """An access key, as AWS's credential providers return it."""

    access_key: str
    secret_key: Secret
    session_token: Secret | None = None


def connect_message(keys: AwsKeys, host: str, region: str, now: datetime) -> bytes:
    """Returns the JSON that asks a broker for a connection. ``now``: an aware time."""
    moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{region}/{_SERVICE}/aws4_request"
    parameters = {
        "Action": _ACTION,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{keys.access_key}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": _EXPIRES_S,
        "X-Amz-SignedHeaders": "host",
    }
    if keys.session_token is not None:
        parameters["X-Amz-Security-Token"] = keys.session_token.reveal()
    signature = _signature(keys, parameters, host, scope)
    # In the message, the names are in lower case, and the action is "action".
    fields = {name.lower(): value for name, value in parameters.items()}
    message = {"version": "2020_10_22", "host": host, "user-agent": "kfetch", **fields}
    return json.dumps({**message, "x-amz-signature": signature}, separators=(",", ":")).encode()


def _signature(keys: AwsKeys, parameters: dict[str, str], host: str, scope: str) -> str:
    query = "&".join(
        f"{_encoded(name)}={_encoded(parameters[name])}" for name in sorted(parameters)
    )
    empty = hashlib.sha256(b"").hexdigest()
    request = "\n".join(["GET", "/", query, f"host:{host}", "", "host", empty])
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = "\n".join([_ALGORITHM, parameters["X-Amz-Date"], scope, digest])
    key = b"AWS4" + keys.secret_key.reveal().encode()
    for part in [*scope.split("/"), text]:
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def _encoded(text: str) -> str:
    return quote(text, safe="-_.~")
