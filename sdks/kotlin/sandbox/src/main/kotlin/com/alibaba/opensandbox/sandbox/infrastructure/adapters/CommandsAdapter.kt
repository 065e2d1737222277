package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxReadyTimeoutException
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.CommandLogs
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.CommandStatus
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.Execution
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionEvent
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunCommandRequest
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunInSessionRequest
import com.alibaba.opensandbox.sandbox.domain.services.Commands
import com.alibaba.opensandbox.sandbox.domain.services.EventStream
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.Api
import com.alibaba.opensandbox.sandbox.infrastructure.http.Call
import com.alibaba.opensandbox.sandbox.infrastructure.http.Limit
import com.alibaba.opensandbox.sandbox.infrastructure.http.Pauses
import com.alibaba.opensandbox.sandbox.infrastructure.http.Runs
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CreateSessionRequest
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Session
import okhttp3.MediaType.Companion.toMediaType
import java.io.InputStream
import java.time.Duration
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CommandStatus as WireCommandStatus
import com.alibaba.opensandbox.sandbox.infrastructure.wire.RunCommandRequest as WireRunCommand
import com.alibaba.opensandbox.sandbox.infrastructure.wire.RunInSessionRequest as WireRunInSession

@OptIn(InternalOpenSandboxApi::class)
internal class CommandsAdapter(
    private val api: Api,
) : Commands {
    private val runs = Runs(api)

    private fun callOf(request: RunCommandRequest): Call {
        val isProgram = !request.argv.isNullOrEmpty()
        val body =
            WireRunCommand(
                command = request.command.takeUnless { isProgram },
                argv = request.argv.takeIf { isProgram },
                cwd = request.workingDirectory,
                background = true.takeIf { request.background },
                timeout = request.timeout?.toMillis(),
                uid = request.uid?.toLong(),
                gid = request.gid?.toLong(),
                envs = request.envs.takeIf { it.isNotEmpty() },
                stdin = request.stdin,
                stdinOpen = true.takeIf { request.stdinOpen },
            )
        return Call("POST", "/command", body = Api.jsonBody(body), limit = Limit.READ)
    }

    // A command outlives its stream, and the daemon keeps its output: what broke is read on there.
    private fun replayOf(request: RunCommandRequest) = if (request.background) null else Replay(this)

    override fun run(request: RunCommandRequest): Execution {
        val execution = runs.execute(callOf(request), "the command", request.handlers, replayOf(request))
        if (!request.background) Runs.setExitCode(execution)
        return execution
    }

    override fun stream(request: RunCommandRequest): EventStream<ExecutionEvent> =
        runs.events(callOf(request), "the command", replayOf(request))

    override fun interrupt(executionId: String) {
        api.send(Call("DELETE", "/command", listOf("id" to Api.needText("id", executionId))))
    }

    override fun getCommandStatus(executionId: String): CommandStatus {
        val found = api.ask<WireCommandStatus>(Call("GET", "/command/status/${Api.segment("id", executionId)}"))
        return CommandStatus(
            id = found.id,
            content = found.content,
            running = found.running ?: false,
            exitCode = found.exitCode?.toInt(),
            error = found.error,
            startedAt = timeOf(found.startedAt),
            finishedAt = timeOf(found.finishedAt),
        )
    }

    override fun getBackgroundCommandLogs(
        executionId: String,
        cursor: Long?,
    ): CommandLogs = logs(executionId, cursor, null)

    fun logs(
        executionId: String,
        cursor: Long?,
        stream: String?,
    ): CommandLogs {
        val query = listOf("cursor" to cursor, "stream" to stream)
        val answer = api.send(Call("GET", "/command/${Api.segment("id", executionId)}/logs", query))
        return CommandLogs(answer.text, answer.header(CURSOR_HEADER)?.trim()?.toLongOrNull())
    }

    override fun waitForCommand(
        executionId: String,
        timeout: Duration?,
    ): CommandStatus {
        val pauses = Pauses()
        val end = timeout?.let { System.nanoTime() + it.toNanos() }
        while (true) {
            val status = getCommandStatus(executionId)
            if (!status.running) return status
            if (end != null && System.nanoTime() - end >= 0) {
                throw SandboxReadyTimeoutException("command $executionId still runs after $timeout")
            }
            pauses.pause()
        }
    }

    override fun writeStdin(
        executionId: String,
        data: InputStream,
        eof: Boolean,
    ) {
        val path = "/command/${Api.segment("id", executionId)}/stdin"
        val body = Api.streamBody(data, BYTES_TYPE)
        api.send(Call("POST", path, listOf("eof" to eof), body, limit = Limit.READ, repeat = false))
    }

    override fun createSession(workingDirectory: String?): String =
        api.ask<Session>(Call("POST", "/session", body = Api.jsonBody(CreateSessionRequest(workingDirectory)))).sessionId

    // A session interrupts the run of a client that leaves: there is nothing to go on with.
    override fun runInSession(
        sessionId: String,
        request: RunInSessionRequest,
    ): Execution {
        val envs = request.envs.takeIf { it.isNotEmpty() }
        val body = WireRunInSession(request.command, request.workingDirectory, request.timeout?.toMillis(), envs)
        val path = "/session/${Api.segment("session id", sessionId)}/run"
        val call = Call("POST", path, body = Api.jsonBody(body), limit = Limit.READ)
        return runs.execute(call, "the command in a session", request.handlers).also { Runs.setExitCode(it) }
    }

    override fun deleteSession(sessionId: String) {
        api.send(Call("DELETE", "/session/${Api.segment("session id", sessionId)}"))
    }

    private companion object {
        const val CURSOR_HEADER = "EXECD-COMMANDS-TAIL-CURSOR"
        val BYTES_TYPE = "application/octet-stream".toMediaType()
    }
}
