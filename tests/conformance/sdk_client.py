"""sdk_client.py - the official Python SDK's two clients as one, so that a test is written once.

Tests are coroutines that pass every result of the SDK through `await done(...)`. With the async
client that awaits; with the sync client nothing is ever suspended, so the coroutine runs to its end
without an event loop, as a program of plain calls would.
"""
import asyncio
import concurrent.futures
import inspect
import sys
import time
from datetime import timedelta

import opensandbox
from opensandbox.config import ConnectionConfig, ConnectionConfigSync
from opensandbox.models.execd import ExecutionHandlers
from opensandbox.models.execd_sync import ExecutionHandlersSync

VERSION = opensandbox.__version__
SECONDS_MAX = 120  # for what takes milliseconds, on a machine that may do much else


async def done(value):
    """What a call of either client returns."""
    return await value if inspect.isawaitable(value) else value


def run_sync(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a call of the sync client was suspended")


class Client:
    """The names of the SDK that differ between async and sync, and how to run tests with them."""

    def __init__(self, kind, server):
        self.is_async, self.server = kind == "async", server
        self.Sandbox = opensandbox.Sandbox if self.is_async else opensandbox.SandboxSync
        self.Manager = opensandbox.SandboxManager if self.is_async else \
            opensandbox.SandboxManagerSync
        self.loop = asyncio.new_event_loop() if self.is_async else None

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine) if self.loop else run_sync(coroutine)

    def config(self, **more):
        """How to reach the server."""
        kind = ConnectionConfig if self.is_async else ConnectionConfigSync
        return kind(**{"domain": self.server.domain, "api_key": self.server.api_key,
                       "request_timeout": timedelta(seconds=SECONDS_MAX), **more})

    async def create(self, image="host", **more):
        more.setdefault("connection_config", self.config())
        more.setdefault("timeout", timedelta(minutes=10))
        more.setdefault("ready_timeout", timedelta(seconds=SECONDS_MAX))
        return await done(self.Sandbox.create(image, **more))

    async def connect(self, sandbox_id, **more):
        more.setdefault("connection_config", self.config())
        return await done(self.Sandbox.connect(sandbox_id, **more))

    async def manager(self, **more):
        return await done(self.Manager.create(self.config(**more)))

    async def gather(self, functions):
        """Runs coroutine functions at the same time: tasks of the loop, or threads."""
        if self.loop:
            return await asyncio.gather(*(function() for function in functions))
        with concurrent.futures.ThreadPoolExecutor(len(functions)) as threads:
            return list(threads.map(lambda function: run_sync(function()), functions))

    async def until_seen(self, seen, count=1):
        """Waits for what handlers put into a list, while a call of the same gather() goes on."""
        end = time.monotonic() + SECONDS_MAX
        while len(seen) < count:
            assert time.monotonic() < end, f"waited {SECONDS_MAX} s, and saw {seen}"
            if self.loop:
                await asyncio.sleep(0.02)
            else:
                time.sleep(0.02)

    def handlers(self, **callbacks):
        """The SDK's handlers from plain functions."""
        if not self.is_async:
            return ExecutionHandlersSync(**callbacks)

        def awaitable(function):
            async def call(value):
                function(value)
            return call
        return ExecutionHandlers(**{name: awaitable(f) for name, f in callbacks.items()})

    async def collect(self, stream):
        """All chunks of an iterator of either kind."""
        stream = await done(stream)
        if hasattr(stream, "__aiter__"):
            return [chunk async for chunk in stream]
        return list(stream)


async def raises(kind, call):
    """The exception that a call of the SDK must end with. `call` is a function, as the sync client
    raises while it is called."""
    try:
        result = await done(call())
    except kind as error:
        return error
    raise AssertionError(f"no {kind}, but {result!r}")


def lines(messages):
    """The texts of output events."""
    return [message.text for message in messages]


async def discard(sandbox):
    """Removes a sandbox and its client, whatever the test made of it."""
    try:
        await done(sandbox.kill())
    except opensandbox.exceptions.SandboxException as error:
        print(f"# kill: {error}", file=sys.stderr)
    await done(sandbox.close())
