package com.alibaba.opensandbox.sandbox.pool

import com.alibaba.opensandbox.sandbox.Sandbox
import com.alibaba.opensandbox.sandbox.SandboxManager
import com.alibaba.opensandbox.sandbox.config.ConnectionConfig
import com.alibaba.opensandbox.sandbox.domain.exceptions.PoolAcquireFailedException
import com.alibaba.opensandbox.sandbox.domain.exceptions.PoolEmptyException
import com.alibaba.opensandbox.sandbox.domain.exceptions.PoolNotRunningException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxException
import com.alibaba.opensandbox.sandbox.domain.pool.AcquirePolicy
import com.alibaba.opensandbox.sandbox.domain.pool.IdleEntry
import com.alibaba.opensandbox.sandbox.domain.pool.PoolConfig
import com.alibaba.opensandbox.sandbox.domain.pool.PoolCreationSpec
import com.alibaba.opensandbox.sandbox.domain.pool.PoolLifecycleState
import com.alibaba.opensandbox.sandbox.domain.pool.PoolSnapshot
import com.alibaba.opensandbox.sandbox.domain.pool.PoolState
import com.alibaba.opensandbox.sandbox.domain.pool.PoolStateStore
import com.alibaba.opensandbox.sandbox.domain.pool.SandboxPreparer
import org.slf4j.LoggerFactory
import java.time.Duration
import java.time.Instant
import java.util.concurrent.Callable
import java.util.concurrent.Executors
import java.util.concurrent.Semaphore
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger

/**
 * Keeps `maxIdle` sandboxes ready. Processes that share a store share the pool: one of them, which holds
 * the primary lock, makes new ones. An acquired sandbox is the caller's for good.
 */
class SandboxPool private constructor(
    private val config: PoolConfig,
) : AutoCloseable {
    private val store = config.stateStore
    private val name = config.poolName
    private val inFlight = AtomicInteger()
    private val wake = Semaphore(0)

    @Volatile
    private var phase = PoolLifecycleState.NOT_STARTED

    @Volatile
    private var failures = 0

    @Volatile
    private var lastError: String? = null
    private var backoff = Duration.ZERO

    @Volatile
    private var backoffUntil = System.nanoTime()
    private var manager: SandboxManager? = null
    private var worker: Thread? = null

    // --- its life ---

    /** Begins to fill the pool. A size that another process set in the store stays. */
    @Synchronized
    fun start() {
        if (phase == PoolLifecycleState.RUNNING) return
        phase = PoolLifecycleState.STARTING
        try {
            store.setIdleEntryTtl(name, config.idleTimeout)
            if (store.getMaxIdle(name) == null) store.setMaxIdle(name, config.maxIdle)
            manager = SandboxManager.builder().connectionConfig(config.connectionConfig).build()
        } catch (e: RuntimeException) {
            phase = PoolLifecycleState.STOPPED
            throw e
        }
        phase = PoolLifecycleState.RUNNING
        worker = Thread(::work, "opensandbox-pool-$name").apply { isDaemon = true }.also { it.start() }
    }

    /**
     * Ends the filling; graceful: after what is under way. Idle sandboxes stay, for others or for the
     * next start; releaseAllIdle() ends them.
     */
    @Synchronized
    @JvmOverloads
    fun shutdown(graceful: Boolean = true) {
        if (phase != PoolLifecycleState.RUNNING) {
            phase = PoolLifecycleState.STOPPED
            return
        }
        phase = PoolLifecycleState.DRAINING
        wake.release()
        val end = System.nanoTime() + if (graceful) config.drainTimeout.toNanos() else 0
        while (inFlight.get() > 0 && System.nanoTime() - end < 0) Thread.sleep(DRAIN_POLL_MS)
        worker?.let {
            it.join(maxOf(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime())))
            if (it.isAlive) it.interrupt()
        }
        worker = null
        try {
            store.releasePrimaryLock(name, config.ownerId)
        } catch (e: SandboxException) {
            log.warn("pool {}: {}", name, e.message)
        }
        phase = PoolLifecycleState.STOPPED
        manager?.close()
        manager = null
    }

    override fun close() = shutdown()

    // --- its use ---

    /** A sandbox that is ready; it is the caller's, and lives for [sandboxTimeout] if that is given. */
    @JvmOverloads
    fun acquire(
        sandboxTimeout: Duration? = null,
        policy: AcquirePolicy = AcquirePolicy.DIRECT_CREATE,
    ): Sandbox {
        if (phase != PoolLifecycleState.RUNNING) throw PoolNotRunningException("pool $name is $phase, not RUNNING")
        inFlight.incrementAndGet()
        try {
            val taken = take()
            val failure =
                if (taken == null) {
                    null
                } else {
                    try {
                        return opened(taken, sandboxTimeout)
                    } catch (e: SandboxException) {
                        log.warn("idle sandbox {} cannot be used: {}", taken, e.message)
                        discard(listOf(taken))
                        e
                    }
                }
            if (policy == AcquirePolicy.DIRECT_CREATE) return created(sandboxTimeout ?: config.idleTimeout, false)
            throw failure?.let { PoolAcquireFailedException("the idle sandbox cannot be used: ${it.message}", it) }
                ?: PoolEmptyException()
        } finally {
            inFlight.decrementAndGet()
            wake.release()
        }
    }

    private fun take(): String? {
        val taken = store.tryTakeIdle(name, config.acquireMinRemainingTtl)
        if (taken.discardedAliveSandboxIds.isNotEmpty()) {
            Thread({ discard(taken.discardedAliveSandboxIds) }, "opensandbox-pool-discard").apply { isDaemon = true }.start()
        }
        return taken.sandboxId
    }

    private fun opened(
        sandboxId: String,
        lifetime: Duration?,
    ): Sandbox {
        val connector =
            Sandbox
                .connector()
                .sandboxId(sandboxId)
                .connectionConfig(config.connectionConfig)
                .connectTimeout(config.acquireReadyTimeout)
                .healthCheckPollingInterval(config.acquireHealthCheckPollingInterval)
                .skipHealthCheck(config.acquireSkipHealthCheck)
        config.acquireHealthCheck?.let { connector.healthCheck(it) }
        val sandbox = connector.connect()
        try {
            if (lifetime != null) sandbox.renew(lifetime)
        } catch (e: SandboxException) {
            sandbox.close()
            throw e
        }
        return sandbox
    }

    private fun created(
        lifetime: Duration,
        isWarmup: Boolean,
    ): Sandbox {
        val builder =
            config.creationSpec
                .applyTo(Sandbox.builder())
                .connectionConfig(config.connectionConfig)
                .timeout(lifetime)
                .readyTimeout(if (isWarmup) config.warmupReadyTimeout else config.acquireReadyTimeout)
                .healthCheckPollingInterval(
                    if (isWarmup) config.warmupHealthCheckPollingInterval else config.acquireHealthCheckPollingInterval,
                ).skipHealthCheck(if (isWarmup) config.warmupSkipHealthCheck else config.acquireSkipHealthCheck)
        (if (isWarmup) config.warmupHealthCheck else config.acquireHealthCheck)?.let { builder.healthCheck(it) }
        return builder.build()
    }

    private fun discard(ids: List<String>) {
        val manager = manager ?: return
        for (id in ids) {
            try {
                manager.killSandbox(id)
            } catch (e: SandboxException) {
                log.warn("idle sandbox {} was not killed: {}", id, e.message)
            }
        }
    }

    /** Changes how many are kept, for all processes of the pool. */
    fun resize(maxIdle: Int) {
        require(maxIdle >= 0) { "maxIdle must not be negative" }
        store.setMaxIdle(name, maxIdle)
        wake.release()
    }

    /** Kills all idle sandboxes; how many were taken out of the pool. */
    fun releaseAllIdle(): Int {
        val killer = manager ?: SandboxManager.builder().connectionConfig(config.connectionConfig).build()
        var count = 0
        try {
            while (true) {
                val id = store.tryTakeIdle(name) ?: return count
                count++
                try {
                    killer.killSandbox(id)
                } catch (e: SandboxException) {
                    log.warn("idle sandbox {} was not killed: {}", id, e.message)
                }
            }
        } finally {
            if (killer !== manager) killer.close()
        }
    }

    /** How the pool fares. */
    fun snapshot(): PoolSnapshot {
        val now = phase
        val state =
            when {
                now == PoolLifecycleState.DRAINING -> PoolState.DRAINING
                now != PoolLifecycleState.RUNNING -> PoolState.STOPPED
                failures >= config.degradedThreshold -> PoolState.DEGRADED
                else -> PoolState.HEALTHY
            }
        return PoolSnapshot(
            state = state,
            lifecycleState = now,
            idleCount = store.snapshotCounters(name).idleCount,
            maxIdle = store.getMaxIdle(name) ?: config.maxIdle,
            failureCount = failures,
            backoffActive = isBackingOff(),
            lastError = lastError,
            inFlightOperations = inFlight.get(),
        )
    }

    fun snapshotIdleEntries(): List<IdleEntry> = store.snapshotIdleEntries(name)

    private fun isBackingOff() = System.nanoTime() - backoffUntil < 0

    // --- filling ---

    private fun work() {
        while (phase == PoolLifecycleState.RUNNING) {
            wake.drainPermits()
            try {
                reconcile()
            } catch (e: Exception) {
                if (phase != PoolLifecycleState.RUNNING) return
                lastError = e.message
                log.warn("pool {}: {}", name, e.message)
            }
            if (phase != PoolLifecycleState.RUNNING) return
            try {
                wake.tryAcquire(config.reconcileInterval.toMillis(), TimeUnit.MILLISECONDS)
            } catch (_: InterruptedException) {
                return
            }
        }
    }

    /** One step: remove what expires, then shrink or grow. */
    private fun reconcile() {
        if (!store.tryAcquirePrimaryLock(name, config.ownerId, config.primaryLockTtl)) return
        discard(store.reapExpiredIdle(name, Instant.now(), config.acquireMinRemainingTtl))
        val missing = (store.getMaxIdle(name) ?: config.maxIdle) - store.snapshotCounters(name).idleCount
        if (missing < 0) {
            repeat(minOf(-missing, config.warmupConcurrency)) {
                store.tryTakeIdle(name)?.let { id -> discard(listOf(id)) }
            }
        } else if (missing > 0 && !isBackingOff()) {
            grow(minOf(missing, config.warmupConcurrency))
        }
    }

    /** Makes sandboxes; a batch that failed makes the next one wait, longer each time. */
    private fun grow(count: Int) {
        val threads =
            Executors.newFixedThreadPool(count) { work -> Thread(work, "opensandbox-pool-warm").apply { isDaemon = true } }
        val made =
            try {
                threads.invokeAll(List(count) { Callable { warm() } }).count { it.get() }
            } finally {
                threads.shutdownNow()
            }
        if (made > 0) {
            failures = 0
            backoff = Duration.ZERO
            wake.release() // there may be more to make
        } else if (failures >= config.degradedThreshold) {
            backoff = if (backoff.isZero) BACKOFF_MIN else minOf(backoff.multipliedBy(2), BACKOFF_MAX)
            backoffUntil = System.nanoTime() + backoff.toNanos()
        }
    }

    /** One new idle sandbox; whether it is in the pool. */
    private fun warm(): Boolean {
        if (phase != PoolLifecycleState.RUNNING) return false
        val sandbox =
            try {
                created(config.idleTimeout, true)
            } catch (e: Exception) {
                return failed(e)
            }
        var isKept = false
        try {
            config.warmupSandboxPreparer?.let {
                it.prepare(sandbox)
                sandbox.renew(config.idleTimeout)
            }
            if (store.renewPrimaryLock(name, config.ownerId, config.primaryLockTtl)) {
                store.putIdle(name, sandbox.id)
                isKept = true
            }
        } catch (e: Exception) {
            failed(e)
        } finally {
            if (!isKept) discard(listOf(sandbox.id))
            sandbox.close()
        }
        return isKept
    }

    private fun failed(e: Exception): Boolean {
        synchronized(wake) { failures++ }
        lastError = e.message
        log.warn("pool {}: {}", name, e.message)
        return false
    }

    /** The settings of a pool, by their names, or all of them by config(). */
    class Builder internal constructor() {
        private val of = PoolConfig.builder()
        private var given: PoolConfig? = null

        fun config(config: PoolConfig) = apply { given = config }

        fun poolName(poolName: String) = apply { of.poolName(poolName) }

        fun maxIdle(maxIdle: Int) = apply { of.maxIdle(maxIdle) }

        fun stateStore(stateStore: PoolStateStore) = apply { of.stateStore(stateStore) }

        fun connectionConfig(connectionConfig: ConnectionConfig) = apply { of.connectionConfig(connectionConfig) }

        fun creationSpec(creationSpec: PoolCreationSpec) = apply { of.creationSpec(creationSpec) }

        fun ownerId(ownerId: String) = apply { of.ownerId(ownerId) }

        fun warmupConcurrency(warmupConcurrency: Int) = apply { of.warmupConcurrency(warmupConcurrency) }

        fun primaryLockTtl(ttl: Duration) = apply { of.primaryLockTtl(ttl) }

        fun reconcileInterval(interval: Duration) = apply { of.reconcileInterval(interval) }

        fun degradedThreshold(threshold: Int) = apply { of.degradedThreshold(threshold) }

        fun acquireReadyTimeout(timeout: Duration) = apply { of.acquireReadyTimeout(timeout) }

        fun acquireHealthCheckPollingInterval(interval: Duration) = apply { of.acquireHealthCheckPollingInterval(interval) }

        fun acquireHealthCheck(check: (Sandbox) -> Boolean) = apply { of.acquireHealthCheck(check) }

        @JvmOverloads
        fun acquireSkipHealthCheck(skip: Boolean = true) = apply { of.acquireSkipHealthCheck(skip) }

        fun acquireMinRemainingTtl(ttl: Duration) = apply { of.acquireMinRemainingTtl(ttl) }

        fun warmupReadyTimeout(timeout: Duration) = apply { of.warmupReadyTimeout(timeout) }

        fun warmupHealthCheckPollingInterval(interval: Duration) = apply { of.warmupHealthCheckPollingInterval(interval) }

        fun warmupHealthCheck(check: (Sandbox) -> Boolean) = apply { of.warmupHealthCheck(check) }

        @JvmOverloads
        fun warmupSkipHealthCheck(skip: Boolean = true) = apply { of.warmupSkipHealthCheck(skip) }

        fun warmupSandboxPreparer(preparer: SandboxPreparer) = apply { of.warmupSandboxPreparer(preparer) }

        fun idleTimeout(timeout: Duration) = apply { of.idleTimeout(timeout) }

        fun drainTimeout(timeout: Duration) = apply { of.drainTimeout(timeout) }

        fun build(): SandboxPool = SandboxPool(given ?: of.build())
    }

    companion object {
        private val log = LoggerFactory.getLogger(SandboxPool::class.java)
        private const val DRAIN_POLL_MS = 10L
        private val BACKOFF_MIN = Duration.ofSeconds(30)
        private val BACKOFF_MAX = Duration.ofDays(1)

        @JvmStatic
        fun builder(): Builder = Builder()
    }
}
