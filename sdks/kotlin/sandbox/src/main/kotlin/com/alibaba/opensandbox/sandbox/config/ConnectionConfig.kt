package com.alibaba.opensandbox.sandbox.config

import com.alibaba.opensandbox.sandbox.domain.exceptions.InvalidArgumentException
import com.alibaba.opensandbox.sandbox.infrastructure.http.Transport
import okhttp3.ConnectionPool
import java.time.Duration
import java.util.Locale
import java.util.Properties

/**
 * Where the server is and how it is talked to. Sandboxes and managers of one configuration share
 * its connections; the last of them that is closed ends those, unless the pool was given.
 */
class ConnectionConfig private constructor(
    builder: Builder,
) {
    private val key: String = builder.apiKey ?: environment("API_KEY") ?: ""
    private val domainAsGiven: String = builder.domain ?: environment("DOMAIN") ?: DEFAULT_DOMAIN
    private val givenPool: ConnectionPool? = builder.connectionPool

    /** How long a request may take; streams are exempt. */
    val requestTimeout: Duration = builder.requestTimeout

    /** Whether every request is logged. */
    val debug: Boolean = builder.debug

    /** Sent with every request to the server and into sandboxes. */
    val headers: Map<String, String> = LinkedHashMap(builder.headers)

    /** Whether sandboxes are reached through the server. */
    val useServerProxy: Boolean = builder.useServerProxy

    /** How often a call that may be repeated is. */
    val maxRetries: Int = builder.maxRetries

    /** The pause before the first repetition; it doubles. */
    val retryBackoff: Duration = builder.retryBackoff

    /** A stream whose pings stay away for so long counts as broken; zero: never. */
    val streamIdleTimeout: Duration = builder.streamIdleTimeout

    /** The scheme of requests, into sandboxes too: that of the domain, if it has one. */
    val protocol: String
    private val authorityAndPath: String

    init {
        val given = domainAsGiven.trim()
        val cut = given.indexOf("://")
        val named = if (cut >= 0) given.substring(0, cut) else builder.protocol ?: environment("PROTOCOL") ?: "http"
        protocol = named.lowercase(Locale.ROOT)
        if (protocol != "http" && protocol != "https") {
            throw InvalidArgumentException("protocol must be http or https, not '$named'")
        }
        val rest = (if (cut >= 0) given.substring(cut + SCHEME_MARK) else given).trimEnd('/')
        authorityAndPath = rest.removeSuffix("/v1").trimEnd('/')
        if (authorityAndPath.isEmpty()) throw InvalidArgumentException("domain must not be blank")
        if (requestTimeout.isZero || requestTimeout.isNegative) {
            throw InvalidArgumentException("requestTimeout must be positive")
        }
        if (maxRetries < 0) throw InvalidArgumentException("maxRetries must not be negative")
    }

    internal val transport: Transport by lazy { Transport(this, givenPool) }

    /** The key; OPEN_SANDBOX_API_KEY unless it was given; empty: none is sent. */
    fun getApiKey(): String = key

    /** The domain; OPEN_SANDBOX_DOMAIN unless it was given. */
    fun getDomain(): String = domainAsGiven

    /** The base URL of the lifecycle API. */
    fun getBaseUrl(): String = "$protocol://$authorityAndPath/v1"

    /** The same settings with connections of its own. */
    fun copyWithoutConnectionPool(): ConnectionConfig =
        builder()
            .apiKey(key)
            .domain(domainAsGiven)
            .protocol(protocol)
            .requestTimeout(requestTimeout)
            .debug(debug)
            .headers(headers)
            .useServerProxy(useServerProxy)
            .maxRetries(maxRetries)
            .retryBackoff(retryBackoff)
            .streamIdleTimeout(streamIdleTimeout)
            .build()

    /** Makes a [ConnectionConfig]. */
    class Builder internal constructor() {
        internal var apiKey: String? = null
        internal var domain: String? = null
        internal var protocol: String? = null
        internal var requestTimeout: Duration = Duration.ofSeconds(DEFAULT_TIMEOUT_SECONDS)
        internal var connectionPool: ConnectionPool? = null
        internal var debug = false
        internal val headers = LinkedHashMap<String, String>()
        internal var useServerProxy = false
        internal var maxRetries = DEFAULT_RETRIES
        internal var retryBackoff: Duration = Duration.ofMillis(DEFAULT_BACKOFF_MS)
        internal var streamIdleTimeout: Duration = Duration.ofSeconds(DEFAULT_TIMEOUT_SECONDS)

        fun apiKey(apiKey: String?) = apply { this.apiKey = apiKey }

        /** `host[:port][/path]`; a scheme before it wins over [protocol]. */
        fun domain(domain: String?) = apply { this.domain = domain }

        /** http or https; OPEN_SANDBOX_PROTOCOL, then http, unless given. */
        fun protocol(protocol: String?) = apply { this.protocol = protocol }

        fun requestTimeout(requestTimeout: Duration) = apply { this.requestTimeout = requestTimeout }

        /** Connections shared with other clients; they stay open when this one is closed. */
        fun connectionPool(connectionPool: ConnectionPool) = apply { this.connectionPool = connectionPool }

        @JvmOverloads
        fun debug(debug: Boolean = true) = apply { this.debug = debug }

        fun headers(headers: Map<String, String>) =
            apply {
                this.headers.clear()
                this.headers.putAll(headers)
            }

        fun headers(fill: MutableMap<String, String>.() -> Unit) = apply { headers.fill() }

        fun addHeader(
            name: String,
            value: String,
        ) = apply { headers[name] = value }

        @JvmOverloads
        fun useServerProxy(useServerProxy: Boolean = true) = apply { this.useServerProxy = useServerProxy }

        /** 3 unless given; 0: nothing is repeated. */
        fun maxRetries(maxRetries: Int) = apply { this.maxRetries = maxRetries }

        /** 100 ms unless given. */
        fun retryBackoff(retryBackoff: Duration) = apply { this.retryBackoff = retryBackoff }

        /** 30 s unless given; zero switches it off. */
        fun streamIdleTimeout(streamIdleTimeout: Duration) = apply { this.streamIdleTimeout = streamIdleTimeout }

        fun build(): ConnectionConfig = ConnectionConfig(this)
    }

    companion object {
        private const val DEFAULT_DOMAIN = "localhost:8080"
        private const val DEFAULT_TIMEOUT_SECONDS = 30L
        private const val DEFAULT_RETRIES = 3
        private const val DEFAULT_BACKOFF_MS = 100L
        private const val SCHEME_MARK = 3

        @JvmStatic
        fun builder(): Builder = Builder()

        /** The version of this SDK. */
        @JvmStatic
        val version: String by lazy {
            val properties = Properties()
            ConnectionConfig::class.java.getResourceAsStream("/opensandbox-sdk.properties")?.use(properties::load)
            properties.getProperty("version", "0")
        }

        /** A system property of the name wins over the variable. */
        private fun environment(name: String): String? =
            (System.getProperty("OPEN_SANDBOX_$name") ?: System.getenv("OPEN_SANDBOX_$name"))?.takeIf { it.isNotEmpty() }
    }
}
