"""What differs between the async and the sync client: sockets, pauses, locks, threads.

_async/io.py has the same names.
"""

from __future__ import annotations

import concurrent.futures
import socket
import threading
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from opensandbox._core import tls

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
Returned = Annotated[T, "what a callback of the user returns"]
Stream = Generator[T, None, None]  # what an iterator of this SDK is
Lock = threading.Lock


def new_transport(connections: int | None, kept: int, expiry: float) -> Any:
    """A connection pool."""
    from opensandbox._sync import transport

    return transport.new_transport(connections, kept, expiry)


def new_client(transport: Any, hooks: dict[str, list[Any]], redirects: bool) -> Any:
    import httpx

    return httpx.Client(
        transport=transport, event_hooks=hooks, follow_redirects=redirects, trust_env=False
    )


def request_hook(function: Callable[[httpx.Request], None]) -> Any:
    return function


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def call(function: Callable[[Any], Any], argument: Any) -> Any:
    """Calls a callback of the user."""
    return function(argument)


def shielded(work: Callable[[], None]) -> None:
    """Runs something to its end."""
    work()


def blocking(function: Callable[..., T], *arguments: Any) -> T:
    """Runs what may block on a disk."""
    return function(*arguments)


def each(functions: list[Callable[[], T]], at_once: int) -> list[T]:
    """Runs all, some at the same time; the first exception is raised after those that run."""
    if len(functions) <= 1:
        return [function() for function in functions]
    with concurrent.futures.ThreadPoolExecutor(min(len(functions), max(1, at_once))) as pool:
        return list(pool.map(lambda function: function(), functions))


class Background:
    """Something that runs beside its owner until it is stopped."""

    def __init__(self, function: Callable[[], None], name: str) -> None:
        self._thread = threading.Thread(target=function, name=name, daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Waits for its end; whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """A thread cannot be cancelled: its owner has told it to end."""


class Signal:
    """A flag that can be waited for."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)


class Connection:
    """A connection of bytes, for what is no HTTP any more."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._rest = b""

    @classmethod
    def open(cls, host: str, port: int, secure: bool, seconds: float) -> Connection:
        sock = socket.create_connection((host, port), timeout=seconds)
        for option in tls.SOCKET_OPTIONS:
            sock.setsockopt(*option)
        return cls(tls.context().wrap_socket(sock, server_hostname=host) if secure else sock)

    def _fill(self, seconds: float | None) -> None:
        self._sock.settimeout(seconds)
        data = self._sock.recv(1 << 16)
        if not data:
            raise EOFError("the connection ended")
        self._rest += data

    def read_exactly(self, count: int, seconds: float | None) -> bytes:
        while len(self._rest) < count:
            self._fill(seconds)
        data, self._rest = self._rest[:count], self._rest[count:]
        return data

    def read_line(self, seconds: float) -> bytes:
        while b"\n" not in self._rest and len(self._rest) < 1 << 16:
            self._fill(seconds)
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"

    def write(self, data: bytes) -> None:
        self._sock.settimeout(None)
        self._sock.sendall(data)

    def close(self) -> None:
        self._sock.close()
