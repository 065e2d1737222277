package com.alibaba.opensandbox.sandbox.domain.models.execd.isolated

import java.time.Duration
import java.time.OffsetDateTime

/** An isolated session to be made. */
class IsolatedSessionRequest private constructor(
    builder: Builder,
) {
    val workspace: String = requireNotNull(builder.workspace) { "workspace must be given" }

    /** `rw`, `ro` or `overlay`; null: the daemon's default. */
    val workspaceMode: String? = builder.workspaceMode
    val profile: String? = builder.profile
    val extraWritable: List<String> = builder.extraWritable.toList()
    val shareNetwork: Boolean? = builder.shareNetwork
    val uid: Int? = builder.uid
    val gid: Int? = builder.gid
    val idleTimeout: Duration? = builder.idleTimeout

    init {
        require(workspace.isNotBlank()) { "workspace must not be blank" }
        require((uid ?: 0) >= 0 && (gid ?: 0) >= 0) { "uid and gid must not be negative" }
        require(idleTimeout == null || !idleTimeout.isNegative) { "idleTimeout must not be negative" }
    }

    class Builder internal constructor() {
        internal var workspace: String? = null
        internal var workspaceMode: String? = null
        internal var profile: String? = null
        internal var extraWritable: List<String> = emptyList()
        internal var shareNetwork: Boolean? = null
        internal var uid: Int? = null
        internal var gid: Int? = null
        internal var idleTimeout: Duration? = null

        @JvmOverloads
        fun workspace(
            path: String,
            mode: String? = null,
        ) = apply {
            workspace = path
            workspaceMode = mode
        }

        /** `strict` or `balanced`. */
        fun profile(profile: String?) = apply { this.profile = profile }

        fun extraWritable(paths: List<String>) = apply { extraWritable = paths }

        fun shareNetwork(shareNetwork: Boolean?) = apply { this.shareNetwork = shareNetwork }

        fun uid(uid: Int?) = apply { this.uid = uid }

        fun gid(gid: Int?) = apply { this.gid = gid }

        /** It ends when nothing ran for so long; null: never by itself. */
        fun idleTimeout(idleTimeout: Duration?) = apply { this.idleTimeout = idleTimeout }

        fun build(): IsolatedSessionRequest = IsolatedSessionRequest(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** How a session fares. */
data class IsolatedSessionState(
    val sessionId: String,
    val status: String,
    val createdAt: OffsetDateTime?,
    val lastRunAt: OffsetDateTime?,
    val idleRemaining: Duration?,
)

data class IsolatedBackgroundRun(
    val sessionId: String,
    val runId: String,
    val startedAt: OffsetDateTime?,
)

data class IsolatedRunStatus(
    val runId: String,
    val running: Boolean,
    val exitCode: Int?,
    val error: String?,
    val startedAt: OffsetDateTime?,
    val finishedAt: OffsetDateTime?,
)

/** What a commit did. */
data class IsolatedCommit(
    val filesWritten: Long,
    val pathsRemoved: Long,
    val upperReset: Boolean,
)

data class IsolatedCapabilities(
    val available: Boolean,
    val isolator: String?,
    val version: String?,
    val message: String?,
)
