package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxStreamException
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.LifecycleEvent
import com.alibaba.opensandbox.sandbox.domain.services.EventStream
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.Api
import com.alibaba.opensandbox.sandbox.infrastructure.http.Call
import com.alibaba.opensandbox.sandbox.infrastructure.http.Limit
import com.alibaba.opensandbox.sandbox.infrastructure.http.Runs
import kotlinx.serialization.json.JsonObject
import com.alibaba.opensandbox.sandbox.infrastructure.wire.LifecycleEvent as WireEvent

/**
 * The stream of /events. When it breaks it is opened again behind the last event; when none came since
 * it was opened, the break is the error.
 */
@OptIn(InternalOpenSandboxApi::class)
internal class EventWatch(
    private val api: Api,
    private val sandboxId: String?,
    after: String?,
) : AutoCloseable {
    @Volatile
    private var isClosed = false
    private var stream = open(after)

    private fun open(after: String?): EventStream<LifecycleEvent> {
        val place = if (after == null) emptyMap() else mapOf("Last-Event-ID" to after)
        val call = Call("GET", "/events", listOf("sandboxId" to sandboxId), headers = place, limit = Limit.READ)
        return Runs.endless(api, call, "events") { line, _ -> eventOf(line) }
    }

    private fun eventOf(line: String): LifecycleEvent {
        val found = Api.json.parseToJsonElement(line) as? JsonObject
        if (found != null && found.isEmpty()) return LifecycleEvent(LifecycleEvent.RESET)
        val event = Api.json.decodeFromString(WireEvent.serializer(), line)
        return LifecycleEvent(
            event.type,
            event.id,
            timeOf(event.time),
            event.tenant,
            event.sandboxId,
            event.state,
            event.reason,
            event.message,
        )
    }

    fun events(): Iterator<LifecycleEvent> =
        iterator {
            while (true) {
                val now = synchronized(this@EventWatch) { stream }
                var last: String? = null
                try {
                    while (now.hasNext()) {
                        val event = now.next()
                        last = event.id ?: last
                        yield(event)
                    }
                } catch (e: SandboxStreamException) {
                    if (last == null) throw e
                }
                if (isClosed) return@iterator
                val next = open(last ?: return@iterator) // closed otherwise
                if (!goOn(next)) return@iterator
            }
        }

    @Synchronized
    private fun goOn(next: EventStream<LifecycleEvent>): Boolean {
        if (isClosed) next.close() else stream = next
        return !isClosed
    }

    /** May be called while another thread waits for an event. */
    @Synchronized
    override fun close() {
        isClosed = true
        stream.close()
    }
}
