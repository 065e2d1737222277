package com.alibaba.opensandbox.sandbox.infrastructure.http

import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi

/** Pauses between looks at something that changes soon: 10 ms, 20 ms, and so on up to [mostMs]. */
@InternalOpenSandboxApi
class Pauses(
    private val mostMs: Long = DEFAULT_MS_MAX,
) {
    private var next = minOf(FIRST_MS, mostMs)

    fun pause(leftMs: Long = Long.MAX_VALUE) {
        val now = next.coerceAtMost(leftMs).coerceAtLeast(0)
        next = minOf(next * 2, mostMs)
        CallScope.sleep(now)
    }

    private companion object {
        const val FIRST_MS = 10L
        const val DEFAULT_MS_MAX = 1000L
    }
}
