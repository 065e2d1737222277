package com.alibaba.opensandbox.sandbox

import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialProxyConfig
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkPolicy
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PlatformSpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxImageSpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.Volume
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.toWire
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CreateSandboxRequest
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Platform
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Secret
import java.time.Duration
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CredentialProxyConfig as WireCredentialProxyConfig

/** What a sandbox is made of. */
abstract class SandboxSpec<T : SandboxSpec<T>> internal constructor() : Sandbox.Ready<T>() {
    private var image: SandboxImageSpec? = null
    private var snapshotId: String? = null
    private var entrypoint: List<String>? = null
    private val resource = LinkedHashMap<String, String>()
    private val env = LinkedHashMap<String, String>()
    private val metadata = LinkedHashMap<String, String>()
    private var networkPolicy: NetworkPolicy? = null
    private var credentialProxy: CredentialProxyConfig? = null
    private val secretEnv = LinkedHashMap<String, Secret>()
    internal var idempotencyKey: String? = null
        private set
    private var secureAccess = false
    private var platform: PlatformSpec? = null
    private val volumes = ArrayList<Volume>()
    private val extensions = LinkedHashMap<String, String>()
    private var timeout: Duration? = Duration.ofSeconds(TIMEOUT_SECONDS)
    private var persistent = false
    private var onExpiry: String? = null

    /** Such as `python:3.12`. Exactly one of an image and a snapshot is needed. */
    fun image(image: String): T = self { this.image = SandboxImageSpec(image) }

    fun imageSpec(imageSpec: SandboxImageSpec): T = self { image = imageSpec }

    fun snapshotId(snapshotId: String): T = self { this.snapshotId = snapshotId }

    /** `tail -f /dev/null` unless given; that of the snapshot, if it is made of one. */
    fun entrypoint(entrypoint: List<String>): T = self { this.entrypoint = entrypoint.toList() }

    fun entrypoint(vararg entrypoint: String): T = entrypoint(entrypoint.toList())

    /** Limits; one CPU and 2Gi unless given. */
    fun resource(resource: Map<String, String>): T = self { this.resource.putAll(resource) }

    fun resource(fill: MutableMap<String, String>.() -> Unit): T = self { resource.fill() }

    fun env(
        key: String,
        value: String,
    ): T = self { env[key] = value }

    fun env(env: Map<String, String>): T = self { this.env.putAll(env) }

    fun env(fill: MutableMap<String, String>.() -> Unit): T = self { env.fill() }

    fun metadata(
        key: String,
        value: String,
    ): T = self { metadata[key] = value }

    fun metadata(metadata: Map<String, String>): T = self { this.metadata.putAll(metadata) }

    fun metadata(fill: MutableMap<String, String>.() -> Unit): T = self { metadata.fill() }

    fun networkPolicy(networkPolicy: NetworkPolicy): T = self { this.networkPolicy = networkPolicy }

    fun networkPolicy(configure: NetworkPolicy.Builder.() -> Unit): T = networkPolicy(NetworkPolicy.builder().apply(configure).build())

    fun credentialProxy(credentialProxy: CredentialProxyConfig): T = self { this.credentialProxy = credentialProxy }

    fun credentialProxy(configure: CredentialProxyConfig.Builder.() -> Unit): T =
        credentialProxy(CredentialProxyConfig.builder().apply(configure).build())

    @JvmOverloads
    fun credentialProxyEnabled(enabled: Boolean = true): T = credentialProxy(CredentialProxyConfig(enabled))

    /** A secret that the code inside never holds: the variable has a placeholder, and requests to these hosts carry the value. */
    fun secretEnv(
        name: String,
        value: String,
        hosts: List<String>,
    ): T = self { secretEnv[name] = Secret(value, hosts.toList()) }

    /**
     * Makes the create safe to repeat: a second one with the key and the same settings returns the sandbox of the
     * first, for a day. The client then repeats it like a GET.
     */
    fun idempotencyKey(key: String): T = self { idempotencyKey = key }

    /** Ports of the sandbox ask for a token even on an open server. */
    @JvmOverloads
    fun secureAccess(secureAccess: Boolean = true): T = self { this.secureAccess = secureAccess }

    fun platform(platform: PlatformSpec): T = self { this.platform = platform }

    fun platform(configure: PlatformSpec.Builder.() -> Unit): T = platform(PlatformSpec.builder().apply(configure).build())

    fun volume(volume: Volume): T = self { volumes.add(volume) }

    fun volume(configure: Volume.Builder.() -> Unit): T = volume(Volume.builder().apply(configure).build())

    fun volumes(volumes: List<Volume>): T = self { this.volumes.addAll(volumes) }

    fun extension(
        key: String,
        value: String,
    ): T = self { extensions[key] = value }

    fun extensions(extensions: Map<String, String>): T = self { this.extensions.putAll(extensions) }

    fun extensions(fill: MutableMap<String, String>.() -> Unit): T = self { extensions.fill() }

    /** It expires after so long; 10 minutes unless given, null: never. */
    fun timeout(timeout: Duration?): T = self { this.timeout = timeout }

    /** It does not expire. */
    fun manualCleanup(): T = timeout(null)

    /** Its files stay when it is stopped. */
    @JvmOverloads
    fun persistent(persistent: Boolean = true): T = self { this.persistent = persistent }

    /** What happens at its end: `delete`, or `stop` of a persistent one. */
    fun onExpiry(onExpiry: String): T = self { this.onExpiry = onExpiry }

    internal fun request(): CreateSandboxRequest {
        if ((image == null) == (snapshotId == null)) Sandbox.invalid("exactly one of image and snapshotId must be given")
        if (snapshotId?.isBlank() == true) Sandbox.invalid("snapshotId must not be blank")
        idempotencyKey?.let { if (!KEY.matches(it)) Sandbox.invalid(BAD_KEY) }
        timeout?.let { if (it.isNegative || it.isZero) Sandbox.invalid("timeout must be positive, or null for none") }
        return CreateSandboxRequest(
            image = image?.toWire(),
            snapshotId = snapshotId,
            persistent = true.takeIf { persistent },
            onExpiry = onExpiry,
            platform = platform?.let { Platform(it.os, it.arch) },
            timeout = timeout?.seconds,
            resourceLimits = resource.ifEmpty { DEFAULT_RESOURCE },
            env = env.takeIf { it.isNotEmpty() },
            metadata = metadata.takeIf { it.isNotEmpty() },
            entrypoint = entrypoint ?: DEFAULT_ENTRYPOINT.takeIf { image != null },
            networkPolicy = networkPolicy?.toWire(),
            credentialProxy = credentialProxy?.let { WireCredentialProxyConfig(it.enabled) },
            secretEnv = secretEnv.takeIf { it.isNotEmpty() },
            secureAccess = true.takeIf { secureAccess },
            volumes = volumes.takeIf { it.isNotEmpty() }?.map { it.toWire() },
            extensions = extensions.takeIf { it.isNotEmpty() },
        )
    }

    private companion object {
        const val TIMEOUT_SECONDS = 600L
        const val BAD_KEY = "idempotencyKey must be 1 to 255 printable ASCII characters, without spaces around"
        val KEY = Regex("[!-~]([ -~]{0,253}[!-~])?")
        val DEFAULT_ENTRYPOINT = listOf("tail", "-f", "/dev/null")
        val DEFAULT_RESOURCE = mapOf("cpu" to "1", "memory" to "2Gi")
    }
}
