package com.alibaba.opensandbox.sandbox.infrastructure.http

import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxStreamException
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.Execution
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionComplete
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionError
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionEvent
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionHandlers
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionInit
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionResult
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.OutputHandler
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.OutputMessage
import com.alibaba.opensandbox.sandbox.domain.services.EventStream
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable
import kotlinx.serialization.SerializationException
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.contentOrNull
import org.slf4j.LoggerFactory
import java.io.IOException

/** All members that events of runs have; of a late failure only code and message. */
@Serializable
private class RawEvent(
    val type: String? = null,
    val text: String? = null,
    val timestamp: Long? = null,
    val continues: Boolean? = null,
    @SerialName("execution_count") val executionCount: Long? = null,
    @SerialName("execution_time") val executionTime: Long? = null,
    val results: JsonObject? = null,
    val error: JsonObject? = null,
    val display: JsonElement? = null,
    val code: String? = null,
    val message: String? = null,
) {
    fun toEvent(): ExecutionEvent? {
        val time = timestamp ?: System.currentTimeMillis()
        if (type == null) {
            val late = ExecutionError(code ?: return null, message ?: "", time, emptyList())
            return ExecutionEvent("error", timestamp = time, error = late)
        }
        return ExecutionEvent(
            type,
            text,
            time,
            executionCount,
            executionTime,
            results?.mapValues { (_, value) -> textOf(value) },
            error?.let { errorOf(it, time) },
            continues == true,
            display != null,
        )
    }

    private fun errorOf(
        error: JsonObject,
        time: Long,
    ) = ExecutionError(
        textOf(error["ename"] ?: error["name"]),
        textOf(error["evalue"] ?: error["value"]),
        time,
        (error["traceback"] as? kotlinx.serialization.json.JsonArray)?.map { textOf(it) } ?: emptyList(),
    )

    private fun textOf(value: JsonElement?): String =
        when (value) {
            null -> ""
            is JsonPrimitive -> value.contentOrNull ?: ""
            else -> value.toString()
        }
}

/** Follows what a request started to its last event. */
@InternalOpenSandboxApi
class Runs(
    private val api: Api,
) {
    /** Goes on with a run whose stream broke, where the server kept what it said. */
    interface Resume {
        fun saw(event: ExecutionEvent)

        /** The rest, up to the last event; throws [broken] when it cannot be had. */
        fun rest(broken: SandboxStreamException): Sequence<ExecutionEvent>
    }

    /** The events of a run. A stream that ends before the last one is resumed, or an error. */
    fun events(
        call: Call,
        what: String,
        resume: Resume? = null,
    ): EventStream<ExecutionEvent> {
        val lines = Lines(api, api.open(call), call)
        return EventStream(iterator { follow(lines, what, resume) }, lines::close)
    }

    private suspend fun SequenceScope<ExecutionEvent>.follow(
        lines: Lines,
        what: String,
        resume: Resume?,
    ) {
        var ended = false
        var cause: IOException? = null
        lines.use {
            while (true) {
                val event =
                    try {
                        eventOf(lines.next() ?: break, what)
                    } catch (e: IOException) {
                        cause = e
                        break
                    } ?: continue
                if (event.type == "ping") {
                    lines.sawPing()
                    continue
                }
                resume?.saw(event)
                if (event.type == "execution_complete" || event.type == "error") {
                    ended = true
                    lines.sawLast()
                }
                yield(event)
            }
        }
        if (ended) return
        CallScope.check()
        val broken = brokenStream(what, cause)
        if (resume == null) throw broken
        yieldAll(resume.rest(broken))
    }

    private fun eventOf(
        text: String,
        what: String,
    ): ExecutionEvent? =
        try {
            Api.json.decodeFromString(RawEvent.serializer(), text).toEvent()
        } catch (e: SerializationException) {
            throw Api.unexpected(what, e)
        }

    /** Runs to the last event and returns all of it. */
    fun execute(
        call: Call,
        what: String,
        handlers: ExecutionHandlers?,
        resume: Resume? = null,
    ): Execution {
        val execution = Execution()
        val collector = Collector(execution, handlers)
        events(call, what, resume).use { stream -> stream.forEach(collector::take) }
        return execution
    }

    private class Collector(
        private val execution: Execution,
        private val handlers: ExecutionHandlers?,
    ) {
        fun take(event: ExecutionEvent) {
            when (event.type) {
                "stdout", "stderr" -> output(event)
                "init" -> {
                    execution.id = event.text
                    tell(handlers?.onInit, ExecutionInit(event.text ?: "", event.timestamp))
                }
                "result" -> result(event)
                "execution_count" -> execution.executionCount = event.executionCount
                "execution_complete" -> {
                    val complete = ExecutionComplete(event.timestamp, event.executionTime ?: 0)
                    execution.complete = complete
                    tell(handlers?.onExecutionComplete, complete)
                }
                "error" -> {
                    val error = event.error ?: ExecutionError("", event.text ?: "", event.timestamp, emptyList())
                    execution.error = error
                    tell(handlers?.onError, error)
                }
            }
        }

        private fun output(event: ExecutionEvent) {
            val isError = event.type == "stderr"
            val message = OutputMessage(event.text ?: "", event.timestamp, isError, event.continues)
            if (handlers?.skipAccumulation != true) execution.logs.add(message)
            tell(if (isError) handlers?.onStderr else handlers?.onStdout, message)
        }

        private fun result(event: ExecutionEvent) {
            val results = event.results ?: emptyMap()
            val result = ExecutionResult(results["text/plain"] ?: results["text"], event.timestamp, results, event.isDisplay)
            execution.add(result)
            tell(handlers?.onResult, result)
        }

        private fun <T> tell(
            handler: OutputHandler<T>?,
            value: T,
        ) {
            try {
                handler?.handle(value)
            } catch (e: Exception) {
                log.warn("a handler of output failed", e)
            }
        }
    }

    companion object {
        private val log = LoggerFactory.getLogger(Runs::class.java)

        internal fun brokenStream(
            what: String,
            cause: Throwable?,
        ): SandboxStreamException {
            val why = cause?.let { it.message ?: it.toString() } ?: "it ended without its last event"
            return SandboxStreamException("the stream of $what broke: $why", cause)
        }

        /** The exit code of a foreground command that has ended. */
        internal fun setExitCode(execution: Execution) {
            val error = execution.error
            execution.exitCode =
                when {
                    error != null -> error.value.toIntOrNull()
                    execution.complete != null -> 0
                    else -> null
                }
        }

        /** A stream without a last event: its end is an error. */
        internal fun <T : Any> endless(
            api: Api,
            call: Call,
            what: String,
            parse: (String, Lines) -> T?,
        ): EventStream<T> {
            val lines = Lines(api, api.open(call), call)
            val source =
                iterator<T> {
                    var cause: Exception? = null
                    lines.use {
                        while (true) {
                            val line =
                                try {
                                    lines.next() ?: break
                                } catch (e: IOException) {
                                    cause = e
                                    break
                                }
                            val value =
                                try {
                                    parse(line, lines)
                                } catch (e: SerializationException) {
                                    throw Api.unexpected(what, e)
                                }
                            if (value != null) yield(value)
                        }
                    }
                    CallScope.check()
                    throw brokenStream(what, cause)
                }
            return EventStream(source, lines::close)
        }
    }
}

/** Whether the exception says that something does not exist. */
internal fun SandboxException.isNotFound(): Boolean =
    (this as? com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxApiException)?.statusCode == 404
