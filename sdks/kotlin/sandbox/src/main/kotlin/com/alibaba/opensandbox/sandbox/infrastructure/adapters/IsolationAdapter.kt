package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.CommandLogs
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.Execution
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionHandlers
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedBackgroundRun
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedCapabilities
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedCommit
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedRunStatus
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedSessionRequest
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedSessionState
import com.alibaba.opensandbox.sandbox.domain.services.Filesystem
import com.alibaba.opensandbox.sandbox.domain.services.IsolatedSession
import com.alibaba.opensandbox.sandbox.domain.services.Isolation
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.Api
import com.alibaba.opensandbox.sandbox.infrastructure.http.Call
import com.alibaba.opensandbox.sandbox.infrastructure.http.Limit
import com.alibaba.opensandbox.sandbox.infrastructure.http.Runs
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable
import java.io.InputStream
import java.time.Duration

private const val BASE = "/v1/isolated"

@Serializable
private class WireWorkspace(
    val path: String,
    val mode: String? = null,
)

@Serializable
private class WireCreate(
    val workspace: WireWorkspace,
    val profile: String? = null,
    @SerialName("extra_writable") val extraWritable: List<String>? = null,
    @SerialName("share_net") val shareNet: Boolean? = null,
    val uid: Int? = null,
    val gid: Int? = null,
    @SerialName("idle_timeout_seconds") val idleTimeoutSeconds: Long? = null,
)

@Serializable
private class WireCreated(
    @SerialName("session_id") val sessionId: String,
)

@Serializable
private class WireState(
    @SerialName("session_id") val sessionId: String? = null,
    val status: String = "",
    @SerialName("created_at") val createdAt: String? = null,
    @SerialName("last_run_at") val lastRunAt: String? = null,
    @SerialName("idle_remaining_seconds") val idleRemainingSeconds: Long? = null,
) {
    fun toModel(id: String) =
        IsolatedSessionState(
            sessionId = sessionId ?: id,
            status = status,
            createdAt = timeOf(createdAt),
            lastRunAt = timeOf(lastRunAt),
            idleRemaining = idleRemainingSeconds?.let { Duration.ofSeconds(it) },
        )
}

@Serializable
private class WireStates(
    val sessions: List<WireState>? = null,
)

@Serializable
private class WireCapabilities(
    val available: Boolean = false,
    val isolator: String? = null,
    val version: String? = null,
    val message: String? = null,
)

@Serializable
private class WireRun(
    val code: String,
    val cwd: String? = null,
    val envs: Map<String, String>? = null,
    @SerialName("timeout_seconds") val timeoutSeconds: Long? = null,
    val background: Boolean? = null,
)

@Serializable
private class WireStarted(
    @SerialName("session_id") val sessionId: String,
    @SerialName("run_id") val runId: String,
    @SerialName("started_at") val startedAt: String? = null,
)

@Serializable
private class WireRunStatus(
    @SerialName("run_id") val runId: String,
    val running: Boolean = false,
    @SerialName("exit_code") val exitCode: Int? = null,
    val error: String? = null,
    @SerialName("started_at") val startedAt: String? = null,
    @SerialName("finished_at") val finishedAt: String? = null,
)

@Serializable
private class WireCommit(
    @SerialName("reset_upper_after") val resetUpperAfter: Boolean,
)

@Serializable
private class WireCommitted(
    @SerialName("files_written") val filesWritten: Long,
    @SerialName("paths_removed") val pathsRemoved: Long,
    @SerialName("upper_reset") val upperReset: Boolean,
)

/** Seconds, the last one whole. */
private fun secondsOf(duration: Duration): Long = duration.plusNanos(NANOS_BELOW_SECOND).seconds

private const val NANOS_BELOW_SECOND = 999_999_999L

@OptIn(InternalOpenSandboxApi::class)
internal class IsolationAdapter(
    private val api: Api,
) : Isolation {
    override fun create(request: IsolatedSessionRequest): IsolatedSession {
        val body =
            WireCreate(
                workspace = WireWorkspace(request.workspace, request.workspaceMode),
                profile = request.profile,
                extraWritable = request.extraWritable.takeIf { it.isNotEmpty() },
                shareNet = request.shareNetwork,
                uid = request.uid,
                gid = request.gid,
                idleTimeoutSeconds = request.idleTimeout?.let { secondsOf(it) },
            )
        val made = api.ask<WireCreated>(Call("POST", "$BASE/session", body = Api.jsonBody(body)))
        return IsolatedSessionAdapter(api, made.sessionId)
    }

    override fun attach(sessionId: String): IsolatedSession = IsolatedSessionAdapter(api, sessionId).also { it.getState() }

    override fun list(): List<IsolatedSessionState> =
        api.ask<WireStates>(Call("GET", "$BASE/sessions")).sessions.orEmpty().map { it.toModel("") }

    override fun capabilities(): IsolatedCapabilities {
        val found = api.ask<WireCapabilities>(Call("GET", "$BASE/capabilities"))
        return IsolatedCapabilities(found.available, found.isolator, found.version, found.message)
    }
}

@OptIn(InternalOpenSandboxApi::class)
private class IsolatedSessionAdapter(
    private val api: Api,
    override val sessionId: String,
) : IsolatedSession {
    private val path = "$BASE/session/${Api.segment("session id", sessionId)}"
    private val files = FilesystemAdapter(api, path)

    override fun files(): Filesystem = files

    override fun run(
        code: String,
        envs: Map<String, String>,
        timeout: Duration?,
        handlers: ExecutionHandlers?,
        cwd: String?,
    ): Execution {
        val body =
            WireRun(Api.needText("code", code), cwd, envs.takeIf { it.isNotEmpty() }, timeout?.let { secondsOf(it) })
        val call = Call("POST", "$path/run", body = Api.jsonBody(body), limit = Limit.READ)
        return Runs(api).execute(call, "the isolated run", handlers).also { Runs.setExitCode(it) }
    }

    override fun runInBackground(
        code: String,
        envs: Map<String, String>,
        cwd: String?,
    ): IsolatedBackgroundRun {
        val body = WireRun(Api.needText("code", code), cwd, envs.takeIf { it.isNotEmpty() }, background = true)
        val begun = api.ask<WireStarted>(Call("POST", "$path/run", body = Api.jsonBody(body)))
        return IsolatedBackgroundRun(begun.sessionId, begun.runId, timeOf(begun.startedAt))
    }

    override fun getRunStatus(runId: String): IsolatedRunStatus {
        val found = api.ask<WireRunStatus>(Call("GET", "$path/runs/${Api.segment("run id", runId)}"))
        return IsolatedRunStatus(
            runId = found.runId,
            running = found.running,
            exitCode = found.exitCode,
            error = found.error,
            startedAt = timeOf(found.startedAt),
            finishedAt = timeOf(found.finishedAt),
        )
    }

    override fun getRunLogs(
        runId: String,
        cursor: Long,
    ): CommandLogs {
        val query = listOf("cursor" to cursor)
        val answer = api.send(Call("GET", "$path/runs/${Api.segment("run id", runId)}/logs", query))
        return CommandLogs(answer.text, answer.header(CURSOR_HEADER)?.trim()?.toLongOrNull())
    }

    override fun getState(): IsolatedSessionState = api.ask<WireState>(Call("GET", path)).toModel(sessionId)

    override fun diff(): InputStream = Download(api, "$path/diff", emptyList(), null, canResume = false)

    override fun commit(resetUpperAfter: Boolean): IsolatedCommit {
        val body = if (resetUpperAfter) Api.jsonBody(WireCommit(true)) else null
        val done = api.ask<WireCommitted>(Call("POST", "$path/commit", body = body))
        return IsolatedCommit(done.filesWritten, done.pathsRemoved, done.upperReset)
    }

    override fun delete() {
        api.send(Call("DELETE", path))
    }

    private companion object {
        const val CURSOR_HEADER = "EXECD-ISOLATED-TAIL-CURSOR"
    }
}
