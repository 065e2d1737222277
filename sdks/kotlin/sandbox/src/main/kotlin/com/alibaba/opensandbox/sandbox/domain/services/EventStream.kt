package com.alibaba.opensandbox.sandbox.domain.services

/**
 * Events as they come, once. Close it, or read it to its end, to free its connection; close() from
 * another thread ends a read that waits.
 */
class EventStream<T> internal constructor(
    private val source: Iterator<T>,
    private val release: () -> Unit,
) : Iterable<T>,
    AutoCloseable {
    @Volatile
    private var isClosed = false

    /** Waits for the next event; false at the end. */
    fun hasNext(): Boolean = !isClosed && source.hasNext()

    fun next(): T = source.next()

    override fun iterator(): Iterator<T> =
        object : Iterator<T> {
            override fun hasNext(): Boolean = this@EventStream.hasNext()

            override fun next(): T = this@EventStream.next()
        }

    override fun close() {
        isClosed = true
        release()
    }
}
