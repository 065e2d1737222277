package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxStreamException
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.CommandStatus
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionError
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionEvent
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.Pauses
import com.alibaba.opensandbox.sandbox.infrastructure.http.Runs
import okio.utf8Size

private const val NO_TEXT = '\uFFFD'

/** The rest of a command whose stream broke, from the logs that the daemon keeps. */
@OptIn(InternalOpenSandboxApi::class)
internal class Replay(
    private val commands: CommandsAdapter,
) : Runs.Resume {
    private var id = ""
    private val places = listOf(Place("stdout"), Place("stderr"))

    override fun saw(event: ExecutionEvent) {
        when (event.type) {
            "init" -> id = event.text ?: ""
            "stdout" -> places[0].saw(event)
            "stderr" -> places[1].saw(event)
        }
    }

    override fun rest(broken: SandboxStreamException): Sequence<ExecutionEvent> =
        sequence {
            if (id.isEmpty()) throw broken
            var pauses = Pauses()
            while (true) {
                val (status, events) = look() ?: throw broken
                yieldAll(events)
                if (!status.running) {
                    yield(last(status))
                    return@sequence
                }
                if (events.isNotEmpty()) pauses = Pauses()
                pauses.pause()
            }
        }

    private fun look(): Pair<CommandStatus, List<ExecutionEvent>>? =
        try {
            val status = commands.getCommandStatus(id)
            val news = places.map { it.read(!status.running) }
            if (news.any { it == null }) null else status to news.filterNotNull().flatten()
        } catch (_: SandboxException) {
            null
        }

    private fun last(status: CommandStatus): ExecutionEvent {
        val finished = status.finishedAt?.toInstant()?.toEpochMilli() ?: System.currentTimeMillis()
        val took = finished - (status.startedAt?.toInstant()?.toEpochMilli() ?: finished)
        if (status.exitCode == 0) {
            return ExecutionEvent("execution_complete", timestamp = finished, executionTime = maxOf(0, took))
        }
        val code = (status.exitCode ?: -1).toString()
        val trace = listOf(status.error ?: "exit status $code")
        return ExecutionEvent("error", timestamp = finished, error = ExecutionError("CommandExecError", code, finished, trace))
    }

    /** Where a stream stands: events are lines without their ends, a log is bytes. */
    private inner class Place(
        private val kind: String,
    ) {
        private var cursor = 0L
        private var isKnown = true
        private var rest = ""

        fun saw(event: ExecutionEvent) {
            val text = event.text ?: ""
            if (NO_TEXT in text) isKnown = false // what was no UTF-8 has another length in the log
            cursor += if (text == "\n") 1L else text.utf8Size() + 1L
            if (event.continues) cursor--
        }

        /** New lines of the log; null when it cannot be read on from here. */
        fun read(isLast: Boolean): List<ExecutionEvent>? {
            if (!isKnown) return null
            val logs = commands.logs(id, cursor, kind)
            val bytes = logs.content.utf8Size()
            val next = logs.cursor ?: (cursor + bytes)
            // The log made room for newer bytes.
            if (bytes > 0 && next - bytes > cursor && NO_TEXT !in logs.content) return null
            cursor = maxOf(next, cursor)
            rest += logs.content
            return lines(isLast)
        }

        private fun lines(isLast: Boolean): List<ExecutionEvent> {
            val held = if (!isLast && rest.endsWith("\r")) "\r" else "" // may be half of a line end
            val lines = rest.removeSuffix(held).split("\r\n", "\n", "\r").toMutableList()
            rest = lines.removeAt(lines.size - 1)
            if (isLast && rest.isNotEmpty()) lines.add(rest)
            rest = if (isLast) "" else rest + held
            return lines.map { ExecutionEvent(kind, it.ifEmpty { "\n" }, System.currentTimeMillis()) }
        }
    }
}
