package com.alibaba.opensandbox.sandbox.infrastructure.http

import com.alibaba.opensandbox.sandbox.config.ConnectionConfig
import com.alibaba.opensandbox.sandbox.domain.exceptions.InvalidArgumentException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxApiException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxError
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxInternalException
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import kotlinx.serialization.SerializationException
import kotlinx.serialization.encodeToString
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.contentOrNull
import okhttp3.HttpUrl
import okhttp3.HttpUrl.Companion.toHttpUrl
import okhttp3.MediaType
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.Response
import okio.BufferedSink
import okio.BufferedSource
import java.io.IOException
import java.io.InputStream
import java.io.InterruptedIOException
import java.net.ConnectException
import java.net.NoRouteToHostException
import java.net.UnknownHostException
import java.time.Duration
import java.util.concurrent.CancellationException
import kotlin.random.Random

/** How long an answer may take. */
@InternalOpenSandboxApi
enum class Limit {
    /** All of it within the request timeout. */
    WHOLE,

    /** Its head, and each read after that. */
    READ,
}

/** One request. Null values of [query] are left out; lists repeat their name. */
@InternalOpenSandboxApi
class Call(
    val method: String,
    val path: String,
    val query: List<Pair<String, Any?>> = emptyList(),
    val body: RequestBody? = null,
    val headers: Map<String, String> = emptyMap(),
    val limit: Limit = Limit.WHOLE,
    /** Null: whether the method allows it. */
    val repeat: Boolean? = null,
) {
    internal val isRepeatable: Boolean get() = repeat ?: (method == "GET" || method == "PUT" || method == "DELETE")

    override fun toString(): String = "$method $path"
}

/** A body of an answer that was read, and the header fields that some callers want. */
@InternalOpenSandboxApi
class Answer(
    val bytes: ByteArray,
    private val response: Response?,
) {
    val text: String get() = String(bytes, Charsets.UTF_8)

    fun header(name: String): String? = response?.header(name)
}

/** An answer whose body is read by and by. */
@InternalOpenSandboxApi
class Opened internal constructor(
    val response: Response,
    private val call: okhttp3.Call,
) : AutoCloseable {
    /** Ends the connection, at once and from any thread. */
    fun cancel() = call.cancel()

    override fun close() = response.close()
}

/** Sends requests below one base URL, with the same header fields. */
@InternalOpenSandboxApi
class Api internal constructor(
    val config: ConnectionConfig,
    baseUrl: String,
    endpointHeaders: Map<String, String>,
    apiKey: String? = null,
) {
    internal val base: HttpUrl =
        try {
            baseUrl.trimEnd('/').toHttpUrl()
        } catch (e: IllegalArgumentException) {
            throw InvalidArgumentException("'$baseUrl' is no address of a server: ${e.message}", e)
        }

    /** The caller's, then ours, then those of the endpoint. */
    internal val headers: Map<String, String> =
        java.util.TreeMap<String, String>(String.CASE_INSENSITIVE_ORDER).apply {
            put("User-Agent", "OpenSandbox-Kotlin-SDK/${ConnectionConfig.version}")
            put("Accept-Encoding", "identity")
            putAll(config.headers)
            if (!apiKey.isNullOrEmpty()) put(Transport.API_KEY_HEADER, apiKey)
            putAll(endpointHeaders)
        }

    internal fun url(call: Call): HttpUrl {
        val text = StringBuilder(base.toString().trimEnd('/')).append(call.path)
        var mark = '?'
        for ((name, value) in call.query) {
            for (one in if (value is Iterable<*>) value else listOf(value)) {
                if (one == null) continue
                text.append(mark).append(escape(name)).append('=').append(escape(one.toString()))
                mark = '&'
            }
        }
        return text.toString().toHttpUrl()
    }

    /** Sends a request; the answer is there, and no error, once its head is. */
    fun open(call: Call): Opened = repeating(call) { openOnce(call) }

    /** Sends a request and reads all of its answer. */
    fun send(call: Call): Answer {
        var wasLost = false
        return repeating(call) {
            try {
                openOnce(call).use { opened -> read(call, opened.response) }
            } catch (e: SandboxInternalException) {
                wasLost = true
                throw e
            } catch (e: SandboxApiException) {
                // The first one did it; its answer was lost.
                if (wasLost && call.method == "DELETE" && e.statusCode == NOT_FOUND) Answer(ByteArray(0), null) else throw e
            }
        }
    }

    private fun read(
        call: Call,
        response: Response,
    ): Answer =
        try {
            Answer(readAll(response.body!!.source(), ANSWER_BYTES_MAX), response)
        } catch (e: IOException) {
            throw failed(call, e)
        }

    inline fun <reified T> ask(call: Call): T = parse(send(call).bytes, call.toString())

    private fun openOnce(call: Call): Opened {
        CallScope.check()
        val request = Request.Builder().url(url(call)).method(call.method, bodyOf(call))
        headers.forEach { (name, value) -> request.header(name, value) }
        call.headers.forEach { (name, value) -> request.header(name, value) }
        val client = if (call.limit == Limit.WHOLE) config.transport.client else config.transport.streamClient
        val running = client.newCall(request.build())
        CallScope.begin(running)
        val response =
            try {
                running.execute()
            } catch (e: IOException) {
                throw failed(call, e)
            }
        if (response.isSuccessful) return Opened(response, running)
        response.use { throw failureOf(call, it) }
    }

    private fun bodyOf(call: Call): RequestBody? =
        when {
            call.body != null -> OnceBody(call.body)
            call.method == "GET" -> null
            else -> OnceBody(EMPTY)
        }

    private fun <T> repeating(
        call: Call,
        attempt: () -> T,
    ): T {
        var n = 0
        while (true) {
            try {
                return attempt()
            } catch (e: SandboxApiException) {
                if (n >= config.maxRetries || !call.isRepeatable || !isTransient(e)) throw e
                pause(n, e.retryAfter)
            } catch (e: SandboxInternalException) {
                if (n >= config.maxRetries || !mayRepeat(call, e)) throw e
                pause(n, null)
            }
            n++
        }
    }

    private fun isTransient(e: SandboxApiException) = e.statusCode in TRANSIENT || e.error.code == IN_PROGRESS

    /** What was certainly not sent may be repeated, whatever it does. */
    private fun mayRepeat(
        call: Call,
        e: SandboxInternalException,
    ): Boolean {
        val cause = e.cause as? IOException ?: return false
        if (cause is ConnectException || cause is NoRouteToHostException || cause is UnknownHostException) {
            return call.repeat != false
        }
        return call.isRepeatable && cause !is InterruptedIOException
    }

    private fun pause(
        n: Int,
        asked: Duration?,
    ) {
        val grown = config.retryBackoff.toMillis() shl minOf(n, BACKOFF_DOUBLINGS_MAX)
        val spread = (minOf(grown, BACKOFF_MS_MAX) * Random.nextDouble(JITTER_MIN, JITTER_MAX)).toLong()
        val wanted = asked?.toMillis()?.takeIf { it < RETRY_AFTER_MS_MAX } ?: 0
        CallScope.sleep(maxOf(spread, wanted))
    }

    /** The exception for a request that failed on its way. */
    internal fun failed(
        call: Call,
        e: IOException,
    ): SandboxException {
        try {
            CallScope.check()
        } catch (cancelled: CancellationException) {
            cancelled.initCause(e)
            throw cancelled
        }
        val why = if (e is InterruptedIOException) "no answer within ${config.requestTimeout}" else e.message ?: e.toString()
        return SandboxInternalException("${call.method} ${base.host}${call.path}: $why", e)
    }

    private fun failureOf(
        call: Call,
        response: Response,
    ): SandboxApiException {
        val text =
            try {
                val source = response.body!!.source()
                source.request(ERROR_BYTES_MAX)
                source.buffer.readUtf8(minOf(source.buffer.size, ERROR_BYTES_MAX))
            } catch (_: IOException) {
                "" // the status alone is the answer then
            }
        val error = errorOf(text)
        return SandboxApiException(
            message = error?.message ?: "$call: status ${response.code} without an error document",
            statusCode = response.code,
            error = error ?: SandboxError(SandboxError.UNEXPECTED_RESPONSE, text.take(MESSAGE_CHARS_MAX)),
            requestId = response.header("X-Request-ID"),
            retryAfter = response.header("Retry-After")?.toLongOrNull()?.let(Duration::ofSeconds),
        )
    }

    /** Sent once: OkHttp must not send again what may have arrived. */
    private class OnceBody(
        private val body: RequestBody,
    ) : RequestBody() {
        override fun contentType(): MediaType? = body.contentType()

        override fun contentLength(): Long = body.contentLength()

        override fun writeTo(sink: BufferedSink) = body.writeTo(sink)

        override fun isOneShot(): Boolean = true
    }

    companion object {
        private const val NOT_FOUND = 404
        private const val ANSWER_BYTES_MAX = 64L shl 20
        private const val ERROR_BYTES_MAX = 64L shl 10
        private const val MESSAGE_CHARS_MAX = 500
        private const val BACKOFF_MS_MAX = 10_000L
        private const val BACKOFF_DOUBLINGS_MAX = 16
        private const val RETRY_AFTER_MS_MAX = 30_000L
        private const val JITTER_MIN = 0.75
        private const val JITTER_MAX = 1.25

        /** An earlier try of a create with an idempotency key is under way. */
        private const val IN_PROGRESS = "IDEMPOTENCY::IN_PROGRESS"
        private val TRANSIENT = setOf<Int?>(429, 502, 503)
        private val JSON_TYPE = "application/json".toMediaType()
        private val EMPTY = bytesBody(ByteArray(0), null)

        @PublishedApi
        internal val json =
            Json {
                ignoreUnknownKeys = true
                explicitNulls = false
                isLenient = false
                coerceInputValues = true
            }

        inline fun <reified T> parse(
            bytes: ByteArray,
            of: String,
        ): T =
            try {
                json.decodeFromString<T>(String(bytes, Charsets.UTF_8))
            } catch (e: SerializationException) {
                throw unexpected(of, e)
            }

        @PublishedApi
        internal fun unexpected(
            of: String,
            e: Exception,
        ) = SandboxInternalException("$of: the answer is not what was expected: ${e.message}", e)

        inline fun <reified T> jsonBody(value: T): RequestBody = jsonText(json.encodeToString(value))

        @PublishedApi
        internal fun jsonText(text: String): RequestBody = bytesBody(text.toByteArray(), JSON_TYPE)

        fun bytesBody(
            bytes: ByteArray,
            type: MediaType?,
        ): RequestBody =
            object : RequestBody() {
                override fun contentType(): MediaType? = type

                override fun contentLength(): Long = bytes.size.toLong()

                override fun writeTo(sink: BufferedSink) {
                    sink.write(bytes)
                }
            }

        /** Sends what the stream has, piece by piece. */
        fun streamBody(
            stream: InputStream,
            type: MediaType?,
        ): RequestBody =
            object : RequestBody() {
                override fun contentType(): MediaType? = type

                override fun isOneShot(): Boolean = true

                override fun writeTo(sink: BufferedSink) {
                    val piece = ByteArray(PIECE_BYTES)
                    while (true) {
                        val n = stream.read(piece)
                        if (n < 0) return
                        sink.write(piece, 0, n)
                    }
                }
            }

        private const val PIECE_BYTES = 64 shl 10

        private fun readAll(
            source: BufferedSource,
            most: Long,
        ): ByteArray {
            if (source.request(most + 1)) throw SandboxInternalException("the answer is larger than $most bytes")
            return source.buffer.readByteArray()
        }

        /** `{code, message}`, also inside `{"detail": ...}`; null when the text is none. */
        internal fun errorOf(text: String): SandboxError? {
            val root =
                try {
                    json.parseToJsonElement(text) as? JsonObject ?: return null
                } catch (_: SerializationException) {
                    return null
                }
            val detail = root["detail"]
            if (detail is JsonPrimitive && detail.isString) {
                return SandboxError(SandboxError.UNEXPECTED_RESPONSE, detail.content)
            }
            val error = detail as? JsonObject ?: root
            val code = (error["code"] as? JsonPrimitive)?.takeIf { it.isString } ?: return null
            return SandboxError(code.content, (error["message"] as? JsonPrimitive)?.contentOrNull)
        }

        private const val UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
        private const val HEX = "0123456789ABCDEF"
        private const val BYTE_MASK = 0xff
        private const val HALF_BYTE = 4
        private const val HALF_MASK = 15

        /** Percent-encodes all but unreserved characters. */
        fun escape(text: String): String {
            if (text.all { it in UNRESERVED }) return text
            val out = StringBuilder()
            for (byte in text.toByteArray()) {
                val value = byte.toInt() and BYTE_MASK
                if (value.toChar() in UNRESERVED) {
                    out.append(value.toChar())
                } else {
                    out.append('%').append(HEX[value shr HALF_BYTE]).append(HEX[value and HALF_MASK])
                }
            }
            return out.toString()
        }

        /** A segment of a path. */
        fun segment(
            what: String,
            text: String,
        ): String {
            if (text.isBlank()) throw InvalidArgumentException("$what must not be blank")
            if (text == "." || text == "..") throw InvalidArgumentException("$what must not be '$text'")
            return escape(text)
        }

        fun needText(
            what: String,
            text: String?,
        ): String = text?.takeIf { it.isNotBlank() } ?: throw InvalidArgumentException("$what must not be blank")
    }
}
