"""The client side of incremental fetch sessions (KIP-227), as a pure state machine.

Read ``transitions`` first: it holds every move of the state. docs/explanation/fetch-sessions.md
draws them. ``session`` has ``FetchSession`` itself. ``plan`` has what it sends and returns,
``replies`` the content of a Fetch reply, ``metadata`` the pair (session id, epoch), ``partitions``
the partitions of the session, and ``refusals`` the wait after a refusal. Nothing here does I/O,
starts a thread or reads a clock. The package re-exports nothing.
"""
