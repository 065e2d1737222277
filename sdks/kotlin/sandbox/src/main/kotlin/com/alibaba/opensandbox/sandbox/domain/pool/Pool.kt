package com.alibaba.opensandbox.sandbox.domain.pool

import com.alibaba.opensandbox.sandbox.Sandbox
import com.alibaba.opensandbox.sandbox.config.ConnectionConfig
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialProxyConfig
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkPolicy
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PlatformSpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxImageSpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.Volume
import java.time.Duration
import java.time.Instant
import java.util.UUID

/** What `acquire` does when there is no idle sandbox, or the one it found is dead. */
enum class AcquirePolicy { FAIL_FAST, DIRECT_CREATE }

enum class PoolState { HEALTHY, DEGRADED, DRAINING, STOPPED }

enum class PoolLifecycleState { NOT_STARTED, STARTING, RUNNING, DRAINING, STOPPED }

data class IdleEntry(
    val sandboxId: String,
    val expiresAt: Instant,
)

data class StoreCounters(
    val idleCount: Int,
)

/** What was taken, and what was thrown out because it expires too soon. */
data class TakeIdleResult
    @JvmOverloads
    constructor(
        val sandboxId: String?,
        val discardedAliveSandboxIds: List<String> = emptyList(),
    )

/** How a pool fares. */
data class PoolSnapshot(
    val state: PoolState,
    val lifecycleState: PoolLifecycleState,
    val idleCount: Int,
    val maxIdle: Int,
    val failureCount: Int,
    val backoffActive: Boolean,
    val lastError: String?,
    val inFlightOperations: Int,
)

/** Makes a new idle sandbox fit for use. */
fun interface SandboxPreparer {
    fun prepare(sandbox: Sandbox)
}

/** Where the processes of a pool agree. Ids are taken in the order they were put. */
interface PoolStateStore {
    fun tryTakeIdle(poolName: String): String?

    /** Skips, and returns, what has less than [minRemainingTtl] to live. */
    fun tryTakeIdle(
        poolName: String,
        minRemainingTtl: Duration,
    ): TakeIdleResult = TakeIdleResult(tryTakeIdle(poolName))

    fun putIdle(
        poolName: String,
        sandboxId: String,
    )

    fun removeIdle(
        poolName: String,
        sandboxId: String,
    )

    fun tryAcquirePrimaryLock(
        poolName: String,
        ownerId: String,
        ttl: Duration,
    ): Boolean

    fun renewPrimaryLock(
        poolName: String,
        ownerId: String,
        ttl: Duration,
    ): Boolean

    fun releasePrimaryLock(
        poolName: String,
        ownerId: String,
    )

    fun reapExpiredIdle(
        poolName: String,
        now: Instant,
    )

    /** Also what has less than [minRemainingTtl] to live; those that still do are returned. */
    fun reapExpiredIdle(
        poolName: String,
        now: Instant,
        minRemainingTtl: Duration,
    ): List<String> {
        reapExpiredIdle(poolName, now)
        return emptyList()
    }

    fun snapshotCounters(poolName: String): StoreCounters

    fun snapshotIdleEntries(poolName: String): List<IdleEntry>

    fun getMaxIdle(poolName: String): Int?

    fun setMaxIdle(
        poolName: String,
        maxIdle: Int,
    )

    fun setIdleEntryTtl(
        poolName: String,
        idleTtl: Duration,
    )
}

/** What a pool creates. */
class PoolCreationSpec private constructor(
    builder: Builder,
) {
    val image: SandboxImageSpec? = builder.image
    val snapshotId: String? = builder.snapshotId
    val entrypoint: List<String>? = builder.entrypoint
    val resource: Map<String, String> = builder.resource.toMap()
    val env: Map<String, String> = builder.env.toMap()
    val metadata: Map<String, String> = builder.metadata.toMap()
    val extensions: Map<String, String> = builder.extensions.toMap()
    val networkPolicy: NetworkPolicy? = builder.networkPolicy
    val credentialProxy: CredentialProxyConfig? = builder.credentialProxy
    val platform: PlatformSpec? = builder.platform
    val secureAccess: Boolean = builder.secureAccess
    val volumes: List<Volume> = builder.volumes.toList()

    init {
        require((image == null) != (snapshotId == null)) { "exactly one of image and snapshotId must be given" }
    }

    internal fun applyTo(sandbox: Sandbox.Builder): Sandbox.Builder {
        image?.let { sandbox.imageSpec(it) }
        snapshotId?.let { sandbox.snapshotId(it) }
        entrypoint?.let { sandbox.entrypoint(it) }
        networkPolicy?.let { sandbox.networkPolicy(it) }
        credentialProxy?.let { sandbox.credentialProxy(it) }
        platform?.let { sandbox.platform(it) }
        return sandbox
            .resource(resource)
            .env(env)
            .metadata(metadata)
            .extensions(extensions)
            .secureAccess(secureAccess)
            .volumes(volumes)
    }

    class Builder internal constructor() {
        internal var image: SandboxImageSpec? = null
        internal var snapshotId: String? = null
        internal var entrypoint: List<String>? = null
        internal var resource: Map<String, String> = emptyMap()
        internal var env: Map<String, String> = emptyMap()
        internal var metadata: Map<String, String> = emptyMap()
        internal var extensions: Map<String, String> = emptyMap()
        internal var networkPolicy: NetworkPolicy? = null
        internal var credentialProxy: CredentialProxyConfig? = null
        internal var platform: PlatformSpec? = null
        internal var secureAccess = false
        internal var volumes: List<Volume> = emptyList()

        fun image(image: String) = apply { this.image = SandboxImageSpec(image) }

        fun imageSpec(imageSpec: SandboxImageSpec) = apply { image = imageSpec }

        fun snapshotId(snapshotId: String?) = apply { this.snapshotId = snapshotId }

        fun entrypoint(entrypoint: List<String>?) = apply { this.entrypoint = entrypoint }

        fun resource(resource: Map<String, String>) = apply { this.resource = resource }

        fun env(env: Map<String, String>) = apply { this.env = env }

        fun metadata(metadata: Map<String, String>) = apply { this.metadata = metadata }

        fun extensions(extensions: Map<String, String>) = apply { this.extensions = extensions }

        fun networkPolicy(networkPolicy: NetworkPolicy?) = apply { this.networkPolicy = networkPolicy }

        fun credentialProxy(credentialProxy: CredentialProxyConfig?) = apply { this.credentialProxy = credentialProxy }

        fun platform(platform: PlatformSpec?) = apply { this.platform = platform }

        @JvmOverloads
        fun secureAccess(secureAccess: Boolean = true) = apply { this.secureAccess = secureAccess }

        fun volumes(volumes: List<Volume>) = apply { this.volumes = volumes }

        fun build() = PoolCreationSpec(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** Everything that can be set of a pool. */
class PoolConfig private constructor(
    builder: Builder,
) {
    val poolName: String = requireNotNull(builder.poolName) { "poolName must be given" }
    val maxIdle: Int = requireNotNull(builder.maxIdle) { "maxIdle must be given" }
    val stateStore: PoolStateStore = requireNotNull(builder.stateStore) { "stateStore must be given" }
    val connectionConfig: ConnectionConfig = requireNotNull(builder.connectionConfig) { "connectionConfig must be given" }
    val creationSpec: PoolCreationSpec = requireNotNull(builder.creationSpec) { "creationSpec must be given" }
    val ownerId: String = builder.ownerId ?: "pool-owner-${UUID.randomUUID()}"
    val warmupConcurrency: Int = builder.warmupConcurrency ?: maxOf(1, (maxIdle + WARM_PART - 1) / WARM_PART)
    val primaryLockTtl: Duration = builder.primaryLockTtl
    val reconcileInterval: Duration = builder.reconcileInterval
    val degradedThreshold: Int = builder.degradedThreshold
    val acquireReadyTimeout: Duration = builder.acquireReadyTimeout
    val acquireHealthCheckPollingInterval: Duration = builder.acquireHealthCheckPollingInterval
    val acquireHealthCheck: ((Sandbox) -> Boolean)? = builder.acquireHealthCheck
    val acquireSkipHealthCheck: Boolean = builder.acquireSkipHealthCheck
    val warmupReadyTimeout: Duration = builder.warmupReadyTimeout
    val warmupHealthCheckPollingInterval: Duration = builder.warmupHealthCheckPollingInterval
    val warmupHealthCheck: ((Sandbox) -> Boolean)? = builder.warmupHealthCheck
    val warmupSkipHealthCheck: Boolean = builder.warmupSkipHealthCheck
    val warmupSandboxPreparer: SandboxPreparer? = builder.warmupSandboxPreparer
    val idleTimeout: Duration = builder.idleTimeout
    val drainTimeout: Duration = builder.drainTimeout

    /** A sandbox that expires sooner is not handed out. */
    val acquireMinRemainingTtl: Duration =
        builder.acquireMinRemainingTtl ?: minOf(Duration.ofSeconds(LOCK_SECONDS), idleTimeout.dividedBy(2))

    init {
        require(poolName.isNotBlank()) { "poolName must not be blank" }
        require(maxIdle >= 0) { "maxIdle must not be negative" }
        require(warmupConcurrency >= 1) { "warmupConcurrency must be positive" }
        require(degradedThreshold >= 1) { "degradedThreshold must be positive" }
        for ((name, value) in listOf(
            "primaryLockTtl" to primaryLockTtl,
            "reconcileInterval" to reconcileInterval,
            "idleTimeout" to idleTimeout,
        )) {
            require(!value.isZero && !value.isNegative) { "$name must be positive" }
        }
        require(acquireMinRemainingTtl < idleTimeout) { "acquireMinRemainingTtl must be less than idleTimeout" }
    }

    class Builder internal constructor() {
        internal var poolName: String? = null
        internal var maxIdle: Int? = null
        internal var stateStore: PoolStateStore? = null
        internal var connectionConfig: ConnectionConfig? = null
        internal var creationSpec: PoolCreationSpec? = null
        internal var ownerId: String? = null
        internal var warmupConcurrency: Int? = null
        internal var primaryLockTtl: Duration = Duration.ofSeconds(LOCK_SECONDS)
        internal var reconcileInterval: Duration = Duration.ofSeconds(SECONDS)
        internal var degradedThreshold = DEGRADED_THRESHOLD
        internal var acquireReadyTimeout: Duration = Duration.ofSeconds(SECONDS)
        internal var acquireHealthCheckPollingInterval: Duration = Duration.ofMillis(POLLING_MS)
        internal var acquireHealthCheck: ((Sandbox) -> Boolean)? = null
        internal var acquireSkipHealthCheck = false
        internal var acquireMinRemainingTtl: Duration? = null
        internal var warmupReadyTimeout: Duration = Duration.ofSeconds(SECONDS)
        internal var warmupHealthCheckPollingInterval: Duration = Duration.ofMillis(POLLING_MS)
        internal var warmupHealthCheck: ((Sandbox) -> Boolean)? = null
        internal var warmupSkipHealthCheck = false
        internal var warmupSandboxPreparer: SandboxPreparer? = null
        internal var idleTimeout: Duration = Duration.ofHours(IDLE_HOURS)
        internal var drainTimeout: Duration = Duration.ofSeconds(SECONDS)

        fun poolName(poolName: String) = apply { this.poolName = poolName }

        fun maxIdle(maxIdle: Int) = apply { this.maxIdle = maxIdle }

        fun stateStore(stateStore: PoolStateStore) = apply { this.stateStore = stateStore }

        fun connectionConfig(connectionConfig: ConnectionConfig) = apply { this.connectionConfig = connectionConfig }

        fun creationSpec(creationSpec: PoolCreationSpec) = apply { this.creationSpec = creationSpec }

        fun ownerId(ownerId: String) = apply { this.ownerId = ownerId }

        fun warmupConcurrency(warmupConcurrency: Int) = apply { this.warmupConcurrency = warmupConcurrency }

        fun primaryLockTtl(ttl: Duration) = apply { primaryLockTtl = ttl }

        fun reconcileInterval(interval: Duration) = apply { reconcileInterval = interval }

        fun degradedThreshold(threshold: Int) = apply { degradedThreshold = threshold }

        fun acquireReadyTimeout(timeout: Duration) = apply { acquireReadyTimeout = timeout }

        fun acquireHealthCheckPollingInterval(interval: Duration) = apply { acquireHealthCheckPollingInterval = interval }

        fun acquireHealthCheck(check: (Sandbox) -> Boolean) = apply { acquireHealthCheck = check }

        @JvmOverloads
        fun acquireSkipHealthCheck(skip: Boolean = true) = apply { acquireSkipHealthCheck = skip }

        fun acquireMinRemainingTtl(ttl: Duration) = apply { acquireMinRemainingTtl = ttl }

        fun warmupReadyTimeout(timeout: Duration) = apply { warmupReadyTimeout = timeout }

        fun warmupHealthCheckPollingInterval(interval: Duration) = apply { warmupHealthCheckPollingInterval = interval }

        fun warmupHealthCheck(check: (Sandbox) -> Boolean) = apply { warmupHealthCheck = check }

        @JvmOverloads
        fun warmupSkipHealthCheck(skip: Boolean = true) = apply { warmupSkipHealthCheck = skip }

        fun warmupSandboxPreparer(preparer: SandboxPreparer) = apply { warmupSandboxPreparer = preparer }

        fun idleTimeout(timeout: Duration) = apply { idleTimeout = timeout }

        fun drainTimeout(timeout: Duration) = apply { drainTimeout = timeout }

        fun build() = PoolConfig(this)
    }

    companion object {
        private const val WARM_PART = 5
        private const val LOCK_SECONDS = 60L
        private const val SECONDS = 30L
        private const val POLLING_MS = 200L
        private const val IDLE_HOURS = 24L
        private const val DEGRADED_THRESHOLD = 3

        @JvmStatic
        fun builder(): Builder = Builder()
    }
}
