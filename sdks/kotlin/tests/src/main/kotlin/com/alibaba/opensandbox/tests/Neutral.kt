package com.alibaba.opensandbox.tests

import com.alibaba.opensandbox.sandbox.domain.models.diagnostics.DiagnosticContent
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.CommandStatus
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.Execution
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.EntryInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialBindingMetadata
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialMetadata
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialVaultState
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ImageInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PaginationInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxEndpoint
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxMetrics
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ServerPool
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.VolumeInfo
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.booleanOrNull
import kotlinx.serialization.json.contentOrNull
import kotlinx.serialization.json.intOrNull
import kotlinx.serialization.json.longOrNull
import java.time.OffsetDateTime
import java.time.ZoneOffset
import java.time.format.DateTimeFormatter

// The neutral forms of sdks/conformance/README.md.

fun json(value: Any?): JsonElement =
    when (value) {
        null, Unit -> JsonNull
        is JsonElement -> value
        is String -> JsonPrimitive(value)
        is Number -> JsonPrimitive(value)
        is Boolean -> JsonPrimitive(value)
        is OffsetDateTime -> JsonPrimitive(timeText(value))
        is Map<*, *> -> JsonObject(value.entries.associate { (k, v) -> k.toString() to json(v) })
        is Iterable<*> -> JsonArray(value.map(::json))
        else -> error("no neutral form of ${value.javaClass}")
    }

private val WHOLE = DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss'Z'")
private val MICROS = DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")

private fun timeText(time: OffsetDateTime): String {
    val utc = time.withOffsetSameInstant(ZoneOffset.UTC)
    return utc.format(if (utc.nano == 0) WHOLE else MICROS)
}

fun info(i: SandboxInfo) =
    mapOf(
        "id" to i.id,
        "image" to i.image?.image,
        "snapshot_id" to i.snapshotId,
        "state" to i.status.state,
        "reason" to i.status.reason,
        "message" to i.status.message,
        "metadata" to i.metadata,
        "entrypoint" to i.entrypoint,
        "expires_at" to i.expiresAt,
        "created_at" to i.createdAt,
        "platform" to i.platform?.let { mapOf("os" to it.os, "arch" to it.arch) },
    )

fun endpoint(e: SandboxEndpoint) = mapOf("endpoint" to e.endpoint, "headers" to e.headers)

fun figures(m: SandboxMetrics) =
    mapOf(
        "cpu_count" to m.cpuCount,
        "cpu_used_pct" to m.cpuUsedPercentage,
        "mem_total_mib" to m.memoryTotalInMiB,
        "mem_used_mib" to m.memoryUsedInMiB,
        "timestamp" to m.timestamp,
    )

fun diagnostics(d: DiagnosticContent) =
    mapOf(
        "kind" to d.kind,
        "scope" to d.scope,
        "delivery" to d.delivery,
        "content_type" to d.contentType,
        "content" to d.content,
        "content_url" to d.contentUrl,
        "content_length" to d.contentLength,
        "truncated" to d.truncated,
        "expires_at" to d.expiresAt,
        "warnings" to d.warnings,
    )

fun snapshot(s: SnapshotInfo) =
    mapOf(
        "id" to s.id,
        "sandbox_id" to s.sandboxId,
        "name" to s.name,
        "state" to s.status.state,
        "created_at" to s.createdAt,
    )

fun file(f: EntryInfo) =
    mapOf(
        "path" to f.path,
        "type" to f.type,
        "size" to f.size,
        "mode" to f.mode,
        "owner" to f.owner,
        "group" to f.group,
        "modified_at" to f.modifiedAt,
        "created_at" to f.createdAt,
    )

fun status(s: CommandStatus) =
    mapOf(
        "id" to s.id,
        "content" to s.content,
        "running" to s.running,
        "exit_code" to s.exitCode,
        "error" to s.error,
        "started_at" to s.startedAt,
        "finished_at" to s.finishedAt,
    )

fun execution(e: Execution) =
    mapOf(
        "id" to e.id,
        "stdout" to e.logs.stdout.map { it.text },
        "stderr" to e.logs.stderr.map { it.text },
        "results" to e.result.map { it.extraProperties },
        "error" to e.error?.let { mapOf("name" to it.name, "value" to it.value, "traceback" to it.traceback) },
        "complete_ms" to e.complete?.executionTimeInMillis,
        "exit_code" to e.exitCode,
        "execution_count" to e.executionCount,
        "text" to e.text,
    )

fun credential(c: CredentialMetadata) = mapOf("name" to c.name, "source_type" to c.sourceType, "revision" to c.revision)

fun binding(b: CredentialBindingMetadata) = mapOf("name" to b.name, "revision" to b.revision)

fun vault(v: CredentialVaultState) =
    mapOf(
        "revision" to v.revision,
        "credentials" to v.credentials.map(::credential),
        "bindings" to v.bindings.map(::binding),
    )

fun page(
    items: List<Any?>,
    p: PaginationInfo,
) = mapOf(
    "items" to items,
    "page" to p.page,
    "page_size" to p.pageSize,
    "total_items" to p.totalItems,
    "total_pages" to p.totalPages,
    "has_next_page" to p.hasNextPage,
)

fun image(i: ImageInfo) = mapOf("id" to i.id, "names" to i.names, "size" to i.size, "in_use" to i.inUse)

fun pool(p: ServerPool) = mapOf("name" to p.name, "total" to p.total, "allocated" to p.allocated, "available" to p.available)

fun volume(v: VolumeInfo) = mapOf("name" to v.name, "size_bytes" to v.sizeBytes, "used_by" to v.usedBy)

/** Members of a JSON object; what is missing or null is null. */
class Args(
    private val of: JsonObject,
) {
    fun names(): Set<String> = of.keys

    fun get(name: String): JsonElement? = of[name]?.takeIf { it !is JsonNull }

    fun isNull(name: String) = of[name] is JsonNull

    fun text(name: String): String? = (get(name) as? JsonPrimitive)?.contentOrNull

    fun need(name: String): String = text(name) ?: error("$name is missing")

    fun int(name: String): Int? = (get(name) as? JsonPrimitive)?.intOrNull

    fun long(name: String): Long? = (get(name) as? JsonPrimitive)?.longOrNull

    fun truth(name: String): Boolean? = (get(name) as? JsonPrimitive)?.booleanOrNull

    fun args(name: String): Args? = (get(name) as? JsonObject)?.let(::Args)

    fun each(name: String): List<Args>? = (get(name) as? JsonArray)?.map { Args(it as JsonObject) }

    fun list(name: String): List<String>? = (get(name) as? JsonArray)?.map { (it as JsonPrimitive).content }

    fun map(name: String): Map<String, String>? =
        (get(name) as? JsonObject)?.mapValues { (_, value) -> (value as JsonPrimitive).content }

    fun patch(name: String): Map<String, String?> =
        (get(name) as JsonObject).mapValues { (_, value) -> (value as? JsonPrimitive)?.contentOrNull }
}
