package com.alibaba.opensandbox.sandbox.domain.models.execd.executions

import java.time.Duration
import kotlin.time.toJavaDuration

/** A command to be run. */
class RunCommandRequest private constructor(
    builder: Builder,
) {
    /** For a shell; empty when [argv] is given. */
    val command: String = builder.command ?: ""

    /** A program and its arguments, run without a shell. */
    val argv: List<String>? = builder.argv?.toList()
    val background: Boolean = builder.background
    val workingDirectory: String? = builder.workingDirectory
    val timeout: Duration? = builder.timeout
    val uid: Int? = builder.uid
    val gid: Int? = builder.gid
    val envs: Map<String, String> = LinkedHashMap(builder.envs)

    /** All of its standard input. */
    val stdin: String? = builder.stdin

    /** Its standard input does not end: `writeStdin` goes on with it. */
    val stdinOpen: Boolean = builder.stdinOpen
    val handlers: ExecutionHandlers? = builder.handlers

    init {
        require(!argv.isNullOrEmpty() || command.isNotBlank()) { "command must not be blank" }
        require(gid == null || uid != null) { "gid needs a uid" }
        require(uid == null || uid >= 0) { "uid must not be negative" }
        require(gid == null || gid >= 0) { "gid must not be negative" }
        require(timeout == null || !timeout.isNegative) { "timeout must not be negative" }
    }

    class Builder internal constructor() {
        internal var command: String? = null
        internal var argv: List<String>? = null
        internal var background = false
        internal var workingDirectory: String? = null
        internal var timeout: Duration? = null
        internal var uid: Int? = null
        internal var gid: Int? = null
        internal val envs = LinkedHashMap<String, String>()
        internal var stdin: String? = null
        internal var stdinOpen = false
        internal var handlers: ExecutionHandlers? = null

        fun command(command: String) = apply { this.command = command }

        fun argv(argv: List<String>) = apply { this.argv = argv }

        fun argv(vararg argv: String) = apply { this.argv = argv.toList() }

        @JvmOverloads
        fun background(background: Boolean = true) = apply { this.background = background }

        fun workingDirectory(workingDirectory: String?) = apply { this.workingDirectory = workingDirectory }

        fun timeout(timeout: Duration?) = apply { this.timeout = timeout }

        fun timeout(timeout: kotlin.time.Duration) = apply { this.timeout = timeout.toJavaDuration() }

        fun uid(uid: Int?) = apply { this.uid = uid }

        fun gid(gid: Int?) = apply { this.gid = gid }

        fun env(
            key: String,
            value: String,
        ) = apply { envs[key] = value }

        fun envs(envs: Map<String, String>) =
            apply {
                this.envs.clear()
                this.envs.putAll(envs)
            }

        fun stdin(stdin: String?) = apply { this.stdin = stdin }

        @JvmOverloads
        fun stdinOpen(stdinOpen: Boolean = true) = apply { this.stdinOpen = stdinOpen }

        fun handlers(handlers: ExecutionHandlers?) = apply { this.handlers = handlers }

        fun build(): RunCommandRequest = RunCommandRequest(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** A command to be run in a session. */
class RunInSessionRequest private constructor(
    builder: Builder,
) {
    val command: String = requireNotNull(builder.command) { "command must be given" }
    val workingDirectory: String? = builder.workingDirectory
    val timeout: Duration? = builder.timeout
    val envs: Map<String, String> = LinkedHashMap(builder.envs)
    val handlers: ExecutionHandlers? = builder.handlers

    init {
        require(command.isNotBlank()) { "command must not be blank" }
        require(timeout == null || !timeout.isNegative) { "timeout must not be negative" }
    }

    class Builder internal constructor() {
        internal var command: String? = null
        internal var workingDirectory: String? = null
        internal var timeout: Duration? = null
        internal val envs = LinkedHashMap<String, String>()
        internal var handlers: ExecutionHandlers? = null

        fun command(command: String) = apply { this.command = command }

        fun workingDirectory(workingDirectory: String?) = apply { this.workingDirectory = workingDirectory }

        fun timeout(timeout: Duration?) = apply { this.timeout = timeout }

        fun timeout(timeout: kotlin.time.Duration) = apply { this.timeout = timeout.toJavaDuration() }

        fun env(
            key: String,
            value: String,
        ) = apply { envs[key] = value }

        fun handlers(handlers: ExecutionHandlers?) = apply { this.handlers = handlers }

        fun build(): RunInSessionRequest = RunInSessionRequest(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** A terminal to be opened. */
class PtyRequest private constructor(
    builder: Builder,
) {
    val workingDirectory: String? = builder.workingDirectory

    /** What the shell runs; without one it is interactive. */
    val command: String? = builder.command
    val columns: Int? = builder.columns
    val rows: Int? = builder.rows

    /** Pipes instead of a terminal. */
    val pipes: Boolean = builder.pipes

    class Builder internal constructor() {
        internal var workingDirectory: String? = null
        internal var command: String? = null
        internal var columns: Int? = null
        internal var rows: Int? = null
        internal var pipes = false

        fun workingDirectory(workingDirectory: String?) = apply { this.workingDirectory = workingDirectory }

        fun command(command: String?) = apply { this.command = command }

        fun size(
            columns: Int,
            rows: Int,
        ) = apply {
            this.columns = columns
            this.rows = rows
        }

        @JvmOverloads
        fun pipes(pipes: Boolean = true) = apply { this.pipes = pipes }

        fun build(): PtyRequest = PtyRequest(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** A terminal that the sandbox has. */
data class PtyInfo(
    val sessionId: String,
    val running: Boolean,
    /** Bytes ever printed. */
    val outputOffset: Long,
)
