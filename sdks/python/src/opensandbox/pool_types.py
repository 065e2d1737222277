"""Types of pools: policies, states, what a pool creates, where it keeps its state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from opensandbox.config import ConnectionConfig, ConnectionConfigSync
    from opensandbox.models.sandboxes import (
        CredentialProxyConfig,
        NetworkPolicy,
        PlatformSpec,
        SandboxImageSpec,
        Volume,
    )
    from opensandbox.sandbox import Sandbox
    from opensandbox.sync.sandbox import SandboxSync


class AcquirePolicy(Enum):
    """What `acquire` does when there is no idle sandbox, or the one it found is dead."""

    FAIL_FAST = "FAIL_FAST"
    DIRECT_CREATE = "DIRECT_CREATE"
    RETRY_NEXT_IDLE = "RETRY_NEXT_IDLE"
    RETRY_NEXT_IDLE_THEN_CREATE = "RETRY_NEXT_IDLE_THEN_CREATE"

    @property
    def tries_next(self) -> bool:
        return self.name.startswith("RETRY_NEXT_IDLE")

    @property
    def creates(self) -> bool:
        return self.name.endswith("CREATE")


class PoolState(Enum):
    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    DRAINING = "DRAINING"
    STOPPED = "STOPPED"


class PoolLifecycleState(Enum):
    NOT_STARTED = "NOT_STARTED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    DRAINING = "DRAINING"
    STOPPED = "STOPPED"


class PoolDestroyState(Enum):
    ACTIVE = "ACTIVE"
    DESTROYING = "DESTROYING"
    DESTROYED = "DESTROYED"


class PoolDestroyStrategy(Enum):
    FORCE = "FORCE"


@dataclass(frozen=True)
class PoolDestroyOptions:
    """How a pool is destroyed; no pool of its name starts for `tombstone_ttl`, None: never."""

    strategy: PoolDestroyStrategy = PoolDestroyStrategy.FORCE
    tombstone_ttl: timedelta | None = timedelta(days=7)
    drain_timeout: timedelta = timedelta(seconds=30)


@dataclass(frozen=True)
class PoolDestroyResult:
    pool_name: str
    state: PoolDestroyState
    drained_idle_count: int
    killed_idle_count: int
    persistent_state_cleared: bool


@dataclass(frozen=True)
class IdleEntry:
    sandbox_id: str
    expires_at: datetime


@dataclass(frozen=True)
class StoreCounters:
    idle_count: int


@dataclass(frozen=True)
class TakeIdleResult:
    """What was taken, and what was thrown out because it expires too soon."""

    sandbox_id: str | None
    discarded_alive_sandbox_ids: tuple[str, ...] = ()


class PooledSandboxCreateReason(Enum):
    WARMUP = "WARMUP"
    DIRECT_CREATE = "DIRECT_CREATE"


@dataclass(frozen=True)
class PooledSandboxCreateContext:
    """What a creator of your own is told."""

    pool_name: str
    owner_id: str
    idle_timeout: timedelta
    reason: PooledSandboxCreateReason
    ready_timeout: timedelta
    health_check_polling_interval: timedelta
    skip_health_check: bool
    health_check: Callable[[Any], Any] | None
    connection_config: ConnectionConfigSync | ConnectionConfig


class PooledSandboxCreator(Protocol):
    def __call__(self, context: PooledSandboxCreateContext) -> SandboxSync: ...


class AsyncPooledSandboxCreator(Protocol):
    def __call__(self, context: PooledSandboxCreateContext) -> Awaitable[Sandbox]: ...


@dataclass(frozen=True)
class PoolSnapshot:
    """How a pool fares."""

    state: PoolState
    lifecycle_state: PoolLifecycleState
    idle_count: int
    max_idle: int
    failure_count: int
    backoff_active: bool
    last_error: str | None
    in_flight_operations: int


@dataclass(frozen=True)
class PoolCreationSpec:
    """What a pool creates."""

    image: SandboxImageSpec | str | None = None
    entrypoint: list[str] | None = None
    resource: dict[str, str] | None = None
    env: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    extensions: dict[str, str] | None = None
    network_policy: NetworkPolicy | None = None
    platform: PlatformSpec | None = None
    secure_access: bool = False
    volumes: list[Volume] | None = None
    snapshot_id: str | None = None
    credential_proxy: CredentialProxyConfig | None = None

    def arguments(self) -> dict[str, Any]:
        """For Sandbox.create."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class PoolStateStore(Protocol):
    """Where the processes of a pool agree."""

    def try_take_idle(self, pool_name: str) -> str | None: ...
    def put_idle(self, pool_name: str, sandbox_id: str) -> None: ...
    def remove_idle(self, pool_name: str, sandbox_id: str) -> None: ...
    def try_acquire_primary_lock(self, pool_name: str, owner_id: str, ttl: timedelta) -> bool: ...
    def renew_primary_lock(self, pool_name: str, owner_id: str, ttl: timedelta) -> bool: ...
    def release_primary_lock(self, pool_name: str, owner_id: str) -> None: ...
    def reap_expired_idle(self, pool_name: str, now: datetime) -> None: ...
    def snapshot_counters(self, pool_name: str) -> StoreCounters: ...
    def snapshot_idle_entries(self, pool_name: str) -> list[IdleEntry]: ...
    def get_max_idle(self, pool_name: str) -> int | None: ...
    def set_max_idle(self, pool_name: str, max_idle: int) -> None: ...
    def set_idle_entry_ttl(self, pool_name: str, idle_ttl: timedelta) -> None: ...
    def get_destroy_state(self, pool_name: str) -> PoolDestroyState: ...
    def begin_destroy(self, pool_name: str, owner_id: str) -> None: ...
    def clear_pool_state(self, pool_name: str) -> None: ...
    def mark_destroyed(
        self, pool_name: str, owner_id: str, tombstone_ttl: timedelta | None
    ) -> None: ...


class AsyncPoolStateStore(Protocol):
    """The same for the async pool."""

    async def try_take_idle(self, pool_name: str) -> str | None: ...
    async def put_idle(self, pool_name: str, sandbox_id: str) -> None: ...
    async def remove_idle(self, pool_name: str, sandbox_id: str) -> None: ...
    async def try_acquire_primary_lock(
        self, pool_name: str, owner_id: str, ttl: timedelta
    ) -> bool: ...
    async def renew_primary_lock(self, pool_name: str, owner_id: str, ttl: timedelta) -> bool: ...
    async def release_primary_lock(self, pool_name: str, owner_id: str) -> None: ...
    async def reap_expired_idle(self, pool_name: str, now: datetime) -> None: ...
    async def snapshot_counters(self, pool_name: str) -> StoreCounters: ...
    async def snapshot_idle_entries(self, pool_name: str) -> list[IdleEntry]: ...
    async def get_max_idle(self, pool_name: str) -> int | None: ...
    async def set_max_idle(self, pool_name: str, max_idle: int) -> None: ...
    async def set_idle_entry_ttl(self, pool_name: str, idle_ttl: timedelta) -> None: ...
    async def get_destroy_state(self, pool_name: str) -> PoolDestroyState: ...
    async def begin_destroy(self, pool_name: str, owner_id: str) -> None: ...
    async def clear_pool_state(self, pool_name: str) -> None: ...
    async def mark_destroyed(
        self, pool_name: str, owner_id: str, tombstone_ttl: timedelta | None
    ) -> None: ...


@dataclass(frozen=True)
class PoolSettings:
    """Everything that can be set of a pool; the constructor of a pool takes the same names."""

    pool_name: str
    max_idle: int
    state_store: Any
    connection_config: Any
    creation_spec: PoolCreationSpec
    owner_id: str | None = None
    warmup_create_qps: int = 10
    warmup_concurrency: int = 128
    primary_lock_ttl: timedelta = timedelta(seconds=60)
    reconcile_interval: timedelta = timedelta(seconds=1)
    degraded_threshold: int = 3
    acquire_ready_timeout: timedelta = timedelta(seconds=30)
    acquire_health_check_polling_interval: timedelta = timedelta(milliseconds=200)
    acquire_health_check: Callable[[Any], Any] | None = None
    acquire_skip_health_check: bool = False
    warmup_ready_timeout: timedelta = timedelta(seconds=30)
    warmup_health_check_initial_delay: timedelta = timedelta(0)
    warmup_health_check_polling_interval: timedelta = timedelta(milliseconds=500)
    warmup_health_check: Callable[[Any], Any] | None = None
    warmup_sandbox_preparer: Callable[[Any], Any] | None = None
    warmup_post_prepare_health_check: Callable[[Any], Any] | None = None
    warmup_post_prepare_health_check_timeout: timedelta = timedelta(seconds=30)
    warmup_skip_health_check: bool = False
    idle_timeout: timedelta = timedelta(hours=24)
    drain_timeout: timedelta = timedelta(seconds=30)
    acquire_min_remaining_ttl: timedelta | None = None
    sandbox_creator: Callable[[PooledSandboxCreateContext], Any] | None = None
    max_acquire_retries: int = 3

    def __post_init__(self) -> None:
        if not self.pool_name.strip():
            raise ValueError("pool_name must not be blank")
        if self.max_idle < 0:
            raise ValueError("max_idle must not be negative")
        for name in ("warmup_create_qps", "warmup_concurrency", "degraded_threshold"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive")
        for name in ("primary_lock_ttl", "idle_timeout", "reconcile_interval"):
            if getattr(self, name).total_seconds() <= 0:
                raise ValueError(f"{name} must be positive")
        if self.min_remaining_ttl >= self.idle_timeout:
            raise ValueError("acquire_min_remaining_ttl must be less than idle_timeout")

    @property
    def min_remaining_ttl(self) -> timedelta:
        """A sandbox that expires sooner is not handed out."""
        if self.acquire_min_remaining_ttl is not None:
            return self.acquire_min_remaining_ttl
        return min(timedelta(seconds=60), self.idle_timeout / 2)


class PoolConfig(PoolSettings):
    """The settings of a sync pool."""

    def with_max_idle(self, max_idle: int) -> PoolConfig:
        return replace(self, max_idle=max_idle)


class AsyncPoolConfig(PoolSettings):
    """The settings of an async pool."""

    def with_max_idle(self, max_idle: int) -> AsyncPoolConfig:
        return replace(self, max_idle=max_idle)
