package com.alibaba.opensandbox.tests

/** Counts and reports tests, as the Test Anything Protocol. */
class Tap {
    private var count = 0
    private var failed = 0

    fun test(
        name: String,
        work: () -> Unit,
    ) {
        count++
        try {
            work()
            println("ok $count - $name")
        } catch (e: Throwable) {
            failed++
            println("not ok $count - $name")
            val lines = (e.message ?: "").lines() + e.stackTraceToString().lines().take(TRACE_LINES)
            lines.forEach { println("# $it") }
        }
        System.out.flush()
    }

    fun end(): Int {
        println("1..$count")
        return if (failed > 0) 1 else 0
    }

    private companion object {
        const val TRACE_LINES = 12
    }
}

fun check(
    what: Boolean,
    why: () -> Any? = { "" },
) {
    if (!what) throw AssertionError(why().toString())
}

fun <T> same(
    found: T,
    wanted: T,
) = check(found == wanted) { "found $found, not $wanted" }

inline fun <reified E : Throwable> fails(work: () -> Any?): E {
    try {
        work()
    } catch (e: Throwable) {
        if (e is E) return e
        throw AssertionError("${e.javaClass.name} instead of ${E::class.java.name}: ${e.message}", e)
    }
    throw AssertionError("no ${E::class.java.name}")
}
