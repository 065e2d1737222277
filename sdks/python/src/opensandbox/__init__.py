"""Sandboxes to run code in: the client of OpenSandbox.

    from opensandbox import Sandbox

    async with await Sandbox.create("python:3.12") as sandbox:
        done = await sandbox.commands.run("python -c 'print(6 * 7)'")
        print(done.text)
        await sandbox.kill()

Names are loaded when they are first used: a program that needs one client does not pay for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opensandbox._version import __version__

if TYPE_CHECKING:
    from opensandbox.manager import SandboxManager
    from opensandbox.pool import (
        AcquirePolicy,
        AsyncPooledSandboxCreator,
        AsyncSandboxPool,
        InMemoryAsyncPoolStateStore,
        InMemoryPoolStateStore,
        PoolCreationSpec,
        PoolDestroyOptions,
        PoolDestroyResult,
        PoolDestroyState,
        PoolDestroyStrategy,
        PooledSandboxCreateContext,
        PooledSandboxCreateReason,
        PooledSandboxCreator,
        SandboxPool,
        SandboxPoolAsync,
        SandboxPoolManager,
        SandboxPoolManagerAsync,
        SandboxPoolManagerSync,
    )
    from opensandbox.sandbox import Sandbox
    from opensandbox.sync import SandboxManagerSync, SandboxPoolSync, SandboxSync

__all__ = [
    "AcquirePolicy",
    "AsyncPooledSandboxCreator",
    "AsyncSandboxPool",
    "InMemoryAsyncPoolStateStore",
    "InMemoryPoolStateStore",
    "PoolCreationSpec",
    "PoolDestroyOptions",
    "PoolDestroyResult",
    "PoolDestroyState",
    "PoolDestroyStrategy",
    "PooledSandboxCreateContext",
    "PooledSandboxCreateReason",
    "PooledSandboxCreator",
    "Sandbox",
    "SandboxManager",
    "SandboxManagerSync",
    "SandboxPool",
    "SandboxPoolAsync",
    "SandboxPoolManager",
    "SandboxPoolManagerAsync",
    "SandboxPoolManagerSync",
    "SandboxPoolSync",
    "SandboxSync",
    "__version__",
]

_HOMES = {
    "Sandbox": "opensandbox.sandbox",
    "SandboxManager": "opensandbox.manager",
    "SandboxManagerSync": "opensandbox.sync.manager",
    "SandboxSync": "opensandbox.sync.sandbox",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in __all__:
        return getattr(import_module(_HOMES.get(name, "opensandbox.pool")), name)
    try:
        return import_module(f"opensandbox.{name}")  # as opensandbox.exceptions
    except ModuleNotFoundError as error:
        raise AttributeError(f"module 'opensandbox' has no attribute {name!r}") from error
