package com.alibaba.opensandbox.sandbox.infrastructure.pool

import com.alibaba.opensandbox.sandbox.domain.pool.IdleEntry
import com.alibaba.opensandbox.sandbox.domain.pool.PoolStateStore
import com.alibaba.opensandbox.sandbox.domain.pool.StoreCounters
import com.alibaba.opensandbox.sandbox.domain.pool.TakeIdleResult
import java.time.Duration
import java.time.Instant

/** For pools of one process. */
class InMemoryPoolStateStore : PoolStateStore {
    private class State {
        val idle = LinkedHashMap<String, Instant>()
        var owner: String? = null
        var ownedUntil: Instant = Instant.MIN
        var maxIdle: Int? = null
        var ttl: Duration = Duration.ofHours(DEFAULT_TTL_HOURS)
    }

    private val pools = HashMap<String, State>()

    private fun <T> with(
        poolName: String,
        work: State.() -> T,
    ): T {
        require(poolName.isNotBlank()) { "poolName must not be blank" }
        return synchronized(pools) { pools.getOrPut(poolName) { State() }.work() }
    }

    override fun tryTakeIdle(poolName: String): String? = tryTakeIdle(poolName, Duration.ZERO).sandboxId

    override fun tryTakeIdle(
        poolName: String,
        minRemainingTtl: Duration,
    ): TakeIdleResult =
        with(poolName) {
            val now = Instant.now()
            val discarded = ArrayList<String>()
            val entries = idle.iterator()
            while (entries.hasNext()) {
                val (id, ends) = entries.next()
                entries.remove()
                if (ends > now + minRemainingTtl) return@with TakeIdleResult(id, discarded)
                if (ends > now) discarded.add(id)
            }
            TakeIdleResult(null, discarded)
        }

    override fun putIdle(
        poolName: String,
        sandboxId: String,
    ) = with(poolName) {
        val now = Instant.now()
        if ((idle[sandboxId] ?: Instant.MIN) <= now) {
            idle.remove(sandboxId)
            idle[sandboxId] = now + ttl
        }
    }

    override fun removeIdle(
        poolName: String,
        sandboxId: String,
    ) {
        with(poolName) { idle.remove(sandboxId) }
    }

    override fun tryAcquirePrimaryLock(
        poolName: String,
        ownerId: String,
        ttl: Duration,
    ): Boolean = lock(poolName, ownerId, ttl, true)

    override fun renewPrimaryLock(
        poolName: String,
        ownerId: String,
        ttl: Duration,
    ): Boolean = lock(poolName, ownerId, ttl, false)

    private fun lock(
        poolName: String,
        ownerId: String,
        ttl: Duration,
        mayTake: Boolean,
    ): Boolean =
        with(poolName) {
            val now = Instant.now()
            val isFree = owner == null || ownedUntil <= now
            val mine = (owner == ownerId && !isFree) || (isFree && mayTake)
            if (mine) {
                owner = ownerId
                ownedUntil = now + ttl
            }
            mine
        }

    override fun releasePrimaryLock(
        poolName: String,
        ownerId: String,
    ) = with(poolName) { if (owner == ownerId) owner = null }

    override fun reapExpiredIdle(
        poolName: String,
        now: Instant,
    ) {
        reapExpiredIdle(poolName, now, Duration.ZERO)
    }

    override fun reapExpiredIdle(
        poolName: String,
        now: Instant,
        minRemainingTtl: Duration,
    ): List<String> =
        with(poolName) {
            val gone = idle.filterValues { it <= now + minRemainingTtl }
            for (id in gone.keys) idle.remove(id)
            gone.filterValues { it > now }.keys.toList()
        }

    override fun snapshotCounters(poolName: String): StoreCounters = with(poolName) { StoreCounters(idle.size) }

    override fun snapshotIdleEntries(poolName: String): List<IdleEntry> =
        with(poolName) { idle.map { (id, ends) -> IdleEntry(id, ends) } }

    override fun getMaxIdle(poolName: String): Int? = with(poolName) { maxIdle }

    override fun setMaxIdle(
        poolName: String,
        maxIdle: Int,
    ) = with(poolName) { this.maxIdle = maxIdle }

    override fun setIdleEntryTtl(
        poolName: String,
        idleTtl: Duration,
    ) = with(poolName) { ttl = idleTtl }

    private companion object {
        const val DEFAULT_TTL_HOURS = 24L
    }
}
