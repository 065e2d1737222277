package com.alibaba.opensandbox.sandbox.domain.services

import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxInternalException
import kotlinx.serialization.SerializationException
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.contentOrNull
import kotlinx.serialization.json.intOrNull
import kotlinx.serialization.json.put
import okhttp3.Response
import okhttp3.WebSocket
import okhttp3.WebSocketListener
import okio.ByteString
import okio.ByteString.Companion.toByteString
import java.io.InputStream
import java.nio.ByteBuffer
import java.time.Duration
import java.util.concurrent.locks.ReentrantLock
import kotlin.concurrent.withLock

/**
 * A terminal of a sandbox: a WebSocket whose binary frames begin with the number of a channel. A
 * connection that breaks is made anew, and the server replays what was missed.
 */
class Terminal internal constructor(
    val sessionId: String,
    since: Long,
    private val retries: Int,
    private val timeout: Duration,
    private val dial: (since: Long, takeover: Boolean, listener: WebSocketListener) -> WebSocket,
) : AutoCloseable {
    /** A piece of output. */
    class Output internal constructor(
        val data: ByteArray,
        /** From standard error; only with pipes. */
        val isError: Boolean,
    )

    private val lock = ReentrantLock()
    private val changed = lock.newCondition()
    private val queue = ArrayDeque<Output>()
    private var queued = 0
    private var failure: SandboxException? = null
    private var hasEnded = false
    private var isClosed = false
    private var socket: WebSocket? = null

    /** Bytes of output so far, for `attach`. */
    var offset: Long = since
        private set

    /** Set once the program has ended; -1 after a signal. */
    var exitCode: Int? = null
        private set

    internal fun connect(takeover: Boolean) {
        val listener = Listener()
        socket = dial(offset, takeover, listener)
        listener.await()
    }

    private inner class Listener : WebSocketListener() {
        private var isOpen = false
        private var refused: Throwable? = null

        fun await() =
            lock.withLock {
                var left = timeout.toNanos()
                while (!isOpen && refused == null) {
                    if (left <= 0) {
                        socket?.cancel()
                        throw SandboxInternalException("terminal $sessionId: no connection within $timeout")
                    }
                    left = changed.awaitNanos(left)
                }
                refused?.let { throw it as? SandboxException ?: SandboxInternalException("terminal $sessionId: ${it.message}", it) }
            }

        override fun onOpen(
            webSocket: WebSocket,
            response: Response,
        ) = lock.withLock {
            isOpen = true
            changed.signalAll()
        }

        override fun onMessage(
            webSocket: WebSocket,
            text: String,
        ) = told(text)

        override fun onMessage(
            webSocket: WebSocket,
            bytes: ByteString,
        ) = got(bytes.toByteArray())

        override fun onClosing(
            webSocket: WebSocket,
            code: Int,
            reason: String,
        ) {
            webSocket.close(NORMAL, null)
            lost(webSocket, code, SandboxInternalException("the terminal's connection was closed: $code $reason"))
        }

        override fun onFailure(
            webSocket: WebSocket,
            t: Throwable,
            response: Response?,
        ) {
            val status = response?.code
            lock.withLock {
                if (!isOpen) {
                    refused =
                        if (status != null) {
                            com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxApiException(
                                "terminal $sessionId: status $status",
                                t,
                                status,
                                requestId = response?.header("X-Request-ID"),
                            )
                        } else {
                            t
                        }
                    changed.signalAll()
                    return
                }
            }
            lost(webSocket, 0, SandboxInternalException("the terminal's connection broke: ${t.message}", t))
        }
    }

    private fun lost(
        which: WebSocket,
        code: Int,
        broken: SandboxException,
    ) {
        lock.withLock {
            if (which !== socket || hasEnded || isClosed) return
            socket = null
        }
        if (code == TAKEN_OVER) return finish(SandboxInternalException("another client took over the terminal"))
        Thread({ redial(broken) }, "opensandbox-terminal").apply { isDaemon = true }.start()
    }

    private fun redial(broken: SandboxException) {
        var pause = FIRST_PAUSE_MS
        repeat(retries) {
            Thread.sleep(pause)
            pause *= 2
            if (lock.withLock { isClosed }) return
            try {
                connect(true)
                if (lock.withLock { isClosed }) socket?.cancel()
                return
            } catch (_: SandboxException) {
                // told below, unless the next one works
            }
        }
        finish(broken)
    }

    private fun got(frame: ByteArray): Unit =
        lock.withLock {
            if (frame.isEmpty()) return
            var from = 1
            if (frame[0] == REPLAY) {
                if (frame.size < REPLAY_HEAD) return
                val first = ByteBuffer.wrap(frame, 1, Long.SIZE_BYTES).getLong()
                from = REPLAY_HEAD
                val known = offset - first
                if (known > 0) from = minOf(frame.size.toLong(), REPLAY_HEAD + known).toInt() else offset = first
            }
            val data = frame.copyOfRange(from, frame.size)
            offset += data.size
            if (data.isEmpty()) return
            queued += data.size
            if (queued > QUEUE_BYTES_MAX) {
                socket?.cancel()
                return finish(SandboxInternalException("nothing read $QUEUE_BYTES_MAX bytes of the terminal's output"))
            }
            queue.addLast(Output(data, frame[0] == STDERR))
            changed.signalAll()
        }

    private fun told(text: String) {
        val message =
            try {
                Json.parseToJsonElement(text) as? JsonObject ?: return
            } catch (_: SerializationException) {
                return
            }
        when ((message["type"] as? JsonPrimitive)?.contentOrNull) {
            "exit" -> {
                exitCode = (message["exit_code"] as? JsonPrimitive)?.intOrNull ?: -1
                finish(null)
            }
            "error" -> {
                val why = (message["error"] as? JsonPrimitive)?.contentOrNull
                finish(SandboxInternalException("the terminal failed: $why"))
            }
        }
    }

    private fun finish(why: SandboxException?) =
        lock.withLock {
            if (failure == null) failure = why
            hasEnded = true
            changed.signalAll()
        }

    /** The next piece of output; null when the program has ended, or nothing came for [timeout]. */
    @JvmOverloads
    fun read(timeout: Duration? = null): Output? =
        lock.withLock {
            var left = timeout?.toNanos() ?: Long.MAX_VALUE
            while (queue.isEmpty()) {
                if (hasEnded || isClosed) {
                    failure?.let { throw it }
                    return null
                }
                if (left <= 0) return null
                left = if (timeout == null) left.also { changed.await() } else changed.awaitNanos(left)
            }
            queue.removeFirst().also { queued -= it.data.size }
        }

    /** Whether the program has ended and all of its output was read. */
    val isOver: Boolean get() = lock.withLock { (hasEnded || isClosed) && queue.isEmpty() }

    /** All output until the program ends, as text. */
    fun readAll(): String {
        val all = java.io.ByteArrayOutputStream()
        while (true) all.write((read() ?: break).data)
        return all.toString("UTF-8")
    }

    /** Output as a stream, which ends with the program. */
    fun inputStream(): InputStream =
        object : InputStream() {
            private var piece = ByteArray(0)
            private var at = 0

            private fun fill(): Boolean {
                while (at == piece.size) {
                    piece = this@Terminal.read()?.data ?: return false
                    at = 0
                }
                return true
            }

            override fun read(): Int = if (fill()) piece[at++].toInt() and BYTE_MASK else -1

            override fun read(
                into: ByteArray,
                offset: Int,
                length: Int,
            ): Int {
                if (length == 0) return 0
                if (!fill()) return -1
                val n = minOf(length, piece.size - at)
                System.arraycopy(piece, at, into, offset, n)
                at += n
                return n
            }
        }

    private fun connected(): WebSocket =
        lock.withLock { socket.takeUnless { hasEnded || isClosed } }
            ?: throw SandboxInternalException("the terminal is not connected")

    /** Sends keys. */
    fun write(data: ByteArray) {
        for (from in data.indices step PIECE_BYTES) {
            val piece = data.copyOfRange(from, minOf(data.size, from + PIECE_BYTES))
            if (!connected().send((byteArrayOf(STDIN) + piece).toByteString())) {
                throw SandboxInternalException("the terminal takes no more input")
            }
        }
    }

    fun write(text: String) = write(text.toByteArray())

    private fun say(message: JsonObject) {
        connected().send(message.toString())
    }

    fun resize(
        columns: Int,
        rows: Int,
    ) = say(
        buildJsonObject {
            put("type", "resize")
            put("cols", columns)
            put("rows", rows)
        },
    )

    /** To the job in the foreground: SIGINT, SIGTERM, SIGKILL, SIGQUIT or SIGHUP. */
    fun signal(name: String) =
        say(
            buildJsonObject {
                put("type", "signal")
                put("signal", name)
            },
        )

    /** Disconnects. The program goes on; `terminals().delete` ends it. */
    override fun close() {
        val open =
            lock.withLock {
                isClosed = true
                changed.signalAll()
                socket.also { socket = null }
            }
        open?.close(NORMAL, null)
        open?.cancel()
    }

    private companion object {
        const val STDIN: Byte = 0
        const val STDERR: Byte = 2
        const val REPLAY: Byte = 3
        const val REPLAY_HEAD = 9
        const val NORMAL = 1000
        const val TAKEN_OVER = 4001
        const val PIECE_BYTES = 64 shl 10
        const val QUEUE_BYTES_MAX = 16 shl 20
        const val FIRST_PAUSE_MS = 50L
        const val BYTE_MASK = 0xff
    }
}
