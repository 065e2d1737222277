package com.alibaba.opensandbox.sandbox.domain.services

import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.CommandLogs
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.CommandStatus
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.Execution
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionEvent
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.PtyInfo
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.PtyRequest
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunCommandRequest
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunInSessionRequest
import java.io.InputStream
import java.time.Duration

/** Commands and shell sessions of a sandbox. */
interface Commands {
    /** Runs a command to its end; one in the background only until it has begun. */
    fun run(request: RunCommandRequest): Execution

    fun run(command: String): Execution = run(RunCommandRequest.builder().command(command).build())

    /** The same, event by event. */
    fun stream(request: RunCommandRequest): EventStream<ExecutionEvent>

    fun stream(command: String): EventStream<ExecutionEvent> = stream(RunCommandRequest.builder().command(command).build())

    fun interrupt(executionId: String)

    fun getCommandStatus(executionId: String): CommandStatus

    /** Output of a background command from [cursor] on. */
    fun getBackgroundCommandLogs(
        executionId: String,
        cursor: Long? = null,
    ): CommandLogs

    fun getBackgroundCommandLogs(executionId: String): CommandLogs = getBackgroundCommandLogs(executionId, null)

    /** Waits for the end of a background command; null: as long as it takes. */
    fun waitForCommand(
        executionId: String,
        timeout: Duration? = null,
    ): CommandStatus

    fun waitForCommand(executionId: String): CommandStatus = waitForCommand(executionId, null)

    /** Input of a command that was run with `stdinOpen`; [eof] ends it. */
    fun writeStdin(
        executionId: String,
        data: InputStream,
        eof: Boolean = false,
    )

    fun writeStdin(
        executionId: String,
        data: String,
        eof: Boolean = false,
    ) = writeStdin(executionId, data.byteInputStream(), eof)

    fun createSession(workingDirectory: String? = null): String

    fun createSession(): String = createSession(null)

    /** Variables and the directory stay from one run to the next. */
    fun runInSession(
        sessionId: String,
        request: RunInSessionRequest,
    ): Execution

    fun runInSession(
        sessionId: String,
        command: String,
        workingDirectory: String? = null,
        timeout: Duration? = null,
    ): Execution =
        runInSession(
            sessionId,
            RunInSessionRequest
                .builder()
                .command(command)
                .workingDirectory(workingDirectory)
                .timeout(timeout)
                .build(),
        )

    fun runInSession(
        sessionId: String,
        command: String,
    ): Execution = runInSession(sessionId, command, null, null)

    fun deleteSession(sessionId: String)
}

/** Terminals of a sandbox. */
interface Terminals {
    /** Starts a terminal and connects to it. */
    fun open(request: PtyRequest): Terminal

    fun open(): Terminal = open(PtyRequest.builder().build())

    /** Connects to one, with its output from byte [since] on; [takeover] disconnects another client. */
    fun attach(
        sessionId: String,
        since: Long = 0,
        takeover: Boolean = false,
    ): Terminal

    fun get(sessionId: String): PtyInfo

    /** Ends its program. */
    fun delete(sessionId: String)
}
