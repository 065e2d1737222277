package com.alibaba.opensandbox.sandbox.domain.models.sandboxes

private val ABSOLUTE = Regex("^(/|[A-Za-z]:[\\\\/])")

private fun checkText(
    what: String,
    value: String?,
): String {
    require(!value.isNullOrBlank()) { "$what must not be blank" }
    return value
}

/** Who may pull an image. */
class SandboxImageAuth(
    val username: String,
    val password: String,
) {
    override fun toString(): String = "SandboxImageAuth(username=$username)"

    class Builder internal constructor() {
        private var username: String? = null
        private var password: String? = null

        fun username(username: String) = apply { this.username = username }

        fun password(password: String) = apply { this.password = password }

        fun build() = SandboxImageAuth(checkText("username", username), checkText("password", password))
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** An image, and who may pull it. */
data class SandboxImageSpec
    @JvmOverloads
    constructor(
        val image: String,
        val auth: SandboxImageAuth? = null,
        /** `IfNotPresent`, `Always` or `Never`. */
        val pullPolicy: String? = null,
    ) {
        init {
            checkText("image", image)
        }

        class Builder internal constructor() {
            private var image: String? = null
            private var auth: SandboxImageAuth? = null
            private var pullPolicy: String? = null

            fun image(image: String) = apply { this.image = image }

            fun auth(auth: SandboxImageAuth?) = apply { this.auth = auth }

            fun auth(
                username: String,
                password: String,
            ) = apply { this.auth = SandboxImageAuth(username, password) }

            fun pullPolicy(pullPolicy: String?) = apply { this.pullPolicy = pullPolicy }

            fun build() = SandboxImageSpec(checkText("image", image), auth, pullPolicy)
        }

        companion object {
            @JvmStatic
            fun builder(): Builder = Builder()
        }
    }

/** What a sandbox runs on. */
data class PlatformSpec(
    /** `linux` or `windows`. */
    val os: String,
    /** `amd64` or `arm64`. */
    val arch: String,
) {
    class Builder internal constructor() {
        private var os: String? = null
        private var arch: String? = null

        fun os(os: String) = apply { this.os = os }

        fun arch(arch: String) = apply { this.arch = arch }

        fun build() = PlatformSpec(checkText("os", os), checkText("arch", arch))
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** Whether a sandbox may talk to a host. */
data class NetworkRule(
    val action: Action,
    /** A host name, `*.domain`, or, where the server takes them, an address or a CIDR. */
    val target: String,
) {
    init {
        checkText("target", target)
    }

    enum class Action { ALLOW, DENY }

    class Builder internal constructor() {
        private var action = Action.ALLOW
        private var target: String? = null

        fun action(action: Action) = apply { this.action = action }

        fun target(target: String) = apply { this.target = target }

        fun build() = NetworkRule(action, checkText("target", target))
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** What a sandbox may talk to. */
data class NetworkPolicy
    @JvmOverloads
    constructor(
        val defaultAction: DefaultAction = DefaultAction.DENY,
        val egress: List<NetworkRule> = emptyList(),
    ) {
        enum class DefaultAction { ALLOW, DENY }

        class Builder internal constructor() {
            private var defaultAction = DefaultAction.DENY
            private val egress = ArrayList<NetworkRule>()

            fun defaultAction(defaultAction: DefaultAction) = apply { this.defaultAction = defaultAction }

            fun addEgress(rule: NetworkRule) = apply { egress.add(rule) }

            fun addEgress(configure: NetworkRule.Builder.() -> Unit) = addEgress(NetworkRule.builder().apply(configure).build())

            fun egress(rules: List<NetworkRule>) =
                apply {
                    egress.clear()
                    egress.addAll(rules)
                }

            fun build() = NetworkPolicy(defaultAction, egress.toList())
        }

        companion object {
            @JvmStatic
            fun builder(): Builder = Builder()
        }
    }

/** Lets the credential vault add secrets to requests; needs a network policy. */
data class CredentialProxyConfig(
    val enabled: Boolean,
) {
    class Builder internal constructor() {
        private var enabled = false

        @JvmOverloads
        fun enabled(enabled: Boolean = true) = apply { this.enabled = enabled }

        fun build() = CredentialProxyConfig(enabled)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()

        @JvmStatic
        fun enabled(): CredentialProxyConfig = CredentialProxyConfig(true)
    }
}

/** A directory of the server's machine. */
data class Host(
    val path: String,
) {
    init {
        require(ABSOLUTE.containsMatchIn(path)) { "the path of a host volume must be absolute, not '$path'" }
    }

    companion object {
        @JvmStatic
        fun of(path: String): Host = Host(path)
    }
}

/** A named volume. */
data class PVC
    @JvmOverloads
    constructor(
        val claimName: String,
        val createIfNotExists: Boolean? = null,
        val deleteOnSandboxTermination: Boolean? = null,
        val storageClass: String? = null,
        val storage: String? = null,
        val accessModes: List<String>? = null,
    ) {
        init {
            checkText("claimName", claimName)
        }

        class Builder internal constructor() {
            private var claimName: String? = null
            private var createIfNotExists: Boolean? = null
            private var deleteOnSandboxTermination: Boolean? = null
            private var storageClass: String? = null
            private var storage: String? = null
            private var accessModes: List<String>? = null

            fun claimName(claimName: String) = apply { this.claimName = claimName }

            /** The server takes true unless given. */
            fun createIfNotExists(create: Boolean) = apply { createIfNotExists = create }

            /** The server takes false unless given. */
            fun deleteOnSandboxTermination(delete: Boolean) = apply { deleteOnSandboxTermination = delete }

            fun storageClass(storageClass: String?) = apply { this.storageClass = storageClass }

            fun storage(storage: String?) = apply { this.storage = storage }

            fun accessModes(accessModes: List<String>?) = apply { this.accessModes = accessModes }

            fun build() =
                PVC(
                    checkText("claimName", claimName),
                    createIfNotExists,
                    deleteOnSandboxTermination,
                    storageClass,
                    storage,
                    accessModes,
                )
        }

        companion object {
            @JvmStatic
            fun of(claimName: String): PVC = PVC(claimName)

            @JvmStatic
            fun builder(): Builder = Builder()
        }
    }

/** A bucket of an object store. */
class OSSFS private constructor(
    builder: Builder,
) {
    val bucket: String = checkText("bucket", builder.bucket)
    val endpoint: String = checkText("endpoint", builder.endpoint)
    val accessKeyId: String = checkText("accessKeyId", builder.accessKeyId)
    val accessKeySecret: String = checkText("accessKeySecret", builder.accessKeySecret)

    /** `1.0` or `2.0`; the server takes 2.0 unless given. */
    val version: String? = builder.version
    val options: List<String>? = builder.options

    override fun toString(): String = "OSSFS(bucket=$bucket, endpoint=$endpoint)"

    class Builder internal constructor() {
        internal var bucket: String? = null
        internal var endpoint: String? = null
        internal var accessKeyId: String? = null
        internal var accessKeySecret: String? = null
        internal var version: String? = null
        internal var options: List<String>? = null

        fun bucket(bucket: String) = apply { this.bucket = bucket }

        fun endpoint(endpoint: String) = apply { this.endpoint = endpoint }

        fun accessKeyId(accessKeyId: String) = apply { this.accessKeyId = accessKeyId }

        fun accessKeySecret(accessKeySecret: String) = apply { this.accessKeySecret = accessKeySecret }

        fun version(version: String?) = apply { this.version = version }

        fun options(options: List<String>?) = apply { this.options = options }

        fun build() = OSSFS(this)
    }

    companion object {
        const val VERSION_1_0 = "1.0"
        const val VERSION_2_0 = "2.0"

        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** Storage that a sandbox has at a path; of exactly one kind. */
class Volume private constructor(
    builder: Builder,
) {
    val name: String = checkText("the name of a volume", builder.name)
    val mountPath: String = checkText("mountPath", builder.mountPath)
    val host: Host? = builder.host
    val pvc: PVC? = builder.pvc
    val ossfs: OSSFS? = builder.ossfs
    val readOnly: Boolean = builder.readOnly
    val subPath: String? = builder.subPath

    init {
        require(listOfNotNull(host, pvc, ossfs).size == 1) { "volume $name must have exactly one of host, pvc and ossfs" }
        require(ABSOLUTE.containsMatchIn(mountPath)) { "volume $name: mountPath must be absolute, not '$mountPath'" }
    }

    class Builder internal constructor() {
        internal var name: String? = null
        internal var mountPath: String? = null
        internal var host: Host? = null
        internal var pvc: PVC? = null
        internal var ossfs: OSSFS? = null
        internal var readOnly = false
        internal var subPath: String? = null

        fun name(name: String) = apply { this.name = name }

        fun mountPath(mountPath: String) = apply { this.mountPath = mountPath }

        fun host(host: Host?) = apply { this.host = host }

        fun pvc(pvc: PVC?) = apply { this.pvc = pvc }

        fun ossfs(ossfs: OSSFS?) = apply { this.ossfs = ossfs }

        @JvmOverloads
        fun readOnly(readOnly: Boolean = true) = apply { this.readOnly = readOnly }

        fun subPath(subPath: String?) = apply { this.subPath = subPath }

        fun build() = Volume(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}
