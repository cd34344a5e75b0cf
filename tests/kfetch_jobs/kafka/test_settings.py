"""server.properties, and the verdicts read from logs: text in, text out."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch_jobs.kafka.settings import NodePorts, controllers, jvm_flags, server_properties


def ports(count: int) -> list[NodePorts]:
    return [
        NodePorts(node_id=i, port=100 + i, controller_port=200 + i) for i in range(1, count + 1)
    ]


def rendered(node_id: int, count: int, **extra: str) -> dict[str, str]:
    text = server_properties(node_id, ports(count), Path("/data"), extra)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_one_node_is_broker_and_controller() -> None:
    """A single node listens twice on loopback and votes for itself."""
    values = rendered(1, 1)
    assert values["process.roles"] == "broker,controller"
    assert values["listeners"] == "BROKER://127.0.0.1:101,CONTROLLER://127.0.0.1:201"
    assert values["controller.quorum.voters"] == "1@127.0.0.1:201"
    assert values["log.dirs"] == "/data"


@pytest.mark.parametrize(("nodes", "voters"), [(1, 1), (2, 1), (3, 3), (5, 3)])
def test_how_many_nodes_vote(nodes: int, voters: int) -> None:
    """Three of three or more nodes vote, and never two, which is less robust than one."""
    assert [node.node_id for node in controllers(ports(nodes))] == list(range(1, voters + 1))


def test_the_fourth_node_is_a_broker_only() -> None:
    """A node that does not vote has no controller listener, but knows the voters."""
    values = rendered(4, 4)
    assert values["process.roles"] == "broker"
    assert values["listeners"] == "BROKER://127.0.0.1:104"
    assert values["controller.quorum.voters"].count("@") == 3


@pytest.mark.parametrize(("nodes", "replicas"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_internal_topics_fit_the_cluster(nodes: int, replicas: str) -> None:
    """Internal topics have three replicas, or as many as there are nodes."""
    values = rendered(1, nodes)
    assert values["offsets.topic.replication.factor"] == replicas
    assert values["transaction.state.log.replication.factor"] == replicas


def test_extra_properties_have_the_last_word() -> None:
    """A property of the user replaces the default, and is there once."""
    values = rendered(1, 1, **{"num.partitions": "7", "new.one": "x=y"})
    assert (values["num.partitions"], values["new.one"]) == ("7", "x=y")


def test_a_value_cannot_add_a_line() -> None:
    """A line break or backslash in a value is escaped as Java's properties want it."""
    text = server_properties(1, ports(1), Path("/data"), {"a": "b\nc\\d"})
    assert text.endswith("a=b\\nc\\\\d\n")


def test_the_heap_is_set_and_the_compiler_left_whole() -> None:
    """The flags set the heap and keep the full compiler, on which benchmarks depend."""
    flags = jvm_flags("300m")
    assert {"-Xmx300m", "-Xms300m"} <= set(flags)
    assert not any("TieredStopAtLevel" in flag for flag in flags)
