"""A scripted schema registry for tests: a small server that answers as Confluent's REST API does.

It is no real registry: it checks no compatibility and keeps nothing. integration/ has a real one.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["ScriptedRegistry", "framed"]


def framed(schema: int, value: bytes, indexes: bytes = b"") -> bytes:
    """A value in Confluent's wire format. ``indexes``: those of Protobuf, as they are written."""
    return b"\0" + schema.to_bytes(4, "big") + indexes + value


class ScriptedRegistry:
    """Schemas by their ids, and subjects with versions."""

    def __init__(self, *, context: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        """The paths and queries of all requests."""
        self.headers: dict[str, str] = {}
        """Those of the last request."""
        self.answers: list[tuple[int, bytes]] = []
        """What the next requests get instead of a schema."""
        self.log_in = ""
        """The header Authorization that requests need; empty: none."""
        self.arrived = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests.append(self.path)
                registry.headers = {key.lower(): text for key, text in self.headers.items()}
                registry.arrived.set()
                registry.may_answer.wait(60)
                status, body = registry.answer(self.path)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        # ``server_close`` joins the threads: no socket of theirs outlives the test.
        self._server.daemon_threads = False
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> ScriptedRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()

    def add(
        self,
        schema: Any,
        subject: str = "s",
        *,
        kind: str = "AVRO",
        references: tuple[tuple[str, int], ...] = (),
        number: int = 0,
    ) -> int:
        """Adds a version to a subject: JSON, or the bytes of a FileDescriptorProto. Its id."""
        text = schema if isinstance(schema, str) else ""
        if isinstance(schema, bytes):
            text = base64.b64encode(schema).decode()
        listed = [{"name": s, "subject": s, "version": v} for s, v in references]
        number = number or len(self.schemas) + 1
        self.schemas[number] = {"schema": text or json.dumps(schema), "references": listed}
        if kind != "AVRO":
            self.schemas[number]["schemaType"] = kind
        self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str) -> tuple[int, bytes]:
        if self.answers:
            return self.answers.pop(0)
        if self.log_in and self.headers.get("authorization") != self.log_in:
            return 401, json.dumps({"error_code": 401, "message": "Unauthorized"}).encode()
        status, answer = self._found(urlsplit(path).path, parse_qs(urlsplit(path).query))
        return status, json.dumps(answer).encode()

    def _found(self, path: str, _query: dict[str, list[str]]) -> tuple[int, Any]:
        match [unquote(part) for part in path.split("/")[1:]]:
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
                return (200, found) if found else (404, _error(40403, "Schema not found"))
            case ["subjects", subject, "versions"] if subject in self.subjects:
                return 200, [*range(1, len(self.subjects[subject]) + 1)]
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                ids = self.subjects[subject]
                at = len(ids) if version == "latest" else int(version)
                if not 1 <= at <= len(ids):
                    return 404, _error(40402, "Version not found.")
                more = {"subject": subject, "version": at, "id": ids[at - 1]}
                return 200, self.schemas[ids[at - 1]] | more
            case ["subjects", *_]:
                return 404, _error(40401, "Subject not found.")
        return 404, _error(404, "HTTP 404 Not Found")


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "message": message}
