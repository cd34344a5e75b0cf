"""One fetch session: plan a request, then commit what the broker acknowledged (KIP-227).

    plan = session.plan(changes)            # changes nothing
    ... send it, read the reply ...
    outcome = session.accept(plan, reply)   # or session.reject(plan, cause)

A session belongs to one query, one broker and one isolation level, and has one request in flight:
that is the caller's rule, and a second reply to the same state is refused (``SessionMisuse``). The
caller keeps its changes until a plan that had them is accepted. After anything else the next plan
is full, so it carries them together with all that was acknowledged before.

Refused: two requests in flight, resuming a session after a lost reply (nobody can know whether the
broker counted the request), and any move of (id, epoch) that is not a row of ``transitions``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kfetch.model import FetchPosition, TopicPartition
from kfetch.session.backoff import Backoff
from kfetch.session.held import Changes, HeldPartitions
from kfetch.session.metadata import INVALID_SESSION_ID, FetchMetadata
from kfetch.session.transitions import (
    REPLIES,
    REQUESTS,
    Answer,
    Event,
    Need,
    Request,
    Row,
    State,
    carried,
    classify,
    moved,
    state_of,
)
from kfetch.session.values import (
    TOPIC_ID_VERSION,
    FetchPlan,
    Outcome,
    SessionMisuse,
    SessionReply,
    SessionStats,
)

_PATIENCE: Mapping[Event, Callable[[Backoff], Backoff]] = {
    Event.OPENED: Backoff.opened,
    Event.REFUSED: Backoff.refused,
    Event.SESSIONLESS: Backoff.waited,
}


class FetchSession:
    """The client's half of a fetch session.

    ``topic_ids``: the broker speaks Fetch v13 or later, so topics may be keyed by id.
    ``orphan``: id of a session of an earlier life; the first request closes it (0: none).
    """

    def __init__(self, *, topic_ids: bool = True, orphan: int = INVALID_SESSION_ID) -> None:
        self._topic_ids = topic_ids
        self._metadata = FetchMetadata(session_id=orphan)
        self._held = HeldPartitions(uses_topic_ids=topic_ids)
        self._backoff = Backoff()
        self._stats = dict.fromkeys(Event, 0)
        self._problem = ""
        self._turn = object()

    @property
    def metadata(self) -> FetchMetadata:
        """Session id and epoch of the next request, as far as the past decides them."""
        return self._metadata

    @property
    def state(self) -> State:
        """Where the session stands."""
        return state_of(self._metadata)

    @property
    def partitions(self) -> Mapping[TopicPartition, FetchPosition]:
        """What the broker has acknowledged, in its order of arrival: a live, read-only view."""
        return MappingProxyType(self._held.positions)

    def plan(self, changes: Changes) -> FetchPlan:
        """The next request, given what is to change. Changes nothing, not even ``self``.

        Only the keys of ``changes`` are looked at in an incremental session; a change equal to what
        the broker holds is not sent. Partitions are sent in the caller's order, where Kafka's
        client sends new ones first and altered ones in session order, which takes a walk over the
        session. The broker can't tell: it appends new partitions in the order sent, and updates
        the others in place. Raises SessionMisuse if two topic names share a topic id.
        """
        news = self._held.news(changes)
        total, without_id = self._held.count_after(news)
        uses_topic_ids = self._topic_ids and not without_id
        request = REQUESTS[self.state, self._need(total, uses_topic_ids)]
        if request is Request.CONTINUE:
            plan = self._incremental(news)
        else:
            plan = self._full(request, self._held.overlaid(news), uses_topic_ids)
        self._held.check(plan)
        return plan

    def close(self) -> FetchPlan | None:
        """The request that closes the session; None if there is none. Changes nothing.

        Once accepted the session holds nothing, and can be used anew.
        """
        request = REQUESTS.get((self.state, Need.CLOSE))
        return request and self._full(request, {}, self._held.uses_topic_ids)

    def accept(self, plan: FetchPlan, reply: SessionReply) -> Outcome:
        """Take the broker's reply to ``plan``. Raises SessionMisuse for a plan of another state."""
        self._check_turn(plan)
        _check_version(plan, reply)
        found, problem = self._held.resolve(plan, reply.partitions)
        answer = classify(
            plan.request,
            error=reply.error,
            session_id=reply.session_id,
            only_throttled=reply.throttle_ms > 0 and not reply.partitions,
            valid=not problem,
        )
        row = REPLIES[plan.request, answer]
        if row.accepted:
            self._held.commit(plan)
            self._move(row, reply.session_id, "")
            return Outcome(accepted=True, event=row.event, partitions=found)
        # A reply with an error has no partitions: only an invalid one is told by them.
        why = problem if answer is Answer.INVALID else f"{answer.value} (error {reply.error})"
        return self._refuse(row, reply.session_id, why)

    def reject(self, plan: FetchPlan, cause: object) -> Outcome:
        """``plan`` had no usable reply: connection lost, too late, undecodable."""
        self._check_turn(plan)
        row = REPLIES[plan.request, Answer.NO_REPLY]
        return self._refuse(row, INVALID_SESSION_ID, str(cause) or repr(cause))

    def stats(self) -> SessionStats:
        """How often each event has happened."""
        return SessionStats(**{event.value: count for event, count in self._stats.items()})

    def __repr__(self) -> str:
        keyed = "id" if self._held.uses_topic_ids else "name"
        counts = [f"{event.value} {count}" for event, count in self._stats.items() if count]
        told = [f"{len(self._held.positions)} partitions by topic {keyed}", *counts]
        told += [f"wait {self._backoff.wait_fetches} fetches"] * (not self._backoff.over)
        told += [f"last problem: {self._problem}"] * bool(self._problem)
        return f"<FetchSession {self.state.name} {self._metadata}: {', '.join(told)}>"

    def _need(self, total: int, uses_topic_ids: bool) -> Need:
        if not total:  # also where the keys would change: forgets come in the session's own
            return Need.EMPTY
        if self.state is State.SESSION and uses_topic_ids != self._held.uses_topic_ids:
            return Need.REKEY
        if self.state is State.SESSIONLESS and self._backoff.over:
            return Need.ASK
        return Need.FETCH

    def _incremental(self, news: Changes) -> FetchPlan:
        send = {tp: position for tp, position in news.items() if position is not None}
        return FetchPlan(
            request=Request.CONTINUE,
            metadata=carried(Request.CONTINUE, self._metadata),
            send=MappingProxyType(send),
            forget=tuple(self._held.forgets(news)),
            uses_topic_ids=self._held.uses_topic_ids,
            turn=self._turn,
        )

    def _full(
        self, request: Request, wanted: dict[TopicPartition, FetchPosition], uses_topic_ids: bool
    ) -> FetchPlan:
        return FetchPlan(
            request=request,
            metadata=carried(request, self._metadata),
            send=MappingProxyType(wanted),
            uses_topic_ids=uses_topic_ids,
            turn=self._turn,
        )

    def _refuse(self, row: Row, replied_id: int, problem: str) -> Outcome:
        self._move(row, replied_id, problem)
        return Outcome(accepted=False, event=row.event, problem=problem)

    def _move(self, row: Row, replied_id: int, problem: str) -> None:
        self._metadata = moved(row, self._metadata, replied_id)
        if row.event in _PATIENCE:
            self._backoff = _PATIENCE[row.event](self._backoff)
        self._stats[row.event] += 1
        self._problem = problem or self._problem
        self._turn = object()

    def _check_turn(self, plan: FetchPlan) -> None:
        if plan.turn is not self._turn:
            raise SessionMisuse(
                f"the plan {plan.metadata} was not made from this state of {self!r}:"
                " it was answered before, or another one was, or it is another session's"
            )


def _check_version(plan: FetchPlan, reply: SessionReply) -> None:
    if reply.version is None:
        return
    if (reply.version >= TOPIC_ID_VERSION) != plan.uses_topic_ids:
        wanted = "13 or later" if plan.uses_topic_ids else "12 or earlier"
        raise SessionMisuse(f"planned for Fetch v{wanted}, sent as v{reply.version}")
