"""The table of docs/reference/broker-errors.md: kfetch's reactions to error codes, and Kafka's.

Kafka's reactions are those of kafka-clients 4.3.1. An integration test reads them from its classes:

- Fetch: ``FetchCollector.handleInitializeErrors``.
- ListOffsets, OffsetsForLeaderEpoch, Metadata: ``Errors``. A code whose exception is a
  RetriableException is retried. Kafka's admin client decides so, and Spark's connector uses it. The
  consumer retries any code of the first two requests, except TOPIC_AUTHORIZATION_FAILED.
- ApiVersions: ``NetworkClient.handleApiVersionsResponse``.
- SaslHandshake, SaslAuthenticate: ``SaslClientAuthenticator``. ``Selector`` closes the connection
  after an exception that is no AuthenticationException.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfetch.reactions import NAMES, RETRIABLE, UNKNOWN_SERVER_ERROR, Api, Reaction, reaction

__all__ = ["kafkas_reaction", "table"]

_FETCH_RETRIED_BY_KAFKA = frozenset({-1, 3, 6, 9, 56, 74, 75, 78, 100, 103})


def kafkas_reaction(api: Api, code: int) -> Reaction:
    """Returns the reaction of Kafka's Java client, in the same words."""
    code = code if code in NAMES else UNKNOWN_SERVER_ERROR
    if api in (Api.API_VERSIONS, Api.SASL_AUTHENTICATE):
        return reaction(api, code)
    if api is Api.SASL_HANDSHAKE:
        return Reaction.FAIL
    if api is Api.FETCH and code == 1:
        return Reaction.REPOSITION
    if (api, code) in ((Api.METADATA, 3), (Api.METADATA, 129)):
        return reaction(api, code)
    retried = _FETCH_RETRIED_BY_KAFKA if api is Api.FETCH else RETRIABLE
    return Reaction.RETRY if code in retried else Reaction.FAIL


def table() -> str:
    """Returns the table of docs/reference/broker-errors.md.

    It has the codes that not every request fails with.
    """
    head = ["error code", *(api.value for api in Api)]
    lines = [_row(head), _row(["---"] * len(head))]
    lines += [_row([f"{NAMES[code]} ({code})", *_cells(code)]) for code in _listed()]
    lines.append(_row(["any other code of Kafka 4.3", *_cells(_UNLISTED)]))
    lines.append(_row(["a code that kfetch does not know", *_cells(_UNKNOWN)]))
    return "\n".join(lines) + "\n"


_UNLISTED = 42  # INVALID_REQUEST: every request fails with it, except ApiVersions
_UNKNOWN = 32_767


def _listed() -> Iterator[int]:
    for code in NAMES:
        if code and _cells(code) != _cells(_UNLISTED):
            yield code


def _cells(code: int) -> list[str]:
    return [_cell(reaction(api, code), kafkas_reaction(api, code)) for api in Api]


def _cell(ours: Reaction, kafkas: Reaction) -> str:
    return ours.value if ours is kafkas else f"{ours.value} (Kafka: {kafkas.value})"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
