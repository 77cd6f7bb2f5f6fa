"""A registry that has what a test gives it, answers as it is told, and writes records in Avro."""

import io
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro


class Registry:
    """`answers` has a status and a body for each path; any other is not found. `asked` has the headers of requests."""

    def __init__(self, port: int) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[Mapping[str, str]] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(dict(self.headers))
                status, body = registry.answers.get(self.path, (404, b"{}"))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in http.server
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def put(self, identity: int, schema: Any) -> None:
        """Have a schema, as Confluent's API says it."""
        self.answers[f"/schemas/ids/{identity}"] = (200, json.dumps({"schema": json.dumps(schema)}).encode())

    @contextmanager
    def serving(self) -> Iterator["Registry"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def avro(schema: Any, value: Any) -> bytes:
    """A value in Avro, without an id."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def framed(identity: int, schema: Any, value: Any) -> bytes:
    """A record as Confluent's converter writes it."""
    return b"\0" + identity.to_bytes(4) + avro(schema, value)
