package com.alibaba.opensandbox.sandbox.domain.exceptions

import java.time.Duration

/** What went wrong: a code for programs, a text for people. */
data class SandboxError
    @JvmOverloads
    constructor(
        val code: String,
        val message: String? = null,
    ) {
        companion object {
            const val INTERNAL_UNKNOWN_ERROR = "INTERNAL_UNKNOWN_ERROR"
            const val READY_TIMEOUT = "READY_TIMEOUT"
            const val UNHEALTHY = "UNHEALTHY"
            const val INVALID_ARGUMENT = "INVALID_ARGUMENT"
            const val UNEXPECTED_RESPONSE = "UNEXPECTED_RESPONSE"
            const val FILE_NOT_FOUND = "FILE_NOT_FOUND"
            const val POOL_EMPTY = "POOL_EMPTY"
            const val POOL_ACQUIRE_FAILED = "POOL_ACQUIRE_FAILED"
            const val POOL_STATE_STORE_UNAVAILABLE = "POOL_STATE_STORE_UNAVAILABLE"
            const val POOL_STATE_STORE_CONTENTION = "POOL_STATE_STORE_CONTENTION"
            const val POOL_NOT_RUNNING = "POOL_NOT_RUNNING"

            /** A stream ended before its last event. */
            const val STREAM_ENDED = "STREAM_ENDED"
        }
    }

/** The root of what this SDK throws. */
open class SandboxException
    @JvmOverloads
    constructor(
        message: String? = null,
        cause: Throwable? = null,
        val error: SandboxError = SandboxError(SandboxError.INTERNAL_UNKNOWN_ERROR, message),
        /** X-Request-ID of the answer, if there was one. */
        val requestId: String? = null,
    ) : RuntimeException(message, cause)

/** The server, or a sandbox, answered with an error. */
class SandboxApiException
    @JvmOverloads
    constructor(
        message: String? = null,
        cause: Throwable? = null,
        /** The HTTP status. */
        val statusCode: Int? = null,
        error: SandboxError = SandboxError(SandboxError.UNEXPECTED_RESPONSE, message),
        requestId: String? = null,
        /** When the server wants to be asked again. */
        val retryAfter: Duration? = null,
    ) : SandboxException(message, cause, error, requestId)

/** The network failed, or an answer was not what it should be. */
open class SandboxInternalException
    @JvmOverloads
    constructor(
        message: String? = null,
        cause: Throwable? = null,
        error: SandboxError = SandboxError(SandboxError.INTERNAL_UNKNOWN_ERROR, message),
    ) : SandboxException(message, cause, error)

/** A stream ended before its last event, and the rest cannot be had. */
class SandboxStreamException
    @JvmOverloads
    constructor(
        message: String,
        cause: Throwable? = null,
    ) : SandboxInternalException(message, cause, SandboxError(SandboxError.STREAM_ENDED, message))

/** A sandbox was not ready in time. */
class SandboxReadyTimeoutException
    @JvmOverloads
    constructor(
        message: String? = null,
        cause: Throwable? = null,
    ) : SandboxException(message, cause, SandboxError(SandboxError.READY_TIMEOUT, message))

/** A sandbox, or a snapshot, failed; the message has the server's reason. */
class SandboxUnhealthyException
    @JvmOverloads
    constructor(
        message: String? = null,
        cause: Throwable? = null,
    ) : SandboxException(message, cause, SandboxError(SandboxError.UNHEALTHY, message))

/** An argument that cannot be right; nothing was sent. */
class InvalidArgumentException
    @JvmOverloads
    constructor(
        message: String? = null,
        cause: Throwable? = null,
    ) : SandboxException(message, cause, SandboxError(SandboxError.INVALID_ARGUMENT, message))

/** A pool has no idle sandbox, and the policy does not create one. */
class PoolEmptyException
    @JvmOverloads
    constructor(
        message: String? = "the pool has no idle sandbox",
        cause: Throwable? = null,
    ) : SandboxException(message, cause, SandboxError(SandboxError.POOL_EMPTY, message))

/** An idle sandbox was there but cannot be used. */
class PoolAcquireFailedException
    @JvmOverloads
    constructor(
        message: String? = null,
        cause: Throwable? = null,
    ) : SandboxException(message, cause, SandboxError(SandboxError.POOL_ACQUIRE_FAILED, message))

/** The store of a pool does not answer. */
class PoolStateStoreUnavailableException
    @JvmOverloads
    constructor(
        message: String? = null,
        cause: Throwable? = null,
    ) : SandboxException(
            message,
            cause,
            SandboxError(SandboxError.POOL_STATE_STORE_UNAVAILABLE, message),
        )

/** Other processes kept the store of a pool from doing what was asked. */
class PoolStateStoreContentionException
    @JvmOverloads
    constructor(
        message: String? = null,
        cause: Throwable? = null,
    ) : SandboxException(
            message,
            cause,
            SandboxError(SandboxError.POOL_STATE_STORE_CONTENTION, message),
        )

/** A pool that was not started, or is stopped. */
class PoolNotRunningException
    @JvmOverloads
    constructor(
        message: String? = null,
        cause: Throwable? = null,
    ) : SandboxException(message, cause, SandboxError(SandboxError.POOL_NOT_RUNNING, message))
