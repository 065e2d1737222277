package com.alibaba.opensandbox.tests

import com.alibaba.opensandbox.sandbox.Sandbox
import com.alibaba.opensandbox.sandbox.SandboxManager
import com.alibaba.opensandbox.sandbox.config.ConnectionConfig
import com.alibaba.opensandbox.sandbox.coroutines.suspending
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxApiException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxInternalException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxStreamException
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.async
import kotlinx.coroutines.runBlocking
import java.io.InputStream
import java.net.InetAddress
import java.net.ServerSocket
import java.net.Socket
import java.time.Duration
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread

private const val SECONDS_MAX = 30L
private const val EVENT_INIT = """{"type":"init","text":"c-1","timestamp":1}"""
private const val EVENT_PING = """{"type":"ping","text":"pong","timestamp":1}"""

/** A server that answers as it is told, and counts connections. */
private class BadServer(
    private val answer: BadServer.(request: String, socket: Socket) -> Unit,
) : AutoCloseable {
    private val listener = ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))
    val sockets = CopyOnWriteArrayList<Socket>()
    val domain = "127.0.0.1:${listener.localPort}"
    val released = CountDownLatch(1)

    init {
        thread(isDaemon = true) {
            while (true) {
                val socket = runCatching { listener.accept() }.getOrNull() ?: break
                sockets.add(socket)
                thread(isDaemon = true) { runCatching { serve(socket) } }
            }
        }
    }

    private fun serve(socket: Socket) {
        val input = socket.getInputStream()
        while (true) answer(request(input) ?: break, socket)
        socket.close()
    }

    private fun request(input: InputStream): String? {
        val head = StringBuilder()
        while (!head.endsWith("\r\n\r\n")) {
            val byte = input.read()
            if (byte < 0) return null
            head.append(byte.toChar())
        }
        val length = Regex("(?i)content-length: *(\\d+)").find(head)?.groupValues?.get(1)?.toInt() ?: 0
        repeat(length) { input.read() }
        return head.lineSequence().first().substringBeforeLast(' ')
    }

    fun json(
        socket: Socket,
        text: String,
        status: String = "200 OK",
    ) = raw(socket, "HTTP/1.1 $status\r\nContent-Type: application/json\r\nContent-Length: ${text.toByteArray().size}\r\n\r\n$text")

    fun stream(
        socket: Socket,
        vararg events: String,
    ) {
        raw(socket, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        events.forEach { chunk(socket, "$it\n\n") }
    }

    fun chunk(
        socket: Socket,
        text: String,
    ) = raw(socket, "${text.toByteArray().size.toString(16)}\r\n$text\r\n")

    fun raw(
        socket: Socket,
        text: String,
    ) {
        socket.getOutputStream().write(text.toByteArray())
        socket.getOutputStream().flush()
    }

    /** What every connect asks for. */
    fun usual(
        request: String,
        socket: Socket,
    ): Boolean {
        if ("/endpoints/" !in request) return false
        json(socket, """{"endpoint":"$domain/sb"}""")
        return true
    }

    override fun close() {
        released.countDown()
        listener.close()
        sockets.forEach { it.close() }
    }
}

/** What goes wrong on the way: the right exception, no hang, no connection that stays. */
class Faults(
    private val tap: Tap,
) {
    private fun config(
        server: BadServer,
        change: ConnectionConfig.Builder.() -> Unit = {},
    ): ConnectionConfig =
        ConnectionConfig
            .builder()
            .domain(server.domain)
            .apiKey("k")
            .maxRetries(1)
            .retryBackoff(Duration.ofMillis(1))
            .requestTimeout(Duration.ofSeconds(SECONDS_MAX))
            .apply(change)
            .build()

    private fun connect(
        server: BadServer,
        change: ConnectionConfig.Builder.() -> Unit = {},
    ): Sandbox =
        Sandbox
            .connector()
            .sandboxId("sb-1")
            .skipHealthCheck()
            .connectionConfig(config(server, change))
            .connect()

    private fun connectionsEnd(server: BadServer) {
        val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS_MAX)
        for (socket in server.sockets) {
            while (!socket.isClosed) {
                check(System.nanoTime() < end) { "a connection stays" }
                Thread.sleep(POLL_MS)
            }
        }
    }

    fun run() {
        tap.test("fault: the server dies in the middle of a stream") { diesInAStream() }
        tap.test("fault: 502 during a create") { badGateway() }
        tap.test("fault: a half-open connection whose pings stay away") { halfOpen() }
        tap.test("fault: a server that never answers") { neverAnswers() }
        tap.test("fault: a slow reader") { slowReader() }
        tap.test("fault: a cancelled coroutine") { cancelled() }
        tap.test("fault: a stream closed by another thread") { closedByAnother() }
    }

    private fun diesInAStream() =
        BadServer { request, socket ->
            if (!usual(request, socket)) {
                if (request.startsWith("POST /sb/command")) stream(socket, EVENT_INIT)
                socket.close()
            }
        }.use { server ->
            connect(server).use { sandbox ->
                fails<SandboxStreamException> { sandbox.commands().run("x") }
                val seen = ArrayList<String>()
                fails<SandboxStreamException> { sandbox.commands().stream("x").use { s -> s.forEach { seen.add(it.type) } } }
                same(seen, arrayListOf("init"))
            }
            connectionsEnd(server)
        }

    private fun badGateway() =
        BadServer { request, socket ->
            when {
                request.startsWith("DELETE") -> json(socket, "", "204 No Content")
                request.startsWith("POST /v1/sandboxes") ->
                    json(socket, """{"id":"sb-1","status":{"state":"Pending"},"createdAt":"2026-07-01T09:30:00Z"}""", "202 Accepted")
                else -> json(socket, "bad gateway", "502 Bad Gateway")
            }
        }.use { server ->
            val builder = Sandbox.builder().image("x").connectionConfig(config(server))
            same(fails<SandboxApiException> { builder.build() }.statusCode, 502)
            connectionsEnd(server)
        }

    private fun halfOpen() =
        BadServer { request, socket ->
            when {
                usual(request, socket) -> Unit
                request.startsWith("POST /sb/command") -> {
                    stream(socket, EVENT_INIT, EVENT_PING)
                    released.await()
                }
                else -> json(socket, """{"code":"X","message":"gone"}""", "404 Not Found")
            }
        }.use { server ->
            connect(server) { streamIdleTimeout(Duration.ofMillis(IDLE_MS)) }.use { sandbox ->
                fails<SandboxStreamException> { sandbox.commands().run("x") }
            }
        }

    private fun neverAnswers() =
        BadServer { _, _ -> released.await() }.use { server ->
            SandboxManager
                .builder()
                .connectionConfig(config(server) { requestTimeout(Duration.ofMillis(IDLE_MS)) })
                .build()
                .use { manager -> fails<SandboxInternalException> { manager.getSandboxInfo("x") } }
        }

    private fun slowReader() =
        BadServer { request, socket ->
            if (!usual(request, socket)) {
                stream(socket, EVENT_INIT)
                val line = """{"type":"stdout","text":"${"x".repeat(LINE_CHARS)}","timestamp":1}""" + "\n\n"
                repeat(SLOW_LINES) { chunk(socket, line) }
                chunk(socket, """{"type":"execution_complete","execution_time":1,"timestamp":1}""" + "\n\n")
                raw(socket, "0\r\n\r\n")
            }
        }.use { server ->
            connect(server).use { sandbox ->
                var lines = 0
                sandbox.commands().stream("x").use { events ->
                    for (event in events) {
                        if (event.type == "stdout" && ++lines % SLOW_EVERY == 0) Thread.sleep(1)
                    }
                }
                same(lines, SLOW_LINES)
            }
            connectionsEnd(server)
        }

    private fun cancelled() =
        BadServer { request, socket ->
            if (!usual(request, socket)) {
                stream(socket, EVENT_INIT)
                released.countDown()
                socket.getInputStream().read() // until the client leaves
                socket.close()
            }
        }.use { server ->
            connect(server).use { sandbox ->
                runBlocking {
                    val run = async(kotlinx.coroutines.Dispatchers.Default) { sandbox.suspending().commands.run("x") }
                    server.released.await(SECONDS_MAX, TimeUnit.SECONDS)
                    run.cancel()
                    fails<CancellationException> { run.await() }
                }
            }
            connectionsEnd(server)
        }

    private fun closedByAnother() =
        BadServer { request, socket ->
            if (!usual(request, socket)) {
                stream(socket, EVENT_INIT)
                socket.getInputStream().read()
                socket.close()
            }
        }.use { server ->
            connect(server).use { sandbox ->
                val stream = sandbox.commands().stream("x")
                same(stream.next().type, "init")
                val closer =
                    thread(isDaemon = true) {
                        Thread.sleep(CLOSE_AFTER_MS)
                        stream.close()
                    }
                fails<SandboxStreamException> { if (stream.hasNext()) stream.next() else throw SandboxStreamException("closed") }
                closer.join()
            }
            connectionsEnd(server)
        }

    private companion object {
        const val POLL_MS = 5L
        const val IDLE_MS = 300L
        const val CLOSE_AFTER_MS = 50L
        const val LINE_CHARS = 1000
        const val SLOW_LINES = 3000
        const val SLOW_EVERY = 100
    }
}
