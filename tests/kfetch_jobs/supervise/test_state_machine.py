"""What a supervised job does next: each order in each phase, each ending, and what always holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs.config import JobFile
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise.job_state import Action, Facts, JobState, Order, Phase
from kfetch_jobs.supervise.state_machine import (
    after_exit,
    after_interruption,
    after_launch,
    after_reading,
    after_refusal,
    apply_order,
    initial_state,
    interrupt,
    tick,
    upstream_finished,
)
from tests.kfetch_jobs.supervise.job_files import cron, job_file

NOW = 1_700_000_000.0  # Tue Nov 14 2023 22:13:20 UTC
STEADY = {"jitter": 0.0}
FOREVER = job_file("continuous", restart=STEADY)
ONCE = job_file("availableNow", restart=STEADY)
HOURLY = job_file({"cron": "0 * * * *"}, restart=STEADY)
CHAINED = job_file("availableNow", after="first", restart=STEADY)
TWICE = job_file("continuous", restart=STEADY | {"attempts": 2})
STOP_S = FOREVER.stopWithin + 20
NEXT_HOUR = 1_700_002_800.0


def at(phase: Phase, **fields: object) -> JobState:
    return JobState(phase=phase, since_s=NOW, **fields)  # type: ignore[arg-type]


W, R, G, B, F, X, P, S = Phase  # waiting running stopping backoff finished failed paused stopped

#        start stop restart pause resume
ORDERS = {
    W: (W, S, W, P, W),
    R: (R, G, G, G, R),
    G: (G, G, G, G, G),
    B: (W, S, W, P, B),
    F: (W, S, W, P, F),
    X: (W, S, W, X, X),
    P: (W, S, W, P, W),
    S: (W, S, W, S, S),
}


@pytest.mark.parametrize("phase", Phase)
def test_orders(phase: Phase) -> None:
    """Each order moves each phase where the table says."""
    state = at(phase, due_s=NOW, then=S if phase is G else None)
    asked = (Order.START, Order.STOP, Order.RESTART, Order.PAUSE, Order.RESUME)

    assert ORDERS[phase] == tuple(apply_order(FOREVER, state, one, NOW).phase for one in asked)


@pytest.mark.parametrize(
    ("asked", "then"),
    [(Order.STOP, S), (Order.PAUSE, P), (Order.RESTART, W)],
)
def test_a_running_job_is_told_once_and_then_does_as_asked(asked: Order, then: Phase) -> None:
    """It gets one SIGTERM; SIGKILL only when its time is over; then it is where it was sent."""
    state = apply_order(FOREVER, at(R, started_s=NOW), asked, NOW)
    state, first = tick(FOREVER, state, Facts(now=NOW))
    state, second = tick(FOREVER, state, Facts(now=NOW + STOP_S))
    _, third = tick(FOREVER, state, Facts(now=NOW + STOP_S + 1))
    state = after_exit(FOREVER, state, ExitKind.STOPPED, "", NOW + 1, 0.0)

    assert (Action.END, None, Action.KILL, then) == (first, second, third, state.phase)
    assert 0 == state.failures


def test_the_last_word_counts() -> None:
    """What is asked of a job that is on its way to an end replaces what was asked before."""
    state = apply_order(FOREVER, at(R, started_s=NOW), Order.STOP, NOW)
    state = apply_order(FOREVER, state, Order.START, NOW)

    assert W is after_exit(FOREVER, state, ExitKind.STOPPED, "", NOW, 0.0).phase


ENDINGS = [
    (FOREVER, ExitKind.FINISHED, B, NOW + 5),
    (FOREVER, ExitKind.STOPPED, B, NOW + 5),
    (FOREVER, ExitKind.FAILED, B, NOW + 5),
    (FOREVER, ExitKind.KILLED, B, NOW + 5),
    (FOREVER, ExitKind.CONFIG, X, None),
    (FOREVER, ExitKind.AUTH, X, None),
    (FOREVER, ExitKind.DATA_LOSS, X, None),
    (ONCE, ExitKind.FINISHED, F, None),
    (ONCE, ExitKind.FAILED, B, NOW + 5),
    (HOURLY, ExitKind.FINISHED, W, NEXT_HOUR),
    (HOURLY, ExitKind.KILLED, B, NOW + 5),
    (HOURLY, ExitKind.CONFIG, X, None),
    (CHAINED, ExitKind.FINISHED, W, None),
]


@pytest.mark.parametrize(("file", "kind", "phase", "due_s"), ENDINGS)
def test_endings(file: JobFile, kind: ExitKind, phase: Phase, due_s: float | None) -> None:
    """What a run's end leads to: done, another attempt, or none that would help."""
    state = after_exit(file, at(R, started_s=NOW), kind, "", NOW, 0.0)

    assert (phase, due_s) == (state.phase, state.due_s)
    assert (kind is ExitKind.FINISHED and file.trigger.finite) == (state.sentence == "")


def test_an_interrupted_run() -> None:
    """It counts as no failure, and forgets none. It goes on behind the first pause."""
    for file in (FOREVER, HOURLY, CHAINED):
        state = after_interruption(file, at(R, failures=2, started_s=NOW), NOW + 1)
        assert (W, 2, NOW + 1 + file.restart.initial) == (state.phase, state.failures, state.due_s)
        facts = Facts(now=NOW + 1 + file.restart.initial)
        assert Action.LAUNCH is tick(file, state, facts)[1]


def test_pauses_grow_up_to_a_limit() -> None:
    """Each failure in a row doubles the pause, whatever their number."""
    pauses = [FOREVER.restart.pause_s(failures, 0.0) for failures in (1, 2, 3, 7, 10_000_000)]

    assert [5, 10, 20, 300, 300] == pauses
    assert 360 == job_file("continuous").restart.pause_s(99, 1.0)


@pytest.mark.parametrize(
    ("restart", "pauses"),
    [
        (STEADY, [5, 10, 20, 40, 80, 160, 300, 300]),
        (STEADY | {"initial": "1m", "max": "2m"}, [60, 120, 120]),
        (STEADY | {"factor": 1}, [5, 5, 5]),
        (STEADY | {"factor": 3}, [5, 15, 45]),
    ],
)
@pytest.mark.parametrize("phase", [W, B])
def test_pauses_of_refused_starts_grow(
    phase: Phase, restart: dict[str, object], pauses: list[float]
) -> None:
    """A job that can't start is looked at less and less often, as after failures. The pauses begin
    anew once a start was not refused, however long the job had waited before."""
    file, now = job_file("continuous", restart=restart), NOW + 86_400
    state = at(phase, due_s=NOW, failures=2)
    for _ in range(2):
        actual = []
        for _ in pauses:
            state = after_refusal(file, state, "no checkpoint", now)
            actual.append((state.due_s or 0) - now)
            now = state.due_s or 0
        assert (pauses, W, 2) == (actual, state.phase, state.failures)
        state = replace(after_launch(file, state, now), phase=phase)
        now += 3600


def test_a_healthy_run_makes_failures_forgotten() -> None:
    """A run as long as ``resetAfter`` begins the count anew, while it runs and when it ends."""
    state = at(R, started_s=NOW, failures=5, sentence="broken")
    before, _ = tick(FOREVER, state, Facts(now=NOW + 599))
    healthy, _ = tick(FOREVER, state, Facts(now=NOW + 600))

    assert (5, 0, "") == (before.failures, healthy.failures, healthy.sentence)
    assert 6 == after_exit(FOREVER, state, ExitKind.FAILED, "", NOW + 599, 0.0).failures
    assert 1 == after_exit(FOREVER, state, ExitKind.FAILED, "", NOW + 600, 0.0).failures


def test_attempts_end() -> None:
    """With two attempts, the third failure in a row is the last."""
    state = at(R, started_s=NOW)
    phases = []
    for _ in range(3):
        state = after_exit(TWICE, state, ExitKind.FAILED, "broken", NOW, 0.0)
        phases.append(state.phase)
        state = replace(state, phase=R)

    assert [B, B, X] == phases
    assert "broken" == state.sentence


def test_a_clock_set_back_makes_no_pause_longer() -> None:
    """A pause is never longer than the longest one, as seen by the clock there is."""
    state, action = tick(FOREVER, at(B, due_s=NOW), Facts(now=NOW - 86_400))

    assert (NOW - 86_400 + 300, None) == (state.due_s, action)


@pytest.mark.parametrize(("queue", "due_s"), [(False, NEXT_HOUR + 3600), (True, NEXT_HOUR + 60)])
def test_a_time_that_comes_while_it_runs(queue: bool, due_s: float) -> None:
    """It is passed over, or kept for one run after this one."""
    overlap = "queue" if queue else "skip"
    file = job_file({"cron": "0 * * * *", "overlap": overlap}, restart=STEADY)
    state = after_launch(file, at(W, due_s=NOW), NOW)
    state, action = tick(file, state, Facts(now=NEXT_HOUR))
    state = after_exit(file, state, ExitKind.FINISHED, "", NEXT_HOUR + 60, 0.0)

    assert action is None
    assert (W, due_s, False) == (state.phase, state.due_s, state.queued)


def test_a_hung_query_is_ended_and_tried_again() -> None:
    """No progress for too long: SIGTERM, and then as after a failure."""
    file = job_file("continuous", health={"noProgress": "60s"}, restart=STEADY)
    state, none = tick(file, at(R, started_s=NOW), Facts(now=NOW, silent_s=60))
    state, action = tick(file, state, Facts(now=NOW, silent_s=61))
    state = after_exit(file, state, ExitKind.STOPPED, "", NOW, 0.0)

    assert (None, Action.END, B, 1) == (none, action, state.phase, state.failures)
    assert "it made no progress for 61 s (kill 1 of 3 at this micro-batch)" == state.sentence


@pytest.mark.parametrize(
    ("state", "facts", "action"),
    [
        (at(W, due_s=NOW), Facts(now=NOW), Action.LAUNCH),
        (at(W, due_s=NOW + 1), Facts(now=NOW), None),
        (at(W, due_s=NOW), Facts(now=NOW, has_room=False), None),
        (at(W, due_s=None), Facts(now=NOW, upstream_finished=False), None),
        (at(W, due_s=None), Facts(now=NOW, upstream_finished=True), Action.LAUNCH),
        (at(W, due_s=NOW, forced=True), Facts(now=NOW, upstream_finished=False), Action.LAUNCH),
        (at(B, due_s=NOW), Facts(now=NOW, upstream_finished=False), Action.LAUNCH),
        (at(P, due_s=NOW), Facts(now=NOW), None),
        (at(X, due_s=NOW), Facts(now=NOW), None),
    ],
)
def test_what_is_launched(state: JobState, facts: Facts, action: Action | None) -> None:
    """A job starts when its time has come, those before it have finished, and there is room."""
    assert action is tick(CHAINED, state, facts)[1]


def test_a_chained_job_runs_once_for_each_end_of_the_first() -> None:
    """It is ready when the first has finished since its own last start."""
    first = at(F, finished_s=NOW)

    assert not upstream_finished(CHAINED, at(W), {})
    assert not upstream_finished(CHAINED, at(W), {"first": at(R)})
    assert upstream_finished(CHAINED, at(W), {"first": first})
    assert not upstream_finished(CHAINED, at(W, started_s=NOW + 1), {"first": first})
    assert upstream_finished(
        job_file("continuous", after="first"), at(W, started_s=NOW + 1), {"first": first}
    )


@pytest.mark.parametrize("file", [FOREVER, ONCE, HOURLY, CHAINED])
@pytest.mark.parametrize("phase", [W, F, B])
def test_a_pause_that_cut_nothing_short_starts_nothing(file: JobFile, phase: Phase) -> None:
    """A job that was paused between its runs goes on waiting for what it waited for."""
    before = at(phase, due_s=NEXT_HOUR if phase is not F else None)
    after = apply_order(file, apply_order(file, before, Order.PAUSE, NOW), Order.RESUME, NOW + 1)

    assert (F if phase is F else W, before.due_s) == (after.phase, after.due_s)


@pytest.mark.parametrize("kind", [ExitKind.STOPPED, ExitKind.FINISHED])
def test_a_pause_that_cut_a_run_short_goes_on_with_it(kind: ExitKind) -> None:
    """A run that was ended by a pause begins again at once, unless it was done already."""
    state = apply_order(ONCE, at(R, started_s=NOW), Order.PAUSE, NOW)
    state = after_exit(ONCE, state, kind, "", NOW, 0.0)
    assert P is state.phase
    state = apply_order(ONCE, state, Order.RESUME, NOW + 5)

    assert (F if kind is ExitKind.FINISHED else W) is state.phase


@pytest.mark.parametrize(
    ("before", "phase"),
    [(None, W), (S, S), (P, P), (X, W), (F, W), (B, W), (R, W)],
)
def test_what_a_new_start_remembers(before: Phase | None, phase: Phase) -> None:
    """After a clean end all jobs begin anew, but for what was stopped or paused."""
    old = at(before, failures=3, finished_s=7.0, due_s=None) if before else None
    state = initial_state(ONCE, NOW, old)

    assert phase is state.phase
    assert 7.0 == state.finished_s if before else state.finished_s is None


LIMITED = job_file("continuous", health={"noProgress": "60s"}, restart=STEADY)


def killed_for_silence(state: JobState, *, committed: bool) -> tuple[JobState, bool]:
    """The state after a run that is silent for longer than the limit, and whether it was killed."""
    state = after_launch(LIMITED, state, NOW)
    facts = Facts(now=NOW, silent_s=0, has_committed=committed)
    state, _ = tick(LIMITED, state, facts)
    state, action = tick(LIMITED, state, replace(facts, silent_s=61))
    if action is not None:
        state = after_exit(LIMITED, state, ExitKind.KILLED, "", NOW, 0.0)
    return state, action is Action.END


def test_three_kills_at_one_micro_batch_are_enough() -> None:
    """A micro-batch that takes longer than the limit each time would never end otherwise. The
    first run has committed one before it went silent. The fourth runs on, until one commits."""
    state, sentences = at(W), []
    for committed in (True, False, False):
        state, killed = killed_for_silence(state, committed=committed)
        sentences.append(state.sentence)
        assert (True, B) == (killed, state.phase)
    state, killed = killed_for_silence(state, committed=False)

    assert "it made no progress for 61 s (kill 2 of 3 at this micro-batch)" == sentences[1]
    assert sentences[2].endswith("(kill 3 of 3 at this micro-batch: its next run is not killed)")
    assert (False, R, 3) == (killed, state.phase, state.silent_kills)
    state, action = tick(LIMITED, state, Facts(now=NOW, silent_s=61, has_committed=True))
    assert (Action.END, 1) == (action, state.silent_kills)


def test_a_commit_forgets_kills() -> None:
    """Kills at different micro-batches do not add up. Nor do those before somebody's order."""
    state = at(W)
    for _ in range(5):
        state, killed = killed_for_silence(state, committed=True)
        assert killed
    assert 0 == apply_order(LIMITED, state, Order.START, NOW).silent_kills


def test_a_healthy_idle_run_forgets_kills() -> None:
    """Kills of a quiet topic's job do not add up over months. An idle query has no micro-batch left
    to end. Tasks that finish are not enough: the long micro-batch may be the same."""
    killed = replace(after_launch(LIMITED, at(W), NOW), silent_kills=2)
    healthy = NOW + LIMITED.restart.resetAfter

    def kills(now: float, *, idle: bool) -> int:
        return tick(LIMITED, killed, Facts(now=now, is_idle=idle))[0].silent_kills

    assert [0, 2, 2] == [
        kills(healthy, idle=True),
        kills(healthy, idle=False),
        kills(healthy - 1, idle=True),
    ]


LATE = NEXT_HOUR + 1800  # a supervisor that was down from NOW on comes back


@pytest.mark.parametrize(
    ("file", "before", "due_s", "forced"),
    [
        (HOURLY, at(W, due_s=NEXT_HOUR), NEXT_HOUR, False),  # the time passed without a supervisor
        (HOURLY, at(W, due_s=NOW - 60), NOW - 60, False),  # it waited for room when that one ended
        (HOURLY, at(F), NEXT_HOUR, False),
        (HOURLY, at(W, due_s=NOW, forced=True), LATE, True),  # its run was interrupted
        (HOURLY, at(R, due_s=NEXT_HOUR), LATE, True),
        (HOURLY, at(G, then=W), LATE, True),
        (HOURLY, at(B, due_s=NOW + 5), LATE, True),
        (CHAINED, at(R), LATE, True),
        (CHAINED, at(B, due_s=NOW + 5), LATE, True),
        (CHAINED, at(W), None, False),
        (ONCE, at(F), LATE, False),
    ],
)
def test_what_a_clean_end_leaves_to_do(
    file: JobFile, before: JobState, due_s: float | None, forced: bool
) -> None:
    """A cron time that passed meanwhile is due, and an interrupted run goes on at once, as after a
    SIGKILL. Other cron jobs and chained jobs wait on."""
    state = initial_state(file, LATE, replace(before, queued=True), ended_s=NOW)

    assert (W, due_s, forced, True) == (state.phase, state.due_s, state.forced, state.queued)


def test_no_time_passed_meanwhile() -> None:
    """A cron job whose times were not missed waits for the next one; a new cron job too."""
    waiting = at(W, due_s=NEXT_HOUR)

    assert NEXT_HOUR == initial_state(HOURLY, NOW + 60, waiting, ended_s=NOW).due_s
    assert NEXT_HOUR + 3600 == initial_state(HOURLY, LATE, ended_s=NOW).due_s
    # Somebody has set the clock back.
    assert NEXT_HOUR == initial_state(HOURLY, NOW, waiting, ended_s=LATE + 9999).due_s


@pytest.mark.parametrize(
    ("file", "before", "phase", "due_s"),
    [
        (ONCE, at(F), F, None),
        (ONCE, at(W, due_s=NOW), W, LATE),
        (HOURLY, at(F), W, NEXT_HOUR + 3600),  # the run ended while its trigger was unknown
        (HOURLY, at(W, due_s=NEXT_HOUR), W, NEXT_HOUR),
        (CHAINED, at(F), W, None),
        (FOREVER, at(F), W, LATE),
        (FOREVER, at(B, due_s=LATE + 5), B, LATE + 5),
        (FOREVER, at(S), S, None),
        (FOREVER, at(X), X, None),
    ],
)
def test_a_file_that_can_be_read_later(
    file: JobFile, before: JobState, phase: Phase, due_s: float | None
) -> None:
    """Its trigger says when the job runs next. A job that runs once and has finished does not run
    again. Nor does one that waits for an order."""
    state = after_reading(file, replace(before, refusal="no secret"), LATE)

    assert (phase, due_s, "") == (state.phase, state.due_s, state.refusal)


@pytest.mark.parametrize(
    ("kind", "phase", "due_s", "forced"),
    [(ExitKind.STOPPED, W, NOW, True), (ExitKind.KILLED, W, NOW, True),
     (ExitKind.FINISHED, W, NEXT_HOUR, False)],
)  # fmt: skip
def test_the_end_of_a_supervisor_interrupts(
    kind: ExitKind, phase: Phase, due_s: float, forced: bool
) -> None:
    """A run that the end has interrupted goes on under the next supervisor. A run that has read
    everything before it heard of the end does not come again."""
    state = interrupt(at(R, started_s=NOW, due_s=NEXT_HOUR), NOW)
    state, action = tick(HOURLY, state, Facts(now=NOW))
    state = after_exit(HOURLY, state, kind, "", NOW, 0.0)

    assert (Action.END, phase, due_s, forced) == (action, state.phase, state.due_s, state.forced)


def test_times_follow_the_clocks_of_their_zone() -> None:
    """A daily time that a change of clocks leaves out comes right after it; as in Debian's cron."""
    berlin = cron("30 2 * * *", "Europe/Berlin")
    before_spring = 1_711_753_200.0  # 2024-03-30 00:00 in Berlin
    first = berlin.next_time(before_spring)
    second = berlin.next_time(first)

    assert 2.5 * 3600 == first - before_spring
    assert 23.5 * 3600 == second - first  # 03:00 in summer time: 02:30 did not come


STEPS = st.one_of(
    st.sampled_from(Order),
    st.sampled_from(ExitKind),
    st.floats(0, 1000),
    st.just("launch"),
)


@given(
    file=st.sampled_from([FOREVER, ONCE, HOURLY, CHAINED, TWICE]),
    steps=st.lists(STEPS, max_size=30),
)
def test_what_always_holds(file: JobFile, steps: list[object]) -> None:
    """Whatever comes: only a waiting job is launched, only a process is ended or killed, a stopped
    job stays stopped until it is asked, and no state is lost on its way through JSON."""
    now, state = NOW, initial_state(file, NOW)
    for step in steps:
        before = state
        if isinstance(step, Order):
            state = apply_order(file, state, step, now)
            assert state.phase.has_process == before.phase.has_process
        elif isinstance(step, ExitKind) and state.phase.has_process:
            state = after_exit(file, state, step, "", now, 0.5)
            assert not state.phase.has_process
        elif isinstance(step, float):
            now += step
        state, action = tick(file, state, Facts(now=now, silent_s=0))
        assert (action is Action.LAUNCH) <= (state.phase in (W, B))
        assert (action in (Action.END, Action.KILL)) <= (state.phase is G)
        if before.phase in (S, X) and not isinstance(step, Order):
            assert before.phase is state.phase
        if action is Action.LAUNCH and step == "launch":
            state = after_launch(file, state, now)
        assert (state.then is not None) >= (state.phase is G)
