"""The lead of a project with several hosts: what survives a change of the leader, and the fence."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kfetch.storage.lease import taken
from kfetch.storage.processes import boottime, this_process
from kfetch.storage.versions import VersionedDirectory, VersionedFile, VersionedObject
from kfetch_jobs.checkpoints.lease_note import noted_lease
from kfetch_jobs.checkpoints.location import lease_file
from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.progress.term_file import TermFile
from kfetch_jobs.supervise import control, shared_orders, terms
from kfetch_jobs.supervise.job_state import JobState, Order, Phase
from kfetch_jobs.supervise.leadership import read_lead, term_file
from kfetch_jobs.supervise.order_reply import OrderReply
from kfetch_jobs.supervise.shared_orders import give_to_leader
from kfetch_jobs.supervise.shared_state import RUNS_SHARED, SharedOrder, WaitingHost
from kfetch_jobs.supervise.store import Store, SupervisorRecord
from kfetch_jobs.supervise.supervisor import Supervisor
from kfetch_jobs.supervise.supervisor_lock import hold_supervisor_lock
from tests.kfetch.agent.helpers import wait_until
from tests.kfetch_jobs.stage import CONTINUOUS, COPY_REPORT, ONCE, UNTIL_TERM
from tests.kfetch_jobs.supervise.hosts import Host, write_jobs
from tests.store import Store as S3
from tests.store_proxy import Fault, Proxy, proxied

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


@pytest.fixture(params=["disk", "s3"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def proxy(request: pytest.FixtureRequest, kind: str) -> Iterator[Proxy | None]:
    """Counts the requests of host a to the store."""
    if kind == "disk":
        yield None
        return
    store: S3 = request.getfixturevalue("store")
    with proxied(store) as running:
        yield running


@pytest.fixture
def hosts(tmp_path: Path, proxy: Proxy | None) -> Iterator[list[Host]]:
    """Two hosts of one project."""
    name, settings = str(tmp_path / "state"), {}
    if proxy is not None:
        name, settings = f"{proxy.store.uri}/{tmp_path.name}", proxy.store.settings
    made = [Host(tmp_path / one, name, settings) for one in ("a", "b")]
    yield made
    for host in made:
        host.clear()


def test_what_survives(hosts: list[Host]) -> None:
    """The next leader has phases, failures, queues and history. What was cut short goes on."""
    first, second = hosts
    write_jobs(hosts, "paused", CONTINUOUS, UNTIL_TERM)
    write_jobs(hosts, "given-up", CONTINUOUS, COPY_REPORT.format(kind="config"))
    write_jobs(hosts, "fails", CONTINUOUS, COPY_REPORT.format(kind="failed"))
    write_jobs(hosts, "done", ONCE, COPY_REPORT.format(kind="finished"))
    write_jobs(hosts, "runs", CONTINUOUS, UNTIL_TERM)
    with first.supervisor() as supervisor:
        first.until_runs(supervisor, "paused", "runs")
        first.ask("paused", Order.PAUSE)
        first.until_phase(supervisor, "paused", Phase.PAUSED)
        first.until_phase(supervisor, "given-up", Phase.FAILED)
        first.until_phase(supervisor, "done", Phase.FINISHED)
        first.until_phase(supervisor, "fails", Phase.BACKOFF)
        with first.store() as store:
            before, runs = store.states(), store.history(limit=100)
    first.clear()
    with second.supervisor() as supervisor:
        with second.store() as store:
            after = store.states()
        held = ("paused", "given-up", "fails", "done")
        assert {name: before[name] for name in held} == {name: after[name] for name in held}
        second.until_runs(supervisor, "runs")
        with second.store() as store:
            history = store.history(limit=100)
    ended = next(run for run in history if run.kind is ExitKind.KILLED)
    assert "runs" == ended.job
    assert "leads no longer" in ended.sentence
    assert {run.id: run.kind for run in runs if run.ended_s} == {
        run.id: run.kind for run in history if run.ended_s and run is not ended
    }
    assert ("runs", None) == (history[0].job, history[0].kind)
    assert history[0].id > max(run.id for run in runs)


def test_an_earlier_leader_writes_nothing(hosts: list[Host]) -> None:
    """A supervisor that wakes starts no run and changes no state: the store refuses its write."""
    first, second = hosts
    write_jobs(hosts, "a", CONTINUOUS, UNTIL_TERM)
    with first.lead() as old, Supervisor.start(first.project, first.command, old) as sleeper:
        old._lease.release()  # as if its lease had ended while it slept
        with second.lead() as lead, Store.of(second.storage) as store:
            state = lead.claim(None)
            assert state is not None
            store.load(state)
            with pytest.raises(SupervisorError, match="another supervisor leads"):
                sleeper.tick(time.time())
            assert [] == first.processes()
            assert [] == first.runs("a")
            assert "another supervisor leads" in old.trouble()
            store.publisher = lead
            store.save({"a": JobState(phase=Phase.STOPPED, since_s=1.0)})
        with pytest.raises(SupervisorError, match="another supervisor leads"):
            sleeper.tick(time.time())
        sleeper.run(lambda: False, lambda: False)  # ends by itself
    assert Phase.STOPPED is second.phase("a")


def test_a_dead_supervisor_of_this_machine(hosts: list[Host]) -> None:
    """Another storage on the same machine waits for the end of its lease, because its runs live
    on. Its own storage leads at once, and adopts them."""
    first, second = hosts
    dead = replace(this_process(first.shared.purpose), started="1")
    first.shared.lease.write(taken(None, dead, 30.0, 0.0).content(), None)
    with pytest.raises(AssertionError, match="somebody leads"), second.lead():
        raise NotImplementedError
    with first.lead():
        pass


def test_two_first_leaders(hosts: list[Host]) -> None:
    """The first leader sleeps before its first write, and another one begins. It may not write."""
    first, second = hosts
    with first.lead() as old, first.store() as store:
        assert old.claim(None) is None
        store.publisher = old
        old._lease.release()  # as if its lease had ended while it slept
        with second.lead() as lead, second.store() as other:
            assert lead.claim(None) is None
            other.publisher = lead
            other.save({"a": JobState(phase=Phase.PAUSED, since_s=1.0)})
            with pytest.raises(SupervisorError, match="another supervisor leads"):
                store.save({})
    state = second.shared.state()
    assert state is not None
    assert state.place == second.shared.place


@pytest.mark.parametrize("kind", ["s3"])
@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.CUT, Fault.LOST_ANSWER])
def test_a_write_that_fails(hosts: list[Host], proxy: Proxy, fault: Fault) -> None:
    """The database has a change only if the store has confirmed it. A lost answer loses no lead."""
    states = {"a": JobState(phase=Phase.STOPPED, since_s=1.0)}
    host, other = hosts
    with host.lead() as lead, host.store() as store:
        store.publisher = lead
        store.save({})
        proxy.fault("PUT", "/state", fault)
        with pytest.raises(SupervisorError, match="the store fails"):
            store.save(states)
        assert {} == store.states()
        assert "" == lead.trouble()
        store.save(states)
        assert states == store.states()
    with other.store() as store:
        read_lead(other.project, store)
        assert states == store.states()


def test_what_other_hosts_know(hosts: list[Host]) -> None:
    """A host that does not lead has the leader's states and the last runs of each job; an old
    state replaces no newer one. It keeps what it knows about its own supervisor."""
    first, second = hosts
    with first.lead() as lead, first.store() as store, second.store() as copy:
        store.publisher = lead
        for number in range(RUNS_SHARED + 5):
            state = JobState(phase=Phase.RUNNING, since_s=number)
            run = store.begin({"a": state}, float(number))["a"]
            store.end(run, number + 0.5, ExitKind.FINISHED, rows=number)
        old = first.shared.state()
        assert old is not None
        store.save({"a": JobState(phase=Phase.PAUSED, since_s=9.0)})
        newest = first.shared.state()
        assert newest is not None
        for state_ in (newest, old):
            copy.load(state_)
        assert store.states() == copy.states()
        assert store.history("a", RUNS_SHARED) == copy.history("a", 1000)
        assert newest.replaces(old.version)
    assert len(newest.content()) < 5000


def test_a_damaged_state_is_an_error(hosts: list[Host]) -> None:
    """No supervisor begins with empty states, because jobs that were stopped would start."""
    host = hosts[0]
    state, inbox = host.shared._state, host.shared._inbox
    for file in (state, inbox):
        file.write(b"{", None)
    with host.lead() as lead, host.store() as store:
        with pytest.raises(SupervisorError, match=r"state can't be used: it is damaged .* Remove"):
            lead.claim(None)
        with pytest.raises(SupervisorError, match=r"inbox can't be used: it is damaged .* Remove"):
            host.shared.say_waiting(1.0)
        for file in (state, inbox):
            _remove(file)
        assert lead.claim(None) is None
        host.shared.say_waiting(1.0)
        store.publisher = lead
        store.save({"a": JobState(phase=Phase.STOPPED, since_s=1.0)})
        _remove(state)
        store.save({"a": JobState(phase=Phase.PAUSED, since_s=1.0)})  # by the leader itself
        known = host.shared.state()
        assert known is not None
        assert "paused" in str(known.tables["jobs"])


def _remove(file: VersionedFile) -> None:
    """Remove a shared file, as a person does."""
    if isinstance(file, VersionedDirectory):
        shutil.rmtree(file.path)
    else:
        assert isinstance(file, VersionedObject)
        file.path.unlink()


def test_an_order_from_elsewhere(hosts: list[Host], monkeypatch: pytest.MonkeyPatch) -> None:
    """An order reaches the leader, is carried out once, and its reply comes back."""
    first, second = hosts
    write_jobs(hosts, "a", CONTINUOUS, UNTIL_TERM)
    with first.supervisor() as supervisor:
        first.until_runs(supervisor, "a")
        order = SharedOrder(id="1", job="a", order="pause")
        second.shared.change_inbox(lambda inbox: inbox.with_orders([order]))
        first.until_phase(supervisor, "a", Phase.PAUSED)
        assert ["1"] == list(second.shared.replies())
        with first.store() as store:
            first.until(supervisor, lambda: not second.shared.inbox().orders)
            assert 1 == len(store.shared_replies())
    second.job("odd", CONTINUOUS, UNTIL_TERM)
    with second.store() as store:  # nobody leads
        assert control.give_order(second.project, store, ["odd"], Order.STOP) is None
        [waiting] = first.shared.inbox().orders
        assert waiting.ends_s is not None
        assert [] == store.waiting_orders()


def test_an_order_of_a_later_kfetch(hosts: list[Host]) -> None:
    """The leader refuses an order that it does not know, and goes on."""
    first, second = hosts
    write_jobs(hosts, "a", CONTINUOUS, UNTIL_TERM)
    orders = [SharedOrder(id=order, job="a", order=order) for order in ("drain", "pause")]
    with first.supervisor() as supervisor:
        second.shared.change_inbox(lambda inbox: inbox.with_orders(orders))
        first.until_phase(supervisor, "a", Phase.PAUSED)
        reply = OrderReply.from_text(second.shared.replies()["drain"])

    sentence = "the supervisor does not know the order drain: update kfetch on its host"
    assert OrderReply(message=sentence, exit_code=1) == reply


def test_an_order_of_a_dead_leader(hosts: list[Host]) -> None:
    """The next leader carries out what the last one had taken and not carried out."""
    first, second = hosts
    write_jobs(hosts, "a", CONTINUOUS, UNTIL_TERM)
    order = SharedOrder(id="1", job="a", order="stop", ends_s=time.time() + 60)
    with first.supervisor() as supervisor:
        first.until_runs(supervisor, "a")
        first.shared.change_inbox(lambda inbox: inbox.with_orders([order]))
        with first.store() as store:
            assert supervisor._lead is not None
            supervisor._lead._inbox_at = 0.0  # its next look is due
            supervisor._lead.take_orders(store)
            assert ["a"] == [one.job for one in store.waiting_orders()]
    first.clear()
    with second.supervisor() as supervisor:
        second.until_phase(supervisor, "a", Phase.STOPPED)


def test_an_order_that_has_ended(hosts: list[Host]) -> None:
    """No leader carries an order out whose command has given up, or was killed."""
    first, second = hosts
    write_jobs(hosts, "a", CONTINUOUS, UNTIL_TERM)
    order = SharedOrder(id="1", job="a", order="stop", ends_s=time.time() - 1)
    with first.supervisor() as supervisor:
        second.shared.change_inbox(lambda inbox: inbox.with_orders([order]))
        first.until(supervisor, lambda: "1" in second.shared.replies())
        assert "busy for too long" in second.shared.replies()["1"]
        assert "clocks" in second.shared.replies()["1"]
        assert Phase.RUNNING is first.phase("a")


@pytest.mark.parametrize("kind", ["s3"])
def test_a_command_that_waits_for_a_reply(
    hosts: list[Host], proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that fails does not end it. Without a reply it names the jobs, and says what it knows
    about them."""
    first, second = hosts
    write_jobs(hosts, "a", CONTINUOUS, UNTIL_TERM)
    write_jobs(hosts, "b", CONTINUOUS, UNTIL_TERM)
    give = partial(give_to_leader, second.project, ["a", "b"], Order.STOP, wait=True)
    with first.supervisor() as supervisor:
        first.until_runs(supervisor, "a", "b")
        thread = threading.Thread(target=lambda: replies.extend(give()))
        replies: list[OrderReply] = []
        thread.start()
        first.until(supervisor, lambda: first.shared.inbox().orders)
        proxy.fault("GET", "/state", Fault.BUSY, times=2)
        first.until(supervisor, lambda: not thread.is_alive())
        assert [0, 0] == [one.exit_code for one in replies]
        first.until_phase(supervisor, "a", Phase.STOPPED)
    monkeypatch.setattr(shared_orders, "_REPLY_WITHIN_S", 1.0)
    with pytest.raises(SupervisorError, match="no leader has carried out stop a, b within"):
        give()
    proxy.fault("GET", "/state", Fault.BUSY, times=99)
    with pytest.raises(SupervisorError, match=r"can't tell whether .* stop a, b: .*the store"):
        give()


@pytest.mark.parametrize("kind", ["disk"])
@pytest.mark.parametrize("links", [True, False])
def test_who_may_read_the_shared_files(
    hosts: list[Host], tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only their user, as the database. Who leads is no secret."""

    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", refused)
    order = SharedOrder(id="1", job="a", order=Order.STOP, ends_s=time.time() + 60)
    hosts[0].shared.change_inbox(lambda inbox: inbox.with_orders([order]))
    with hosts[0].supervisor() as supervisor:
        supervisor.tick(time.time())
    files = [file for file in (tmp_path / "state").rglob("*") if file.is_file()]
    found = {(file.parent.name, file.stat().st_mode & 0o777) for file in files}

    assert {("inbox", 0o600), ("state", 0o600), ("leader.lease", 0o644)} == found


@pytest.mark.parametrize("kind", ["disk"])
def test_a_supervisor_that_began_before_the_shared_state(hosts: list[Host]) -> None:
    """It reads no inbox, so an order would lie there for a day. The error says what to do."""
    first, _ = hosts
    first.job("a", CONTINUOUS, UNTIL_TERM)
    with (
        Supervisor.start(first.project, first.command),
        first.store() as store,
        pytest.raises(SupervisorError, match=rf"process {os.getpid()}\) began before .*down"),
    ):
        control.give_order(first.project, store, ["a"], Order.STOP)
    assert () == first.shared.inbox().orders


@pytest.mark.parametrize("kind", ["disk"])
def test_an_order_while_nobody_leads(hosts: list[Host]) -> None:
    """The next leader carries it out: this host has no supervisor, or it waits for the lead."""
    first, _ = hosts
    first.job("a", CONTINUOUS, UNTIL_TERM)
    with first.store() as store:
        assert None is control.give_order(first.project, store, ["a"], Order.STOP)
        store.record_start(SupervisorRecord.of_this_process(None, time.time()))
        now = time.time()
        waits = WaitingHost(place="p", host="a", pid=os.getpid(), since_s=now, seen_s=now)
        first.shared.change_inbox(lambda inbox: replace(inbox, waiting=(waits,)))
        assert None is control.give_order(first.project, store, ["a"], Order.STOP)
    assert 2 == len(first.shared.inbox().orders)


@pytest.mark.parametrize("kind", ["s3"])
def test_an_order_whose_answer_is_lost(hosts: list[Host], proxy: Proxy) -> None:
    """The command waits for its reply if the order is in the inbox. It says so if nobody knows."""
    first, second = hosts
    give = partial(give_to_leader, first.project, ["a"], Order.STOP, wait=False)
    proxy.fault("PUT", "/inbox", Fault.LOST_ANSWER, times=99)
    assert [] == give()
    assert ["a"] == [one.job for one in second.shared.inbox().orders]
    proxy.heal()
    proxy.fault("PUT", "/inbox", Fault.BUSY, times=99)
    with pytest.raises(SupervisorError, match="inbox can't be used: the store fails"):
        give()
    proxy.heal()
    first.shared.change_inbox(lambda inbox: replace(inbox, orders=()))
    proxy.fault("PUT", "/inbox", Fault.BUSY, times=99)
    proxy.fault("GET", "/state", Fault.BUSY, times=99)
    with pytest.raises(SupervisorError, match=r"can't tell whether .* carried out stop a: "):
        give()


IGNORES_TERM = """trap '' TERM
: > "$REPORTS/$NAME.on"
while :; do sleep 0.1; done"""


@pytest.mark.parametrize("kind", ["disk"])
def test_a_leader_that_wakes_ends_its_runs_at_once(hosts: list[Host]) -> None:
    """They would be in the way of the next leader's. Its own lease says nothing about the time
    that is left, because another one leads already. They count as cut short, not as failed."""
    first, names = hosts[0], ["a", "b", "c", "d"]
    for name in names:
        write_jobs(hosts, name, CONTINUOUS, IGNORES_TERM)
    with first.supervisor() as supervisor:
        first.until_runs(supervisor, *names)
        assert supervisor._lead is not None
        supervisor._lead._lost = "another process has taken it"
        began = time.monotonic()
        supervisor.run(lambda: False, lambda: False)
        assert time.monotonic() - began < 6
        assert [] == first.processes()
        assert "" != term_file(first.storage).trouble()
    with first.supervisor() as supervisor:
        supervisor.tick(time.time())
        with first.store() as store:
            states, runs = store.states(), store.history()
        assert [(Phase.WAITING, 0)] * 4 == [
            (states[name].phase, states[name].failures) for name in names
        ]
        ended = [(run.kind, run.sentence) for run in runs if run.kind]
        assert [(ExitKind.STOPPED, "another process has taken it")] * 4 == ended


@pytest.mark.parametrize("kind", ["disk"])
def test_down_where_nobody_leads(hosts: list[Host]) -> None:
    """It ends the runs of its own host, and no others. The next leader records the ends."""
    first, second = hosts
    write_jobs(hosts, "a", CONTINUOUS, UNTIL_TERM)
    with first.supervisor() as supervisor:
        first.until_runs(supervisor, "a")
    with second.store() as store:
        read_lead(second.project, store)
        assert 0 == control.shut_down(second.project, store, timeout_s=60)
        assert [None] == [run.ended_s for run in store.history("a")]
    assert [] != first.processes()
    first.change("UPDATE supervisor SET process_started_s = 0")
    with first.store() as store:
        assert 1 == control.shut_down(first.project, store, timeout_s=60)
    assert [] == first.processes()
    with first.supervisor() as supervisor:
        supervisor.tick(time.time())
        assert [ExitKind.STOPPED] == [run.kind for run in first.runs("a") if run.kind]
        with first.store() as store:
            assert 0 == store.states()["a"].failures


@pytest.mark.parametrize("kind", ["s3"])
def test_a_slow_store(hosts: list[Host], proxy: Proxy) -> None:
    """A write of the state holds the database's lock for a second at most, and then fails."""
    host = hosts[0]
    with host.lead() as lead, host.store() as store:
        store.publisher = lead
        store.save({})
        proxy.fault("PUT", "/state", Fault.SILENT)
        began = time.monotonic()
        with pytest.raises(SupervisorError, match="the store fails"):
            store.save({"a": JobState(phase=Phase.STOPPED, since_s=1.0)})
        assert time.monotonic() - began < 2.5
        assert {} == store.states()


@pytest.mark.parametrize("kind", ["disk"])
def test_a_host_whose_database_fails(hosts: list[Host], monkeypatch: pytest.MonkeyPatch) -> None:
    """It has not begun to wait. It begins once its database works, and says so then."""
    first, second = hosts
    said: list[str] = []

    def failing(*_: object) -> None:
        broken.undo()
        raise SupervisorError("the disk is full")

    with first.lead():
        standby = terms.Terms(
            second.project, lambda: bool(said), lambda: True, said.append, second.command
        )
        broken = pytest.MonkeyPatch()
        broken.setattr(Store, "record_start", failing)
        with pytest.raises(SupervisorError, match="the disk is full"):
            standby.run()
        standby.run()
    assert said[0].endswith("leads. This host waits.")


@pytest.mark.parametrize("kind", ["disk"])
def test_a_standby_whose_disk_fails_when_it_is_to_lead(hosts: list[Host]) -> None:
    """It tries again, and leads once its disk works."""
    host = hosts[0]
    broken = pytest.MonkeyPatch()

    def failing(*_: object) -> None:
        broken.undo()
        raise OSError(errno.EIO, "Input/output error")

    def stop() -> bool:
        with host.store() as store:
            return store.last_supervisor() is not None

    standby = terms.Terms(host.project, stop, lambda: True, lambda _: None, host.command)
    standby._is_up = True  # it has waited
    broken.setattr(Store, "record_start", failing)
    standby.run()
    assert stop()


@pytest.mark.parametrize("kind", ["disk"])
def test_a_standby_that_is_stopped_at_its_looks(
    hosts: list[Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at a lease may take a second. After the signal it begins no further one."""
    looks: list[str] = []
    monkeypatch.setattr(terms, "LATE_S", 0.0)
    monkeypatch.setattr(terms, "note_lease", lambda job, **_: looks.append(job.name))
    for name in ("a", "b", "c"):
        write_jobs(hosts, name, CONTINUOUS, UNTIL_TERM)
    with hosts[0].lead():
        terms.Terms(hosts[1].project, lambda: bool(looks), lambda: True, lambda _: None).run()
    assert ["a"] == looks


def test_a_standby_that_is_stopped(hosts: list[Host]) -> None:
    """It says that it waits, shows the leader's jobs, and ends without running anything."""
    first, second = hosts
    write_jobs(hosts, "a", CONTINUOUS, UNTIL_TERM)
    said: list[str] = []
    with first.supervisor() as supervisor:
        first.until_runs(supervisor, "a")

        def stop() -> bool:
            return bool(said) and bool(second.shared.inbox().waiting)

        standby = terms.Terms(second.project, stop, lambda: True, said.append, second.command)
        standby.run()
        assert f"process {os.getpid()} on host" in said[0]
        assert said[0].endswith("leads. This host waits.")
        assert time.time() - standby.last_step_s < 5
        assert () == second.shared.inbox().waiting
        with second.store() as store:
            lead = read_lead(second.project, store)
            last = store.last_supervisor()
            assert Phase.RUNNING is store.states()["a"].phase
        assert lead is not None
        assert lead.leader is not None
        assert os.getpid() == lead.leader.pid
        assert last is not None
        assert last.ended_s is not None
    assert [] == second.processes()


@pytest.mark.parametrize("kind", ["s3"])
def test_requests(hosts: list[Host], proxy: Proxy) -> None:
    """A change of a job is one request. A take-over is a handful."""
    host = hosts[0]
    write_jobs([host], "a", CONTINUOUS, UNTIL_TERM)
    with host.supervisor() as supervisor:
        start = proxy.counted()
        host.until_runs(supervisor, "a")
        proxy.heal()
        host.ask("a", Order.STOP)
        host.until_phase(supervisor, "a", Phase.STOPPED)
        writes = [path for method, path in proxy.requests if method == "PUT" and "/state" in path]
    proxy.heal()
    with host.lead():
        for one in hosts:
            proxy.requests.clear()
            with one.store() as store:
                read_lead(one.project, store)
            assert {"GET": 2 if one is host else 3} == proxy.counted()
    print("take-over", start, "order and end of a run", writes)
    assert start["PUT"] <= 8
    assert start["GET"] <= 6
    assert len(writes) <= 3


def test_the_term_of_runs(tmp_path: Path) -> None:
    """Runs go on until a third of a lease before its end, whatever the disk says. Without a term,
    they end."""
    term = TermFile(tmp_path / "term", 30.0)
    assert "does not lead" in term.trouble()
    term.end_in(30.0)
    assert "" == term.trouble()
    assert abs(term.path.stat().st_mtime - boottime() - 20) < 1
    term.end_in(10.0)
    assert "does not lead" in term.trouble()
    term.end_in(30.0)
    term.close()
    assert "does not lead" in term.trouble()


def test_a_lead_sets_the_term(hosts: list[Host]) -> None:
    """A host's runs may write while it leads, and not before or behind."""
    host = hosts[0]
    term = term_file(host.storage)
    with hold_supervisor_lock(host.storage), host.lead():
        assert "" == term.trouble()
    assert "" != term.trouble()


def test_two_wait_and_one_leads(hosts: list[Host]) -> None:
    """As soon as the lead is free, one of two waiting supervisors has it."""
    leads: list[str] = []
    stop: list[int] = []

    def supervisor(host: Host) -> terms.Terms:
        def ready(sentence: str) -> None:
            leads.append(f"{host.directory.name} {sentence}")

        return terms.Terms(host.project, lambda: bool(stop), lambda: True, ready, host.command)

    threads = [threading.Thread(target=supervisor(host).run) for host in hosts]
    for thread in threads:
        thread.start()
    assert wait_until(lambda: len(leads) == 2, 30)
    stop.append(1)
    for thread in threads:
        thread.join(30)
    assert 1 == sum(one.endswith("This host leads.") for one in leads)
    assert 1 == sum(one.endswith("This host waits.") for one in leads)


@pytest.mark.parametrize("kind", ["disk"])
def test_a_leader_whose_disk_fails(hosts: list[Host], monkeypatch: pytest.MonkeyPatch) -> None:
    """It can't write the term, so that its runs end by themselves. It lets another host lead."""
    first, second = hosts
    write_jobs(hosts, "a", CONTINUOUS, UNTIL_TERM)
    leads: list[str] = []
    stop: list[int] = []

    def begin(host: Host) -> threading.Thread:
        def ready(sentence: str) -> None:
            leads.append(f"{host.directory.name} {sentence}")

        one = terms.Terms(host.project, lambda: bool(stop), lambda: True, ready, host.command)
        thread = threading.Thread(target=one.run)
        thread.start()
        return thread

    write = TermFile.end_in

    def end_in(term: TermFile, seconds: float) -> None:
        if term.path != term_file(first.storage).path:
            write(term, seconds)

    threads = [begin(first)]
    assert wait_until((first.directory / "a.on").exists, 30)
    threads.append(begin(second))
    assert wait_until(lambda: len(leads) == 2, 30)
    monkeypatch.setattr(TermFile, "end_in", end_in)
    os.utime(term_file(first.storage).path, (0, 0))
    led = wait_until((second.directory / "a.on").exists, 30)
    stop.append(1)
    for thread in threads:
        thread.join(30)
    assert led
    assert [] == first.processes()


def test_leases_of_checkpoints_are_noted(
    hosts: list[Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that waits looks at them once the leader's renewal is late. So a run that it starts
    later does not wait for a whole lease again."""
    monkeypatch.setattr(terms, "LATE_S", 0.1)
    first, second = hosts
    write_jobs(hosts, "a", CONTINUOUS, UNTIL_TERM)
    text = (second.directory / "conf" / "jobs" / "a.yml").read_text()
    (second.directory / "conf" / "jobs" / "a.yml").write_text(
        f"{text}checkpoint: {second.directory.parent}/ck\n"
    )
    job = second.project.job("a")
    lease = lease_file(job)
    assert lease is not None
    away = replace(this_process("run of job a"), machine="another")
    token = lease.write(taken(None, away, 30.0, 0.0).content(), None)
    assert noted_lease(job) is None
    with first.lead():
        before = boottime()
        terms.Terms(
            second.project, lambda: noted_lease(job) is not None, lambda: True, lambda _: None
        ).run()
    noted = noted_lease(job)
    assert noted is not None
    assert token == noted.token
    assert before <= noted.at <= boottime()
