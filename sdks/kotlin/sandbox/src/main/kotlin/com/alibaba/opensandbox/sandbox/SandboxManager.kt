package com.alibaba.opensandbox.sandbox

import com.alibaba.opensandbox.sandbox.config.ConnectionConfig
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxReadyTimeoutException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxUnhealthyException
import com.alibaba.opensandbox.sandbox.domain.models.diagnostics.DiagnosticContent
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ImageInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.LifecycleEvent
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedSandboxInfos
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedSnapshotInfos
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PaginationInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxFilter
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxRenewResponse
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotFilter
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotState
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.VolumeInfo
import com.alibaba.opensandbox.sandbox.domain.services.EventStream
import com.alibaba.opensandbox.sandbox.domain.services.Images
import com.alibaba.opensandbox.sandbox.domain.services.Pools
import com.alibaba.opensandbox.sandbox.domain.services.Volumes
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.ImagesAdapter
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.PoolsAdapter
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.SandboxesAdapter
import com.alibaba.opensandbox.sandbox.infrastructure.adapters.VolumesAdapter
import com.alibaba.opensandbox.sandbox.infrastructure.http.Pauses
import java.time.Duration
import java.time.OffsetDateTime
import java.time.ZoneOffset

/** All sandboxes of a server, and what it keeps besides them. */
@OptIn(InternalOpenSandboxApi::class)
class SandboxManager private constructor(
    private val config: ConnectionConfig,
) : AutoCloseable {
    private val provider = HttpClientProvider(config)
    private val api = Sandbox.lifecycleApi(config)
    private val sandboxes = SandboxesAdapter(api)
    private val images = ImagesAdapter(api)
    private val volumes = VolumesAdapter(api)
    private val pools = PoolsAdapter(api)

    fun httpClientProvider(): HttpClientProvider = provider

    /** Images that the server has. */
    fun images(): Images = images

    /** Named volumes of the server. */
    fun volumes(): Volumes = volumes

    /** Pools that the server keeps. */
    fun pools(): Pools = pools

    fun listSandboxInfos(filter: SandboxFilter): PagedSandboxInfos = sandboxes.listSandboxes(filter)

    /** All that match, a page at a time as they are needed. */
    @JvmOverloads
    fun iterateSandboxInfos(filter: SandboxFilter = SandboxFilter.builder().build()): Iterable<SandboxInfo> =
        paged(filter.page) { page ->
            val found = sandboxes.listSandboxes(filter.ofPage(page))
            found.sandboxInfos to found.pagination
        }

    fun getSandboxInfo(sandboxId: String): SandboxInfo = sandboxes.getSandboxInfo(sandboxId)

    fun getDiagnosticLogs(
        sandboxId: String,
        scope: String,
    ): DiagnosticContent = sandboxes.getLogs(sandboxId, scope)

    fun getDiagnosticEvents(
        sandboxId: String,
        scope: String,
    ): DiagnosticContent = sandboxes.getEvents(sandboxId, scope)

    /** A null value deletes a key. */
    fun patchSandboxMetadata(
        sandboxId: String,
        patch: Map<String, String?>,
    ): SandboxInfo = sandboxes.patchSandboxMetadata(sandboxId, patch)

    fun killSandbox(sandboxId: String) = sandboxes.killSandbox(sandboxId)

    /** It expires [timeout] from now. */
    fun renewSandbox(
        sandboxId: String,
        timeout: Duration,
    ): SandboxRenewResponse = sandboxes.renewSandboxExpiration(sandboxId, OffsetDateTime.now(ZoneOffset.UTC).plus(timeout))

    fun pauseSandbox(sandboxId: String) = sandboxes.pauseSandbox(sandboxId)

    fun resumeSandbox(sandboxId: String) = sandboxes.resumeSandbox(sandboxId)

    /** With [memory] that of the processes is saved, too. */
    @JvmOverloads
    fun createSnapshot(
        sandboxId: String,
        name: String? = null,
        memory: Boolean? = null,
    ): SnapshotInfo = sandboxes.createSnapshot(sandboxId, name, memory)

    /**
     * What happens to sandboxes, or to one, until it is closed; [after] is the id of the last event that
     * was seen. A stream that breaks is opened again behind the last event; when none came since it was
     * opened, the break is an error.
     */
    @JvmOverloads
    fun watchEvents(
        sandboxId: String? = null,
        after: String? = null,
    ): EventStream<LifecycleEvent> = sandboxes.watchEvents(sandboxId, after)

    fun getSnapshot(snapshotId: String): SnapshotInfo = sandboxes.getSnapshot(snapshotId)

    fun listSnapshots(filter: SnapshotFilter): PagedSnapshotInfos = sandboxes.listSnapshots(filter)

    @JvmOverloads
    fun iterateSnapshots(filter: SnapshotFilter = SnapshotFilter.builder().build()): Iterable<SnapshotInfo> =
        paged(filter.page) { page ->
            val found = sandboxes.listSnapshots(filter.ofPage(page))
            found.snapshotInfos to found.pagination
        }

    /** Waits until it is Ready. One that fails is an error at once. */
    @JvmOverloads
    fun waitForSnapshot(
        snapshotId: String,
        timeout: Duration = Duration.ofMinutes(SNAPSHOT_MINUTES),
        pollingInterval: Duration = Duration.ofMillis(POLLING_MS),
    ): SnapshotInfo {
        val end = System.nanoTime() + timeout.toNanos()
        val pauses = Pauses(maxOf(1, pollingInterval.toMillis()))
        while (true) {
            val info = sandboxes.getSnapshot(snapshotId)
            val status = info.status
            if (status.state == SnapshotState.READY) return info
            if (status.state == SnapshotState.FAILED) {
                val why = listOfNotNull(status.reason, status.message).joinToString(": ")
                throw SandboxUnhealthyException("snapshot $snapshotId failed: $why")
            }
            if (System.nanoTime() - end >= 0) {
                throw SandboxReadyTimeoutException("snapshot $snapshotId is ${status.state} after $timeout")
            }
            pauses.pause()
        }
    }

    fun deleteSnapshot(snapshotId: String) = sandboxes.deleteSnapshot(snapshotId)

    @JvmOverloads
    fun iterateImages(pageSize: Int? = null): Iterable<ImageInfo> =
        paged(null) { page ->
            val found = images.list(page, pageSize)
            found.imageInfos to found.pagination
        }

    @JvmOverloads
    fun iterateVolumes(pageSize: Int? = null): Iterable<VolumeInfo> =
        paged(null) { page ->
            val found = volumes.list(page, pageSize)
            found.volumeInfos to found.pagination
        }

    private fun <T> paged(
        first: Int?,
        fetch: (Int) -> Pair<List<T>, PaginationInfo>,
    ): Iterable<T> =
        sequence {
            var page = first ?: 1
            while (true) {
                val (items, pagination) = fetch(page++)
                yieldAll(items)
                if (!pagination.hasNextPage) return@sequence
            }
        }.asIterable()

    /** Frees connections. */
    override fun close() = provider.close()

    class Builder internal constructor() {
        private var config: ConnectionConfig? = null

        fun connectionConfig(connectionConfig: ConnectionConfig) = apply { config = connectionConfig }

        fun build(): SandboxManager = SandboxManager(config ?: ConnectionConfig.builder().build())
    }

    companion object {
        private const val SNAPSHOT_MINUTES = 10L
        private const val POLLING_MS = 1000L

        @JvmStatic
        fun builder(): Builder = Builder()
    }
}
