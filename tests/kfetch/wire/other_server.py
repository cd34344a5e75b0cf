"""A server that is no Kafka."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

Answer = Callable[[bytes], bytes | None]


class Peer:
    """A server that is no Kafka: it answers the first bytes of each connection, then closes it.

    If the answer is None, it says nothing, and keeps the connection open.
    """

    def __init__(self, answer: Answer) -> None:
        self.connections = 0
        self._answer = answer
        self._streams: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                stream, _ = self._listener.accept()
                self._streams.append(stream)  # ``recv`` raises if the client has reset it
                self.connections += 1
                answer = self._answer(stream.recv(4096))
                if answer is None:
                    continue
                stream.sendall(answer)
                stream.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server, and its connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60)
        for stream in self._streams:
            stream.close()
