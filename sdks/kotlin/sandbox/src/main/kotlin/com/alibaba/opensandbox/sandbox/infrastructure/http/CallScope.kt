package com.alibaba.opensandbox.sandbox.infrastructure.http

import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxInternalException
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.suspendCancellableCoroutine
import okhttp3.Call
import java.util.concurrent.CancellationException
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlin.coroutines.EmptyCoroutineContext

/** What a blocking call of this SDK does at the moment, so that a coroutine can cancel it. */
internal class CallScope {
    private val cancelled = CountDownLatch(1)
    private var call: Call? = null

    private val isCancelled: Boolean get() = cancelled.count == 0L

    fun cancel() {
        cancelled.countDown()
        synchronized(this) { call }?.cancel()
    }

    fun begin(next: Call) {
        synchronized(this) { call = next }
        if (isCancelled) next.cancel()
    }

    fun check() {
        if (isCancelled) throw CancellationException("the call was cancelled")
    }

    fun sleep(milliseconds: Long) {
        cancelled.await(milliseconds, TimeUnit.MILLISECONDS)
        check()
    }

    companion object {
        private val current = ThreadLocal<CallScope?>()

        fun begin(call: Call) = current.get()?.begin(call)

        fun check() = current.get()?.check()

        /** Waits; an interrupt, or the cancellation of the coroutine, ends it. */
        fun sleep(milliseconds: Long) {
            try {
                val scope = current.get()
                if (scope != null) scope.sleep(milliseconds) else Thread.sleep(milliseconds)
            } catch (e: InterruptedException) {
                Thread.currentThread().interrupt()
                throw SandboxInternalException("interrupted while waiting", e)
            }
        }

        fun <T> within(
            scope: CallScope,
            block: () -> T,
        ): T {
            val before = current.get()
            current.set(scope)
            try {
                return block()
            } finally {
                current.set(before)
            }
        }
    }
}

/** Runs blocking calls of this SDK on a thread for I/O; cancellation ends the call under way. */
@InternalOpenSandboxApi
suspend fun <T> suspending(block: () -> T): T =
    suspendCancellableCoroutine { continuation ->
        val scope = CallScope()
        continuation.invokeOnCancellation { scope.cancel() }
        Dispatchers.IO.dispatch(EmptyCoroutineContext) {
            continuation.resumeWith(runCatching { CallScope.within(scope, block) })
        }
    }
