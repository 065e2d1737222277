package com.alibaba.opensandbox.sandbox.domain.models.sandboxes

import java.time.Duration
import java.time.OffsetDateTime

/** States that servers tell; any other text may come, too. */
object SandboxState {
    const val PENDING = "Pending"
    const val RUNNING = "Running"
    const val PAUSING = "Pausing"
    const val PAUSED = "Paused"
    const val STOPPING = "Stopping"
    const val TERMINATED = "Terminated"
    const val FAILED = "Failed"
    const val UNKNOWN = "Unknown"

    @JvmStatic
    fun values(): List<String> = listOf(PENDING, RUNNING, PAUSING, PAUSED, STOPPING, TERMINATED, FAILED, UNKNOWN)
}

object SnapshotState {
    const val CREATING = "Creating"
    const val READY = "Ready"
    const val FAILED = "Failed"
    const val DELETING = "Deleting"
}

data class SandboxStatus(
    val state: String,
    val reason: String? = null,
    val message: String? = null,
    val lastTransitionAt: OffsetDateTime? = null,
)

/** What the server knows of a sandbox. */
data class SandboxInfo(
    val id: String,
    val status: SandboxStatus,
    val entrypoint: List<String>,
    /** Null: it does not expire. */
    val expiresAt: OffsetDateTime?,
    val createdAt: OffsetDateTime?,
    val image: SandboxImageSpec?,
    val snapshotId: String? = null,
    val platform: PlatformSpec? = null,
    val metadata: Map<String, String>? = null,
)

data class SandboxRenewResponse(
    val expiresAt: OffsetDateTime?,
)

/** Where a port of a sandbox is. */
data class SandboxEndpoint(
    /** `host[:port][/path]`, without a scheme. */
    val endpoint: String,
    /** To be sent with every request there. */
    val headers: Map<String, String> = emptyMap(),
)

/** What a sandbox uses. */
data class SandboxMetrics(
    val cpuCount: Float,
    val cpuUsedPercentage: Float,
    val memoryTotalInMiB: Float,
    val memoryUsedInMiB: Float,
    /** Milliseconds since 1970. */
    val timestamp: Long,
)

data class PaginationInfo(
    val page: Int,
    val pageSize: Int,
    val totalItems: Int,
    val totalPages: Int,
    val hasNextPage: Boolean,
)

data class PagedSandboxInfos(
    val sandboxInfos: List<SandboxInfo>,
    val pagination: PaginationInfo,
)

private fun checkPage(
    what: String,
    value: Int?,
) = require(value == null || value >= 1) { "$what must be 1 or more" }

/** Which sandboxes are listed: of any of the states, with all of the metadata. */
class SandboxFilter private constructor(
    builder: Builder,
) {
    val states: List<String>? = builder.states?.toList()
    val metadata: Map<String, String>? = builder.metadata?.toMap()
    val page: Int? = builder.page
    val pageSize: Int? = builder.pageSize

    internal fun ofPage(page: Int): SandboxFilter =
        builder().also {
            it.states = states
            it.metadata = metadata
            it.page = page
            it.pageSize = pageSize
        }.build()

    class Builder internal constructor() {
        internal var states: List<String>? = null
        internal var metadata: Map<String, String>? = null
        internal var page: Int? = null
        internal var pageSize: Int? = null

        fun states(vararg states: String) = apply { this.states = states.toList() }

        fun states(states: List<String>) = apply { this.states = states }

        fun metadata(metadata: Map<String, String>) = apply { this.metadata = metadata }

        fun metadata(fill: MutableMap<String, String>.() -> Unit) = apply { this.metadata = LinkedHashMap<String, String>().apply(fill) }

        /** From 1. */
        fun page(page: Int) = apply { this.page = page.also { checkPage("page", it) } }

        fun pageSize(pageSize: Int) = apply { this.pageSize = pageSize.also { checkPage("pageSize", it) } }

        fun build() = SandboxFilter(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

data class SnapshotStatus(
    val state: String,
    val reason: String? = null,
    val message: String? = null,
    val lastTransitionAt: OffsetDateTime? = null,
)

data class SnapshotInfo(
    val id: String,
    val sandboxId: String,
    val status: SnapshotStatus,
    val createdAt: OffsetDateTime?,
    val name: String? = null,
)

data class PagedSnapshotInfos(
    val snapshotInfos: List<SnapshotInfo>,
    val pagination: PaginationInfo,
)

/** Which snapshots are listed. */
class SnapshotFilter private constructor(
    builder: Builder,
) {
    val sandboxId: String? = builder.sandboxId
    val states: List<String>? = builder.states?.toList()
    val page: Int? = builder.page
    val pageSize: Int? = builder.pageSize

    internal fun ofPage(page: Int): SnapshotFilter =
        builder().also {
            it.sandboxId = sandboxId
            it.states = states
            it.page = page
            it.pageSize = pageSize
        }.build()

    class Builder internal constructor() {
        internal var sandboxId: String? = null
        internal var states: List<String>? = null
        internal var page: Int? = null
        internal var pageSize: Int? = null

        fun sandboxId(sandboxId: String?) = apply { this.sandboxId = sandboxId }

        fun states(vararg states: String) = apply { this.states = states.toList() }

        fun states(states: List<String>) = apply { this.states = states }

        fun page(page: Int) = apply { this.page = page.also { checkPage("page", it) } }

        fun pageSize(pageSize: Int) = apply { this.pageSize = pageSize.also { checkPage("pageSize", it) } }

        fun build() = SnapshotFilter(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** Copies of a sandbox. */
class ForkRequest private constructor(
    builder: Builder,
) {
    val count: Int? = builder.count
    val timeout: Duration? = builder.timeout

    /** Added to those of the source; null removes one. */
    val env: Map<String, String?>? = builder.env
    val metadata: Map<String, String>? = builder.metadata
    val entrypoint: List<String>? = builder.entrypoint

    /** Whether they go on where the source is, with its processes. */
    val memory: Boolean? = builder.memory

    class Builder internal constructor() {
        internal var count: Int? = null
        internal var timeout: Duration? = null
        internal var env: Map<String, String?>? = null
        internal var metadata: Map<String, String>? = null
        internal var entrypoint: List<String>? = null
        internal var memory: Boolean? = null

        fun count(count: Int?) = apply { this.count = count }

        fun timeout(timeout: Duration?) = apply { this.timeout = timeout }

        fun env(env: Map<String, String?>?) = apply { this.env = env }

        fun metadata(metadata: Map<String, String>?) = apply { this.metadata = metadata }

        fun entrypoint(entrypoint: List<String>?) = apply { this.entrypoint = entrypoint }

        fun memory(memory: Boolean?) = apply { this.memory = memory }

        fun build() = ForkRequest(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** Something that happened to a sandbox, such as `sandbox.running`. */
data class LifecycleEvent(
    val type: String,
    val id: String? = null,
    val time: OffsetDateTime? = null,
    val tenant: String? = null,
    val sandboxId: String? = null,
    val state: String? = null,
    val reason: String? = null,
    val message: String? = null,
) {
    companion object {
        /** What came after the place that was asked for is not kept any more; nothing else is set. */
        const val RESET = "reset"
    }
}

// What the server keeps besides sandboxes.

/** An image that the server has. */
data class ImageInfo(
    val id: String,
    val names: List<String>,
    val size: Long,
    val layers: Int,
    val inUse: Boolean,
    val createdAt: OffsetDateTime?,
    val lastUsedAt: OffsetDateTime?,
    val platform: PlatformSpec?,
)

data class PagedImageInfos(
    val imageInfos: List<ImageInfo>,
    val pagination: PaginationInfo,
)

/** How far a pull is. */
data class PullProgress(
    val message: String,
    val bytesDone: Long,
    /** 0 while it is not known. */
    val bytesTotal: Long,
)

data class VolumeInfo(
    val name: String,
    val createdAt: OffsetDateTime?,
    val sizeBytes: Long?,
    val usedBytes: Long?,
    val usedBy: List<String>,
)

data class PagedVolumeInfos(
    val volumeInfos: List<VolumeInfo>,
    val pagination: PaginationInfo,
)

/** How many sandboxes a pool of the server keeps. */
data class CapacitySpec(
    val bufferMin: Int,
    val bufferMax: Int,
    val poolMin: Int,
    val poolMax: Int,
)

/** A pool that the server keeps; `extension("poolRef", name)` takes from it. */
data class ServerPool(
    val name: String,
    val capacity: CapacitySpec,
    val total: Int,
    val allocated: Int,
    val available: Int,
    val message: String?,
    val createdAt: OffsetDateTime?,
)
