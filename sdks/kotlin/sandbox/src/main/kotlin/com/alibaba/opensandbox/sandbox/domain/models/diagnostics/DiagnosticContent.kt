package com.alibaba.opensandbox.sandbox.domain.models.diagnostics

import java.time.OffsetDateTime

/** Logs or events of a sandbox: in [content], or at [contentUrl]. */
data class DiagnosticContent(
    val sandboxId: String,
    /** `logs` or `events`. */
    val kind: String,
    val scope: String,
    /** `inline` or `url`. */
    val delivery: String,
    val contentType: String,
    val truncated: Boolean,
    val content: String?,
    val contentUrl: String?,
    val contentLength: Long?,
    val expiresAt: OffsetDateTime?,
    val warnings: List<String>?,
)
