"""The pair (session id, epoch) that every Fetch request carries: an immutable value.

The pair tells a broker what the client wants (KIP-227):

    (0, -1)    full fetch, no session
    (0, 0)     full fetch, open a session
    (id, 0)    close session id, full fetch, open another session
    (id, n)    incremental fetch, the n-th of session id
    (id, -1)   close session id
"""

from __future__ import annotations

from dataclasses import dataclass

INVALID_SESSION_ID = 0  # "no session": brokers never give this id to a session
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """Returns the epoch after ``epoch``. It wraps to 1, because 0 asks for a new session."""
    if epoch < INITIAL_EPOCH:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchMetadata:
    """Session id and epoch. The moves have the names of Java's FetchMetadata."""

    session_id: int = INVALID_SESSION_ID
    """The broker's id of the session, 0 for none."""
    epoch: int = INITIAL_EPOCH
    """Number of the request within the session; 0 and -1 mark full fetches."""

    @classmethod
    def new_incremental(cls, session_id: int) -> FetchMetadata:
        """Returns the pair of the first incremental request of a new session."""
        return cls(session_id=session_id, epoch=next_epoch(INITIAL_EPOCH))

    @property
    def is_full(self) -> bool:
        """Whether a request with this pair names every partition."""
        return self.epoch in (INITIAL_EPOCH, FINAL_EPOCH)

    def next_incremental(self) -> FetchMetadata:
        """Returns the pair of the next request of the same session."""
        return FetchMetadata(session_id=self.session_id, epoch=next_epoch(self.epoch))

    def next_close_existing_attempt_new(self) -> FetchMetadata:
        """Returns the pair that closes this session, if there is one, and opens another."""
        return FetchMetadata(session_id=self.session_id, epoch=INITIAL_EPOCH)

    def next_close_existing(self) -> FetchMetadata:
        """Returns the pair that closes this session and opens none."""
        return FetchMetadata(session_id=self.session_id, epoch=FINAL_EPOCH)

    def __str__(self) -> str:
        return f"(id {self.session_id}, epoch {self.epoch})"


INITIAL = FetchMetadata()
LEGACY = FetchMetadata(epoch=FINAL_EPOCH)
