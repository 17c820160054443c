"""A relay between a client and a server, which can misbehave as networks and servers do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class Relay:
    """Passes bytes on, until it is told otherwise.

    Args:
        port: of the server.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._never = threading.Event()
        self.behave()
        threading.Thread(target=self._accept, daemon=True).start()

    def behave(self) -> None:
        """Pass everything on from now on."""
        self.connections = 0
        self.refused = 0
        self.on_refused: Callable[[int], None] = lambda n: None
        self.silent = False
        self.failing = False
        self.slow = False
        self.cut_answers_after: int | None = None
        self.cuts_left = 0

    def drop_all(self) -> None:
        """Break off all connections that there are."""
        with self._lock:
            connections = list(self._open)
        for each in connections:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.drop_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            self._open.add(client)
        try:
            with contextlib.suppress(OSError), client:
                self._relay(client)
        finally:
            with self._lock:
                self._open.discard(client)

    def _relay(self, client: socket.socket) -> None:
        if self.silent:
            while client.recv(65536):  # until the client gives up
                pass
            return
        if self.failing:
            client.recv(65536)
            client.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        try:
            server = socket.create_connection(("127.0.0.1", self._server), timeout=60)
        except OSError:
            with self._lock:
                self.refused += 1
                refused = self.refused
            self.on_refused(refused)
            return
        with server:
            back = threading.Thread(target=self._answer, args=(server, client), daemon=True)
            back.start()
            with contextlib.suppress(OSError):
                while some := client.recv(1 << 20):
                    server.sendall(some)
                server.shutdown(socket.SHUT_WR)
            back.join()

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while some := server.recv(1 << 16):
                with self._lock:
                    cut = self.cut_answers_after is not None and self.cuts_left > 0
                    cut = cut and passed + len(some) > self.cut_answers_after
                    self.cuts_left -= cut
                if cut:
                    client.sendall(some[: max(0, self.cut_answers_after - passed)])
                    client.shutdown(socket.SHUT_RDWR)
                    return
                if self.slow:
                    for byte in some:
                        client.sendall(bytes([byte]))
                        self._never.wait(0.1)
                else:
                    client.sendall(some)
                passed += len(some)
            client.shutdown(socket.SHUT_WR)
