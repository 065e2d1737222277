package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.domain.exceptions.InvalidArgumentException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxInternalException
import com.alibaba.opensandbox.sandbox.domain.models.diagnostics.DiagnosticContent
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ForkRequest
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.LifecycleEvent
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedSandboxInfos
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedSnapshotInfos
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxEndpoint
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxFilter
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxRenewResponse
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotFilter
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotInfo
import com.alibaba.opensandbox.sandbox.domain.services.Diagnostics
import com.alibaba.opensandbox.sandbox.domain.services.EventStream
import com.alibaba.opensandbox.sandbox.domain.services.Sandboxes
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.Api
import com.alibaba.opensandbox.sandbox.infrastructure.http.Call
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CreateSandboxRequest
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CreateSandboxResponse
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CreateSnapshotRequest
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Endpoint
import com.alibaba.opensandbox.sandbox.infrastructure.wire.RenewRequest
import com.alibaba.opensandbox.sandbox.infrastructure.wire.RenewResponse
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Sandbox
import com.alibaba.opensandbox.sandbox.infrastructure.wire.SandboxList
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Snapshot
import com.alibaba.opensandbox.sandbox.infrastructure.wire.SnapshotList
import kotlinx.serialization.Serializable
import java.time.OffsetDateTime
import java.time.ZoneOffset
import java.time.format.DateTimeFormatter
import java.time.temporal.ChronoUnit
import com.alibaba.opensandbox.sandbox.infrastructure.wire.DiagnosticContent as WireDiagnosticContent
import com.alibaba.opensandbox.sandbox.infrastructure.wire.ForkRequest as WireForkRequest

@Serializable
private class Forks(
    val items: List<Sandbox>,
)

@Serializable
private class Rollback(
    val snapshotId: String,
)

private const val PORT_MAX = 65535

@OptIn(InternalOpenSandboxApi::class)
internal class SandboxesAdapter(
    private val api: Api,
) : Sandboxes,
    Diagnostics {
    private fun path(
        sandboxId: String,
        more: String = "",
    ) = "/sandboxes/${Api.segment("sandbox id", sandboxId)}$more"

    fun createSandbox(
        request: CreateSandboxRequest,
        idempotencyKey: String?,
    ): CreateSandboxResponse {
        val headers = idempotencyKey?.let { mapOf("Idempotency-Key" to it) }.orEmpty()
        val repeat = if (idempotencyKey == null) null else true
        return api.ask(Call("POST", "/sandboxes", body = Api.jsonBody(request), headers = headers, repeat = repeat))
    }

    override fun getSandboxInfo(sandboxId: String): SandboxInfo = api.ask<Sandbox>(Call("GET", path(sandboxId))).toModel()

    /** Without repetition: for those that look often. */
    fun look(sandboxId: String): SandboxInfo = api.ask<Sandbox>(Call("GET", path(sandboxId), repeat = false)).toModel()

    override fun listSandboxes(filter: SandboxFilter): PagedSandboxInfos {
        val metadata = filter.metadata?.map { (key, value) -> "${Api.escape(key)}=${Api.escape(value)}" }
        val query =
            listOf(
                "state" to filter.states,
                "metadata" to metadata?.takeIf { it.isNotEmpty() }?.joinToString("&"),
                "page" to filter.page,
                "pageSize" to filter.pageSize,
            )
        val found = api.ask<SandboxList>(Call("GET", "/sandboxes", query))
        return PagedSandboxInfos(found.items.map { it.toModel() }, found.pagination.toModel())
    }

    override fun getSandboxEndpoint(
        sandboxId: String,
        port: Int,
        useServerProxy: Boolean,
    ): SandboxEndpoint = endpoint(sandboxId, port, listOf("use_server_proxy" to useServerProxy))

    override fun getSignedEndpoint(
        sandboxId: String,
        port: Int,
        expires: Long,
        useServerProxy: Boolean,
    ): SandboxEndpoint {
        if (expires <= 0) throw InvalidArgumentException("expires must be seconds since 1970")
        return endpoint(sandboxId, port, listOf("use_server_proxy" to useServerProxy, "expires" to expires))
    }

    private fun endpoint(
        sandboxId: String,
        port: Int,
        query: List<Pair<String, Any?>>,
    ): SandboxEndpoint {
        if (port !in 1..PORT_MAX) throw InvalidArgumentException("port must be from 1 to $PORT_MAX, not $port")
        val found = api.ask<Endpoint>(Call("GET", path(sandboxId, "/endpoints/$port"), query))
        if (found.endpoint.isBlank()) throw SandboxInternalException("the server's answer has no endpoint")
        return SandboxEndpoint(found.endpoint, found.headers ?: emptyMap())
    }

    override fun patchSandboxMetadata(
        sandboxId: String,
        patch: Map<String, String?>,
    ): SandboxInfo = api.ask<Sandbox>(Call("PATCH", path(sandboxId, "/metadata"), body = Api.jsonBody(patch))).toModel()

    private fun post(
        sandboxId: String,
        what: String,
    ) {
        api.send(Call("POST", path(sandboxId, what)))
    }

    override fun pauseSandbox(sandboxId: String) = post(sandboxId, "/pause")

    override fun resumeSandbox(sandboxId: String) = post(sandboxId, "/resume")

    override fun stopSandbox(sandboxId: String) = post(sandboxId, "/stop")

    override fun startSandbox(sandboxId: String) = post(sandboxId, "/start")

    override fun killSandbox(sandboxId: String) {
        api.send(Call("DELETE", path(sandboxId)))
    }

    override fun renewSandboxExpiration(
        sandboxId: String,
        expiresAt: OffsetDateTime,
    ): SandboxRenewResponse {
        val text = expiresAt.withOffsetSameInstant(ZoneOffset.UTC).truncatedTo(ChronoUnit.MILLIS)
            .format(DateTimeFormatter.ISO_OFFSET_DATE_TIME)
        val call = Call("POST", path(sandboxId, "/renew-expiration"), body = Api.jsonBody(RenewRequest(text)))
        return SandboxRenewResponse(timeOf(api.ask<RenewResponse>(call).expiresAt))
    }

    override fun forkSandbox(
        sandboxId: String,
        request: ForkRequest,
    ): List<SandboxInfo> {
        val body =
            WireForkRequest(
                request.count?.toLong(),
                request.timeout?.seconds,
                request.env,
                request.metadata,
                request.entrypoint,
                request.memory,
            )
        return api.ask<Forks>(Call("POST", path(sandboxId, "/fork"), body = Api.jsonBody(body))).items.map { it.toModel() }
    }

    override fun rollbackSandbox(
        sandboxId: String,
        snapshotId: String,
    ): SandboxInfo {
        val body = Api.jsonBody(Rollback(Api.needText("snapshot id", snapshotId)))
        val answer = api.send(Call("POST", path(sandboxId, "/rollback"), body = body))
        if (answer.bytes.isEmpty()) return getSandboxInfo(sandboxId)
        return Api.parse<Sandbox>(answer.bytes, "rollback").toModel()
    }

    override fun createSnapshot(
        sandboxId: String,
        name: String?,
        memory: Boolean?,
    ): SnapshotInfo {
        val body = Api.jsonBody(CreateSnapshotRequest(name, memory))
        return api.ask<Snapshot>(Call("POST", path(sandboxId, "/snapshots"), body = body)).toModel()
    }

    override fun watchEvents(
        sandboxId: String?,
        after: String?,
    ): EventStream<LifecycleEvent> {
        val watch = EventWatch(api, sandboxId, after)
        return EventStream(watch.events(), watch::close)
    }

    private fun snapshotPath(snapshotId: String) = "/snapshots/${Api.segment("snapshot id", snapshotId)}"

    override fun getSnapshot(snapshotId: String): SnapshotInfo = api.ask<Snapshot>(Call("GET", snapshotPath(snapshotId))).toModel()

    override fun listSnapshots(filter: SnapshotFilter): PagedSnapshotInfos {
        val query =
            listOf(
                "sandboxId" to filter.sandboxId,
                "state" to filter.states,
                "page" to filter.page,
                "pageSize" to filter.pageSize,
            )
        val found = api.ask<SnapshotList>(Call("GET", "/snapshots", query))
        return PagedSnapshotInfos(found.items.map { it.toModel() }, found.pagination.toModel())
    }

    override fun deleteSnapshot(snapshotId: String) {
        api.send(Call("DELETE", snapshotPath(snapshotId)))
    }

    override fun getLogs(
        sandboxId: String,
        scope: String,
    ): DiagnosticContent = diagnostics(sandboxId, "logs", scope)

    override fun getEvents(
        sandboxId: String,
        scope: String,
    ): DiagnosticContent = diagnostics(sandboxId, "events", scope)

    private fun diagnostics(
        sandboxId: String,
        kind: String,
        scope: String,
    ): DiagnosticContent {
        val query = listOf("scope" to Api.needText("scope", scope))
        val found = api.ask<WireDiagnosticContent>(Call("GET", path(sandboxId, "/diagnostics/$kind"), query))
        return DiagnosticContent(
            sandboxId = found.sandboxId ?: sandboxId,
            kind = found.kind ?: kind,
            scope = found.scope ?: scope,
            delivery = found.delivery ?: "inline",
            contentType = found.contentType ?: "text/plain",
            truncated = found.truncated ?: false,
            content = found.content,
            contentUrl = found.contentUrl,
            contentLength = found.contentLength,
            expiresAt = timeOf(found.expiresAt),
            warnings = found.warnings,
        )
    }
}
