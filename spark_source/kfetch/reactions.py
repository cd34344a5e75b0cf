"""The table of broker errors: for each request and error code, kfetch's reaction and Kafka's.

``codes`` decides by this table, and tests compare both it and the table with the behaviour.
``python -m kfetch.reactions`` prints the table of docs/reference/broker-errors.md.

Kafka's reactions are those of kafka-clients 4.3.1. An integration test reads them from its classes:

- Fetch: ``FetchCollector.handleInitializeErrors``.
- ListOffsets, OffsetsForLeaderEpoch, Metadata: ``Errors``. A code whose exception is a
  RetriableException is retried. Kafka's admin client decides so, and Spark's connector uses it. The
  consumer retries any code of the first two requests, except TOPIC_AUTHORIZATION_FAILED.
- ApiVersions: ``NetworkClient.handleApiVersionsResponse``.
- SaslHandshake, SaslAuthenticate: ``SaslClientAuthenticator``. ``Selector`` closes the connection
  after an exception that is no AuthenticationException.

Kafka's client takes a code that it does not know for UNKNOWN_SERVER_ERROR, and so does kfetch.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

__all__ = ["NAMES", "UNKNOWN_SERVER_ERROR", "Api", "Reaction", "kafkas_reaction", "reaction"]

UNKNOWN_SERVER_ERROR = -1


class Api(Enum):
    """The requests that kfetch sends. The value is the request's name in Kafka's documentation."""

    FETCH = "Fetch"
    LIST_OFFSETS = "ListOffsets"
    EPOCH_ENDS = "OffsetForLeaderEpoch"
    METADATA = "Metadata"
    API_VERSIONS = "ApiVersions"
    SASL_HANDSHAKE = "SaslHandshake"
    SASL_AUTHENTICATE = "SaslAuthenticate"


class Reaction(Enum):
    """What a client does after an error code. The value is the word in the documentation."""

    RETRY = "retry"
    """Ask again after a back-off, and after fresh metadata."""
    FAIL = "fail"
    """Raise the error at once."""
    REPOSITION = "find position"
    """Ask for the log's start and end: the position may be lost."""
    ABSENT = "absent"
    """Take the topic for one that does not exist now."""
    REBOOTSTRAP = "bootstrap"
    """Leave the known brokers, and ask the bootstrap servers."""
    OLDER_VERSION = "version 0"
    """Ask again with version 0 of the request."""
    DISCONNECT = "disconnect"
    """Close the connection, and treat the broker as one that cannot be reached."""


_RETRIABLE = frozenset(
    {
        2,
        3,
        5,
        6,
        7,
        9,
        13,
        14,
        15,
        16,
        19,
        20,
        41,
        51,
        56,
        70,
        71,
        72,
        74,
        75,
        78,
        80,
        83,
        84,
        88,
        89,
        100,
        103,
        106,
        122,
        123,
        133,
    }
)
"""Codes whose exception in ``Errors`` is a RetriableException."""

_SASL = (Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE)
_LOGIN_REFUSED = frozenset({33, 34, 58})
"""Codes whose exception is an AuthenticationException."""
_FETCH_RETRIED_BY_KAFKA = frozenset({-1, 3, 6, 9, 56, 74, 75, 78, 100, 103})
_SPECIAL = {
    (Api.FETCH, 1): Reaction.REPOSITION,
    # A damaged batch on the broker's disk stays damaged.
    (Api.FETCH, 2): Reaction.FAIL,
    # The broker may just not know the topic yet, so the caller asks more than once.
    (Api.METADATA, 3): Reaction.ABSENT,
    (Api.METADATA, 100): Reaction.ABSENT,
    (Api.METADATA, 129): Reaction.REBOOTSTRAP,  # KIP-1102
    (Api.API_VERSIONS, 35): Reaction.OLDER_VERSION,
}


def reaction(api: Api | None, code: int) -> Reaction:
    """Returns kfetch's reaction to an error code other than 0 in the reply to a request.

    ``api``: None for a request that the table does not have.
    """
    if api and (special := _SPECIAL.get((api, code))):
        return special
    if api is Api.API_VERSIONS:
        return Reaction.DISCONNECT
    if api in _SASL:
        return Reaction.FAIL if code in _LOGIN_REFUSED else Reaction.DISCONNECT
    # A broker answers with UNKNOWN_SERVER_ERROR after an exception that it did not expect. Most of
    # these pass, such as a timeout of its disk or of its remote storage.
    retried = code in _RETRIABLE or code not in NAMES or code == UNKNOWN_SERVER_ERROR
    return Reaction.RETRY if retried else Reaction.FAIL


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
    retried = _FETCH_RETRIED_BY_KAFKA if api is Api.FETCH else _RETRIABLE
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


NAMES = {
    int(code): name
    for code, name in (
        line.split()
        for line in """
-1 UNKNOWN_SERVER_ERROR
0 NONE
1 OFFSET_OUT_OF_RANGE
2 CORRUPT_MESSAGE
3 UNKNOWN_TOPIC_OR_PARTITION
4 INVALID_FETCH_SIZE
5 LEADER_NOT_AVAILABLE
6 NOT_LEADER_OR_FOLLOWER
7 REQUEST_TIMED_OUT
8 BROKER_NOT_AVAILABLE
9 REPLICA_NOT_AVAILABLE
10 MESSAGE_TOO_LARGE
11 STALE_CONTROLLER_EPOCH
12 OFFSET_METADATA_TOO_LARGE
13 NETWORK_EXCEPTION
14 COORDINATOR_LOAD_IN_PROGRESS
15 COORDINATOR_NOT_AVAILABLE
16 NOT_COORDINATOR
17 INVALID_TOPIC_EXCEPTION
18 RECORD_LIST_TOO_LARGE
19 NOT_ENOUGH_REPLICAS
20 NOT_ENOUGH_REPLICAS_AFTER_APPEND
21 INVALID_REQUIRED_ACKS
22 ILLEGAL_GENERATION
23 INCONSISTENT_GROUP_PROTOCOL
24 INVALID_GROUP_ID
25 UNKNOWN_MEMBER_ID
26 INVALID_SESSION_TIMEOUT
27 REBALANCE_IN_PROGRESS
28 INVALID_COMMIT_OFFSET_SIZE
29 TOPIC_AUTHORIZATION_FAILED
30 GROUP_AUTHORIZATION_FAILED
31 CLUSTER_AUTHORIZATION_FAILED
32 INVALID_TIMESTAMP
33 UNSUPPORTED_SASL_MECHANISM
34 ILLEGAL_SASL_STATE
35 UNSUPPORTED_VERSION
36 TOPIC_ALREADY_EXISTS
37 INVALID_PARTITIONS
38 INVALID_REPLICATION_FACTOR
39 INVALID_REPLICA_ASSIGNMENT
40 INVALID_CONFIG
41 NOT_CONTROLLER
42 INVALID_REQUEST
43 UNSUPPORTED_FOR_MESSAGE_FORMAT
44 POLICY_VIOLATION
45 OUT_OF_ORDER_SEQUENCE_NUMBER
46 DUPLICATE_SEQUENCE_NUMBER
47 INVALID_PRODUCER_EPOCH
48 INVALID_TXN_STATE
49 INVALID_PRODUCER_ID_MAPPING
50 INVALID_TRANSACTION_TIMEOUT
51 CONCURRENT_TRANSACTIONS
52 TRANSACTION_COORDINATOR_FENCED
53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED
54 SECURITY_DISABLED
55 OPERATION_NOT_ATTEMPTED
56 KAFKA_STORAGE_ERROR
57 LOG_DIR_NOT_FOUND
58 SASL_AUTHENTICATION_FAILED
59 UNKNOWN_PRODUCER_ID
60 REASSIGNMENT_IN_PROGRESS
61 DELEGATION_TOKEN_AUTH_DISABLED
62 DELEGATION_TOKEN_NOT_FOUND
63 DELEGATION_TOKEN_OWNER_MISMATCH
64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
65 DELEGATION_TOKEN_AUTHORIZATION_FAILED
66 DELEGATION_TOKEN_EXPIRED
67 INVALID_PRINCIPAL_TYPE
68 NON_EMPTY_GROUP
69 GROUP_ID_NOT_FOUND
70 FETCH_SESSION_ID_NOT_FOUND
71 INVALID_FETCH_SESSION_EPOCH
72 LISTENER_NOT_FOUND
73 TOPIC_DELETION_DISABLED
74 FENCED_LEADER_EPOCH
75 UNKNOWN_LEADER_EPOCH
76 UNSUPPORTED_COMPRESSION_TYPE
77 STALE_BROKER_EPOCH
78 OFFSET_NOT_AVAILABLE
79 MEMBER_ID_REQUIRED
80 PREFERRED_LEADER_NOT_AVAILABLE
81 GROUP_MAX_SIZE_REACHED
82 FENCED_INSTANCE_ID
83 ELIGIBLE_LEADERS_NOT_AVAILABLE
84 ELECTION_NOT_NEEDED
85 NO_REASSIGNMENT_IN_PROGRESS
86 GROUP_SUBSCRIBED_TO_TOPIC
87 INVALID_RECORD
88 UNSTABLE_OFFSET_COMMIT
89 THROTTLING_QUOTA_EXCEEDED
90 PRODUCER_FENCED
91 RESOURCE_NOT_FOUND
92 DUPLICATE_RESOURCE
93 UNACCEPTABLE_CREDENTIAL
94 INCONSISTENT_VOTER_SET
95 INVALID_UPDATE_VERSION
96 FEATURE_UPDATE_FAILED
97 PRINCIPAL_DESERIALIZATION_FAILURE
98 SNAPSHOT_NOT_FOUND
99 POSITION_OUT_OF_RANGE
100 UNKNOWN_TOPIC_ID
101 DUPLICATE_BROKER_REGISTRATION
102 BROKER_ID_NOT_REGISTERED
103 INCONSISTENT_TOPIC_ID
104 INCONSISTENT_CLUSTER_ID
105 TRANSACTIONAL_ID_NOT_FOUND
106 FETCH_SESSION_TOPIC_ID_ERROR
107 INELIGIBLE_REPLICA
108 NEW_LEADER_ELECTED
109 OFFSET_MOVED_TO_TIERED_STORAGE
110 FENCED_MEMBER_EPOCH
111 UNRELEASED_INSTANCE_ID
112 UNSUPPORTED_ASSIGNOR
113 STALE_MEMBER_EPOCH
114 MISMATCHED_ENDPOINT_TYPE
115 UNSUPPORTED_ENDPOINT_TYPE
116 UNKNOWN_CONTROLLER_ID
117 UNKNOWN_SUBSCRIPTION_ID
118 TELEMETRY_TOO_LARGE
119 INVALID_REGISTRATION
120 TRANSACTION_ABORTABLE
121 INVALID_RECORD_STATE
122 SHARE_SESSION_NOT_FOUND
123 INVALID_SHARE_SESSION_EPOCH
124 FENCED_STATE_EPOCH
125 INVALID_VOTER_KEY
126 DUPLICATE_VOTER
127 VOTER_NOT_FOUND
128 INVALID_REGULAR_EXPRESSION
129 REBOOTSTRAP_REQUIRED
130 STREAMS_INVALID_TOPOLOGY
131 STREAMS_INVALID_TOPOLOGY_EPOCH
132 STREAMS_TOPOLOGY_FENCED
133 SHARE_SESSION_LIMIT_REACHED
""".strip().splitlines()
    )
}
"""Every error code of Kafka 4.3.1 by number (``org.apache.kafka.common.protocol.Errors``)."""


if __name__ == "__main__":
    print(table(), end="")
