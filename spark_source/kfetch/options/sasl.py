"""SASL: how a connection logs in (``kafka.sasl.*``).

Kafka's own names come first: the mechanism and ``sasl.jaas.config``. ``kafka.sasl.username`` and
``kafka.sasl.password`` are shorter. Every secret is a ``Secret``, and no error shows one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kfetch.errors import NotBuilt, OptionError
from kfetch.options import oauth
from kfetch.options.converters import one_of
from kfetch.options.jaas import JAAS_CONFIG, LoginModule, parse_jaas
from kfetch.options.oauth import OauthLogin, oauth_login
from kfetch.options.option import Option, OptionReader, by_name
from kfetch.options.secret import Secret

_MECHANISM = "kafka.sasl.mechanism"
_USERNAME, _PASSWORD = "kafka.sasl.username", "kafka.sasl.password"
_SERVICE_NAME = "kafka.sasl.kerberos.service.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordLogin:
    """A user and a password, for PLAIN and SCRAM."""

    user: str
    password: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsLogin:
    """Who signs for AWS_MSK_IAM. Without a profile or a role: AWS's default credentials."""

    profile: str = ""
    role_arn: str = ""
    role_session_name: str = ""
    role_external_id: Secret | None = None
    sts_region: str = ""
    region: str = ""
    """The cluster's region; empty: that of the broker's host name."""

    @property
    def user(self) -> str:
        """The principal that the options name; empty for that of the default credentials."""
        return self.role_arn


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """Who asks Kerberos for a ticket, and for which service."""

    service_name: str
    principal: str = ""
    """Empty: that of the ticket cache."""
    keytab: str = ""
    """A file with keys; empty: the ticket cache has a ticket already."""
    ticket_cache: str = ""
    """A file with tickets; empty: the default cache."""

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files, as the options name them."""
        return tuple(
            path for path in (self.keytab, self.ticket_cache.removeprefix("FILE:")) if path
        )

    @property
    def user(self) -> str:
        """The principal's first part, as Kafka's default rule names it."""
        return self.principal.partition("@")[0].partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslOptions:
    """The settings of a log-in."""

    mechanism: str
    login: PasswordLogin | OauthLogin | AwsLogin | KerberosLogin = field()

    @property
    def user(self) -> str:
        """The user's name, for errors; empty if the options don't tell it."""
        return self.login.user


_MODULES = {
    "GSSAPI": "Krb5LoginModule",
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "AWS_MSK_IAM": "IAMLoginModule",
}
"""The log-in module of each mechanism, whatever package it was moved to."""


OPTIONS = by_name(
    Option(
        _MECHANISM,
        "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`, `AWS_MSK_IAM` or `GSSAPI`",
        one_of(*_MODULES),
        "GSSAPI",
    ),
    Option(
        JAAS_CONFIG,
        "Java's text of a log-in module with its user, password or other options; secret",
        Secret,
    ),
    Option(_USERNAME, "user of PLAIN and SCRAM; kfetch's own, instead of JAAS"),
    Option(_PASSWORD, "password of this user; secret", Secret),
    Option(
        "kafka.sasl.client.callback.handler.class",
        "`…IAMClientCallbackHandler` for AWS_MSK_IAM; kfetch does its work itself",
    ),
    *oauth.OPTIONS.values(),
    Option(_SERVICE_NAME, "`serviceName` in JAAS, too"),
    *oauth.KFETCH_OPTIONS.values(),
    Option("kfetch.msk.region", "AWS region of the cluster, if its host names do not tell it"),
)
PLANNED = {
    "kafka.sasl.oauthbearer.assertion.*": (
        "log-in by a signed assertion: use client credentials or kfetch.oauth.provider"
    ),
}
REFUSED = {
    "kafka.sasl.login.class": "a class of Java: use kfetch.oauth.provider=module:function",
}
IGNORED = {
    "kafka.sasl.login.refresh.*": "kfetch renews a token after 80 % of its time",
    "kafka.sasl.kerberos.kinit.cmd": "kfetch gets tickets with the library gssapi",
    "kafka.sasl.kerberos.ticket.renew.window.factor": "kfetch gets tickets with the library gssapi",
    "kafka.sasl.kerberos.ticket.renew.jitter": "kfetch gets tickets with the library gssapi",
    "kafka.sasl.kerberos.min.time.before.relogin": "kfetch gets tickets with the library gssapi",
    "kafka.sasl.oauthbearer.jwt.validator.class": "the broker checks the token",
    "kafka.sasl.oauthbearer.scope.claim.name": "the broker checks the token",
    "kafka.sasl.oauthbearer.sub.claim.name": "the broker checks the token",
    "kafka.sasl.oauthbearer.clock.skew.seconds": "a setting of brokers",
    "kafka.sasl.oauthbearer.expected.audience": "a setting of brokers",
    "kafka.sasl.oauthbearer.expected.issuer": "a setting of brokers",
    "kafka.sasl.oauthbearer.jwks.*": "a setting of brokers",
}


def sasl_options(read: OptionReader) -> SaslOptions:
    """Returns the settings of ``kafka.sasl.*``. Raises OptionError or NotBuilt."""
    mechanism = read(OPTIONS[_MECHANISM])
    jaas = read(OPTIONS[JAAS_CONFIG])
    module = parse_jaas(jaas) if jaas and jaas.reveal() else None
    if module and module.name != _MODULES[mechanism]:
        raise _wrong_module(read, mechanism, module)
    _check_handlers(read, mechanism)
    given = module or LoginModule(name=_MODULES[mechanism], options={})
    if mechanism == "OAUTHBEARER":
        return SaslOptions(mechanism=mechanism, login=oauth_login(read, given))
    if mechanism == "AWS_MSK_IAM":
        return SaslOptions(mechanism=mechanism, login=_aws_login(read, given))
    if mechanism == "GSSAPI":
        return SaslOptions(mechanism=mechanism, login=_kerberos_login(read, given))
    return SaslOptions(mechanism=mechanism, login=_password_login(read, mechanism, module))


def _wrong_module(read: OptionReader, mechanism: str, module: LoginModule) -> OptionError:
    fitting = " or ".join(name for name, known in _MODULES.items() if known == module.name)
    default = "" if _MECHANISM in read else " by default"
    return OptionError.about(
        _MECHANISM,
        f"is {mechanism}{default}, which needs {_MODULES[mechanism]}, but "
        f"option {JAAS_CONFIG} names {module.name}",
        action=f"set {_MECHANISM}={fitting}" if fitting else f"change {JAAS_CONFIG}",
    )


# Classes of Java whose work kfetch does itself. ``oauth`` reads those of OAUTHBEARER.
_KNOWN_HANDLERS = frozenset({"IAMClientCallbackHandler"})
_HANDLER_OPTIONS = (
    "kafka.sasl.client.callback.handler.class",
    "kafka.sasl.login.callback.handler.class",
)


def _check_handlers(read: OptionReader, mechanism: str) -> None:
    """Raises NotBuilt for a handler of Java that would bring secrets from somewhere else."""
    for option in _HANDLER_OPTIONS:
        name = read.text(option).rpartition(".")[2]
        if not name or (mechanism == "OAUTHBEARER" and option == _HANDLER_OPTIONS[1]):
            continue
        if mechanism != "AWS_MSK_IAM" or name not in _KNOWN_HANDLERS:
            raise NotBuilt.about(
                option,
                "names a class of Java that kfetch can't run",
                action="set the user and the password themselves, or, for OAUTHBEARER, "
                "kfetch.oauth.provider=module:function",
            )


def _password_login(
    read: OptionReader, mechanism: str, module: LoginModule | None
) -> PasswordLogin:
    user, password = read.text(_USERNAME), read.password(_PASSWORD)
    if module and (_USERNAME in read or password is not None):
        raise OptionError(
            f"options {JAAS_CONFIG} and {_USERNAME} both name a user",
            action="remove one of them",
            option=_USERNAME,
        )
    if module:
        if module.flag("tokenauth"):
            raise NotBuilt(
                f"delegation tokens (tokenauth in option {JAAS_CONFIG}) are not built yet",
                action="use a user of SCRAM and its password",
                option=JAAS_CONFIG,
            )
        user, password = module.text("username"), module.options.get("password")
    if not user or password is None or not password.reveal():
        raise _no_user(mechanism, module, "password" if user else "username")
    if "\0" in user + password.reveal():
        raise OptionError(
            "the user or the password of SASL has a NUL character, which PLAIN and SCRAM forbid",
            option=JAAS_CONFIG if module else _USERNAME,
        )
    return PasswordLogin(user=user, password=password)


def _no_user(mechanism: str, module: LoginModule | None, missing: str) -> OptionError:
    if module:
        return OptionError(
            f"{module.name} in option {JAAS_CONFIG} has no {missing}",
            action=f'add {missing}="…"',
            option=JAAS_CONFIG,
        )
    return OptionError(
        f"option {_MECHANISM} is {mechanism}, but kafka.sasl.{missing} is missing",
        action=f"set {_USERNAME} and {_PASSWORD}, or {JAAS_CONFIG}",
        option=f"kafka.sasl.{missing}",
    )


def _aws_login(read: OptionReader, module: LoginModule) -> AwsLogin:
    if read.text("kafka.security.protocol").upper() != "SASL_SSL":
        raise OptionError(
            "option kafka.sasl.mechanism is AWS_MSK_IAM, which needs TLS",
            action="set kafka.security.protocol=SASL_SSL",
            option="kafka.security.protocol",
        )
    if "awsRoleAccessKeyId" in module.options:
        raise NotBuilt(
            f"awsRoleAccessKeyId in option {JAAS_CONFIG} is not built yet",
            action="put the keys into a profile of AWS, and name it with awsProfileName",
            option=JAAS_CONFIG,
        )
    return AwsLogin(
        profile=module.text("awsProfileName"),
        role_arn=module.text("awsRoleArn"),
        role_session_name=module.text("awsRoleSessionName"),
        role_external_id=module.options.get("awsRoleExternalId"),
        sts_region=module.text("awsStsRegion"),
        region=read.text("kfetch.msk.region"),
    )


def _kerberos_login(read: OptionReader, module: LoginModule) -> KerberosLogin:
    service_name = read.text(_SERVICE_NAME) or module.text("serviceName")
    if not service_name:
        chosen = "" if _MECHANISM in read else " (its default)"
        if read.text(_USERNAME):
            raise OptionError.about(
                _MECHANISM,
                f"is GSSAPI{chosen}, but {_USERNAME} is a user with a password",
                action=f"set {_MECHANISM} to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
            )
        raise OptionError(
            f"option {_MECHANISM} is GSSAPI{chosen}, but {_SERVICE_NAME} is missing",
            action=f"set {_SERVICE_NAME}, which is mostly kafka, or another {_MECHANISM}",
            option=_SERVICE_NAME,
        )
    keytab = module.text("keyTab") if module.flag("useKeyTab") else ""
    if keytab and not module.text("principal"):
        raise OptionError(
            f"Krb5LoginModule in option {JAAS_CONFIG} has a keyTab and no principal",
            action='add principal="…"',
            option=JAAS_CONFIG,
        )
    return KerberosLogin(
        service_name=service_name,
        principal=module.text("principal"),
        keytab=keytab.removeprefix("file://"),
        ticket_cache=module.text("ticketCache"),
    )
