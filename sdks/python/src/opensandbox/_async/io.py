"""What differs between the async and the sync client: sockets, pauses, locks, tasks.

_sync/io.py has the same names.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from opensandbox._core import tls

if TYPE_CHECKING:
    import httpx

Returned = Awaitable  # what a callback of the user returns
Lock = asyncio.Lock
T = TypeVar("T")
Stream = AsyncGenerator[T, None]  # what an iterator of this SDK is


def new_transport(connections: int | None, kept: int, expiry: float) -> Any:
    """A connection pool."""
    from opensandbox._async import transport

    return transport.new_transport(connections, kept, expiry)


def new_client(transport: Any, hooks: dict[str, list[Any]], redirects: bool) -> Any:
    import httpx

    return httpx.AsyncClient(
        transport=transport, event_hooks=hooks, follow_redirects=redirects, trust_env=False
    )


def request_hook(function: Callable[[httpx.Request], None]) -> Any:
    async def hook(request: httpx.Request) -> None:
        function(request)

    return hook


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def call(function: Callable[[Any], Any], argument: Any) -> Any:
    """Calls a callback of the user, which may be a coroutine or a plain function."""
    value = function(argument)
    return await value if inspect.isawaitable(value) else value


async def shielded(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs something to its end, even when the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work())
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def blocking(function: Callable[..., T], *arguments: Any) -> T:
    """Runs what may block on a disk."""
    return await asyncio.to_thread(function, *arguments)


async def each(functions: list[Callable[[], Coroutine[Any, Any, T]]], at_once: int) -> list[T]:
    """Runs all, some at the same time; the first exception ends the rest."""
    room = asyncio.Semaphore(max(1, at_once))

    async def one(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with room:
            return await function()

    tasks = [asyncio.ensure_future(one(function)) for function in functions]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


class Background:
    """Something that runs beside its owner until it is stopped."""

    def __init__(self, function: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._task = asyncio.create_task(function(), name=name)

    async def join(self, seconds: float) -> bool:
        """Waits for its end; whether it came."""
        done, _ = await asyncio.wait({self._task}, timeout=seconds)
        return bool(done)

    async def cancel(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=5)


class Signal:
    """A flag that can be waited for."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
            return True
        except asyncio.TimeoutError:
            return False


class Connection:
    """A connection of bytes, for what is no HTTP any more."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, host: str, port: int, secure: bool, seconds: float) -> Connection:
        context = tls.context() if secure else None
        opening = asyncio.open_connection(host, port, ssl=context, limit=8 << 20)
        reader, writer = await asyncio.wait_for(opening, seconds)
        return cls(reader, writer)

    async def read_exactly(self, count: int, seconds: float | None) -> bytes:
        try:
            return await asyncio.wait_for(self._reader.readexactly(count), seconds)
        except asyncio.IncompleteReadError as error:
            raise EOFError("the connection ended") from error
        except asyncio.TimeoutError as error:
            raise TimeoutError("nothing came") from error

    async def read_line(self, seconds: float) -> bytes:
        return await asyncio.wait_for(self._reader.readline(), seconds)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        try:
            await asyncio.wait_for(self._writer.wait_closed(), 2)
        except (OSError, asyncio.TimeoutError):
            pass
