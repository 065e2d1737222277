package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxInternalException
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxMetrics
import com.alibaba.opensandbox.sandbox.domain.services.EventStream
import com.alibaba.opensandbox.sandbox.domain.services.Health
import com.alibaba.opensandbox.sandbox.domain.services.Metrics
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.Api
import com.alibaba.opensandbox.sandbox.infrastructure.http.Call
import com.alibaba.opensandbox.sandbox.infrastructure.http.Limit
import com.alibaba.opensandbox.sandbox.infrastructure.http.Runs
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Metrics as WireMetrics

@OptIn(InternalOpenSandboxApi::class)
internal class MetricsAdapter(
    private val api: Api,
) : Metrics,
    Health {
    private fun WireMetrics.toModel() =
        SandboxMetrics(
            cpuCount?.toFloat() ?: 0f,
            cpuUsedPct?.toFloat() ?: 0f,
            memTotalMib?.toFloat() ?: 0f,
            memUsedMib?.toFloat() ?: 0f,
            timestamp ?: 0,
        )

    override fun ping(sandboxId: String): Boolean {
        api.send(Call("GET", "/ping", repeat = false))
        return true
    }

    override fun getMetrics(): SandboxMetrics = api.ask<WireMetrics>(Call("GET", "/metrics")).toModel()

    override fun watch(): EventStream<SandboxMetrics> {
        val call = Call("GET", "/metrics/watch", limit = Limit.READ)
        return Runs.endless(api, call, "metrics") { line, _ ->
            val found = Api.json.parseToJsonElement(line) as JsonObject
            (found["error"] as? JsonPrimitive)?.let { throw SandboxInternalException("metrics: ${it.content}") }
            Api.json.decodeFromJsonElement(WireMetrics.serializer(), found).toModel()
        }
    }
}
