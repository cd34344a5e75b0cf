"""How ``kfetch agents`` prints an agent."""

from __future__ import annotations

import json
from dataclasses import replace

from kfetch.admin.cli.text import agent_json, agent_lines
from kfetch.agent.channel import QueryStatus, Status
from kfetch.fetch.stats import FetchStats, SessionStatus

QUERY = QueryStatus(
    name="3f",
    stream="8a04",
    topics=("a", "b", "c", "d", "e"),
    idle_s=3.0,
    sessions=(
        SessionStatus(
            broker="broker 1 (h:9092)", state="SESSION", session_id=77, epoch=5, partitions=12
        ),
    ),
    totals=FetchStats(
        records=1000, full_requests=1, incremental_requests=4, sessions_opened=1, starved_s=0.25
    ),
)
STATUS = Status(
    pid=9,
    memory_used=3 << 20,
    memory_peak=5 << 20,
    memory_limit=64 << 20,
    workers=2,
    queries=(QUERY,),
    log="/run/x.log",
)


def test_lines_for_people() -> None:
    """Sessions, partitions, rate, memory and log are told, and not every one of many topics."""
    assert [*agent_lines(STATUS, {"3f": 1234.5})] == [
        "agent 9: 2 tasks read, 3 of 64 MiB in use (at most 5)",
        "  log: /run/x.log",
        "  query 8a04: a, b, c and 2 more, 1,234 records/s",
        "    1,000 records, 5 requests (1 full), 0.0 MiB, decoded in 0.0 s, waited 0.2 s for "
        "memory, idle for 3 s",
        "    sessions: 1 opened, 0 lost, 0 refused, 0 closed",
        "    broker 1 (h:9092): session 77, epoch 5, 12 partitions (SESSION)",
    ]


def test_a_session_that_reads_from_a_follower() -> None:
    """The line of a session has the broker's rack, and how many partitions it does not lead."""
    session = replace(QUERY.sessions[0], rack="r1", as_follower=7)
    status = replace(STATUS, queries=(replace(QUERY, sessions=(session,)),))

    assert [*agent_lines(status, {})][-1] == (
        "    broker 1 (h:9092) in rack r1: session 77, epoch 5, 12 partitions, 7 of them as a "
        "follower (SESSION)"
    )


def test_json_for_machines() -> None:
    """Every fact is a field, the rate too, and null where it is not known yet."""
    told = json.loads(json.dumps(agent_json(STATUS, {})))

    assert told["queries"][0]["sessions"][0] == {
        "broker": "broker 1 (h:9092)",
        "state": "SESSION",
        "session_id": 77,
        "epoch": 5,
        "partitions": 12,
        "rack": "",
        "as_follower": 0,
    }
    assert told["queries"][0]["records_per_second"] is None
    assert 12.0 == agent_json(STATUS, {"3f": 12.0})["queries"][0]["records_per_second"]
