"""Puts a machine's stand-ins into the modules of the product that reach the operating system."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from simulation.kernel.substitution import patched, substituted
from simulation.machine.machine import Machine
from simulation.machine.stand_ins import LogRouter, machine_modules

_NAMES = (
    "kfetch.agent.__main__",
    "kfetch.agent.budget",
    "kfetch.agent.channel",
    "kfetch.agent.client",
    "kfetch.agent.home",
    "kfetch.agent.launch",
    "kfetch.agent.segment_pool",
    "kfetch.agent.segments",
    "kfetch.agent.server",
    "kfetch.admin.agents",
    "kfetch.fetch.totals",
    "kfetch.spark.worker",
    "kfetch.storage.processes",
)
GLOBALS: Mapping[tuple[str, str], Callable[[], Any]] = {
    ("kfetch.agent.launch", "_started"): list,
    ("kfetch.agent.freed_memory", "_next_at"): float,
}
"""Module variables that each process has for itself; see ``ProcessGlobals``."""


def agent_modules() -> list[ModuleType]:
    """Returns the modules that reach the operating system."""
    return [importlib.import_module(name) for name in _NAMES]


def agent_program() -> int:
    """What ``python -m kfetch.agent`` runs."""
    main: Callable[[], int] = importlib.import_module("kfetch.agent.__main__").main
    return main()


@contextmanager
def installed(machine: Machine, *, logs: bool = True) -> Iterator[None]:
    """A context in which the product runs on a machine. ``logs``: whether its agents write logs."""
    modules = agent_modules()
    importlib.import_module("kfetch.agent.freed_memory")
    stand_ins = machine_modules(machine)
    paths = {
        (module.__name__, "Path"): stand_ins["pathlib.Path"]
        for module in modules
        if vars(module).get("Path") is Path
    }
    with ExitStack() as stack:
        stack.enter_context(substituted(modules, stand_ins))
        stack.enter_context(patched(paths))
        # It returns the interpreter's own memory, and takes a millisecond.
        stack.enter_context(patched({("kfetch.agent.freed_memory", "_malloc_trim"): None}))
        stack.enter_context(_logging(machine, logs))
        stack.callback(machine.close)
        yield


@contextmanager
def _logging(machine: Machine, logs: bool) -> Iterator[None]:
    logger = logging.getLogger("kfetch")
    level, propagate = logger.level, logger.propagate
    router = LogRouter(machine)
    logger.setLevel(logging.INFO if logs else logging.CRITICAL + 1)
    logger.propagate = False
    logger.addHandler(router)
    try:
        yield
    finally:
        logger.removeHandler(router)
        logger.setLevel(level)
        logger.propagate = propagate
