"""kafka-python's message classes without its clients, for processes that run only kfetch's code.

The driver's source process and a new agent use only the messages. The first micro-batch waits for
their imports, and three unused clients would take more than 150 ms of CPU. This runs before them,
so it stands alone.
"""

import sys
from importlib.util import find_spec, module_from_spec

_PACKAGE = "kafka"


def defer_clients() -> None:
    """Makes ``import kafka`` skip the package's ``__init__``, which imports the clients.

    The package then has no names of its own. Its modules can be imported: ``kafka.errors``. If the
    ``__init__`` has already run, nothing changes. Call this only in a process of kfetch's own.
    """
    spec = find_spec(_PACKAGE)
    if _PACKAGE not in sys.modules and spec is not None:
        sys.modules[_PACKAGE] = module_from_spec(spec)
