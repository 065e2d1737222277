package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.Api
import com.alibaba.opensandbox.sandbox.infrastructure.http.Call
import com.alibaba.opensandbox.sandbox.infrastructure.http.Limit
import com.alibaba.opensandbox.sandbox.infrastructure.http.Opened
import com.alibaba.opensandbox.sandbox.infrastructure.http.Pauses
import java.io.IOException
import java.io.InputStream
import java.io.InterruptedIOException

/** A body of bytes. A connection that breaks is taken up where it broke; lines have no such place. */
@OptIn(InternalOpenSandboxApi::class)
internal class Download(
    private val api: Api,
    private val path: String,
    private val query: List<Pair<String, Any?>>,
    private val range: String?,
    private val canResume: Boolean = true,
) : InputStream() {
    private var opened = open(range)
    private var body = opened.response.body!!.byteStream()
    private val isWhole = range == null && query.none { it.first != "path" && it.second != null }
    private val first: Long
    private val last: Long?
    private val unchangedSince = opened.response.header("Last-Modified")
    private val isPartial = opened.response.code == PARTIAL
    private var got = 0L
    private var failures = 0
    private val pauses = Pauses()

    init {
        val told = CONTENT_RANGE.find(opened.response.header("Content-Range") ?: "")
        val length = opened.response.header("Content-Length")?.toLongOrNull()
        first = told?.groupValues?.get(1)?.toLong() ?: 0
        last = told?.groupValues?.get(2)?.toLong() ?: length?.takeIf { isWhole }?.let { it - 1 }
    }

    private fun call(range: String?): Call {
        val headers = LinkedHashMap<String, String>()
        if (range != null) headers["Range"] = range
        return Call("GET", path, query, headers = headers, limit = Limit.READ)
    }

    private fun open(range: String?): Opened = api.open(call(range))

    override fun read(): Int {
        val one = ByteArray(1)
        return if (read(one, 0, 1) < 0) -1 else one[0].toInt() and BYTE_MASK
    }

    override fun read(
        into: ByteArray,
        offset: Int,
        length: Int,
    ): Int {
        while (true) {
            try {
                val n = body.read(into, offset, length)
                if (n > 0) {
                    got += n
                    failures = 0
                }
                return n
            } catch (e: IOException) {
                if (last != null && first + got > last) return -1
                goOn(e)
            }
        }
    }

    private fun goOn(e: IOException) {
        val failed = api.failed(call(range), e)
        val mayGoOn = canResume && (isWhole || isPartial) && e !is InterruptedIOException
        if (!mayGoOn || ++failures > api.config.maxRetries) throw failed
        opened.cancel()
        opened.close()
        pauses.pause()
        val end = if (isWhole) "" else last?.toString() ?: ""
        val next = Call("GET", path, query, headers = rest("bytes=${first + got}-$end"), limit = Limit.READ)
        val again = api.open(next)
        if (again.response.code != PARTIAL) {
            again.cancel()
            again.close()
            throw failed
        }
        opened = again
        body = again.response.body!!.byteStream()
    }

    private fun rest(range: String): Map<String, String> {
        val headers = linkedMapOf("Range" to range)
        if (unchangedSince != null) headers["If-Unmodified-Since"] = unchangedSince
        return headers
    }

    override fun close() {
        if (last == null || first + got <= last) opened.cancel() // OkHttp would read on for reuse
        opened.close()
    }

    private companion object {
        const val PARTIAL = 206
        const val BYTE_MASK = 0xff
        val CONTENT_RANGE = Regex("^bytes (\\d+)-(\\d+)/")
    }
}
