"""Pools that the client keeps."""

from opensandbox._async.pool import SandboxPoolAsync, SandboxPoolManagerAsync
from opensandbox._async.stores import InMemoryAsyncPoolStateStore
from opensandbox._sync.pool import SandboxPoolManagerSync, SandboxPoolSync
from opensandbox._sync.stores import InMemoryPoolStateStore
from opensandbox.pool_types import (
    AcquirePolicy,
    AsyncPoolConfig,
    AsyncPooledSandboxCreator,
    AsyncPoolStateStore,
    IdleEntry,
    PoolConfig,
    PoolCreationSpec,
    PoolDestroyOptions,
    PoolDestroyResult,
    PoolDestroyState,
    PoolDestroyStrategy,
    PooledSandboxCreateContext,
    PooledSandboxCreateReason,
    PooledSandboxCreator,
    PoolLifecycleState,
    PoolSnapshot,
    PoolState,
    PoolStateStore,
    StoreCounters,
    TakeIdleResult,
)

AsyncSandboxPool = SandboxPoolAsync
SandboxPool = SandboxPoolSync
SandboxPoolManager = SandboxPoolManagerSync

__all__ = [
    "AcquirePolicy",
    "AsyncPoolConfig",
    "AsyncPoolStateStore",
    "AsyncPooledSandboxCreator",
    "AsyncSandboxPool",
    "IdleEntry",
    "InMemoryAsyncPoolStateStore",
    "InMemoryPoolStateStore",
    "PoolConfig",
    "PoolCreationSpec",
    "PoolDestroyOptions",
    "PoolDestroyResult",
    "PoolDestroyState",
    "PoolDestroyStrategy",
    "PoolLifecycleState",
    "PoolSnapshot",
    "PoolState",
    "PoolStateStore",
    "PooledSandboxCreateContext",
    "PooledSandboxCreateReason",
    "PooledSandboxCreator",
    "SandboxPool",
    "SandboxPoolAsync",
    "SandboxPoolManager",
    "SandboxPoolManagerAsync",
    "SandboxPoolManagerSync",
    "SandboxPoolSync",
    "StoreCounters",
    "TakeIdleResult",
]
