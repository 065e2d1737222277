package com.alibaba.opensandbox.sandbox.domain.models.sandboxes

/** A secret that is given as it is; it is not shown. */
class InlineCredentialSource private constructor(
    val value: String,
) {
    val type: String get() = "inline"

    override fun toString(): String = "InlineCredentialSource(***)"

    companion object {
        @JvmStatic
        fun of(value: String): InlineCredentialSource = InlineCredentialSource(value)
    }
}

/** A secret with a name. */
class Credential(
    val name: String,
    val source: InlineCredentialSource,
) {
    override fun toString(): String = "Credential($name)"

    class Builder internal constructor() {
        private var name: String? = null
        private var source: InlineCredentialSource? = null

        fun name(name: String) = apply { this.name = name }

        fun source(source: InlineCredentialSource) = apply { this.source = source }

        fun inlineSource(value: String) = apply { this.source = InlineCredentialSource.of(value) }

        fun build() =
            Credential(
                requireNotNull(name?.takeIf { it.isNotBlank() }) { "the name of a credential must not be blank" },
                requireNotNull(source) { "a credential needs a source" },
            )
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** Which requests get a secret. */
class CredentialMatch private constructor(
    builder: Builder,
) {
    val schemes: List<String>? = builder.schemes
    val ports: List<Int>? = builder.ports
    val hosts: List<String> = builder.hosts.toList()
    val methods: List<String>? = builder.methods
    val paths: List<String>? = builder.paths

    init {
        require(hosts.isNotEmpty()) { "a match needs a host" }
    }

    class Builder internal constructor() {
        internal var schemes: List<String>? = null
        internal var ports: List<Int>? = null
        internal val hosts = ArrayList<String>()
        internal var methods: List<String>? = null
        internal var paths: List<String>? = null

        fun schemes(vararg schemes: String) = apply { this.schemes = schemes.toList() }

        fun schemes(schemes: List<String>?) = apply { this.schemes = schemes }

        fun ports(ports: List<Int>?) = apply { this.ports = ports }

        fun hosts(vararg hosts: String) = apply { this.hosts.addAll(hosts) }

        fun hosts(hosts: List<String>) = apply { this.hosts.addAll(hosts) }

        fun methods(vararg methods: String) = apply { this.methods = methods.toList() }

        fun methods(methods: List<String>?) = apply { this.methods = methods }

        fun paths(vararg paths: String) = apply { this.paths = paths.toList() }

        fun paths(paths: List<String>?) = apply { this.paths = paths }

        fun build() = CredentialMatch(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

data class CustomHeaderEntry(
    val name: String,
    val credential: String,
)

/** A text in requests that the secret takes the place of. */
data class CredentialSubstitution(
    val credential: String,
    val placeholder: String,
    /** `path`, `query`, `header`, `body`. */
    val surfaces: List<String>,
)

/** How a secret is put into requests. */
data class CredentialAuth
    @JvmOverloads
    constructor(
        /** `bearer`, `basic`, `apiKey`, `customHeaders` or `passthrough`. */
        val type: String,
        val credential: String? = null,
        /** Of `apiKey`: the header. */
        val name: String? = null,
        val headers: List<CustomHeaderEntry>? = null,
        val substitutions: List<CredentialSubstitution>? = null,
    ) {
        companion object {
            @JvmStatic
            fun bearer(credential: String) = CredentialAuth("bearer", credential)

            @JvmStatic
            fun basic(credential: String) = CredentialAuth("basic", credential)

            @JvmStatic
            fun apiKey(
                name: String,
                credential: String,
            ) = CredentialAuth("apiKey", credential, name)

            @JvmStatic
            fun customHeaders(headers: List<CustomHeaderEntry>) = CredentialAuth("customHeaders", headers = headers)
        }
    }

/** Which requests get which secret, and how. */
class CredentialBinding(
    val name: String,
    val match: CredentialMatch,
    val auth: CredentialAuth,
) {
    class Builder internal constructor() {
        private var name: String? = null
        private var match: CredentialMatch? = null
        private var auth: CredentialAuth? = null

        fun name(name: String) = apply { this.name = name }

        fun match(match: CredentialMatch) = apply { this.match = match }

        fun match(configure: CredentialMatch.Builder.() -> Unit) = match(CredentialMatch.builder().apply(configure).build())

        fun auth(auth: CredentialAuth) = apply { this.auth = auth }

        fun build() =
            CredentialBinding(
                requireNotNull(name?.takeIf { it.isNotBlank() }) { "the name of a binding must not be blank" },
                requireNotNull(match) { "a binding needs a match" },
                requireNotNull(auth) { "a binding needs an auth" },
            )
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

data class CredentialMetadata(
    val name: String,
    val sourceType: String,
    val revision: Long,
)

data class CredentialAuthMetadata(
    val type: String,
    val name: String? = null,
)

class CredentialBindingMetadata(
    val name: String,
    val revision: Long,
    val match: CredentialMatch?,
    val auth: CredentialAuthMetadata?,
)

/** A vault, without its secrets. */
class CredentialVaultState(
    val revision: Long,
    val credentials: List<CredentialMetadata>,
    val bindings: List<CredentialBindingMetadata>,
)

class CredentialVaultCreateRequest
    @JvmOverloads
    constructor(
        val credentials: List<Credential> = emptyList(),
        val bindings: List<CredentialBinding> = emptyList(),
    )

class CredentialMutationSet
    @JvmOverloads
    constructor(
        val add: List<Credential>? = null,
        val replace: List<Credential>? = null,
        val delete: List<String>? = null,
    )

class CredentialBindingMutationSet
    @JvmOverloads
    constructor(
        val add: List<CredentialBinding>? = null,
        val replace: List<CredentialBinding>? = null,
        val delete: List<String>? = null,
    )

/** Changes of a vault, all or none. */
class CredentialVaultPatchRequest
    @JvmOverloads
    constructor(
        /** Refused when the vault has another one. */
        val expectedRevision: Long? = null,
        val credentials: CredentialMutationSet? = null,
        val bindings: CredentialBindingMutationSet? = null,
    )
