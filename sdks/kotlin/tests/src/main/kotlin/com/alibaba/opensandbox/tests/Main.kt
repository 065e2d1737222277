package com.alibaba.opensandbox.tests

import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonObject
import kotlin.system.exitProcess

/**
 * Arguments are DIRECTORY and any number of WHAT: the cases of sdks/conformance in DIRECTORY, faults,
 * and, against the server that OPEN_SANDBOX_DOMAIN names, the real cases and tests. Prints TAP.
 */
fun main(arguments: Array<String>) {
    val tap = Tap()
    val wanted = arguments.drop(1).toSet()

    fun wants(what: String) = wanted.isEmpty() || what in wanted
    val domain = System.getenv("OPEN_SANDBOX_DOMAIN")
    Conformance(arguments[0]).use { cases ->
        if (wants("cases")) cases.run(tap, "scripted", null)
        if (domain != null && wants("real")) {
            cases.run(
                tap,
                "real",
                buildJsonObject {
                    put("image", "host")
                    putJsonObject("config") {
                        put("domain", domain)
                        put("api_key", System.getenv("OPEN_SANDBOX_API_KEY"))
                    }
                },
            )
        }
    }
    if (wants("faults")) Faults(tap).run()
    if (domain != null && wants("server")) RealServer(tap).run()
    exitProcess(tap.end())
}
