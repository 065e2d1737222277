"""A pool that the client keeps: idle sandboxes made before they are needed."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from opensandbox._async.io import Background, Lock, Returned, Signal, call, each, sleep
from opensandbox._async.manager import SandboxManager
from opensandbox._async.sandbox import Sandbox
from opensandbox.config.connection import ConnectionConfig
from opensandbox.exceptions import (
    PoolAcquireFailedException,
    PoolDestroyedException,
    PoolDestroyIncompleteException,
    PoolEmptyException,
    PoolNotRunningException,
    SandboxApiException,
    SandboxException,
)
from opensandbox.pool_types import (
    AcquirePolicy,
    AsyncPoolStateStore,
    IdleEntry,
    PoolCreationSpec,
    PoolDestroyOptions,
    PoolDestroyResult,
    PoolDestroyState,
    PooledSandboxCreateContext,
    PooledSandboxCreateReason,
    PoolLifecycleState,
    PoolSettings,
    PoolSnapshot,
    PoolState,
    TakeIdleResult,
)

logger = logging.getLogger("opensandbox.pool")

RELEASES_AT_ONCE = 50
BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX = 30.0, 86400.0


async def _kill_all(manager: SandboxManager, ids: list[str], at_once: int) -> int:
    """Kills sandboxes; how many were there to be killed."""

    def killer(sandbox_id: str) -> Any:
        async def kill() -> int:
            try:
                await manager.kill_sandbox(sandbox_id)
                return 1
            except SandboxApiException as error:
                if error.status_code != 404:
                    logger.warning("idle sandbox %s was not killed: %s", sandbox_id, error)
            except SandboxException as error:
                logger.warning("idle sandbox %s was not killed: %s", sandbox_id, error)
            return 0

        return kill

    return sum(await each([killer(one) for one in ids], at_once))


class SandboxPoolAsync:
    """Keeps `max_idle` sandboxes ready. Processes that share a store share the pool: one of them,
    which holds the primary lock, makes new ones. An acquired sandbox is the caller's for good."""

    def __init__(
        self,
        *,
        pool_name: str,
        max_idle: int,
        state_store: AsyncPoolStateStore,
        connection_config: ConnectionConfig,
        creation_spec: PoolCreationSpec,
        sandbox_manager_factory: Callable[[ConnectionConfig], Returned[SandboxManager]] = (
            SandboxManager.create
        ),
        sandbox_factory: type[Sandbox] = Sandbox,
        **settings: Any,
    ) -> None:
        self._set = PoolSettings(
            pool_name=pool_name,
            max_idle=max_idle,
            state_store=state_store,
            connection_config=connection_config,
            creation_spec=creation_spec,
            **settings,
        )
        self._store: Any = state_store
        self._config = connection_config
        self._owner = self._set.owner_id or f"pool-owner-{uuid.uuid4()}"
        self._new_manager, self._kind = sandbox_manager_factory, sandbox_factory
        self._manager: SandboxManager | None = None
        self._phase = PoolLifecycleState.NOT_STARTED
        self._lock = Lock()
        self._in_flight = 0
        self._failures, self._last_error = 0, ""
        self._backoff_until, self._backoff_seconds = 0.0, 0.0
        self._worker: Background | None = None
        self._stopping, self._wake = Signal(), Signal()

    # --- its life ---

    async def start(self) -> None:
        """Begins to fill the pool. A size that another process set in the store stays."""
        async with self._lock:
            if self._phase in (PoolLifecycleState.RUNNING, PoolLifecycleState.STARTING):
                return
            self._phase = PoolLifecycleState.STARTING
        try:
            state = await self._store.get_destroy_state(self._set.pool_name)
            if state is not PoolDestroyState.ACTIVE:
                raise PoolDestroyedException(f"pool {self._set.pool_name} is {state.value}")
            await self._store.set_idle_entry_ttl(self._set.pool_name, self._set.idle_timeout)
            if await self._store.get_max_idle(self._set.pool_name) is None:
                await self._store.set_max_idle(self._set.pool_name, self._set.max_idle)
            self._manager = await self._new_manager(self._config)
        except BaseException:
            self._phase = PoolLifecycleState.STOPPED
            raise
        self._stopping.clear()
        self._phase = PoolLifecycleState.RUNNING
        self._worker = Background(self._work, f"pool-{self._set.pool_name}")

    async def shutdown(self, graceful: bool = True, *, release_idle: bool = False) -> None:
        """Ends the filling; graceful: after what is under way. Idle sandboxes stay, for others or
        for the next start, unless `release_idle` is set."""
        if self._phase in (PoolLifecycleState.STOPPED, PoolLifecycleState.NOT_STARTED):
            self._phase = PoolLifecycleState.STOPPED
            return
        self._phase = PoolLifecycleState.DRAINING
        self._stopping.set()
        self._wake.set()
        end = time.monotonic() + self._set.drain_timeout.total_seconds()
        while graceful and self._in_flight and time.monotonic() < end:
            await sleep(0.01)
        if self._worker is not None:
            left = max(0.0, end - time.monotonic()) if graceful else 0.0
            if not await self._worker.join(left):
                await self._worker.cancel()
        try:
            if release_idle:
                await self.release_all_idle()
            await self._store.release_primary_lock(self._set.pool_name, self._owner)
        except SandboxException as error:
            logger.warning("pool %s: %s", self._set.pool_name, error)
        self._phase = PoolLifecycleState.STOPPED
        if self._manager is not None:
            await self._manager.close()
            self._manager = None

    async def __aenter__(self) -> SandboxPoolAsync:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    # --- its use ---

    async def acquire(
        self,
        sandbox_timeout: timedelta | None = None,
        policy: AcquirePolicy = AcquirePolicy.DIRECT_CREATE,
    ) -> Sandbox:
        """A sandbox that is ready; it is the caller's, and lives for `sandbox_timeout` if given."""
        if self._phase is not PoolLifecycleState.RUNNING:
            raise PoolNotRunningException(
                f"pool {self._set.pool_name} is {self._phase.value}, not RUNNING"
            )
        self._in_flight += 1
        try:
            failure: Exception | None = None
            attempts = max(1, self._set.max_acquire_retries) if policy.tries_next else 1
            for _ in range(attempts):
                taken = await self._take()
                if taken is None:
                    break
                try:
                    return await self._opened(taken, sandbox_timeout)
                except Exception as error:
                    failure = error
                    logger.warning("idle sandbox %s cannot be used: %s", taken, error)
                    await self._discard([taken])
            if policy.creates:
                return await self._created(
                    PooledSandboxCreateReason.DIRECT_CREATE, sandbox_timeout
                )
            if failure is not None:
                raise PoolAcquireFailedException(
                    f"the idle sandbox cannot be used: {failure}", failure
                ) from failure
            raise PoolEmptyException()
        finally:
            self._in_flight -= 1
            self._wake.set()

    async def _take(self) -> str | None:
        name, least = self._set.pool_name, self._set.min_remaining_ttl
        if hasattr(self._store, "try_take_idle_min_ttl"):
            taken: TakeIdleResult = await self._store.try_take_idle_min_ttl(name, least)
            if taken.discarded_alive_sandbox_ids:
                await self._discard(list(taken.discarded_alive_sandbox_ids))
            return taken.sandbox_id
        found: str | None = await self._store.try_take_idle(name)
        return found

    async def _opened(self, sandbox_id: str, sandbox_timeout: timedelta | None) -> Sandbox:
        sandbox = await self._kind.connect(
            sandbox_id,
            connection_config=self._config,
            health_check=self._set.acquire_health_check,
            connect_timeout=self._set.acquire_ready_timeout,
            health_check_polling_interval=self._set.acquire_health_check_polling_interval,
            skip_health_check=self._set.acquire_skip_health_check,
        )
        try:
            if sandbox_timeout is not None:
                await sandbox.renew(sandbox_timeout)
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    async def _created(
        self, reason: PooledSandboxCreateReason, lifetime: timedelta | None
    ) -> Sandbox:
        warm, s = reason is PooledSandboxCreateReason.WARMUP, self._set
        context = PooledSandboxCreateContext(
            pool_name=s.pool_name,
            owner_id=self._owner,
            idle_timeout=s.idle_timeout,
            reason=reason,
            ready_timeout=s.warmup_ready_timeout if warm else s.acquire_ready_timeout,
            health_check_polling_interval=(
                s.warmup_health_check_polling_interval
                if warm
                else s.acquire_health_check_polling_interval
            ),
            skip_health_check=s.warmup_skip_health_check if warm else s.acquire_skip_health_check,
            health_check=s.warmup_health_check if warm else s.acquire_health_check,
            connection_config=self._config,
        )
        if s.sandbox_creator is not None:
            made: Sandbox = await call(s.sandbox_creator, context)
            if lifetime is not None:
                await made.renew(lifetime)
            return made
        return await self._kind.create(
            timeout=lifetime or s.idle_timeout,
            connection_config=self._config,
            ready_timeout=context.ready_timeout,
            health_check=context.health_check,
            health_check_polling_interval=context.health_check_polling_interval,
            skip_health_check=context.skip_health_check,
            **s.creation_spec.arguments(),
        )

    async def _discard(self, ids: list[str]) -> None:
        if self._manager is not None:
            await _kill_all(self._manager, ids, RELEASES_AT_ONCE)

    async def resize(self, max_idle: int) -> None:
        """Changes how many are kept, for all processes of the pool."""
        if max_idle < 0:
            raise ValueError("max_idle must not be negative")
        await self._store.set_max_idle(self._set.pool_name, max_idle)
        self._wake.set()

    async def release_all_idle(self) -> int:
        """Kills all idle sandboxes; how many were taken out of the pool."""
        return await self.release_all_idle_parallel(1)

    async def release_all_idle_parallel(self, max_workers: int = RELEASES_AT_ONCE) -> int:
        """The same, several at a time."""
        taken: list[str] = []
        while True:
            found = await self._store.try_take_idle(self._set.pool_name)
            if found is None:
                break
            taken.append(found)
        if not taken:
            return 0
        manager = self._manager or await self._new_manager(self._config)
        try:
            await _kill_all(manager, taken, max_workers)
        finally:
            if manager is not self._manager:
                await manager.close()
        return len(taken)

    async def snapshot(self) -> PoolSnapshot:
        """How the pool fares."""
        name = self._set.pool_name
        counters = await self._store.snapshot_counters(name)
        max_idle = await self._store.get_max_idle(name)
        state = PoolState.HEALTHY
        if self._phase is PoolLifecycleState.DRAINING:
            state = PoolState.DRAINING
        elif self._phase is not PoolLifecycleState.RUNNING:
            state = PoolState.STOPPED
        elif self._failures >= self._set.degraded_threshold:
            state = PoolState.DEGRADED
        return PoolSnapshot(
            state=state,
            lifecycle_state=self._phase,
            idle_count=counters.idle_count,
            max_idle=self._set.max_idle if max_idle is None else max_idle,
            failure_count=self._failures,
            backoff_active=time.monotonic() < self._backoff_until,
            last_error=self._last_error or None,
            in_flight_operations=self._in_flight,
        )

    async def snapshot_idle_entries(self) -> list[IdleEntry]:
        entries: list[IdleEntry] = await self._store.snapshot_idle_entries(self._set.pool_name)
        return entries

    # --- filling ---

    async def _work(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                await self._reconcile()
            except Exception as error:
                self._last_error = str(error)
                logger.warning("pool %s: %s", self._set.pool_name, error)
            if not self._stopping.is_set():
                await self._wake.wait(self._set.reconcile_interval.total_seconds())

    async def _reconcile(self) -> None:
        """One step: remove what expires, then shrink or grow."""
        name, store = self._set.pool_name, self._store
        if not await store.try_acquire_primary_lock(
            name, self._owner, self._set.primary_lock_ttl
        ):
            return
        now, least = datetime.now(timezone.utc), self._set.min_remaining_ttl
        if hasattr(store, "reap_expired_idle_min_ttl"):
            alive = await store.reap_expired_idle_min_ttl(name, now, least)
            await self._discard(list(alive))
        else:
            await store.reap_expired_idle(name, now)
        target = await store.get_max_idle(name)
        target = self._set.max_idle if target is None else target
        missing = target - (await store.snapshot_counters(name)).idle_count
        at_once = min(self._set.warmup_concurrency, max(1, self._set.warmup_create_qps))
        if missing < 0:
            await self._shrink(min(-missing, at_once))
        elif missing > 0 and time.monotonic() >= self._backoff_until:
            await self._grow(min(missing, at_once))

    async def _shrink(self, count: int) -> None:
        ids = []
        for _ in range(count):
            found = await self._store.try_take_idle(self._set.pool_name)
            if found is None:
                break
            ids.append(found)
        await self._discard(ids)

    async def _grow(self, count: int) -> None:
        """Makes sandboxes; a batch that failed makes the next one wait, longer each time."""
        results = await each([self._warm for _ in range(count)], count)
        if any(results):
            self._failures, self._backoff_seconds = 0, 0.0
            self._wake.set()
        elif self._failures >= self._set.degraded_threshold:
            doubled = min(self._backoff_seconds * 2, BACKOFF_SECONDS_MAX)
            self._backoff_seconds = doubled or BACKOFF_SECONDS_MIN
            self._backoff_until = time.monotonic() + self._backoff_seconds

    async def _warm(self) -> bool:
        """One new idle sandbox; whether it is in the pool."""
        s = self._set
        if self._stopping.is_set():
            return False
        try:
            sandbox = await self._created(PooledSandboxCreateReason.WARMUP, s.idle_timeout)
        except Exception as error:
            return self._failed(error)
        kept = False
        try:
            if s.warmup_sandbox_preparer is not None:
                await call(s.warmup_sandbox_preparer, sandbox)
                await sandbox.renew(s.idle_timeout)
            await self._check_prepared(sandbox)
            if await self._store.renew_primary_lock(
                s.pool_name, self._owner, s.primary_lock_ttl
            ):
                await self._store.put_idle(s.pool_name, sandbox.id)
                kept = True
        except Exception as error:
            self._failed(error)
        finally:
            if not kept:
                await self._discard([sandbox.id])
            await sandbox.close()
        return kept

    async def _check_prepared(self, sandbox: Sandbox) -> None:
        check = self._set.warmup_post_prepare_health_check
        if check is None:
            return
        limit = self._set.warmup_post_prepare_health_check_timeout.total_seconds()
        end = time.monotonic() + limit
        while not await call(check, sandbox):
            if time.monotonic() > end:
                raise PoolAcquireFailedException(f"{sandbox.id} was not ready once prepared")
            await sleep(self._set.warmup_health_check_polling_interval.total_seconds())

    def _failed(self, error: Exception) -> bool:
        self._failures += 1
        self._last_error = str(error)
        logger.warning("pool %s: %s", self._set.pool_name, error)
        return False


class SandboxPoolManagerAsync:
    """Destroys pools, of this process or of others."""

    def __init__(
        self,
        *,
        state_store: AsyncPoolStateStore,
        connection_config: ConnectionConfig | None = None,
        owner_id: str | None = None,
        sandbox_manager_factory: Callable[[ConnectionConfig], Returned[SandboxManager]] = (
            SandboxManager.create
        ),
    ) -> None:
        self._store = state_store
        self._config = connection_config or ConnectionConfig()
        self._owner = owner_id or f"pool-manager-{uuid.uuid4()}"
        self._new_manager = sandbox_manager_factory

    async def destroy(
        self, pool_name: str, options: PoolDestroyOptions | None = None
    ) -> PoolDestroyResult:
        """Kills all idle sandboxes of a pool and forgets it; pools of its name stop filling."""
        options = options or PoolDestroyOptions()
        if await self._store.get_destroy_state(pool_name) is PoolDestroyState.DESTROYED:
            return PoolDestroyResult(pool_name, PoolDestroyState.DESTROYED, 0, 0, True)
        await self._store.begin_destroy(pool_name, self._owner)
        end = time.monotonic() + options.drain_timeout.total_seconds()
        drained = killed = 0
        manager = await self._new_manager(self._config)
        try:
            while True:
                found = await self._store.try_take_idle(pool_name)
                if found is None:
                    break
                drained += 1
                killed += await _kill_all(manager, [found], 1)
                if time.monotonic() > end:
                    raise PoolDestroyIncompleteException(
                        f"pool {pool_name} was not empty after {options.drain_timeout}"
                    )
            await self._store.clear_pool_state(pool_name)
            await self._store.mark_destroyed(pool_name, self._owner, options.tombstone_ttl)
        finally:
            await manager.close()
        return PoolDestroyResult(pool_name, PoolDestroyState.DESTROYED, drained, killed, True)
