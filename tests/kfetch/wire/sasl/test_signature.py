"""AWS_MSK_IAM: the signature is botocore's, for any keys; regions come from host names."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from kfetch.options.secret import Secret
from kfetch.wire.sasl.aws import region_of
from kfetch.wire.sasl.signature import AwsKeys, connect_message

HOST = "b-1.unit.abcdef.kafka.us-west-2.amazonaws.com"
_keys = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=1, max_size=20)
_secrets = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)


def of_botocore(access_key: str, secret_key: str, token: str | None, region: str) -> dict[str, str]:
    """The parameters that botocore adds to the address of the same request."""
    signer = auth.SigV4QueryAuth(
        Credentials(access_key, secret_key, token), "kafka-cluster", region, expires=900
    )
    request = AWSRequest("GET", f"https://{HOST}/?Action=kafka-cluster%3AConnect")
    signer.add_auth(request)
    return {name.lower(): value[0] for name, value in parse_qs(urlsplit(request.url).query).items()}


@given(_keys, _secrets, st.none() | _secrets, st.sampled_from(["us-west-2", "cn-north-1"]))
def test_the_signature_is_that_of_botocore(
    access_key: str, secret_key: str, token: str | None, region: str
) -> None:
    """Every field, with and without a session token."""
    keys = AwsKeys(
        access_key=access_key,
        secret_key=Secret(secret_key),
        session_token=None if token is None else Secret(token),
    )
    expected = of_botocore(access_key, secret_key, token, region)
    now = datetime.strptime(expected["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    message = json.loads(connect_message(keys, HOST, region, now))
    fields = {name: message.pop(name) for name in ("version", "host", "user-agent")}

    assert expected == message
    assert {"version": "2020_10_22", "host": HOST, "user-agent": "kfetch"} == fields


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
