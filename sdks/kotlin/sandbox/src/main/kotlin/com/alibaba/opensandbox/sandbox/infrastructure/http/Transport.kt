package com.alibaba.opensandbox.sandbox.infrastructure.http

import com.alibaba.opensandbox.sandbox.config.ConnectionConfig
import okhttp3.ConnectionPool
import okhttp3.Dispatcher
import okhttp3.Interceptor
import okhttp3.OkHttpClient
import org.slf4j.LoggerFactory
import java.util.concurrent.ExecutorService
import java.util.concurrent.SynchronousQueue
import java.util.concurrent.ThreadPoolExecutor
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean

/** The OkHttp clients of one configuration. What uses them holds a lease; the last one ends them. */
internal class Transport(
    private val config: ConnectionConfig,
    givenPool: ConnectionPool?,
) {
    private val isOwnPool = givenPool == null
    private val pool = givenPool ?: ConnectionPool(IDLE_MAX, IDLE_SECONDS, TimeUnit.SECONDS)
    private var leases = 0

    /** Only WebSockets need threads. */
    private val threads: ExecutorService =
        ThreadPoolExecutor(0, Int.MAX_VALUE, 1, TimeUnit.SECONDS, SynchronousQueue()) { work ->
            Thread(work, "opensandbox").apply { isDaemon = true }
        }

    val client: OkHttpClient by lazy {
        OkHttpClient
            .Builder()
            .connectionPool(pool)
            .dispatcher(Dispatcher(threads))
            .followRedirects(false) // the API key is for one server
            .connectTimeout(config.requestTimeout)
            .readTimeout(config.requestTimeout)
            .writeTimeout(config.requestTimeout)
            .callTimeout(config.requestTimeout)
            .apply { if (config.debug) addInterceptor(LogCalls) }
            .build()
    }

    /** For answers that take as long as they like once they began. */
    val streamClient: OkHttpClient by lazy { client.newBuilder().callTimeout(java.time.Duration.ZERO).build() }

    /** For WebSockets, which OkHttp keeps alive by pings. */
    val socketClient: OkHttpClient by lazy {
        streamClient
            .newBuilder()
            .readTimeout(java.time.Duration.ZERO)
            .pingInterval(java.time.Duration.ofSeconds(SOCKET_PING_SECONDS))
            .build()
    }

    @Synchronized
    fun lease(): Lease {
        leases++
        return Lease()
    }

    @Synchronized
    private fun giveBack() {
        if (--leases == 0 && isOwnPool) pool.evictAll()
    }

    inner class Lease : AutoCloseable {
        private val closed = AtomicBoolean()

        val isClosed: Boolean get() = closed.get()

        override fun close() {
            if (closed.compareAndSet(false, true)) giveBack()
        }
    }

    private object LogCalls : Interceptor {
        private val log = LoggerFactory.getLogger("com.alibaba.opensandbox.http")

        override fun intercept(chain: Interceptor.Chain): okhttp3.Response {
            val request = chain.request()
            val began = System.nanoTime()
            val answer = chain.proceed(request)
            val took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began)
            log.info("{} {}: {} after {} ms", request.method, request.url.redact(), answer.code, took)
            return answer
        }
    }

    companion object {
        const val API_KEY_HEADER = "OPEN-SANDBOX-API-KEY"
        private const val IDLE_MAX = 32
        private const val IDLE_SECONDS = 30L
        private const val SOCKET_PING_SECONDS = 20L
    }
}
