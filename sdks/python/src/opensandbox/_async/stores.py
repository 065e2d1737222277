"""Where a pool keeps its state: in this process, or in Redis."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from opensandbox._async.io import Lock, Returned
from opensandbox.exceptions import (
    PoolDestroyedException,
    PoolStateStoreUnavailableException,
    SandboxException,
)
from opensandbox.pool_types import IdleEntry, PoolDestroyState, StoreCounters, TakeIdleResult

T = TypeVar("T")
DEFAULT_TTL = timedelta(hours=24)
DEFAULT_KEY_PREFIX = "opensandbox:pool"


def _now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass
class _Pool:
    """One pool in memory. Dictionaries keep their order: the first entry is the oldest."""

    idle: dict[str, datetime] = field(default_factory=dict)
    ttl: timedelta = DEFAULT_TTL
    max_idle: int | None = None
    lock_owner: str | None = None
    lock_until: datetime = field(default_factory=_now)
    destroy: PoolDestroyState = PoolDestroyState.ACTIVE
    destroy_until: datetime | None = None


class InMemoryAsyncPoolStateStore:
    """For the pools of one process."""

    def __init__(self) -> None:
        self._pools: dict[str, _Pool] = {}
        self._lock = Lock()

    def _pool(self, pool_name: str) -> _Pool:
        pool = self._pools.setdefault(pool_name, _Pool())
        if pool.destroy_until is not None and pool.destroy_until <= _now():
            pool.destroy, pool.destroy_until = PoolDestroyState.ACTIVE, None
        return pool

    def _active(self, pool_name: str) -> _Pool:
        pool = self._pool(pool_name)
        if pool.destroy is not PoolDestroyState.ACTIVE:
            raise PoolDestroyedException(f"pool {pool_name} is {pool.destroy.value}")
        return pool

    async def try_take_idle(self, pool_name: str) -> str | None:
        return (await self.try_take_idle_min_ttl(pool_name, timedelta(0))).sandbox_id

    async def try_take_idle_min_ttl(
        self, pool_name: str, min_remaining_ttl: timedelta
    ) -> TakeIdleResult:
        async with self._lock:
            pool, now = self._pool(pool_name), _now()
            discarded: list[str] = []
            while pool.idle:
                sandbox_id = next(iter(pool.idle))
                expires = pool.idle.pop(sandbox_id)
                if expires > now + min_remaining_ttl:
                    return TakeIdleResult(sandbox_id, tuple(discarded))
                if expires > now:
                    discarded.append(sandbox_id)
            return TakeIdleResult(None, tuple(discarded))

    async def put_idle(self, pool_name: str, sandbox_id: str) -> None:
        async with self._lock:
            pool = self._active(pool_name)
            if pool.idle.get(sandbox_id, _now()) <= _now():
                pool.idle[sandbox_id] = _now() + pool.ttl

    async def remove_idle(self, pool_name: str, sandbox_id: str) -> None:
        async with self._lock:
            self._pool(pool_name).idle.pop(sandbox_id, None)

    async def try_acquire_primary_lock(
        self, pool_name: str, owner_id: str, ttl: timedelta
    ) -> bool:
        async with self._lock:
            pool = self._pool(pool_name)
            free = pool.lock_owner in (None, owner_id) or pool.lock_until <= _now()
            if free and pool.destroy is PoolDestroyState.ACTIVE:
                pool.lock_owner, pool.lock_until = owner_id, _now() + ttl
                return True
            return False

    async def renew_primary_lock(self, pool_name: str, owner_id: str, ttl: timedelta) -> bool:
        async with self._lock:
            pool = self._pool(pool_name)
            ours = pool.lock_owner == owner_id and pool.lock_until > _now()
            if ours and pool.destroy is PoolDestroyState.ACTIVE:
                pool.lock_until = _now() + ttl
                return True
            return False

    async def release_primary_lock(self, pool_name: str, owner_id: str) -> None:
        async with self._lock:
            pool = self._pool(pool_name)
            if pool.lock_owner == owner_id:
                pool.lock_owner = None

    async def reap_expired_idle(self, pool_name: str, now: datetime) -> None:
        await self.reap_expired_idle_min_ttl(pool_name, now, timedelta(0))

    async def reap_expired_idle_min_ttl(
        self, pool_name: str, now: datetime, min_remaining_ttl: timedelta
    ) -> tuple[str, ...]:
        """Removes what expires soon; what is still alive of it."""
        async with self._lock:
            pool, alive = self._pool(pool_name), []
            for sandbox_id, expires in list(pool.idle.items()):
                if expires <= now + min_remaining_ttl:
                    del pool.idle[sandbox_id]
                    if expires > now:
                        alive.append(sandbox_id)
            return tuple(alive)

    async def snapshot_counters(self, pool_name: str) -> StoreCounters:
        async with self._lock:
            return StoreCounters(len(self._pool(pool_name).idle))

    async def snapshot_idle_entries(self, pool_name: str) -> list[IdleEntry]:
        async with self._lock:
            return [IdleEntry(*item) for item in self._pool(pool_name).idle.items()]

    async def get_max_idle(self, pool_name: str) -> int | None:
        async with self._lock:
            return self._pool(pool_name).max_idle

    async def set_max_idle(self, pool_name: str, max_idle: int) -> None:
        async with self._lock:
            self._active(pool_name).max_idle = max_idle

    async def set_idle_entry_ttl(self, pool_name: str, idle_ttl: timedelta) -> None:
        async with self._lock:
            self._active(pool_name).ttl = idle_ttl

    async def get_destroy_state(self, pool_name: str) -> PoolDestroyState:
        async with self._lock:
            return self._pool(pool_name).destroy

    async def begin_destroy(self, pool_name: str, owner_id: str) -> None:
        async with self._lock:
            pool = self._pool(pool_name)
            if pool.destroy is PoolDestroyState.DESTROYED:
                raise PoolDestroyedException(f"pool {pool_name} is DESTROYED")
            pool.destroy, pool.destroy_until = PoolDestroyState.DESTROYING, None

    async def clear_pool_state(self, pool_name: str) -> None:
        async with self._lock:
            pool = self._pool(pool_name)
            pool.idle.clear()
            pool.max_idle, pool.lock_owner, pool.ttl = None, None, DEFAULT_TTL

    async def mark_destroyed(
        self, pool_name: str, owner_id: str, tombstone_ttl: timedelta | None
    ) -> None:
        async with self._lock:
            pool = self._pool(pool_name)
            pool.destroy = PoolDestroyState.DESTROYED
            pool.destroy_until = None if tombstone_ttl is None else _now() + tombstone_ttl


# --- Redis ---

_CLOCK = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
"""
# KEYS: list, expires. ARGV: least milliseconds left. The id or '', then ids that were alive.
_TAKE = _CLOCK + """
local out = {''}
while true do
    local id = redis.call('LPOP', KEYS[1])
    if not id then return out end
    local ends = tonumber(redis.call('HGET', KEYS[2], id) or 0)
    redis.call('HDEL', KEYS[2], id)
    if ends > now + tonumber(ARGV[1]) then
        out[1] = id
        return out
    end
    if ends > now then out[#out + 1] = id end
end
"""
# KEYS: list, expires, destroy state. ARGV: id, milliseconds to live. -1: destroyed.
_PUT = _CLOCK + """
if redis.call('EXISTS', KEYS[3]) == 1 then return -1 end
local ends = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or 0)
if ends > now then return 0 end
redis.call('LREM', KEYS[1], 0, ARGV[1])
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], now + tonumber(ARGV[2]))
return 1
"""
# KEYS: list, expires. ARGV: least milliseconds left. Ids that were alive.
_REAP = _CLOCK + """
local alive = {}
local all = redis.call('HGETALL', KEYS[2])
for n = 1, #all, 2 do
    local ends = tonumber(all[n + 1])
    if ends <= now + tonumber(ARGV[1]) then
        redis.call('HDEL', KEYS[2], all[n])
        redis.call('LREM', KEYS[1], 0, all[n])
        if ends > now then alive[#alive + 1] = all[n] end
    end
end
return alive
"""
# KEYS: lock, destroy state. ARGV: owner, milliseconds, whether a free lock may be taken.
_LOCK = """
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] or (not owner and ARGV[3] == '1') then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return 1
end
return 0
"""
_UNLOCK = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1"
# KEYS: the value, destroy state. -1: destroyed.
_SET = """
if redis.call('EXISTS', KEYS[2]) == 1 then return -1 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""
# KEYS: destroy state, its owner. -1: destroyed before.
_DESTROY = """
if redis.call('GET', KEYS[1]) == 'DESTROYED' then return -1 end
redis.call('SET', KEYS[1], 'DESTROYING')
redis.call('SET', KEYS[2], ARGV[1])
return 1
"""


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _ms(value: timedelta) -> int:
    return max(0, int(value.total_seconds() * 1000))


class AsyncRedisPoolStateStore:
    """For pools that several processes share. The client, of redis-py, stays the caller's; keys
    and their layout are those of all SDKs."""

    def __init__(self, redis: Any, key_prefix: str = DEFAULT_KEY_PREFIX) -> None:
        self._redis = redis
        self._prefix = key_prefix.rstrip(":")

    def _key(self, pool_name: str, suffix: str) -> str:
        if not pool_name.strip():
            raise ValueError("pool_name must not be blank")
        tag = base64.urlsafe_b64encode(pool_name.encode()).decode().rstrip("=")
        return f"{self._prefix}:{{{tag}}}:{suffix}"

    def _keys(self, pool_name: str, *suffixes: str) -> list[str]:
        return [self._key(pool_name, suffix) for suffix in suffixes]

    async def _run(self, what: str, call: Callable[[], Returned[T]]) -> T:
        try:
            return await call()
        except SandboxException:
            raise
        except Exception as error:
            if not type(error).__module__.startswith("redis"):
                raise
            raise PoolStateStoreUnavailableException(f"{what}: {error}", error) from error

    async def _eval(self, what: str, script: str, keys: list[str], *arguments: Any) -> Any:
        return await self._run(
            what, lambda: self._redis.eval(script, len(keys), *keys, *arguments)
        )

    @staticmethod
    def _refuse(pool_name: str, answer: Any) -> None:
        if answer == -1:
            raise PoolDestroyedException(f"pool {pool_name} is destroyed")

    async def try_take_idle(self, pool_name: str) -> str | None:
        return (await self.try_take_idle_min_ttl(pool_name, timedelta(0))).sandbox_id

    async def try_take_idle_min_ttl(
        self, pool_name: str, min_remaining_ttl: timedelta
    ) -> TakeIdleResult:
        keys = self._keys(pool_name, "idle:list", "idle:expires")
        found = [_text(v) for v in await self._eval("take", _TAKE, keys, _ms(min_remaining_ttl))]
        return TakeIdleResult(found[0] or None, tuple(found[1:]))

    async def put_idle(self, pool_name: str, sandbox_id: str) -> None:
        ttl_key = self._key(pool_name, "idleTtlMillis")
        given = await self._run("put", lambda: self._redis.get(ttl_key))
        ttl = int(given) if given else _ms(DEFAULT_TTL)
        keys = self._keys(pool_name, "idle:list", "idle:expires", "destroy:state")
        self._refuse(pool_name, await self._eval("put", _PUT, keys, sandbox_id, ttl))

    async def remove_idle(self, pool_name: str, sandbox_id: str) -> None:
        listed, expires = self._keys(pool_name, "idle:list", "idle:expires")
        await self._run("remove", lambda: self._redis.lrem(listed, 0, sandbox_id))
        await self._run("remove", lambda: self._redis.hdel(expires, sandbox_id))

    async def try_acquire_primary_lock(
        self, pool_name: str, owner_id: str, ttl: timedelta
    ) -> bool:
        keys = self._keys(pool_name, "lock", "destroy:state")
        return bool(await self._eval("lock", _LOCK, keys, owner_id, _ms(ttl), "1") == 1)

    async def renew_primary_lock(self, pool_name: str, owner_id: str, ttl: timedelta) -> bool:
        keys = self._keys(pool_name, "lock", "destroy:state")
        return bool(await self._eval("lock", _LOCK, keys, owner_id, _ms(ttl), "0") == 1)

    async def release_primary_lock(self, pool_name: str, owner_id: str) -> None:
        await self._eval("unlock", _UNLOCK, self._keys(pool_name, "lock"), owner_id)

    async def reap_expired_idle(self, pool_name: str, now: datetime) -> None:
        await self.reap_expired_idle_min_ttl(pool_name, now, timedelta(0))

    async def reap_expired_idle_min_ttl(
        self, pool_name: str, now: datetime, min_remaining_ttl: timedelta
    ) -> tuple[str, ...]:
        """By the clock of Redis, which all processes share."""
        keys = self._keys(pool_name, "idle:list", "idle:expires")
        found = await self._eval("reap", _REAP, keys, _ms(min_remaining_ttl))
        return tuple(_text(value) for value in found)

    async def snapshot_counters(self, pool_name: str) -> StoreCounters:
        key = self._key(pool_name, "idle:expires")
        return StoreCounters(int(await self._run("count", lambda: self._redis.hlen(key))))

    async def snapshot_idle_entries(self, pool_name: str) -> list[IdleEntry]:
        listed, expires = self._keys(pool_name, "idle:list", "idle:expires")
        order = await self._run("list", lambda: self._redis.lrange(listed, 0, -1))
        ends = await self._run("list", lambda: self._redis.hgetall(expires))
        when = {_text(name): int(value) / 1000 for name, value in ends.items()}
        return [
            IdleEntry(name, datetime.fromtimestamp(when[name], timezone.utc))
            for name in map(_text, order)
            if name in when
        ]

    async def get_max_idle(self, pool_name: str) -> int | None:
        key = self._key(pool_name, "maxIdle")
        value = await self._run("get", lambda: self._redis.get(key))
        return None if value is None else int(value)

    async def set_max_idle(self, pool_name: str, max_idle: int) -> None:
        keys = self._keys(pool_name, "maxIdle", "destroy:state")
        self._refuse(pool_name, await self._eval("set", _SET, keys, max_idle))

    async def set_idle_entry_ttl(self, pool_name: str, idle_ttl: timedelta) -> None:
        keys = self._keys(pool_name, "idleTtlMillis", "destroy:state")
        self._refuse(pool_name, await self._eval("set", _SET, keys, _ms(idle_ttl)))

    async def get_destroy_state(self, pool_name: str) -> PoolDestroyState:
        key = self._key(pool_name, "destroy:state")
        value = await self._run("get", lambda: self._redis.get(key))
        return PoolDestroyState.ACTIVE if value is None else PoolDestroyState(_text(value))

    async def begin_destroy(self, pool_name: str, owner_id: str) -> None:
        keys = self._keys(pool_name, "destroy:state", "destroy:owner")
        self._refuse(pool_name, await self._eval("destroy", _DESTROY, keys, owner_id))

    async def clear_pool_state(self, pool_name: str) -> None:
        keys = self._keys(
            pool_name, "idle:list", "idle:expires", "lock", "maxIdle", "idleTtlMillis"
        )
        await self._run("clear", lambda: self._redis.delete(*keys))

    async def mark_destroyed(
        self, pool_name: str, owner_id: str, tombstone_ttl: timedelta | None
    ) -> None:
        state, owner = self._keys(pool_name, "destroy:state", "destroy:owner")
        lasts = None if tombstone_ttl is None else _ms(tombstone_ttl)
        await self._run("mark", lambda: self._redis.set(state, "DESTROYED", px=lasts))
        await self._run("mark", lambda: self._redis.set(owner, owner_id, px=lasts))
