package com.alibaba.opensandbox.sandbox

import com.alibaba.opensandbox.sandbox.config.ConnectionConfig
import com.alibaba.opensandbox.sandbox.domain.exceptions.InvalidArgumentException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxInternalException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxReadyTimeoutException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxUnhealthyException
import com.alibaba.opensandbox.sandbox.domain.models.diagnostics.DiagnosticContent
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ForkRequest
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkPolicy
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkRule
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxEndpoint
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxMetrics
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxRenewResponse
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxState
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotInfo
import com.alibaba.opensandbox.sandbox.domain.services.Commands
import com.alibaba.opensandbox.sandbox.domain.services.CredentialVault
import com.alibaba.opensandbox.sandbox.domain.services.Diagnostics
import com.alibaba.opensandbox.sandbox.domain.services.Egress
import com.alibaba.opensandbox.sandbox.domain.services.EventStream
import com.alibaba.opensandbox.sandbox.domain.services.Filesystem
import com.alibaba.opensandbox.sandbox.domain.services.Isolation
import com.alibaba.opensandbox.sandbox.domain.services.Metrics
import com.alibaba.opensandbox.sandbox.domain.services.Terminals
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.CommandsAdapter
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.CredentialVaultAdapter
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.EgressAdapter
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.FilesystemAdapter
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.IsolationAdapter
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.MetricsAdapter
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.SandboxesAdapter
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.TerminalsAdapter
import com.alibaba.opensandbox.sandbox.infrastructure.http.Api
import com.alibaba.opensandbox.sandbox.infrastructure.http.Pauses
import com.alibaba.opensandbox.sandbox.infrastructure.http.isNotFound
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CreateSandboxRequest
import java.time.Duration
import java.time.OffsetDateTime
import java.time.ZoneOffset
import java.util.concurrent.CancellationException

/**
 * A sandbox that a program created or connected to.
 *
 * close() frees connections and leaves the sandbox running; kill() ends it. All calls block; the package
 * `coroutines` has the same with suspend functions.
 */
@OptIn(InternalOpenSandboxApi::class)
class Sandbox private constructor(
    val id: String,
    private val config: ConnectionConfig,
    private val provider: HttpClientProvider,
    private val sandboxes: SandboxesAdapter,
    endpoint: SandboxEndpoint,
) : AutoCloseable {
    /** Of execd, for the other artifacts of this SDK. */
    @InternalOpenSandboxApi
    val execd: Api = apiOf(endpoint)

    private val commands = CommandsAdapter(execd)
    private val files = FilesystemAdapter(execd)
    private val metrics = MetricsAdapter(execd)
    private val terminals = TerminalsAdapter(execd)
    private val isolation = IsolationAdapter(execd)
    private val egressApi: Api by lazy { apiOf(sandboxes.getSandboxEndpoint(id, EGRESS_PORT, config.useServerProxy)) }
    private val egress = EgressAdapter { egressApi }
    private val vault = CredentialVaultAdapter { egressApi }

    private fun apiOf(endpoint: SandboxEndpoint): Api {
        val address = endpoint.endpoint
        return Api(config, if ("://" in address) address else "${config.protocol}://$address", endpoint.headers)
    }

    fun files(): Filesystem = files

    fun commands(): Commands = commands

    fun metrics(): Metrics = metrics

    /** Terminals. */
    fun terminals(): Terminals = terminals

    /** Sessions with a file system of their own. */
    fun isolation(): Isolation = isolation

    fun credentialVault(): CredentialVault = vault

    fun egress(): Egress = egress

    fun diagnostics(): Diagnostics = sandboxes

    fun httpClientProvider(): HttpClientProvider = provider

    fun connectionConfig(): ConnectionConfig = config

    // --- its life ---

    fun getInfo(): SandboxInfo = sandboxes.getSandboxInfo(id)

    fun getEndpoint(port: Int): SandboxEndpoint = sandboxes.getSandboxEndpoint(id, port, config.useServerProxy)

    /** An address that works until [expires], in seconds since 1970, without header fields. */
    fun getSignedEndpoint(
        port: Int,
        expires: Long,
    ): SandboxEndpoint = sandboxes.getSignedEndpoint(id, port, expires, config.useServerProxy)

    fun getMetrics(): SandboxMetrics = metrics.getMetrics()

    /** About one a second. */
    fun watchMetrics(): EventStream<SandboxMetrics> = metrics.watch()

    fun getDiagnosticLogs(scope: String): DiagnosticContent = sandboxes.getLogs(id, scope)

    fun getDiagnosticEvents(scope: String): DiagnosticContent = sandboxes.getEvents(id, scope)

    /** It expires [timeout] from now. */
    fun renew(timeout: Duration): SandboxRenewResponse =
        sandboxes.renewSandboxExpiration(id, OffsetDateTime.now(ZoneOffset.UTC).plus(timeout))

    /** A null value deletes a key. */
    fun patchMetadata(patch: Map<String, String?>): SandboxInfo = sandboxes.patchSandboxMetadata(id, patch)

    /** With [memory] that of the processes is saved, too. */
    @JvmOverloads
    fun createSnapshot(
        name: String? = null,
        memory: Boolean? = null,
    ): SnapshotInfo = sandboxes.createSnapshot(id, name, memory)

    fun getEgressPolicy(): NetworkPolicy = egress.getPolicy()

    fun patchEgressRules(rules: List<NetworkRule>) = egress.patchRules(rules)

    fun deleteEgressRules(targets: List<String>) = egress.deleteRules(targets)

    fun pause() = sandboxes.pauseSandbox(id)

    /** Lets it go on after pause(), and returns a sandbox that is connected anew. */
    fun resume(): Sandbox =
        resumer()
            .sandboxId(id)
            .connectionConfig(config)
            .resume()

    /** Ends its processes and keeps its files; of a persistent sandbox. */
    fun stop() = sandboxes.stopSandbox(id)

    /** Begins again after stop(). */
    fun start() = sandboxes.startSandbox(id)

    /** Ends it for good. */
    fun kill() = sandboxes.killSandbox(id)

    /** Copies of it, as it is now. */
    @JvmOverloads
    fun fork(request: ForkRequest = ForkRequest.builder().build()): List<SandboxInfo> = sandboxes.forkSandbox(id, request)

    /** Its files become those of a snapshot. */
    fun rollback(snapshotId: String): SandboxInfo = sandboxes.rollbackSandbox(id, snapshotId)

    /** Frees connections. The sandbox goes on. */
    override fun close() = provider.close()

    // --- being ready ---

    /** Throws what is wrong. */
    fun ping(): Boolean = metrics.ping(id)

    /** Whether it answers; never throws. */
    fun isHealthy(): Boolean =
        try {
            ping()
        } catch (_: SandboxException) {
            false
        }

    /** Waits until it answers. One that failed or ended is an error at once. */
    fun checkReady(
        timeout: Duration,
        pollingInterval: Duration,
    ) = waitUntilReady(timeout, pollingInterval, null)

    private fun waitUntilReady(
        timeout: Duration,
        pollingInterval: Duration,
        healthCheck: ((Sandbox) -> Boolean)?,
    ) {
        val end = System.nanoTime() + timeout.toNanos()
        val pauses = Pauses(maxOf(1, pollingInterval.toMillis()))
        var nextLook = System.nanoTime()
        var attempts = 0
        while (true) {
            attempts++
            val why =
                try {
                    if (if (healthCheck != null) healthCheck(this) else ping()) return
                    "The health check returned false."
                } catch (e: CancellationException) {
                    throw e
                } catch (e: Exception) {
                    "Last health check error: ${e.message}"
                }
            if (System.nanoTime() - nextLook >= 0) {
                throwIfEnded()
                nextLook = System.nanoTime() + LOOK_NANOS
            }
            val left = end - System.nanoTime()
            if (left <= 0) throw notReady(timeout, attempts, why)
            pauses.pause(left / NANOS_PER_MS + 1)
        }
    }

    private fun throwIfEnded() {
        val info =
            try {
                sandboxes.look(id)
            } catch (e: SandboxException) {
                if (e.isNotFound()) throw e
                return // the next look may tell
            }
        if (hasEnded(info)) throw unhealthy(info)
    }

    private fun notReady(
        timeout: Duration,
        attempts: Int,
        why: String,
    ): SandboxReadyTimeoutException {
        val hint =
            if (config.useServerProxy) {
                ""
            } else {
                " If sandboxes cannot be reached from here, use useServerProxy(true), or set [docker].host_ip on the server."
            }
        return SandboxReadyTimeoutException(
            "Sandbox $id was not ready within ${timeout.toMillis() / MS_PER_SECOND} s ($attempts attempts). $why " +
                "Connection: domain=${config.getDomain()}, useServerProxy=${config.useServerProxy}.$hint",
        )
    }

    /** Waits until the server reports a state, for example Paused. */
    @JvmOverloads
    fun waitForState(
        state: String,
        timeout: Duration = Duration.ofSeconds(STATE_TIMEOUT_SECONDS),
    ): SandboxInfo {
        val end = System.nanoTime() + timeout.toNanos()
        val pauses = Pauses()
        while (true) {
            val info = getInfo()
            if (info.status.state == state) return info
            if (hasEnded(info)) throw unhealthy(info)
            if (System.nanoTime() - end >= 0) {
                throw SandboxReadyTimeoutException("sandbox $id is ${info.status.state}, not $state, after $timeout")
            }
            pauses.pause()
        }
    }

    // --- making one ---

    /** How it is waited for. */
    abstract class Ready<T : Ready<T>> internal constructor() {
        internal var config: ConnectionConfig? = null
        internal var readyTimeout: Duration = Duration.ofSeconds(READY_TIMEOUT_SECONDS)
        internal var pollingInterval: Duration = Duration.ofMillis(POLLING_MS)
        internal var healthCheck: ((Sandbox) -> Boolean)? = null
        internal var skipHealthCheck = false

        @Suppress("UNCHECKED_CAST")
        internal fun self(change: () -> Unit): T {
            change()
            return this as T
        }

        fun connectionConfig(connectionConfig: ConnectionConfig): T = self { config = connectionConfig }

        /** The longest pause between two checks; 200 ms unless given. */
        fun healthCheckPollingInterval(interval: Duration): T = self { pollingInterval = interval }

        /** Takes the place of the ping. An exception counts as "not yet". */
        fun healthCheck(healthCheck: (Sandbox) -> Boolean): T = self { this.healthCheck = healthCheck }

        @JvmOverloads
        fun skipHealthCheck(skipHealthCheck: Boolean = true): T = self { this.skipHealthCheck = skipHealthCheck }

        internal fun <R> using(work: (HttpClientProvider, SandboxesAdapter) -> R): R {
            val config = this.config ?: ConnectionConfig.builder().build()
            this.config = config
            val provider = HttpClientProvider(config)
            try {
                return work(provider, SandboxesAdapter(lifecycleApi(config)))
            } catch (e: Throwable) {
                provider.close()
                throw if (e is SandboxException || e is CancellationException || e is Error) {
                    e
                } else {
                    SandboxInternalException(e.message ?: e.toString(), e)
                }
            }
        }

        internal fun open(
            id: String,
            provider: HttpClientProvider,
            sandboxes: SandboxesAdapter,
            execdPort: Int = EXECD_PORT,
        ): Sandbox {
            val config = this.config!!
            val endpoint = sandboxes.getSandboxEndpoint(id, execdPort, config.useServerProxy)
            val sandbox = Sandbox(id, config, provider, sandboxes, endpoint)
            if (!skipHealthCheck) sandbox.waitUntilReady(readyTimeout, pollingInterval, healthCheck)
            return sandbox
        }
    }

    /** Creates a sandbox. */
    class Builder internal constructor() : SandboxSpec<Builder>() {
        /** How long to wait until it answers; 30 s unless given. */
        fun readyTimeout(timeout: Duration): Builder = self { readyTimeout = timeout }

        /** Creates the sandbox and waits until it is ready. */
        fun build(): Sandbox {
            val request = request()
            return using { provider, sandboxes -> create(request, provider, sandboxes) }
        }

        private fun create(
            request: CreateSandboxRequest,
            provider: HttpClientProvider,
            sandboxes: SandboxesAdapter,
        ): Sandbox {
            val made = sandboxes.createSandbox(request, idempotencyKey)
            if (made.id.isBlank()) throw SandboxInternalException("the server's answer has no id")
            try {
                if (made.status.state == SandboxState.FAILED) throw unhealthy(sandboxes.getSandboxInfo(made.id))
                return open(made.id, provider, sandboxes)
            } catch (e: Throwable) {
                removeQuietly(made.id, sandboxes)
                throw e
            }
        }

        /** On a thread of its own: the one that made it may be cancelled. */
        private fun removeQuietly(
            id: String,
            sandboxes: SandboxesAdapter,
        ) {
            val remover =
                Thread({
                    try {
                        sandboxes.killSandbox(id)
                    } catch (_: SandboxException) {
                        // the error that led here counts
                    }
                }, "opensandbox-cleanup")
            remover.isDaemon = true
            remover.start()
            try {
                remover.join(CLEANUP_MS)
            } catch (_: InterruptedException) {
                Thread.currentThread().interrupt()
            }
        }
    }

    /** Connects to a sandbox that is there. */
    class Connector internal constructor() : Ready<Connector>() {
        private var id: String? = null
        private var execdPort = EXECD_PORT

        fun sandboxId(sandboxId: String): Connector = self { id = sandboxId }

        /** How long to wait until it answers; 30 s unless given. */
        fun connectTimeout(timeout: Duration): Connector = self { readyTimeout = timeout }

        fun execdPort(port: Int): Connector = self { execdPort = port }

        fun connect(): Sandbox {
            val id = Api.needText("sandboxId", id)
            return using { provider, sandboxes -> open(id, provider, sandboxes, execdPort) }
        }
    }

    /** Lets a paused sandbox go on, then connects to it. */
    class Resumer internal constructor() : Ready<Resumer>() {
        private var id: String? = null
        private var execdPort = EXECD_PORT

        fun sandboxId(sandboxId: String): Resumer = self { id = sandboxId }

        fun resumeTimeout(timeout: Duration): Resumer = self { readyTimeout = timeout }

        fun execdPort(port: Int): Resumer = self { execdPort = port }

        fun resume(): Sandbox {
            val id = Api.needText("sandboxId", id)
            return using { provider, sandboxes ->
                sandboxes.resumeSandbox(id)
                open(id, provider, sandboxes, execdPort)
            }
        }
    }

    companion object {
        /** The port of the daemon that runs in every sandbox. */
        const val EXECD_PORT = 44772
        private const val EGRESS_PORT = 18080
        private const val READY_TIMEOUT_SECONDS = 30L
        private const val STATE_TIMEOUT_SECONDS = 60L
        private const val POLLING_MS = 200L
        private const val LOOK_NANOS = 200_000_000L
        private const val NANOS_PER_MS = 1_000_000L
        private const val MS_PER_SECOND = 1000.0
        private const val CLEANUP_MS = 10_000L

        @JvmStatic
        fun builder(): Builder = Builder()

        @JvmStatic
        fun connector(): Connector = Connector()

        @JvmStatic
        fun resumer(): Resumer = Resumer()

        internal fun lifecycleApi(config: ConnectionConfig) = Api(config, config.getBaseUrl(), emptyMap(), config.getApiKey())

        private fun hasEnded(info: SandboxInfo) =
            info.status.state == SandboxState.FAILED || info.status.state == SandboxState.TERMINATED

        private fun unhealthy(info: SandboxInfo): SandboxUnhealthyException {
            val why = listOfNotNull(info.status.reason, info.status.message).joinToString(": ")
            return SandboxUnhealthyException("sandbox ${info.id} is ${info.status.state}${if (why.isEmpty()) "" else ": $why"}")
        }

        internal fun invalid(message: String): Nothing = throw InvalidArgumentException(message)
    }
}
