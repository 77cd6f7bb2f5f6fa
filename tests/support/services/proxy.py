"""A wire between clients and a server on this machine that a test can slow down, cut, and tear.

TCP delivers every byte in order or ends the connection. So a cut holds bytes back; it never loses some and delivers
later ones. When a cut heals, the bytes arrive after all, as the kernel's retransmissions do, or the connections are
torn (reset), as by a firewall that has forgotten them: what was held is then lost for ever. Cutting the way of the
answers only, and tearing, gives a client whose requests all took effect and who never hears of it.
"""

import contextlib
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

from deploy.local.ports import free_port

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends a reset and forgets what is unsent
_CHUNK = 1 << 16


class _Way:
    """One direction of every connection. Bytes pass while it is open, each portion after `delay_s`."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.delay_s = 0.0

    def pass_on(self) -> None:
        if self.delay_s:
            time.sleep(self.delay_s)
        self.open.wait()


class Proxy:
    """Listens on `port` and connects to `target`, both on 127.0.0.1. A context manager."""

    def __init__(self, target: int) -> None:
        self.target, self.port = target, free_port()
        self._requests, self._answers = _Way(), _Way()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        threading.Thread(target=self._listen, args=(self._listener,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.heal(torn=True)

    def cut(self, *, requests: bool = True, answers: bool = True) -> None:
        """Hold back what clients send, what they are answered, or both. New connections fare the same."""
        if requests:
            self._requests.open.clear()
        if answers:
            self._answers.open.clear()

    def slow(self, delay_s: float) -> None:
        """Every portion of bytes takes this much longer, either way."""
        self._requests.delay_s = self._answers.delay_s = delay_s

    def heal(self, *, torn: bool = False) -> None:
        """The wire is whole and quick again. What was held arrives now, or, if torn, never."""
        self.slow(0.0)
        if torn:
            with self._lock:
                for connection in self._connections:
                    _reset(connection)
        self._requests.open.set()
        self._answers.open.set()

    def _listen(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            with self._lock:
                self._connections |= {client, server}
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink, way in ((client, server, self._requests), (server, client, self._answers)):
                threading.Thread(target=self._pump, args=(source, sink, way), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, way: _Way) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK):
                way.pass_on()
                sink.sendall(chunk)
        way.pass_on()  # that a connection has ended is news as well, and is held back
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        with self._lock:
            self._connections -= {source, sink}


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection.shutdown(socket.SHUT_RD)  # wakes the thread that reads
    connection.close()
