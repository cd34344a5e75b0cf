"""A scenario: everything that one seed decides before a simulation starts.

The cluster, the query's options, and a list of actions with their times. So a scenario can be made
smaller: without one action, the others stay as they are.

Most seeds are a swarm: each draws a few kinds of actions, and has no others. So rare orders of two
or three kinds come often, which all kinds together would drown (Groce et al., Swarm Testing).
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from simulation import chaos
from simulation.cluster import chaos as cluster_chaos
from simulation.cluster.chaos import CODECS, Action, Profile
from simulation.kernel.scheduler import WALL_AT_START_S


@dataclass(frozen=True)
class Scenario:
    """What a seed has decided."""

    seed: int
    profile: str
    minutes: float
    """How long things happen. Afterwards the query has time to catch up."""
    brokers: int
    replicas: int
    racks: int
    partitions: tuple[int, ...]
    """The number of partitions of each topic at the start."""
    release: str
    session_slots: int
    task_slots: int
    preempt: float
    """The chance that a thread lets another one go first where it could."""
    speculation: float
    batch_s: float
    """How long Spark takes for an Arrow batch."""
    trigger_s: float
    available_now: bool
    agents: bool
    """Whether tasks read through an agent, or inline."""
    options: tuple[tuple[str, str], ...]
    """Options of the source."""
    actions: tuple[Action, ...] = field(repr=False)
    """In order of their times."""
    latency_s: float = 0.002
    """The longest way of a packet between two hosts."""
    start_s: float = 0.0
    """When the query starts. Topics and producers are earlier."""
    decode_s: float = 0.0
    """The longest time that an Arrow batch takes to decode."""
    by_pattern: bool = False
    """Whether the query names its topics by a pattern."""

    @property
    def reads_by_name(self) -> bool:
        """Whether any broker is too old for topic ids in fetches."""
        releases = {self.release, *(action.arguments.get("release") for action in self.actions)}
        return "2.8" in releases


Weights = Mapping[str, float]
"""How often each kind of action comes, in comparison."""

WRITES: Weights = {"produce": 20, "transaction": 1}
LOSSES: Weights = {
    kind: cluster_chaos.WEIGHTS[kind]
    for kind in ("truncate", "expire", "delete_records", "recreate_topic")
}
NO_LOSSES: Weights = {
    kind: weight
    for kind, weight in cluster_chaos.WEIGHTS.items()
    if kind not in (*WRITES, *LOSSES, "delete_topic")
}
PROCESSES: Weights = {
    "kill_driver": 2,
    "kill_worker": 4,
    "kill_agent": 2,
    "stop_query": 1,
    "freeze_worker": 1,
    "freeze_driver": 0.5,
    "freeze_agent": 1,
}
CLOCKS: Weights = {"step_clock": 1}
BATCHES: Weights = {"read_batch": 2}

TASKS: Weights = {"kill_worker": 4, "freeze_worker": 1, "freeze_agent": 1}
LATE: Weights = {"delay_replies": 2, "slow": 2, "lag": 1, "elect": 1, "truncate": 0.5}


class Troubles(NamedTuple):
    """What a profile is rich in."""

    on_cluster: float
    """Actions a second."""
    on_processes: float
    of_cluster: Weights
    of_processes: Weights
    fixed: Mapping[str, Any] = {}
    """Values of the scenario that are not drawn."""
    options: Mapping[str, str] = {}
    """Options that are not drawn. An empty one is not set."""
    writes_per_s: float = 0.0
    """Not drawn, if it is given."""
    longest_s: float = 30.0
    """The longest fault."""
    burst_every_s: float = 0.0
    """All trouble comes within the first tenth of each such time, so rare neighbours meet."""


PROFILES: Mapping[str, Troubles] = {
    "calm": Troubles(0, 0.03, {}, BATCHES),
    "everything": Troubles(0.2, 0.1, {**NO_LOSSES, **LOSSES}, {**PROCESSES, **CLOCKS, **BATCHES}),
    "starts": Troubles(  # the driver ends while batch 0 runs
        0,
        0.4,
        {},
        {"kill_driver": 1},
        fixed={"minutes": 0.3, "batch_s": 0.5},
        options={"startingOffsets": "latest"},
        writes_per_s=10.0,
    ),
    "attempts": Troubles(  # attempts at tasks take over from each other while replies are late
        0.1,
        0.6,
        LATE,
        TASKS,
        fixed={
            "minutes": 1.0,
            "agents": True,
            "speculation": 1.0,
            "task_slots": 4,
            "batch_s": 0.01,
            "decode_s": 0.5,
            "latency_s": 0.5,
        },
        options={"kafka.fetch.max.bytes": "2000", "maxRecordsPerPartition": ""},
        writes_per_s=10.0,
    ),
    "reconnects": Troubles(  # attempts take over while the agent waits for a new connection
        0.4,
        0.2,
        {"cut": 2, "hang": 2},
        {"kill_worker": 1},
        fixed={
            "minutes": 1.0,
            "agents": True,
            "speculation": 1.0,
            "task_slots": 4,
            "batch_s": 0.01,
            "decode_s": 0.0,
            "trigger_s": 0.0,
            "latency_s": 0.5,
            "available_now": False,
        },
        options={
            "kafka.fetch.max.bytes": "2000",
            "maxRecordsPerPartition": "",
            "maxOffsetsPerTrigger": "",
            "minOffsetsPerTrigger": "",
            "minPartitions": "",
        },
        writes_per_s=20.0,
    ),
    "histories": Troubles(  # logs are cut and grow again while the driver is away
        0.3,
        0.2,
        {"truncate": 3, "expire": 1, "elect": 1},
        {"freeze_driver": 2, "kill_driver": 2, "stop_query": 1},
        fixed={"minutes": 2.0, "brokers": 3, "replicas": 3, "trigger_s": 1.0, "batch_s": 0.5},
        writes_per_s=10.0,
    ),
    "behind": Troubles(  # leaders have less than was planned, and ranges move between replicas
        0.3,
        0.0,
        {"elect_behind": 3, "throttle": 1, "elect": 1},
        {},
        fixed={"minutes": 2.0, "brokers": 3, "replicas": 3, "racks": 2, "trigger_s": 0.0},
        options={"kafka.client.rack": "rack-0", "kafkaConsumer.pollTimeoutMs": "20000"},
        writes_per_s=3.0,
    ),
    "recreations": Troubles(  # topics are created again while leaders change
        0.2,
        0.0,
        {"recreate_topic": 2, "elect": 3},
        {},
        fixed={
            "minutes": 2.0,
            "brokers": 3,
            "replicas": 3,
            "trigger_s": 0.0,
            "batch_s": 0.0,
            "latency_s": 0.5,
        },
        options={"failOnDataLoss": "false"},
        writes_per_s=3.0,
        longest_s=2.0,
    ),
}
STARTING_GROUP = "starters"
"""The group whose committed offsets a query may start at."""
SWARM = "swarm"
_DRAWN = (
    *[SWARM] * 6,
    "calm",
    "everything",
    "starts",
    "starts",
    "attempts",
    "reconnects",
    "reconnects",
    "histories",
    "reconnects",
    "behind",
    "recreations",
)
_SWARM_PER_S = (0.05, 0.2, 0.5)
_SWARM_SIZES = (1, 2, 2, 3, 3, 5, 8)
_BURSTS_S = (0.0, 0.0, 20.0)
_MANY_PARTITIONS = 9
"""The driver asks brokers otherwise whether so large a topic has grown."""


def _swarm(chance: random.Random) -> Troubles:
    """Returns the troubles of one seed: a few kinds of all."""
    of_cluster = {**NO_LOSSES, **LOSSES, "delete_topic": 1.0}
    of_processes = {**PROCESSES, **CLOCKS, **BATCHES}
    kinds = chance.sample([*of_cluster, *of_processes], chance.choice(_SWARM_SIZES))
    drawn = [{kind: 1.0 for kind in kinds if kind in known} for known in (of_cluster, of_processes)]
    per_s = chance.choice(_SWARM_PER_S)
    shares = [per_s * len(one) / len(kinds) for one in drawn]
    return Troubles(shares[0], shares[1], drawn[0], drawn[1])


def scenario(seed: int, minutes: float | None = None, profile: str | None = None) -> Scenario:
    """Returns the scenario of a seed."""
    chance = random.Random(seed)
    drawn, swarm = chance.choice(_DRAWN), _swarm(chance)
    profile = profile or drawn
    rare = random.Random(seed + 4)  # so these draws change no others
    swarm = swarm._replace(burst_every_s=rare.choice(_BURSTS_S))
    troubles = PROFILES.get(profile, swarm)
    drawn_minutes = chance.choice((1.0, 2.0, 4.0))
    minutes = minutes or troubles.fixed.get("minutes", drawn_minutes)
    brokers = troubles.fixed.get("brokers", chance.choice((1, 2, 3, 3, 3)))
    partitions = tuple(chance.choice((1, 2, 4)) for _ in range(chance.choice((1, 1, 2))))
    if rare.random() < 0.1 and not troubles.fixed:
        partitions = (_MANY_PARTITIONS,)
    trigger_s = chance.choice((0.0, 0.0, 1.0, 5.0))
    batch_s = chance.choice((0.0, 0.01, 0.5))
    start_s = chance.choice((0.0, 0.0, minutes * 20))
    drawn_scenario = Scenario(
        seed=seed,
        profile=profile,
        minutes=minutes,
        brokers=brokers,
        replicas=min(brokers, chance.choice((1, 2, 3))),
        racks=chance.choice((0, 0, 2)),
        partitions=partitions,
        release=chance.choice(("2.8", "3.9", "4.3", "4.3")),
        session_slots=chance.choice((1000, 1000, 16, 1)),
        task_slots=chance.choice((1, 2, 4)),
        preempt=chance.choice((0.0, 0.02, 0.1)),
        speculation=chance.choice((0.0, 0.3, 1.0)),
        batch_s=batch_s,
        trigger_s=trigger_s,
        available_now=chance.random() < 0.15,
        agents=chance.random() < 0.5,
        options=tuple(sorted(_options(chance, trigger_s, start_s, troubles).items())),
        actions=tuple(_actions(chance, minutes * 60, troubles, partitions, brokers)),
        latency_s=chance.choice((0.002, 0.002, 0.05, 0.5)),
        start_s=start_s,
        decode_s=chance.choice((0.0, 0.01, 0.5)),
        by_pattern=rare.random() < 0.2,
    )
    return replace(drawn_scenario, **{**troubles.fixed, "minutes": minutes})


def to_json(found: Scenario) -> str:
    """Returns a scenario as JSON text, an action to a line."""
    fields = asdict(found)
    fields["actions"] = fields.pop("actions")[:0]  # the last one
    lines = ",\n".join(json.dumps(action) for action in found.actions)
    return json.dumps(fields)[:-2] + f"\n{lines}\n]}}\n"


def from_json(text: str) -> Scenario:
    """Returns the scenario of a JSON text."""
    fields = json.loads(text)
    return Scenario(
        **fields
        | {
            "partitions": tuple(fields["partitions"]),
            "options": tuple((name, value) for name, value in fields["options"]),
            "actions": tuple(Action(*action) for action in fields["actions"]),
        }
    )


def _starting(chance: random.Random, start_s: float) -> dict[str, str]:
    """Returns options that say where the query starts."""
    time_ms = str(int((WALL_AT_START_S + start_s * chance.choice((0.3, 0.8, 1.2))) * 1000))
    starts: dict[str, Any] = chance.choice(
        (
            {"startingOffsets": "earliest"},
            {"startingOffsets": "earliest"},
            {"startingOffsets": "latest"},
            {"startingOffsets": json.dumps({"t0": {"0": -1, "*": -2}, "*": -1})},
            {"startingOffsets": "group", "kfetch.startingGroup": STARTING_GROUP},
            {"startingTimestamp": time_ms},
            {"startingTimestamp": f"-{int(start_s / 2) + 1}s"},
            {"startingOffsetsByTimestamp": json.dumps({"t0": {"0": -1}, "*": int(time_ms)})},
        )
    )
    if any("imestamp" in name for name in starts):
        starts["startingOffsetsByTimestampStrategy"] = "latest"
    return starts


def _options(
    chance: random.Random, trigger_s: float, start_s: float, troubles: Troubles
) -> dict[str, str]:
    options = {
        **_starting(chance, start_s),
        "failOnDataLoss": chance.choice(("true", "false")),
        "kafka.isolation.level": chance.choice(("read_uncommitted", "read_committed")),
        "kafka.metadata.max.age.ms": chance.choice(("5000", "30000")),
        "kafkaConsumer.pollTimeoutMs": chance.choice(("20000", "120000")),
        "kafka.fetch.max.bytes": chance.choice(("52428800", "2000")),
    }
    if (most := chance.choice(("", "", "7", "100"))) and (most == "100" or not trigger_s):
        options["maxOffsetsPerTrigger"] = most
    if least := chance.choice(("", "", "", "3")):
        options["minOffsetsPerTrigger"] = least
        options["maxTriggerDelay"] = "5s"
    if number := chance.choice(("", "", "3")):
        options["minPartitions"] = number
    if number := chance.choice(("", "", "4")):
        options["maxRecordsPerPartition"] = number
    if chance.random() < 0.2:
        options["kafka.client.rack"] = "rack-0"
    if chance.random() < 0.2:
        options["kfetch.commitGroup"] = "lag"
    if "startingOffsets" in troubles.options:
        options = {name: text for name, text in options.items() if not _is_start(name)}
    fixed = {**options, **troubles.options}
    return {name: value for name, value in fixed.items() if value}


BATCH_OPTIONS = (
    "kafka.isolation.level",
    "kafka.fetch.max.bytes",
    "kafkaConsumer.pollTimeoutMs",
    "maxRecordsPerPartition",
    "minPartitions",
    "kafka.client.rack",
)
"""Options of the query that its batch reads have, too."""


def drawn_batch(chance: random.Random, wall_s: float, options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a batch read."""
    now_ms = int(wall_s * 1000)
    early, late = sorted(now_ms - int(chance.random() * 60_000) for _ in range(2))
    bounds = chance.choice(
        (
            {},
            {},
            {"startingTimestamp": str(early), "startingOffsetsByTimestampStrategy": "latest"},
            {"endingTimestamp": str(late)},
            {"startingTimestamp": "-30s", "startingOffsetsByTimestampStrategy": "latest"},
            {"startingOffsets": json.dumps({"t0": {"0": -2}, "*": -2})},
        )
    )
    return {**options, **bounds}


def _is_start(name: str) -> bool:
    return name.startswith("starting") or name == "kfetch.startingGroup"


def _actions(
    chance: random.Random,
    seconds: float,
    troubles: Troubles,
    partitions: Sequence[int],
    brokers: int,
) -> list[Action]:
    topics = {f"t{number}": count for number, count in enumerate(partitions)}
    writes = Profile(
        actions_per_s=troubles.writes_per_s or chance.choice((0.5, 3.0, 10.0)),
        weights=WRITES,
        records_max=chance.choice((1, 5, 40)),
        codecs=CODECS if chance.random() < 0.3 else ("none",),
        longest_s=3.0,
    )
    more = chance.choice((0.5, 1.0, 2.0))
    written = cluster_chaos.draw(chance, writes, seconds, topics, brokers)
    actions: list[Action] = []
    if troubles.on_cluster:
        faults = Profile(
            actions_per_s=troubles.on_cluster * more,
            weights=troubles.of_cluster,
            longest_s=troubles.longest_s,
        )
        actions = cluster_chaos.draw(chance, faults, seconds, topics, brokers)
    of_processes = troubles.on_processes * more
    actions += chaos.draw(chance, troubles.of_processes, of_processes, seconds)
    if troubles.burst_every_s:
        actions = [_gathered(action, troubles.burst_every_s) for action in actions]
    return sorted(written + actions, key=lambda action: action.at_s)


def _gathered(action: Action, every_s: float) -> Action:
    """Returns an action in the burst of its time."""
    within_s = action.at_s % every_s
    return action._replace(at_s=round(action.at_s - 0.9 * within_s, 6))
