"""The operating system of an executor, in memory: what the agent and its workers need of Linux.

    machine = Machine(kernel, programs={"kfetch.agent": main})
    owner = machine.adopt(kernel.spawn("jvm"), machine.init, "java")
    with installed(machine):
        kernel.run(until=60.0)

The product's modules are as they are. Their ``os``, ``socket``, ``select``, ``signal``,
``fcntl``, ``subprocess``, ``mmap``, ``resource``, ``argparse``, ``sys``, ``logging`` and ``Path``
are replaced.

files.py      inodes, names, open descriptions, flock, a disk that may be full
sockets.py    Unix stream sockets: backlog, credentials, descriptors that travel
machine.py    processes: descriptors, signals, fork and exec, zombies, limits
paths.py      ``pathlib.Path``
stand_ins.py  the modules
install.py    puts them into the product
plan.py       what a seed decides
executor.py   a scenario: JVMs, workers and agents, and what must hold
chaos.py      what happens to them
planted.py    faults that the scenario must find
"""

from simulation.machine.install import installed
from simulation.machine.machine import Machine, OsProcess

__all__ = ["Machine", "OsProcess", "installed"]
