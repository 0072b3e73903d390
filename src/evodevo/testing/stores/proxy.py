"""A network that fails: a TCP proxy which cuts, stalls, or loses the answer to a commit."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Literal

CHUNK = 65536
Loss = Literal["request", "answer"]


class Proxy:
    """Passes bytes between clients and one server, in a thread, until told otherwise.

    Args:
        port: Port of the server on the loopback.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._peers: dict[socket.socket, socket.socket] = {}
        self._clients: set[socket.socket] = set()
        self._lock = threading.RLock()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._ended = False
        self.refusing = self.stalled = False
        self._losing: list[Loss] = []
        self.lost = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def lose_commit(self, what: Loss) -> None:
        """Cut the connection of the next commit: before the server hears of it, or after, without its answer."""
        with self._lock:
            self._losing.append(what)

    def cut(self) -> None:
        """Close all connections that there are."""
        with self._lock:
            for one in list(self._clients):
                self._close(one)

    def close(self) -> None:
        """End it."""
        self._ended = True
        self._thread.join()
        self.cut()
        self._listening.close()
        self._selector.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._ended:
            if self.stalled:
                threading.Event().wait(0.01)
                continue
            for key, _ in self._selector.select(0.02):
                with self._lock:
                    if key.fileobj is self._listening:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._peers:
                        self._pass(key.fileobj)

    def _accept(self) -> None:
        client, _ = self._listening.accept()
        if self.refusing:
            client.close()
            return
        try:
            server = socket.create_connection(("127.0.0.1", self._server), timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        self._clients.add(client)
        for one, other in ((client, server), (server, client)):
            self._peers[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass(self, source: socket.socket) -> None:
        target = self._peers[source]
        try:
            data = source.recv(CHUNK)
        except OSError:
            data = b""
        if not data:
            self._close(source)
            return
        loses = bool(self._losing) and source in self._clients and b"COMMIT" in data
        what = self._losing.pop(0) if loses else None
        if what == "request":
            self.lost += 1
            self._close(source)
            return
        try:
            target.sendall(data)
            if what == "answer":
                self.lost += 1
                target.recv(CHUNK)  # it was done
                self._close(source)
        except OSError:
            self._close(source)

    def _close(self, one: socket.socket) -> None:
        other = self._peers.pop(one, None)
        for each in (one, other):
            if each is not None:
                self._peers.pop(each, None)
                self._clients.discard(each)
                with suppress(KeyError, ValueError, OSError):
                    self._selector.unregister(each)
                each.close()
