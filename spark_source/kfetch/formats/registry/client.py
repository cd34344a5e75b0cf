"""Asks a schema registry for schemas, by the REST API that Confluent's registry has.

Karapace, Apicurio, Redpanda and others have it, too. A registry that does not answer is asked again
for a while. Schemas never change, so each is fetched once; all threads wait for the same request.
"""

from __future__ import annotations

import base64
import json
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import lru_cache
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from kfetch.errors import KfetchError, OptionError, RegistryRefused, RegistryUnavailable
from kfetch.formats.registry.framing import SchemaCache
from kfetch.formats.registry.schemas import Schema, SchemaUnknown
from kfetch.options.registry import RegistryOptions, with_registry_names
from kfetch.wire.http_request import Request, exchange, server_words
from kfetch.wire.retry import RetryPauses
from kfetch.wire.tls import context_of

log = logging.getLogger(__name__)

_ANSWER_BYTES_MAX = 8 << 20
_CACHE_BYTES_MAX = 64 << 20
_REFERENCES_MAX = 200
"""Schemas that one schema may need, those that they need included."""
_REFERENCES_BYTES_MAX = 16 << 20
_DEPTH_MAX = 20
"""Schemas that refer to each other in a row."""
_UNKNOWN_S = 10.0
"""How long an id without a schema is not asked for again."""
_UNKNOWN_MAX = 10_000
_SECOND_LOOK_S = 0.2
"""A registry learns from Kafka what another one has stored. So an unknown id gets a second look."""
_SECOND_LOOKS_MAX, _SECOND_LOOKS_S = 10, 5.0
"""So many in so many seconds. A release may add some schemas at once. Values that are no Avro at
all may name a thousand ids, and waiting for each would take long."""
_PAUSES_S = 0.1, 5.0
"""The first pause between tries, and the longest one."""
_ATTEMPT_S = 5.0
"""A request has this time at least, even if no other one would follow."""
_NOT_FOUND = 404
_REFUSED = (401, 403)
_PASSING = frozenset({408, 425, 429, *range(500, 600)}) - {501, 505}


class Registry:
    """The registries of one query. Several threads may use it."""

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._schemas = SchemaCache[Schema](_CACHE_BYTES_MAX, _size)
        self._unknown: dict[int, tuple[float, SchemaUnknown]] = {}
        """By id: until when nobody asks again, in monotonic time, and what the registry said."""
        self._pending: dict[tuple[int, str], Future[Schema]] = {}
        self._second_looks, self._second_looks_until = 0, 0.0

    @property
    def name(self) -> str:
        """The addresses, for errors."""
        return ", ".join(self._options.urls)

    def by_id(self, number: int, *, form: str = "") -> Schema:
        """Returns the schema of an id. ``form``: ``serialized`` asks for Protobuf's descriptors.

        Raises SchemaUnknown, RegistryUnavailable or RegistryRefused.
        """
        key = number, form
        with self._lock:
            if known := self._schemas.known(key):
                return known
            until, refusal = self._unknown.get(number, (0.0, None))
            if refusal is not None and time.monotonic() < until:
                raise _again(refusal)
            pending = self._pending.get(key)
            own = pending is None
            if pending is None:
                pending = self._pending[key] = Future()
        if own:
            self._fetch(key, pending)
        return _outcome(pending)

    def by_version(self, subject: str, version: int | None, *, form: str = "") -> Schema:
        """Returns the schema of a subject; None: its latest version. Raises as ``by_id`` does."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version or 'latest'}"
        answer = self._json(path, form, f"version {version or 'latest'} of subject {subject}")
        return self._schema(answer, form)

    def versions(self, subject: str) -> list[int]:
        """Returns the versions of a subject, the oldest first. Raises as ``by_id`` does."""
        answer = self._json(
            f"/subjects/{quote(subject, safe='')}/versions", "", f"versions of {subject}"
        )
        listed = answer if isinstance(answer, list) else []
        return [number for number in listed if type(number) is int]

    def _fetch(self, key: tuple[int, str], pending: Future[Schema]) -> None:
        """Gives all callers that wait the schema, or the error."""
        number, form = key
        try:
            found = self._looked_up(number, form)
        except SchemaUnknown as refusal:
            with self._lock:
                if len(self._unknown) >= _UNKNOWN_MAX:
                    self._unknown.clear()
                self._unknown[number] = time.monotonic() + _UNKNOWN_S, refusal
            pending.set_exception(refusal)
        except BaseException as failure:
            pending.set_exception(failure)
        else:
            self._schemas.keep(key, found)
            pending.set_result(found)
        finally:
            with self._lock:
                del self._pending[key]

    def _looked_up(self, number: int, form: str) -> Schema:
        path, what = f"/schemas/ids/{number}", f"schema {number}"
        try:
            answer = self._json(path, form, what)
        except SchemaUnknown:
            if not self._takes_second_look():
                raise
            time.sleep(_SECOND_LOOK_S)
            answer = self._json(path, form, what)
        # Some registries add a version of a subject that is not the query's.
        return replace(self._schema(answer, form), id=number, version=0)

    def _takes_second_look(self) -> bool:
        with self._lock:
            now = time.monotonic()
            if now >= self._second_looks_until:
                self._second_looks, self._second_looks_until = 0, now + _SECOND_LOOKS_S
            self._second_looks += 1
            return self._second_looks <= _SECOND_LOOKS_MAX

    def _schema(self, answer: Any, form: str) -> Schema:
        """Returns the schema of an answer, with the texts of its references."""
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise self._strange("answers without a schema")
        texts: dict[tuple[str, int], str] = {}
        self._add_references(answer, form, texts, ())
        return Schema(
            id=_number(answer.get("id")),
            version=_number(answer.get("version")),
            kind=str(answer.get("schemaType") or "AVRO"),
            text=answer["schema"],
            references=tuple(texts.values()),
        )

    def _add_references(
        self,
        answer: dict[str, Any],
        form: str,
        texts: dict[tuple[str, int], str],
        path: tuple[tuple[str, int], ...],
    ) -> None:
        """Adds the texts that an answer refers to. ``path``: the schemas that led to it."""
        for subject, version in _references(answer):
            key = subject, version
            if key in texts:
                continue
            if key in path or len(path) >= _DEPTH_MAX or len(texts) >= _REFERENCES_MAX:
                raise self._strange(
                    f"has a schema with a circle of references, or with more than "
                    f"{_REFERENCES_MAX} of them, or more than {_DEPTH_MAX} in a row"
                )
            # A deleted version stays readable, because others may refer to it.
            where = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
            inner = self._json(where, form, f"version {version} of subject {subject}")
            if not isinstance(inner, dict) or not isinstance(inner.get("schema"), str):
                raise self._strange("answers without a schema")
            self._add_references(inner, form, texts, (*path, key))
            texts[key] = inner["schema"]
            if sum(map(len, texts.values())) > _REFERENCES_BYTES_MAX:
                limit = f"{_REFERENCES_BYTES_MAX >> 20} MiB"
                raise self._strange(f"has a schema with references of more than {limit}")

    def _json(self, path: str, form: str, what: str) -> Any:
        """Returns the answer to a request. ``what``: the thing that the path names."""
        separator = "&" if "?" in path else "?"
        status, body = self._answer(path + (f"{separator}format={form}" if form else ""), what)
        answer = _parsed(body)
        if status == _NOT_FOUND and _is_not_found(answer):
            raise SchemaUnknown(f"the schema registry {self.name} has no {what}")
        if status != 200:
            reason = answer.get("message") if isinstance(answer, dict) else None
            words = f": {self._clean(reason)}" if isinstance(reason, str) and reason else ""
            raise self._refusal(status, words)
        if answer is None:
            raise self._strange("gives an answer that is no JSON, or has more than 8 MiB")
        return answer

    def _answer(self, path: str, what: str) -> tuple[int, bytes]:
        """Returns the status and the body of the first address that answers."""
        deadline = time.monotonic() + self._options.retry_s
        pauses, first_cause = RetryPauses(*_PAUSES_S), ""
        while True:
            for url in self._options.urls:
                try:
                    status, body = self._request(url + path, deadline)
                    if status not in _PASSING:
                        return status, body
                    cause = f"{url} answers with status {status}"
                except (OSError, HTTPException, UnicodeError) as problem:
                    cause = f"{url}: {self._clean(str(problem) or type(problem).__name__)}"
                first_cause = first_cause or cause
            if pauses.tries == 0:
                log.warning("the schema registry does not give %s yet: %s", what, first_cause)
            if not pauses.wait(deadline):
                raise RegistryUnavailable(
                    f"the schema registry does not give {what} within "
                    f"{self._options.retry_s:g} s: {first_cause}",
                    action="Check that it runs and that this machine reaches it",
                    cause=first_cause,
                )

    def _request(self, url: str, deadline: float) -> tuple[int, bytes]:
        request = Request(url=url, headers=self._headers(), answer_bytes_max=_ANSWER_BYTES_MAX + 1)
        try:
            context = context_of(self._options.tls) if url.lower().startswith("https") else None
            return exchange(request, context, max(deadline, time.monotonic() + _ATTEMPT_S))
        except OptionError as problem:
            raise RegistryRefused(
                f"TLS of the schema registry: {with_registry_names(problem.what)}",
                action=with_registry_names(problem.action),
            ) from None
        except ssl.SSLCertVerificationError as problem:
            raise RegistryRefused(
                f"the certificate of the schema registry {url.partition('/schemas/')[0]} is not "
                f"valid here: {problem.verify_message.rstrip('.')}",
                action="Name its authority in schema.registry.ssl.truststore.location, or correct "
                "the URL",
            ) from None

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": "application/vnd.schemaregistry.v1+json, application/json",
            "User-Agent": "kfetch",
        }
        if self._options.user_info is not None:
            headers["Authorization"] = f"Basic {_base64(self._options.user_info.reveal())}"
        if self._options.token is not None:
            headers["Authorization"] = f"Bearer {self._options.token.reveal()}"
        return headers

    def _refusal(self, status: int, words: str) -> RegistryRefused:
        if status in _REFUSED:
            return RegistryRefused(
                f"the schema registry {self.name} refuses the log-in with status {status}{words}",
                action="Correct schema.registry.basic.auth.user.info or "
                "schema.registry.bearer.auth.token",
            )
        return self._strange(f"answers with status {status}{words}")

    def _strange(self, what: str) -> RegistryRefused:
        return RegistryRefused(
            f"the schema registry {self.name} {what}", action="Check the URL and the registry"
        )

    def _clean(self, text: str) -> str:
        """Returns the registry's words without secrets, and without anything that is no text."""
        own = (self._options.user_info, self._options.token)
        secrets = [secret.reveal() for secret in own if secret is not None]
        parts = [part for secret in secrets for part in (_base64(secret), secret.partition(":")[2])]
        return server_words(text, [*secrets, *parts])


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@lru_cache(maxsize=16)
def registry_of(options: RegistryOptions) -> Registry:
    """Returns the registry of some options, with the cache that this process has for it."""
    return Registry(options)


def _outcome(pending: Future[Schema]) -> Schema:
    try:
        return pending.result()
    except (KfetchError, SchemaUnknown) as failure:
        raise _again(failure) from None


def _again(failure: KfetchError | SchemaUnknown) -> Exception:
    """Returns an equal error, because several threads raise it."""
    if isinstance(failure, SchemaUnknown):
        return SchemaUnknown(*failure.args)
    return type(failure)(failure.what, action=failure.action, **failure.where)


def _references(answer: dict[str, Any]) -> Iterator[tuple[str, int]]:
    listed = answer.get("references")
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict) and isinstance(item.get("subject"), str):
            yield item["subject"], _number(item.get("version"))


def _is_not_found(answer: Any) -> bool:
    """Returns whether a registry says that it has no such thing. A wrong path gives 404, too."""
    code = answer.get("error_code") if isinstance(answer, dict) else None
    return type(code) is int and 40400 < code < 40500


def _number(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 31 else 0


def _size(schema: Schema) -> int:
    return len(schema.text) + sum(map(len, schema.references))


def _parsed(body: bytes) -> Any:
    if len(body) > _ANSWER_BYTES_MAX:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
