"""A store that fails: nobody loses a lease, nobody gets two, and each error names the object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kfetch.admin.checkpoint import read_checkpoint
from kfetch.errors import CheckpointError, CheckpointInUse
from kfetch.storage.lease import Life
from kfetch.storage.lease_holder import HeldLease, take
from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import stored_path
from kfetch.storage.versions import VersionedFile, VersionedObject
from tests.kfetch.storage.test_lease import HOLDER
from tests.kfetch.storage.test_lease_holder import World
from tests.store import Store
from tests.store_proxy import Fault, Proxy, proxied

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

OTHER = replace(HOLDER, id="b2", host="b")
_REQUEST_S = 0.5
"""A request with more is given up: an answer that comes later counts as lost."""


@pytest.fixture
def proxy(store: Store) -> Iterator[Proxy]:
    with proxied(store) as running:
        yield running


@pytest.fixture
def world() -> World:
    """Virtual time, in which the other host's process is not known here."""
    return World(lives={OTHER.id: Life.UNKNOWN})


@pytest.fixture
def file(proxy: Proxy, request: pytest.FixtureRequest) -> VersionedFile:
    """A lease whose requests go through the proxy, as a run makes them: none is repeated."""
    name = f"{proxy.store.uri}/{abs(hash(request.node.name))}/ck.lease"
    path = stored_path(name, proxy.store.settings, request_s=_REQUEST_S)
    assert isinstance(path, ObjectPath)
    return VersionedObject(path)


def held(file: VersionedFile, world: World) -> HeldLease:
    return take(file, HOLDER, around=world.around)


def refused_to_others(file: VersionedFile, holder: HeldLease) -> None:
    """Another host that sees the holder renew is refused."""
    waiter = World()
    waiter.events.append((waiter.now + 5, holder.renew))
    with pytest.raises(CheckpointInUse, match=r"ck\.lease is held by"):
        take(file, OTHER, around=waiter.around)


_PASSING = [one for one in Fault if one is not Fault.NOT_BUILT]
FAULTS = pytest.mark.parametrize("fault", _PASSING)
QUICK_FAULTS = pytest.mark.parametrize("fault", [one for one in _PASSING if one != Fault.SILENT])
"""A silent answer costs half a second of real time for each request."""


@FAULTS
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_taking(file: VersionedFile, proxy: Proxy, world: World, method: str, fault: Fault) -> None:
    """A fault delays it. Afterwards one process has the lease, and no other gets it."""
    proxy.fault(method, "ck.lease", fault)
    lease = held(file, world)

    assert 1 == proxy.faults
    assert 1 == lease.lease.epoch
    refused_to_others(file, lease)


@FAULTS
def test_renewing(file: VersionedFile, proxy: Proxy, world: World, fault: Fault) -> None:
    """The holder goes on. If it does not know whether the store has the renewal, it repeats it."""
    lease = held(file, world)
    proxy.fault("PUT", "ck.lease", fault)
    world.now += 10
    if fault is Fault.HALF_ANSWER:  # it has no body
        lease.renew()
    else:
        with pytest.raises(OSError, match="the store fails") as failed:
            lease.renew()
        assert str(file) == failed.value.filename
        lease.check()
        world.now += 2
        lease.renew()

    assert (1, 1, "") == (lease.lease.epoch, lease.lease.renewals, lease.trouble())
    refused_to_others(file, lease)


@FAULTS
def test_checking(file: VersionedFile, proxy: Proxy, world: World, fault: Fault) -> None:
    """Without an answer the term decides, and the next look tells of another holder."""
    lease = held(file, world)
    proxy.fault("GET", "ck.lease", fault)
    lease.check()
    assert 1 == proxy.faults
    lease.check()


@FAULTS
def test_releasing(file: VersionedFile, proxy: Proxy, world: World, fault: Fault) -> None:
    """The next holder gets it at once, or after it was silent for as long as a lease lasts."""
    lease = held(file, world)
    proxy.fault("PUT", "ck.lease", fault)
    lease.release()
    waiter = World()
    after = take(file, OTHER, around=waiter.around)

    done = fault in (Fault.LOST_ANSWER, Fault.SILENT, Fault.HALF_ANSWER)
    assert (2, 0 if done else 40) == (after.lease.epoch, round(waiter.now - 1000))


@QUICK_FAULTS
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_store_that_stays_away(
    file: VersionedFile, proxy: Proxy, world: World, method: str, fault: Fault
) -> None:
    """Who wants a lease gives up after ten seconds, with an error that names the object."""
    proxy.fault(method, "ck.lease", fault, times=1000)
    with pytest.raises(CheckpointError, match=r"ck\.lease can't be \w+: the store fails") as told:
        held(file, world)
    assert str(file) == told.value.where["file"]
    assert 10 <= world.now - 1000 < 11


def test_a_store_without_conditional_writes(
    file: VersionedFile, proxy: Proxy, world: World
) -> None:
    """The error comes before the ten seconds are over, and says what the store lacks."""
    proxy.fault("PUT", "ck.lease", Fault.NOT_BUILT, times=1000)
    with pytest.raises(CheckpointError, match=r"has no conditional writes.*ck\.lease: use"):
        held(file, world)
    assert world.now < 1010


PLAN = "v1\n{}\n" + json.dumps({"version": 1, "topics": {}})


@FAULTS
@pytest.mark.parametrize("part", ["offsets/", "commits/", "offsets/1", "metadata", "sources"])
def test_reading_a_checkpoint(proxy: Proxy, store: Store, part: str, fault: Fault) -> None:
    """The client repeats a request that fails. What it reads is whole, or an error."""
    for key in ("offsets/0", "offsets/1", "commits/0", "metadata"):
        store.put(f"reads/{key}", b'{"id": "q"}' if key == "metadata" else PLAN.encode())
    text, settings = f"{store.uri}/reads", proxy.store.settings
    whole = read_checkpoint(proxy.store.path("reads"))
    proxy.fault("GET", part, fault)
    path = stored_path(text, settings, request_s=_REQUEST_S) if fault is Fault.SILENT else None
    if path is None:
        assert whole == read_checkpoint(proxy.store.path("reads"))
    else:  # not repeated
        with pytest.raises(CheckpointError, match=f"{store.uri}/reads/{part}".rstrip("/")):
            read_checkpoint(path)
    assert 1 == proxy.faults
