package com.alibaba.opensandbox.sandbox.infrastructure.pool

import com.alibaba.opensandbox.sandbox.domain.exceptions.PoolStateStoreContentionException
import com.alibaba.opensandbox.sandbox.domain.exceptions.PoolStateStoreUnavailableException
import com.alibaba.opensandbox.sandbox.domain.pool.IdleEntry
import com.alibaba.opensandbox.sandbox.domain.pool.PoolStateStore
import com.alibaba.opensandbox.sandbox.domain.pool.StoreCounters
import com.alibaba.opensandbox.sandbox.domain.pool.TakeIdleResult
import redis.clients.jedis.UnifiedJedis
import redis.clients.jedis.exceptions.JedisException
import java.time.Duration
import java.time.Instant
import java.util.Base64

/**
 * For pools that several processes share. The client stays the caller's; keys and their layout are those
 * of all SDKs, so that pools of different languages may share a store.
 */
class RedisPoolStateStore
    @JvmOverloads
    constructor(
        private val redis: UnifiedJedis,
        keyPrefix: String = DEFAULT_KEY_PREFIX,
    ) : PoolStateStore {
        private val prefix = keyPrefix.trimEnd(':')

        private fun keys(
            poolName: String,
            vararg suffixes: String,
        ): List<String> {
            require(poolName.isNotBlank()) { "poolName must not be blank" }
            val tag = Base64.getUrlEncoder().withoutPadding().encodeToString(poolName.toByteArray())
            return suffixes.map { "$prefix:{$tag}:$it" }
        }

        private fun <T> run(
            what: String,
            call: () -> T,
        ): T =
            try {
                call()
            } catch (e: JedisException) {
                throw PoolStateStoreUnavailableException("Redis: $what: ${e.message}", e)
            }

        private fun eval(
            what: String,
            script: String,
            keys: List<String>,
            vararg arguments: Any,
        ): Any? = run(what) { redis.eval(script, keys, arguments.map { it.toString() }) }

        private fun refuse(
            poolName: String,
            result: Any?,
        ) {
            if (result == -1L) throw PoolStateStoreContentionException("pool $poolName is destroyed")
        }

        private fun texts(result: Any?): List<String> = (result as? List<*>)?.map { it.toString() } ?: emptyList()

        override fun tryTakeIdle(poolName: String): String? = tryTakeIdle(poolName, Duration.ZERO).sandboxId

        override fun tryTakeIdle(
            poolName: String,
            minRemainingTtl: Duration,
        ): TakeIdleResult {
            val found = texts(eval("take", TAKE, keys(poolName, "idle:list", "idle:expires"), minRemainingTtl.toMillis()))
            return TakeIdleResult(found.firstOrNull()?.takeIf { it.isNotEmpty() }, found.drop(1))
        }

        override fun putIdle(
            poolName: String,
            sandboxId: String,
        ) {
            val ttlKey = keys(poolName, "idleTtlMillis").single()
            val ttl = run("put") { redis.get(ttlKey) }?.toLongOrNull() ?: Duration.ofHours(DEFAULT_TTL_HOURS).toMillis()
            val keys = keys(poolName, "idle:list", "idle:expires", "destroy:state")
            refuse(poolName, eval("put", PUT, keys, sandboxId, ttl))
        }

        override fun removeIdle(
            poolName: String,
            sandboxId: String,
        ) {
            eval("remove", REMOVE, keys(poolName, "idle:list", "idle:expires"), sandboxId)
        }

        override fun tryAcquirePrimaryLock(
            poolName: String,
            ownerId: String,
            ttl: Duration,
        ): Boolean = eval("lock", LOCK, keys(poolName, "lock", "destroy:state"), ownerId, ttl.toMillis(), 1) == 1L

        override fun renewPrimaryLock(
            poolName: String,
            ownerId: String,
            ttl: Duration,
        ): Boolean = eval("lock", LOCK, keys(poolName, "lock", "destroy:state"), ownerId, ttl.toMillis(), 0) == 1L

        override fun releasePrimaryLock(
            poolName: String,
            ownerId: String,
        ) {
            eval("unlock", UNLOCK, keys(poolName, "lock"), ownerId)
        }

        override fun reapExpiredIdle(
            poolName: String,
            now: Instant,
        ) {
            reapExpiredIdle(poolName, now, Duration.ZERO)
        }

        /** By the clock of Redis, which all processes share. */
        override fun reapExpiredIdle(
            poolName: String,
            now: Instant,
            minRemainingTtl: Duration,
        ): List<String> = texts(eval("reap", REAP, keys(poolName, "idle:list", "idle:expires"), minRemainingTtl.toMillis()))

        override fun snapshotCounters(poolName: String): StoreCounters {
            val key = keys(poolName, "idle:expires").single()
            return StoreCounters(run("count") { redis.hlen(key) }.toInt())
        }

        override fun snapshotIdleEntries(poolName: String): List<IdleEntry> {
            val (listed, expires) = keys(poolName, "idle:list", "idle:expires")
            val order = run("list") { redis.lrange(listed, 0, -1) }
            val ends = run("list") { redis.hgetAll(expires) }
            return order.mapNotNull { id -> ends[id]?.toLongOrNull()?.let { IdleEntry(id, Instant.ofEpochMilli(it)) } }
        }

        override fun getMaxIdle(poolName: String): Int? {
            val key = keys(poolName, "maxIdle").single()
            return run("get") { redis.get(key) }?.toIntOrNull()
        }

        override fun setMaxIdle(
            poolName: String,
            maxIdle: Int,
        ) = refuse(poolName, eval("set", SET, keys(poolName, "maxIdle", "destroy:state"), maxIdle))

        override fun setIdleEntryTtl(
            poolName: String,
            idleTtl: Duration,
        ) = refuse(poolName, eval("set", SET, keys(poolName, "idleTtlMillis", "destroy:state"), idleTtl.toMillis()))

        companion object {
            const val DEFAULT_KEY_PREFIX = "opensandbox:pool"
            private const val DEFAULT_TTL_HOURS = 24L

            private const val CLOCK = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
"""

            // KEYS: list, expires. ARGV: least milliseconds left. The id or '', then ids that were alive.
            private const val TAKE =
                CLOCK + """
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

            // KEYS: list, expires, destroy state. ARGV: id, milliseconds to live. -1: destroyed.
            private const val PUT =
                CLOCK + """
if redis.call('EXISTS', KEYS[3]) == 1 then return -1 end
local ends = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or 0)
if ends > now then return 0 end
redis.call('LREM', KEYS[1], 0, ARGV[1])
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], now + tonumber(ARGV[2]))
return 1
"""

            private const val REMOVE = """
redis.call('LREM', KEYS[1], 0, ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
"""

            // KEYS: list, expires. ARGV: least milliseconds left. Ids that were alive.
            private const val REAP =
                CLOCK + """
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

            // KEYS: lock, destroy state. ARGV: owner, milliseconds, whether a free lock may be taken.
            private const val LOCK = """
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] or (not owner and ARGV[3] == '1') then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return 1
end
return 0
"""
            private const val UNLOCK =
                "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1"

            // KEYS: the value, destroy state. -1: destroyed.
            private const val SET = """
if redis.call('EXISTS', KEYS[2]) == 1 then return -1 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""
        }
    }
