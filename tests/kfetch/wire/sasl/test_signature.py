"""AWS_MSK_IAM: the message is a signed request, for any keys; regions come from host names."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.options.secret import Secret
from kfetch.wire.sasl.aws import AwsKeys, connect_message, region_of

HOST = "b-1.unit.abcdef.kafka.us-west-2.amazonaws.com"
_keys = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=1, max_size=20)
_secrets = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)


NAMES = {
    "action": "Action",
    "x-amz-algorithm": "X-Amz-Algorithm",
    "x-amz-credential": "X-Amz-Credential",
    "x-amz-date": "X-Amz-Date",
    "x-amz-expires": "X-Amz-Expires",
    "x-amz-security-token": "X-Amz-Security-Token",
    "x-amz-signedheaders": "X-Amz-SignedHeaders",
}
"""The names in the request of those in the message."""


def signature(secret_key: str, region: str, fields: dict[str, str]) -> str:
    """The signature of the same GET by AWS's description of Signature Version 4."""
    parameters = sorted((NAMES[name], fields[name]) for name in NAMES if name in fields)
    query = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in parameters)
    empty = hashlib.sha256(b"").hexdigest()
    request = "\n".join(["GET", "/", query, f"host:{fields['host']}", "", "host", empty])
    scope = f"{fields['x-amz-date'][:8]}/{region}/kafka-cluster/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", fields["x-amz-date"], scope, digest])
    key = b"AWS4" + secret_key.encode()
    for part in [*scope.split("/"), text]:
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


@given(_keys, _secrets, st.none() | _secrets, st.sampled_from(["us-west-2", "cn-north-1"]))
def test_the_message_is_a_presigned_request(
    access_key: str, secret_key: str, token: str | None, region: str
) -> None:
    """It has the fields that AWS's own client sends, and their signature."""
    keys = AwsKeys(
        access_key=access_key,
        secret_key=Secret(secret_key),
        session_token=None if token is None else Secret(token),
    )
    fields = json.loads(connect_message(keys, HOST, region))
    date = fields["x-amz-date"]
    expected = {
        "version": "2020_10_22",
        "host": HOST,
        "user-agent": "kfetch",
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": f"{access_key}/{date[:8]}/{region}/kafka-cluster/aws4_request",
        "x-amz-date": date,
        "x-amz-expires": "900",
        "x-amz-signedheaders": "host",
        "x-amz-signature": signature(secret_key, region, fields),
    }
    assert expected | ({} if token is None else {"x-amz-security-token": token}) == fields
    assert abs(datetime.now(UTC) - datetime.strptime(date, "%Y%m%dT%H%M%S%z")) < timedelta(
        minutes=5
    )


@pytest.mark.parametrize("host", [HOST.upper(), "2001:db8::1", "b_1.internal"])
def test_the_signature_is_that_of_the_host_in_the_message(host: str) -> None:
    """A broker signs the host that it reads there. Users may write names in capitals."""
    keys = AwsKeys(access_key="AKID", secret_key=Secret("secret"))
    fields = json.loads(connect_message(keys, host, "us-west-2"))

    assert signature("secret", "us-west-2", fields) == fields["x-amz-signature"]
    assert host.lower() in fields["host"]


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "us-west-2"),
        ("boot-x.c1.kafka-serverless.eu-central-1.amazonaws.com", "eu-central-1"),
        ("b-2.x.y.c3.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("b-2-public.x.y.c3.kafka.us-gov-east-1.amazonaws.com", "us-gov-east-1"),
        ("broker.example.com", ""),
        ("127.0.0.1", ""),
    ],
)
def test_regions(host: str, region: str) -> None:
    """A broker's name tells its region, unless it is a name of the user's own."""
    assert region == region_of(host)
