package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.PtyInfo
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.PtyRequest
import com.alibaba.opensandbox.sandbox.domain.services.Terminal
import com.alibaba.opensandbox.sandbox.domain.services.Terminals
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.Api
import com.alibaba.opensandbox.sandbox.infrastructure.http.Call
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CreatePtyRequest
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Pty
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Session
import okhttp3.Request

@OptIn(InternalOpenSandboxApi::class)
internal class TerminalsAdapter(
    private val api: Api,
) : Terminals {
    private fun path(sessionId: String) = "/pty/${Api.segment("session id", sessionId)}"

    override fun open(request: PtyRequest): Terminal {
        val body = Api.jsonBody(CreatePtyRequest(request.workingDirectory, request.command))
        val made = api.ask<Session>(Call("POST", "/pty", body = body))
        val terminal = connect(made.sessionId, 0, false, request.pipes)
        if (request.columns != null && request.rows != null) terminal.resize(request.columns, request.rows)
        return terminal
    }

    override fun attach(
        sessionId: String,
        since: Long,
        takeover: Boolean,
    ): Terminal = connect(sessionId, since, takeover, false)

    private fun connect(
        sessionId: String,
        since: Long,
        takeover: Boolean,
        pipes: Boolean,
    ): Terminal {
        val path = path(sessionId) + "/ws"
        val terminal =
            Terminal(sessionId, since, api.config.maxRetries, api.config.requestTimeout) { from, takes, listener ->
                val query = listOf("since" to from, "takeover" to 1.takeIf { takes }, "pty" to 0.takeIf { pipes })
                val request = Request.Builder().url(api.url(Call("GET", path, query)))
                api.headers.forEach { (name, value) -> request.header(name, value) }
                api.config.transport.socketClient.newWebSocket(request.build(), listener)
            }
        terminal.connect(takeover)
        return terminal
    }

    override fun get(sessionId: String): PtyInfo {
        val found = api.ask<Pty>(Call("GET", path(sessionId)))
        return PtyInfo(found.sessionId, found.running, found.outputOffset)
    }

    override fun delete(sessionId: String) {
        api.send(Call("DELETE", path(sessionId)))
    }
}
