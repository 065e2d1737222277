package com.alibaba.opensandbox.sandbox

import com.alibaba.opensandbox.sandbox.config.ConnectionConfig
import com.alibaba.opensandbox.sandbox.infrastructure.http.Transport
import okhttp3.OkHttpClient

/** The OkHttp clients of a configuration, for requests of a program's own. */
class HttpClientProvider internal constructor(
    private val config: ConnectionConfig,
) : AutoCloseable {
    private val lease = config.transport.lease()

    /** For requests into sandboxes; the API key is not sent. */
    val httpClient: OkHttpClient get() = config.transport.client

    /** Adds the API key: for the server only. */
    val authenticatedClient: OkHttpClient by lazy {
        val key = config.getApiKey()
        if (key.isEmpty()) return@lazy httpClient
        httpClient
            .newBuilder()
            .addInterceptor { chain ->
                chain.proceed(
                    chain
                        .request()
                        .newBuilder()
                        .header(Transport.API_KEY_HEADER, key)
                        .build(),
                )
            }.build()
    }

    /** Has no time limit on an answer. */
    val sseClient: OkHttpClient get() = config.transport.streamClient

    internal val isClosed: Boolean get() = lease.isClosed

    /** Gives the connections back. */
    override fun close() = lease.close()
}
