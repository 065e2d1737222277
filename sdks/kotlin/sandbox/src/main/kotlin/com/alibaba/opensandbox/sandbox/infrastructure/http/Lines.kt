package com.alibaba.opensandbox.sandbox.infrastructure.http

import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxInternalException
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import java.io.IOException
import java.util.concurrent.TimeUnit

/**
 * The events of a stream: a JSON object per line, empty lines in between, `data:` in front or not.
 * next() is null at the end of the stream; a connection that breaks is an IOException.
 */
@OptIn(InternalOpenSandboxApi::class)
internal class Lines(
    private val api: Api,
    private val opened: Opened,
    private val call: Call,
) : AutoCloseable {
    private val source = opened.response.body!!.source()
    private var isQuick = false
    private var isDone = false

    @Volatile
    private var isReading = false

    init {
        // The head was there in time; from here on it takes as long as it takes.
        source.timeout().timeout(0, TimeUnit.MILLISECONDS)
    }

    fun next(): String? {
        while (true) {
            val line = read() ?: return null
            val text = if (line.startsWith("{")) line else payload(line)
            if (text != null) return text
        }
    }

    private fun read(): String? {
        isReading = true
        try {
            return readLine().also { isDone = it == null }
        } finally {
            isReading = false
        }
    }

    private fun readLine(): String? {
        val end = source.indexOf('\n'.code.toByte(), 0, LINE_BYTES_MAX)
        if (end >= 0) {
            val line = source.readUtf8(end)
            source.skip(1)
            return line
        }
        if (source.buffer.size >= LINE_BYTES_MAX) {
            throw SandboxInternalException("$call: an event is longer than $LINE_BYTES_MAX bytes")
        }
        return source.readUtf8().takeIf { it.isNotEmpty() }
    }

    private fun payload(line: String): String? {
        val text = line.trim()
        return when {
            text.startsWith("{") -> text
            text.startsWith("data:") -> text.substring(DATA_MARK).trim().takeIf { it.isNotEmpty() }
            text.startsWith(":") -> { // a comment: the server is there
                sawPing()
                null
            }
            text.isEmpty() || FIELD.containsMatchIn(text) -> null
            else -> throw SandboxInternalException("$call: an event is not a JSON object: ${text.take(SHOWN_CHARS)}")
        }
    }

    /** The server pings: a silence means that it is gone. */
    fun sawPing() {
        val idle = api.config.streamIdleTimeout.toMillis()
        if (idle > 0 && !isQuick) source.timeout().timeout(idle, TimeUnit.MILLISECONDS)
    }

    /** The last event was there: what follows, follows soon. */
    fun sawLast() {
        isQuick = true
        source.timeout().timeout(TAIL_MS, TimeUnit.MILLISECONDS)
    }

    /** May be called while another thread waits in next(), which then throws. */
    override fun close() {
        if (!isDone) opened.cancel()
        if (isReading) return
        try {
            opened.close()
        } catch (_: IOException) {
            // it is gone either way
        }
    }

    private companion object {
        const val LINE_BYTES_MAX = 32L shl 20
        const val TAIL_MS = 5000L
        const val DATA_MARK = 5
        const val SHOWN_CHARS = 200
        val FIELD = Regex("^(event|id|retry):")
    }
}
