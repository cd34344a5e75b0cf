"""AWS_MSK_IAM: one message, with keys and a signature by botocore.

Source: github.com/aws/aws-msk-iam-auth, "Details".
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kfetch.errors import AuthenticationFailed, KfetchError, TokenUnavailable
from kfetch.options.sasl import AwsLogin
from kfetch.options.secret import Secret
from kfetch.wire.sasl.mechanisms import Exchange, ExchangeFailed
from kfetch.wire.sasl.shared import Fetched, Shared


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsKeys:
    """An access key, as AWS's credential providers return it."""

    access_key: str
    secret_key: Secret
    session_token: Secret | None = None


KEYS = Shared[tuple[AwsKeys, str]]("keys of AWS")
"""Keys and the region of their configuration, for this process."""
_KEYS_RENEW_S, _KEYS_VALID_S = 300.0, 600.0
"""botocore renews keys ten minutes before they expire, so keys that it returns are valid longer."""
_EXPIRES_S = 900
"""The signature's lifetime, as in AWS's own client."""
_ATTEMPTS, _ATTEMPTS_MIN = "metadata_service_num_attempts", 3
"""botocore's own default is one attempt, and a new agent has no keys to go on with."""
_REGION = re.compile(
    r"\.kafka(?:-serverless)?\.(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)\.(?:[a-z0-9.-]+)$"
)


def region_of(host: str) -> str:
    """Returns the region in the host name of an MSK broker; empty for another name."""
    match = _REGION.search(host.lower())
    return match["region"] if match else ""


def aws_keys(login: AwsLogin, deadline: float) -> tuple[AwsKeys, str]:
    """Returns keys and the region of their configuration.

    ``deadline``: a time of ``time.monotonic``. Raises TokenUnavailable if there are no keys now,
    and AuthenticationFailed if there never will be.
    """
    return KEYS.get(login, lambda _until: source_of(login).fetch(), deadline)


def forget(login: AwsLogin, found: tuple[AwsKeys, str], since: float) -> bool:
    """Forgets keys that a broker refuses.

    Returns whether they were fetched before ``since``; see ``Shared.forget``.
    """
    source_of(login).forget()
    return KEYS.forget(login, found, since)


def aws_msk_iam(login: AwsLogin, host: str, found: tuple[AwsKeys, str]) -> Exchange:
    """Returns the exchange of AWS_MSK_IAM. ``found``: what ``aws_keys`` returned."""
    keys, default_region = found
    region = login.region or region_of(host) or default_region
    if not region:
        raise _final(f"the AWS region of {host} is not known", "Set kfetch.msk.region")
    answer = yield connect_message(keys, host, region)
    if not answer:
        raise ExchangeFailed("the broker's answer is empty")


def connect_message(keys: AwsKeys, host: str, region: str) -> bytes:
    """Returns the JSON that asks a broker for a connection: the fields of a presigned GET."""
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    # botocore signs the name as it stands in a header.
    host = f"[{host}]" if ":" in host else host.lower()
    token = keys.session_token.reveal() if keys.session_token else None
    credentials = Credentials(keys.access_key, keys.secret_key.reveal(), token)
    request = AWSRequest("GET", f"https://{host}/?Action=kafka-cluster%3AConnect")
    SigV4QueryAuth(credentials, "kafka-cluster", region, expires=_EXPIRES_S).add_auth(request)
    signed = parse_qsl(urlsplit(request.url).query)
    message = {"version": "2020_10_22", "host": host, "user-agent": "kfetch"}
    message |= {name.lower(): value for name, value in signed}
    return json.dumps(message, separators=(",", ":")).encode()


class AwsKeySource:
    """Where the keys of one log-in come from. Keys that renew themselves stay with botocore.

    So a metadata service may fail as long as its keys are valid. Other keys are looked up anew,
    because a file or a variable may have changed.
    """

    def __init__(self, login: AwsLogin) -> None:
        self._login = login
        self._refreshable: tuple[Any, str] | None = None
        self._has_had_keys = False

    def forget(self) -> None:
        """Forget the keys that botocore keeps."""
        self._refreshable = None

    def fetch(self) -> Fetched[tuple[AwsKeys, str]]:
        """Returns keys and a region. Raises TokenUnavailable or AuthenticationFailed."""
        try:
            from botocore.credentials import RefreshableCredentials
        except ImportError:
            raise _final(
                "AWS_MSK_IAM needs the library botocore, which is not installed here",
                "Install kfetch[msk] on the driver and the executors",
            ) from None
        try:
            credentials, region = self._refreshable or self._look_up()
            frozen = credentials.get_frozen_credentials()
        except KfetchError:
            raise
        except Exception as cause:  # botocore's providers raise errors of other libraries, too
            self._refreshable = None
            raise _failure(cause) from None
        if isinstance(credentials, RefreshableCredentials):
            self._refreshable = credentials, region
        self._has_had_keys = True
        now = time.time()
        return Fetched(
            value=(_keys(frozen), region),
            renew_at=now + _KEYS_RENEW_S,
            expires_at=now + _KEYS_VALID_S,
        )

    def _look_up(self) -> tuple[Any, str]:
        from botocore.session import Session

        session = Session(profile=self._login.profile or None)
        attempts = session.get_config_variable(_ATTEMPTS)
        session.set_config_variable(_ATTEMPTS, max(attempts, _ATTEMPTS_MIN))
        credentials = session.get_credentials()
        if credentials is None:
            raise self._nothing_found()
        if self._login.role_arn:
            credentials = _of_role(session, credentials, self._login)
        return credentials, session.get_config_variable("region") or ""

    def _nothing_found(self) -> AuthenticationFailed | TokenUnavailable:
        action = "Set them in the environment, in a profile or in the machine's role"
        if not self._has_had_keys:
            return _final("AWS has no credentials here", action)
        what = "AWS has no credentials here now, but it had some before"
        return TokenUnavailable(what, action=action)


@lru_cache(maxsize=100)
def source_of(login: AwsLogin) -> AwsKeySource:
    """Returns the source of a log-in's keys, one for this process."""
    return AwsKeySource(login)


def _keys(frozen: Any) -> AwsKeys:
    token = Secret(frozen.token) if frozen.token else None
    return AwsKeys(
        access_key=frozen.access_key, secret_key=Secret(frozen.secret_key), session_token=token
    )


def _final(sentence: str, action: str) -> AuthenticationFailed:
    return AuthenticationFailed(sentence, action=action, retriable=False)


def _of_role(session: Any, credentials: Any, login: AwsLogin) -> Any:
    """Returns credentials of the role that the options name."""
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    extra = {"RoleSessionName": login.role_session_name or "kfetch"}
    if login.role_external_id is not None:
        extra["ExternalId"] = login.role_external_id.reveal()

    def client(service: str, **arguments: Any) -> Any:
        region = {"region_name": login.sts_region} if login.sts_region else {}
        return session.create_client(service, **{**arguments, **region})

    fetcher = AssumeRoleCredentialFetcher(client, credentials, login.role_arn, extra_args=extra)
    return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")


_FINAL = frozenset({"ProfileNotFound", "PartialCredentialsError", "ConfigParseError"})


def _failure(cause: Exception) -> AuthenticationFailed | TokenUnavailable:
    """Returns the error for one of botocore's. Its text may hold a secret, its code does not."""
    response = getattr(cause, "response", None)
    response = response if isinstance(response, dict) else {}
    code = str(response.get("Error", {}).get("Code", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    name = type(cause).__name__
    sentence = f"AWS gives no keys: {name}{f' ({code})' if code else ''}"
    action = "Check the profile, the role and its rights"
    refused = 400 <= status < 500 and "Throttl" not in code and status != 429
    if refused or name in _FINAL:
        return _final(sentence, action)
    return TokenUnavailable(sentence, action=action)
