"""What every unit test needs: kafka-python imported in peace, and a steady hypothesis."""

from __future__ import annotations

import gc
import os
import random
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

# trio registers a plugin, whose import takes a quarter of a second in each process.
os.environ["HYPOTHESIS_NO_PLUGINS"] = "1"
if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 1 << 30:
    # The tests write and remove 20,000 small files. On a disk, each waits for half a millisecond.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")

import pytest
from hypothesis import settings

with warnings.catch_warnings():
    # kafka-python 3.0.12 reads its schemas with importlib.resources.read_text, deprecated in 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.record  # noqa: F401

from tests.examples import DEFAULT

if TYPE_CHECKING:
    from tests.store import Store


class _WithoutPandas(MetaPathFinder):
    """Hides pandas, which kfetch does not need. pyarrow imports it where it is installed, which
    takes a third of a second in each process."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        """See MetaPathFinder."""
        if fullname == "pandas":
            raise ModuleNotFoundError("the tests do without pandas", name=fullname)


sys.meta_path.insert(0, _WithoutPandas())

# Collecting 7,500 tests makes no garbage, and each search would take longer than the last.
gc.disable()

# A slow machine is no reason to fail; the time of the whole suite is watched instead.
settings.register_profile("kfetch", deadline=None, max_examples=2 * DEFAULT // 3)
settings.register_profile("quick", deadline=None, max_examples=5)  # for a second run of all tests
settings.register_profile("thorough", deadline=None, max_examples=10 * DEFAULT)
settings.load_profile("kfetch")


_WAITING = {"test_frozen_holder.py", "test_job_lock.py", "test_lease_holder.py", "test_launch.py"}
"""Files whose tests wait for leases and for other processes, for seconds each."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark those that need a store. Begin with those that wait: the other processes of the run
    compute meanwhile."""
    for item in items:
        if _asks_a_store(item):
            item.add_marker("store")
    items.sort(key=lambda item: item.path.name not in _WAITING)


def _asks_a_store(item: Any) -> bool:
    """Whether a test has the store, or is that case of a test of several places."""
    if "tests.store" not in {getattr(one, "__module__", "") for one in vars(item.module).values()}:
        return False
    cases = getattr(item, "callspec", None)
    return "store" in item.fixturenames or (cases is not None and "s3" in cases.params.values())


def pytest_collection_finish() -> None:
    """Look for garbage from here on, but not among the tests: a tenth of the time went there.

    The usual threshold of 700 objects is reached in each second test.
    """
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Let no plugin seed ``random`` three times in each test. It takes as long as a small test."""
    config.option.randomly_reset_seed = False


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed ``random``. Forget what probes found at the ports of other tests, and which of them were
    bad."""
    from kfetch.wire import addresses, probes

    random.seed(f"{item.config.getoption('randomly_seed', 0)} {item.nodeid}")
    for probe in (probes.greeting, probes.plaintext, probes.login):
        probe._verdicts.clear()
    addresses._avoided_until.clear()


@pytest.fixture(autouse=True, scope="session")
def own_agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test finds the agents of other work on this machine. A stopped one would cost seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        yield


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    """A store that speaks S3, with the bucket ``lake``. Tests use names of their own in it."""
    from tests.store import running_store

    with running_store() as running:
        yield running
