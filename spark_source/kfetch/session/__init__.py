"""The client side of incremental fetch sessions (KIP-227), as a pure state machine.

Open ``transitions`` first: every move of the state is a row of its tables, and
``python -m kfetch.session.transitions`` draws them. ``session`` has ``FetchSession`` itself,
``values`` what goes in and out of it, ``metadata`` the pair (session id, epoch), ``held`` the
partitions of the session, ``backoff`` the patience after a refusal. Nothing here does I/O, starts a
thread or reads a clock. Nothing is re-exported, so that the command above imports its module once.
"""
