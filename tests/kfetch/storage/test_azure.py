"""Settings of Spark's ABFS connector mean the same for kfetch."""

from __future__ import annotations

import pytest

from kfetch.errors import OptionError
from kfetch.storage.azure import azure_config
from kfetch.storage.open import stored_path

HOST = "shop.dfs.core.windows.net"
KEY = {"account.key": "cGE1NXdvcmQ="}
OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2."
CLIENT = {
    "account.auth.type": "OAuth",
    "account.oauth.provider.type": f"{OAUTH}ClientCredsTokenProvider",
    "account.oauth2.client.endpoint": "https://login.microsoftonline.com/t-1/oauth2/token",
    "account.oauth2.client.id": "i",
    "account.oauth2.client.secret": "pa55word",
}
SAS = {"account.auth.type": "SAS", "sas.fixed.token": "?sv=2026&sig=pa55word%3D"}


def config(
    settings: dict[str, str], authority: str = f"lake@{HOST}", scheme: str = "abfss"
) -> dict[str, object]:
    full = {f"spark.hadoop.fs.azure.{name}": value for name, value in settings.items()}
    return azure_config(scheme, authority, full)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (KEY, {"credential_type": "access_key", "account_key": "cGE1NXdvcmQ="}),
        (KEY, {"container_name": "lake", "account_name": "shop"}),
        (KEY, {"endpoint": "https://shop.blob.core.windows.net", "client_options": None}),
        ({"account.key": "YQ==", f"account.key.{HOST}": "Yg=="}, {"account_key": "Yg=="}),
        (
            {f"account.key.{HOST}": "Yg==", f"account.key.lake.{HOST}": "Yw=="},
            {"account_key": "Yw=="},
        ),
        (
            {**KEY, "account.key.other.dfs.core.windows.net": "Yg=="},
            {"account_key": KEY["account.key"]},
        ),
        ({**KEY, "account.keyprovider": "x.SimpleKeyProvider"}, {"credential_type": "access_key"}),
        (
            {**KEY, "abfs.endpoint": "proxy.example"},
            {"endpoint": "https://shop.blob.core.windows.net"},
        ),
        (SAS, {"credential_type": "sas_token", "sas_key": "sv=2026&sig=pa55word%3D"}),
        ({**SAS, f"sas.fixed.token.lake.{HOST}": "sig=x"}, {"sas_key": "sig=x"}),
        ({**SAS, "sas.token.provider.type": "x.FixedSASTokenProvider"}, {"account_key": None}),
        (
            CLIENT,
            {
                "credential_type": "client_secret",
                "authority_host": "https://login.microsoftonline.com",
                "tenant_id": "t-1",
                "client_id": "i",
                "client_secret": "pa55word",
            },
        ),
        (
            {
                **CLIENT,
                "account.oauth2.client.endpoint": "https://login.chinacloudapi.cn/t/oauth2/v2.0/token",
            },
            {"authority_host": "https://login.chinacloudapi.cn", "tenant_id": "t"},
        ),
        (
            {
                "account.auth.type": "OAuth",
                "account.oauth.provider.type": f"{OAUTH}WorkloadIdentityTokenProvider",
                "account.oauth2.msi.tenant": "t",
                "account.oauth2.client.id": "i",
            },
            {
                "credential_type": "workload_identity",
                "authority_host": "https://login.microsoftonline.com",
                "tenant_id": "t",
                "client_id": "i",
                "federated_token_file": "/var/run/secrets/azure/tokens/azure-identity-token",
            },
        ),
        (
            {
                "account.auth.type": "OAuth",
                "account.oauth.provider.type": f"{OAUTH}MsiTokenProvider",
                "account.oauth2.msi.endpoint": "http://169.254.169.254/token",
            },
            {
                "credential_type": "managed_identity",
                "client_id": None,
                "msi_endpoint": "http://169.254.169.254/token",
            },
        ),
    ],
)
def test_settings_of_an_account(settings: dict[str, str], expected: dict[str, object]) -> None:
    """Each setting has its counterpart. Those of the container win, then those of the account."""
    actual = config(settings)

    assert expected == {name: actual.get(name) for name in expected}


@pytest.mark.parametrize(
    ("authority", "endpoint"),
    [
        ("c@a.dfs.core.chinacloudapi.cn", "https://a.blob.core.chinacloudapi.cn"),
        ("c@a.z35.dfs.storage.azure.net", "https://a.z35.blob.storage.azure.net"),
        ("w@onelake.dfs.fabric.microsoft.com", "https://onelake.blob.fabric.microsoft.com"),
        ("$root@a.blob.core.windows.net", "https://a.blob.core.windows.net"),
    ],
)
def test_hosts(authority: str, endpoint: str) -> None:
    """The same files are behind the host of blobs, in each cloud."""
    assert endpoint == config(KEY, authority)["endpoint"]


@pytest.mark.parametrize("scheme", ["abfss", "abfs"])
@pytest.mark.parametrize("always", ["true", "false"])
def test_tls(scheme: str, always: str) -> None:
    """ABFS does without it only for ``abfs:``, and by a setting. An emulator has a port."""
    settings = {**KEY, "always.use.https": always, "abfs.endpoint": "127.0.0.1:10000"}
    plain = (scheme, always) == ("abfs", "false")
    actual = config(settings, scheme=scheme)

    assert f"http{'' if plain else 's'}://127.0.0.1:10000/shop" == actual["endpoint"]
    assert plain == ("client_options" in actual)


@pytest.mark.parametrize(
    "authority",
    ["lake", "lake@", "lake@shop", "@shop.dfs.x.y", "la ke@shop.dfs.x.y", f"a:pa55@{HOST}"],
)
def test_what_is_no_account(authority: str) -> None:
    """The error says what to write, and does not repeat it."""
    with pytest.raises(OptionError, match="write abfss://container@account") as told:
        config(KEY, authority)
    assert "pa55" not in str(told.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, rf"fs\.azure\.account\.key\.{HOST} is missing"),
        ({"account.key": "pa55%"}, r"fs\.azure\.account\.key is no key of an account"),
        ({"account.key": "pa55 word"}, r"fs\.azure\.account\.key has a character"),
        (
            {**KEY, "account.keyprovider": "x.ShellDecryptionKeyProvider"},
            "class ShellDecryptionKey",
        ),
        (
            {**KEY, "account.auth.type": "Custom"},
            r"type Custom of spark\.hadoop\.fs\.azure\.account",
        ),
        ({"account.auth.type": "SAS"}, r"fs\.azure\.sas\.fixed\.token\.\S+ is missing"),
        ({**SAS, "sas.token.provider.type": "com.acme.Sas"}, "class Sas of .*sas.token.provider"),
        ({"account.auth.type": "OAuth"}, r"class \(none\) of .*account.oauth.provider.type"),
        (
            {**CLIENT, "account.oauth.provider.type": f"{OAUTH}UserPasswordTokenProvider"},
            "class UserPasswordTokenProvider of",
        ),
        ({**CLIENT, "account.oauth2.client.secret": ""}, r"client\.secret\.\S+ is missing"),
        ({**CLIENT, "account.oauth2.client.endpoint": "https://x/pa55"}, "no address of tokens"),
        ({**KEY, "encryption.context.provider.type": "x.Y"}, r"follow .*encryption\.context"),
        ({**KEY, f"encryption.encoded.client-provided-key.{HOST}": "pa55"}, "client-provided-key"),
    ],
)
def test_settings_that_cannot_be_followed(settings: dict[str, str], sentence: str) -> None:
    """kfetch would see other files than Spark, or none. The error names the setting, no value."""
    with pytest.raises(OptionError, match=sentence) as told:
        config(settings)
    assert "pa55" not in str(told.value)


def test_keys_of_the_environment_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """ABFS does not look there. obstore would, and prefers a token to the account's key."""
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", "other")
    settings = {f"spark.hadoop.fs.azure.account.key.{HOST}": "cGE1NXdvcmQ="}
    path = stored_path(f"abfss://lake@{HOST}/ck", settings)

    assert path is not None
    assert f"abfss://lake@{HOST}/ck" == str(path)
    assert "access_key" == path.store.config["credential_type"]  # type: ignore[union-attr]
