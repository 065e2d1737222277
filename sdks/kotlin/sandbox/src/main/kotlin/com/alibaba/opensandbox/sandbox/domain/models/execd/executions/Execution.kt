package com.alibaba.opensandbox.sandbox.domain.models.execd.executions

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonElement
import java.time.OffsetDateTime
import java.util.Base64

/** A line of output, without its end; `"\n"` is an empty one. */
data class OutputMessage
    @JvmOverloads
    constructor(
        val text: String,
        /** Milliseconds since 1970. */
        val timestamp: Long,
        val isError: Boolean = false,
        /** It goes on the line of the message before it. */
        val continues: Boolean = false,
    )

/** A value that code gave, or that it displayed. */
class ExecutionResult
    @JvmOverloads
    constructor(
        /** Its plain text, if it has one. */
        val text: String?,
        val timestamp: Long,
        /** Every form of it, by MIME type. */
        val extraProperties: Map<String, String> = emptyMap(),
        /** It was displayed and is not the value of the cell. */
        val isDisplay: Boolean = false,
    ) {
        val html: String? get() = extraProperties["text/html"]
        val markdown: String? get() = extraProperties["text/markdown"]
        val svg: String? get() = extraProperties["image/svg+xml"]
        val latex: String? get() = extraProperties["text/latex"]

        /** A picture, decoded. */
        val png: ByteArray? get() = bytes("image/png")
        val jpeg: ByteArray? get() = bytes("image/jpeg")

        /** A JSON value; null when there is none, or it cannot be read. */
        val json: JsonElement? get() = element("application/json")

        /** The data of a chart, of kernels that give it: Vega, Vega-Lite, Plotly or our own form. */
        val chart: JsonElement?
            get() = CHART_TYPES.firstNotNullOfOrNull { type -> element(type) }

        private fun bytes(type: String): ByteArray? =
            extraProperties[type]?.let { text ->
                try {
                    Base64.getMimeDecoder().decode(text)
                } catch (_: IllegalArgumentException) {
                    null
                }
            }

        private fun element(type: String): JsonElement? =
            extraProperties.entries.firstOrNull { it.key == type || it.key.startsWith("$type+") }?.let {
                runCatching { Json.parseToJsonElement(it.value) }.getOrNull()
            }

        override fun toString(): String = text ?: extraProperties.keys.toString()

        private companion object {
            val CHART_TYPES =
                listOf(
                    "application/vnd.opensandbox.chart",
                    "application/vnd.vegalite.v5",
                    "application/vnd.vegalite.v4",
                    "application/vnd.vega.v5",
                    "application/vnd.plotly.v1",
                )
        }
    }

/** How a run failed; of a command [value] is its exit code. */
data class ExecutionError(
    val name: String,
    val value: String,
    val timestamp: Long,
    val traceback: List<String>,
)

data class ExecutionComplete(
    val timestamp: Long,
    val executionTimeInMillis: Long,
)

data class ExecutionInit(
    val id: String,
    val timestamp: Long,
)

/** What a run printed. */
class ExecutionLogs {
    private val out = ArrayList<OutputMessage>()
    private val err = ArrayList<OutputMessage>()

    val stdout: List<OutputMessage> get() = out
    val stderr: List<OutputMessage> get() = err

    internal fun add(message: OutputMessage) {
        (if (message.isError) err else out).add(message)
    }
}

/** A run of a command or of code. */
class Execution {
    var id: String? = null
        internal set
    var executionCount: Long? = null
        internal set
    private val results = ArrayList<ExecutionResult>()
    val result: List<ExecutionResult> get() = results
    var error: ExecutionError? = null
        internal set
    var complete: ExecutionComplete? = null
        internal set

    /** Of a foreground command that has ended. */
    var exitCode: Int? = null
        internal set
    val logs = ExecutionLogs()

    /** Standard output, then results, as lines. */
    val text: String
        get() = (logs.stdout.map { it.text.trimEnd('\n') } + result.mapNotNull { it.text }).joinToString("\n").trimEnd('\n')

    internal fun add(result: ExecutionResult) {
        results.add(result)
    }

    override fun toString(): String {
        val parts = ArrayList<String>()
        if (text.isNotEmpty()) parts.add(text)
        if (logs.stderr.isNotEmpty()) parts.add("[stderr] " + logs.stderr.joinToString("\n") { it.text.trimEnd('\n') })
        error?.let { parts.add("[error] ${it.name}: ${it.value}") }
        return parts.joinToString("\n")
    }
}

/** An event of a run, as the stream has it. */
class ExecutionEvent(
    /** `init`, `stdout`, `stderr`, `result`, `execution_count`, `execution_complete` or `error`. */
    val type: String,
    val text: String? = null,
    val timestamp: Long = 0,
    val executionCount: Long? = null,
    val executionTime: Long? = null,
    val results: Map<String, String>? = null,
    val error: ExecutionError? = null,
    val continues: Boolean = false,
    val isDisplay: Boolean = false,
) {
    override fun toString(): String = "$type ${text ?: error ?: results ?: ""}".trimEnd()
}

/** Takes what a run tells. An exception of a handler is logged, and the run goes on. */
fun interface OutputHandler<T> {
    fun handle(output: T)
}

/** Handlers of what a run tells, called in its order on the caller's thread. */
class ExecutionHandlers private constructor(
    builder: Builder,
) {
    val onStdout: OutputHandler<OutputMessage>? = builder.onStdout
    val onStderr: OutputHandler<OutputMessage>? = builder.onStderr
    val onResult: OutputHandler<ExecutionResult>? = builder.onResult
    val onExecutionComplete: OutputHandler<ExecutionComplete>? = builder.onExecutionComplete
    val onError: OutputHandler<ExecutionError>? = builder.onError
    val onInit: OutputHandler<ExecutionInit>? = builder.onInit

    /** Output goes to the handlers and is not kept. */
    val skipAccumulation: Boolean = builder.skipAccumulation

    class Builder internal constructor() {
        internal var onStdout: OutputHandler<OutputMessage>? = null
        internal var onStderr: OutputHandler<OutputMessage>? = null
        internal var onResult: OutputHandler<ExecutionResult>? = null
        internal var onExecutionComplete: OutputHandler<ExecutionComplete>? = null
        internal var onError: OutputHandler<ExecutionError>? = null
        internal var onInit: OutputHandler<ExecutionInit>? = null
        internal var skipAccumulation = false

        fun onStdout(handler: OutputHandler<OutputMessage>) = apply { onStdout = handler }

        fun onStderr(handler: OutputHandler<OutputMessage>) = apply { onStderr = handler }

        fun onResult(handler: OutputHandler<ExecutionResult>) = apply { onResult = handler }

        fun onExecutionComplete(handler: OutputHandler<ExecutionComplete>) = apply { onExecutionComplete = handler }

        fun onError(handler: OutputHandler<ExecutionError>) = apply { onError = handler }

        fun onInit(handler: OutputHandler<ExecutionInit>) = apply { onInit = handler }

        @JvmOverloads
        fun skipAccumulation(skipAccumulation: Boolean = true) = apply { this.skipAccumulation = skipAccumulation }

        fun build(): ExecutionHandlers = ExecutionHandlers(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** How a command fares. */
data class CommandStatus(
    val id: String,
    /** The command itself. */
    val content: String?,
    val running: Boolean,
    val exitCode: Int?,
    val error: String?,
    val startedAt: OffsetDateTime?,
    val finishedAt: OffsetDateTime?,
)

/** Output of a background command from a cursor on. */
data class CommandLogs(
    val content: String,
    /** Where the next read begins. */
    val cursor: Long?,
)
