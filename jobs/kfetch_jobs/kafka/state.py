"""The state file of a cluster's directory, ``kfetch-kafka.json``: nodes, ports and processes.

The file also marks the directory as kfetch's. kfetch refuses a directory that has content but no
such file: it reads, changes and deletes nothing there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from kfetch_jobs.errors import ForeignDirectory, StateDamaged
from kfetch_jobs.kafka.settings import NodePorts
from kfetch_jobs.util.files import wait_for_lock, write_json

STATE_FILE = "kfetch-kafka.json"
STATE_LOCK = "state.lock"
"""The lock for one change of the file."""
START_LOCK = "start.lock"
"""The lock for a whole start or stop. STATE_LOCK is taken inside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState(NodePorts):
    """One node: its ports, and its last known process."""

    pid: int | None = None
    started: float | None = None
    """The start time of the process by the wall clock, in seconds since 1970."""
    start: str = ""
    """Its start by boot and clock ticks: another process with the same pid has another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What another process needs to find, use and stop the cluster."""

    cluster_id: str
    nodes: Annotated[tuple[NodeState, ...], Field(min_length=1)]
    properties: dict[str, str] = field(default_factory=dict)
    version: Literal[1] = 1
    """The version of the file."""

    def node(self, node_id: int) -> NodeState:
        """Returns the node with this id. Raises KeyError if there is none."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise KeyError(node_id)

    def with_node(self, node: NodeState) -> State:
        """Returns the same state with one node's entry replaced."""
        nodes = tuple(node if old.node_id == node.node_id else old for old in self.nodes)
        return replace(self, nodes=nodes)


def claim(directory: Path) -> None:
    """Make the directory, or accept an empty one or one of kfetch's.

    Raises ForeignDirectory for any other.
    """
    if directory.exists() and not directory.is_dir():
        raise ForeignDirectory(f"{directory} is a file: name a directory for the broker's data")
    directory.mkdir(parents=True, exist_ok=True)
    foreign = [path.name for path in directory.iterdir() if not _is_start_file(path.name)]
    if foreign and not (directory / STATE_FILE).exists():
        raise ForeignDirectory(
            f"{directory} has {min(foreign)}, which no broker of kfetch has written: "
            f"name an empty directory, or one that does not exist"
        )


def _is_start_file(name: str) -> bool:
    # An interrupted start leaves the lock, and perhaps a state file that is not yet renamed.
    return name in (START_LOCK, STATE_LOCK) or name.startswith(f".{STATE_FILE}.")


def save(directory: Path, state: State) -> None:
    """Write the state in one step."""
    write_json(directory / STATE_FILE, asdict(state))


def update_node(directory: Path, node: NodeState) -> None:
    """Replace one node's entry. Other processes may change other nodes at the same time."""
    with wait_for_lock(directory / STATE_LOCK):
        state = load(directory)
        if state is not None:
            save(directory, state.with_node(node))


_STATE = TypeAdapter(State)
"""It leaves out keys of a later kfetch."""


def load(directory: Path) -> State | None:
    """Returns the directory's state; None if it has none. Raises StateDamaged."""
    path = directory / STATE_FILE
    try:
        return _STATE.validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as cause:
        first = cause.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise StateDamaged(
            f"{path} cannot be read ({' '.join(filter(None, (place, first['msg'])))}): "
            f"if its broker is not running, remove {directory} and start again"
        ) from cause
