"""One fetch session: plan a request, then commit what the broker acknowledged (KIP-227).

    plan = session.plan(changes)            # changes nothing
    ... send it, read the reply ...
    outcome = session.accept(plan, reply)   # or session.reject(plan, cause)

A session belongs to one query, one broker and one isolation level. The caller keeps one request in
flight: a second reply to the same state raises ``SessionUsageError``. The caller keeps its changes
until the session accepts a plan that had them. After any other outcome the next plan is full: it
carries the changes and every acknowledged partition.

The session does not resume after a lost reply, because nobody can know whether the broker counted
the request. It makes no move of (id, epoch) that is not in ``transitions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kfetch.model import FetchPosition, TopicPartition
from kfetch.session.metadata import INVALID_SESSION_ID, FetchMetadata
from kfetch.session.partitions import Changes, SessionPartitions
from kfetch.session.plan import FetchPlan, Outcome, SessionUsageError
from kfetch.session.refusals import RefusalBackoff
from kfetch.session.replies import TOPIC_ID_VERSION, SessionReply
from kfetch.session.transitions import (
    MOVES,
    RequestKind,
    SessionEvent,
    SessionState,
    can_close,
    next_request,
    reply_event,
    request_metadata,
    state_of,
)


class FetchSession:
    """The client's half of a fetch session.

    ``topic_ids``: the broker speaks Fetch v13 or later, so topics may be keyed by id.
    """

    def __init__(self, *, topic_ids: bool = True) -> None:
        self._topic_ids = topic_ids
        self._metadata = FetchMetadata()
        self._partitions = SessionPartitions(uses_topic_ids=topic_ids)
        self._backoff = RefusalBackoff()
        self.event_counts = dict.fromkeys(SessionEvent, 0)
        """How often each event has come."""
        self._last_problem = ""
        self._request_token = object()

    @property
    def metadata(self) -> FetchMetadata:
        """Session id and epoch from which the next request follows."""
        return self._metadata

    @property
    def state(self) -> SessionState:
        """The state that follows from ``metadata``."""
        return state_of(self._metadata)

    @property
    def partitions(self) -> Mapping[TopicPartition, FetchPosition]:
        """The acknowledged positions, in the broker's order: a live, read-only view."""
        return MappingProxyType(self._partitions.positions)

    def plan(self, changes: Changes) -> FetchPlan:
        """Returns the next request for ``changes``. Changes nothing, not even ``self``.

        In an incremental session the cost is that of ``changes``, whatever the session holds. The
        plan leaves out a change that the broker already has.

        The plan sends partitions in the caller's order. Java's client sends new ones first and
        altered ones in session order, which takes a walk over the session. The broker treats both
        alike: it appends new partitions in the order sent, and updates the others in place.

        Raises SessionUsageError if two topic names share a topic id.
        """
        unsent = self._partitions.unsent(changes)
        count, without_id_count = self._partitions.count_after(unsent)
        uses_topic_ids = self._topic_ids and not without_id_count
        request = next_request(
            self.state,
            empty=not count,
            keys_changed=uses_topic_ids != self._partitions.uses_topic_ids,
            may_ask=self._backoff.is_over,
        )
        if request is RequestKind.CONTINUE:
            plan = self._incremental_plan(unsent)
        else:
            plan = self._full_plan(request, self._partitions.merged(unsent), uses_topic_ids)
        self._partitions.check_keys(plan)
        return plan

    def close(self) -> FetchPlan | None:
        """Returns the request that closes the session, None without a session. Changes nothing.

        After the reply is accepted the session holds nothing, and the caller can use it again.
        """
        if not can_close(self.state):
            return None
        return self._full_plan(RequestKind.CLOSE, {}, self._partitions.uses_topic_ids)

    def accept(self, plan: FetchPlan, reply: SessionReply) -> Outcome:
        """Applies the broker's reply to ``plan`` and returns what it did.

        Raises SessionUsageError if the plan belongs to another state of the session.
        """
        self._check_request_token(plan)
        _check_version(plan, reply)
        partitions, mismatch = self._partitions.match_reply(plan, reply.partitions)
        event = reply_event(
            plan.request,
            error=reply.error,
            session_id=reply.session_id,
            only_throttled=reply.throttle_ms > 0 and not reply.partitions,
            valid=not mismatch,
        )
        if event.accepted:
            self._partitions.commit(plan, set(partitions.values()))
            self._move(plan.request, event, reply.session_id)
            return Outcome(event=event, partitions=partitions)
        # A reply with an error has no partitions, so only INVALID_REPLY concerns the mismatch.
        invalid = event is SessionEvent.INVALID_REPLY
        problem = mismatch if invalid else f"{event.value} (error {reply.error})"
        return self._refuse(plan.request, event, reply.session_id, problem)

    def reject(self, plan: FetchPlan, cause: object) -> Outcome:
        """Records that ``plan`` has no usable reply: connection lost, too late, undecodable.

        Raises SessionUsageError if the plan belongs to another state of the session.
        """
        self._check_request_token(plan)
        problem = str(cause) or repr(cause)
        return self._refuse(plan.request, SessionEvent.REJECTED, INVALID_SESSION_ID, problem)

    def __repr__(self) -> str:
        keyed = "id" if self._partitions.uses_topic_ids else "name"
        parts = [f"{len(self._partitions.positions)} partitions by topic {keyed}"]
        parts += [f"{event.value} {count}" for event, count in self.event_counts.items() if count]
        if not self._backoff.is_over:
            parts.append(f"wait {self._backoff.remaining_fetches} fetches")
        if self._last_problem:
            parts.append(f"last problem: {self._last_problem}")
        return f"<FetchSession {self.state.name} {self._metadata}: {', '.join(parts)}>"

    def _incremental_plan(self, unsent: Changes) -> FetchPlan:
        send = {tp: position for tp, position in unsent.items() if position is not None}
        return FetchPlan(
            request=RequestKind.CONTINUE,
            metadata=request_metadata(RequestKind.CONTINUE, self._metadata),
            send=MappingProxyType(send),
            forget=tuple(self._partitions.to_forget(unsent)),
            uses_topic_ids=self._partitions.uses_topic_ids,
            request_token=self._request_token,
        )

    def _full_plan(
        self,
        request: RequestKind,
        positions: dict[TopicPartition, FetchPosition],
        uses_topic_ids: bool,
    ) -> FetchPlan:
        return FetchPlan(
            request=request,
            metadata=request_metadata(request, self._metadata),
            send=MappingProxyType(positions),
            uses_topic_ids=uses_topic_ids,
            request_token=self._request_token,
        )

    def _refuse(
        self, request: RequestKind, event: SessionEvent, replied_id: int, problem: str
    ) -> Outcome:
        self._last_problem = problem
        self._move(request, event, replied_id)
        return Outcome(event=event, problem=problem)

    def _move(self, request: RequestKind, event: SessionEvent, replied_id: int) -> None:
        self._metadata = MOVES[request][event](self._metadata, replied_id)
        match event:
            case SessionEvent.OPENED:
                self._backoff = self._backoff.opened()
            case SessionEvent.REFUSED:
                self._backoff = self._backoff.refused()
            case SessionEvent.SESSIONLESS:
                self._backoff = self._backoff.fetched()
        self.event_counts[event] += 1
        self._request_token = object()

    def _check_request_token(self, plan: FetchPlan) -> None:
        if plan.request_token is not self._request_token:
            raise SessionUsageError(
                f"the plan {plan.metadata} was not made from this state of {self!r}:"
                " it was answered before, or another one was, or it is another session's"
            )


def _check_version(plan: FetchPlan, reply: SessionReply) -> None:
    if reply.version is None:
        return
    if (reply.version >= TOPIC_ID_VERSION) != plan.uses_topic_ids:
        planned = "13 or later" if plan.uses_topic_ids else "12 or earlier"
        raise SessionUsageError(f"planned for Fetch v{planned}, sent as v{reply.version}")
