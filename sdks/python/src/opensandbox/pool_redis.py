"""Stores of pools in Redis; needs the extra pool-redis."""

from opensandbox._async.stores import AsyncRedisPoolStateStore
from opensandbox._sync.stores import RedisPoolStateStore

__all__ = ["AsyncRedisPoolStateStore", "RedisPoolStateStore"]
