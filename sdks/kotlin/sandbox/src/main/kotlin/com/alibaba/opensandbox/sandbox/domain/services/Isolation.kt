package com.alibaba.opensandbox.sandbox.domain.services

import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.CommandLogs
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.Execution
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionHandlers
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedBackgroundRun
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedCapabilities
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedCommit
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedRunStatus
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedSessionRequest
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedSessionState
import java.io.InputStream
import java.time.Duration

/** Sessions with a file system of their own inside a sandbox. */
interface Isolation {
    fun create(request: IsolatedSessionRequest): IsolatedSession

    /** One that is there already. */
    fun attach(sessionId: String): IsolatedSession

    fun list(): List<IsolatedSessionState>

    /** Whether the sandbox can have such sessions. */
    fun capabilities(): IsolatedCapabilities
}

/** One session. close() ends it. */
interface IsolatedSession : AutoCloseable {
    val sessionId: String

    /** Files as the session sees them. */
    fun files(): Filesystem

    /** Runs shell code to its end. */
    fun run(
        code: String,
        envs: Map<String, String> = emptyMap(),
        timeout: Duration? = null,
        handlers: ExecutionHandlers? = null,
        cwd: String? = null,
    ): Execution

    fun run(code: String): Execution = run(code, emptyMap(), null, null, null)

    /** Starts shell code beside the session's shell. */
    fun runInBackground(
        code: String,
        envs: Map<String, String> = emptyMap(),
        cwd: String? = null,
    ): IsolatedBackgroundRun

    fun runInBackground(code: String): IsolatedBackgroundRun = runInBackground(code, emptyMap(), null)

    fun getRunStatus(runId: String): IsolatedRunStatus

    /** Output of a background run from [cursor] on. */
    fun getRunLogs(
        runId: String,
        cursor: Long = 0,
    ): CommandLogs

    fun getRunLogs(runId: String): CommandLogs = getRunLogs(runId, 0)

    fun getState(): IsolatedSessionState

    /** What the session wrote into its layer, as tar in gzip. Close it. */
    fun diff(): InputStream

    /** Writes that into the workspace; with [resetUpperAfter] the session begins anew, with an empty layer. */
    fun commit(resetUpperAfter: Boolean = false): IsolatedCommit

    fun commit(): IsolatedCommit = commit(false)

    fun delete()

    override fun close() = delete()
}
