package com.alibaba.opensandbox.tests

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.boolean
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.put
import java.net.HttpURLConnection
import java.net.URL

/** Runs the cases of sdks/conformance, whose server.py judges requests and results. */
class Conformance(
    directory: String,
) : AutoCloseable {
    private val server =
        ProcessBuilder("/usr/bin/python3", "$directory/server.py").redirectError(ProcessBuilder.Redirect.INHERIT).start()
    private val control =
        Json
            .parseToJsonElement(server.inputStream.bufferedReader().readLine())
            .jsonObject
            .getValue("control")
            .jsonPrimitive.content

    override fun close() {
        server.outputStream.close()
        server.waitFor()
    }

    private fun ask(
        path: String,
        body: JsonElement? = null,
    ): JsonObject {
        val connection = URL(control + path).openConnection() as HttpURLConnection
        if (body != null) {
            connection.requestMethod = "POST"
            connection.doOutput = true
            connection.outputStream.use { it.write(body.toString().toByteArray()) }
        }
        val stream = if (connection.responseCode < HTTP_ERROR) connection.inputStream else connection.errorStream
        return Json.parseToJsonElement(stream.reader().readText()).jsonObject
    }

    /** All cases of a mode, each a test; [names] replaces what a real server needs. */
    fun run(
        tap: Tap,
        mode: String,
        names: JsonObject?,
    ) {
        for (entry in ask("/cases").getValue("cases").jsonArray) {
            val modes = entry.jsonObject.getValue("modes").jsonArray
            if (modes.none { it.jsonPrimitive.content == mode }) continue
            val id = entry.jsonObject.getValue("id").jsonPrimitive.content
            tap.test("$mode: $id") { case(id, mode, names) }
        }
    }

    private fun case(
        id: String,
        mode: String,
        names: JsonObject?,
    ) {
        val opened =
            ask(
                "/sessions",
                buildJsonObject {
                    put("case", id)
                    put("mode", mode)
                    if (names != null) put("names", names)
                },
            )
        val session = opened.getValue("session").jsonPrimitive.content
        val script = opened.getValue("case").jsonObject
        val problems = ArrayList<String>()
        setVariables(script)
        Operations(script.getValue("config").jsonObject).use { operations ->
            for ((n, step) in script.getValue("steps").jsonArray.withIndex()) {
                val verdict = ask("/sessions/$session/steps/$n", operations.step(step.jsonObject))
                if (!verdict.getValue("ok").jsonPrimitive.boolean) problems.add(verdict["problems"].toString())
            }
        }
        val end = ask("/sessions/$session/finish", JsonObject(emptyMap()))
        if (!end.getValue("ok").jsonPrimitive.boolean) problems.add(end["problems"].toString())
        val open = end.getValue("open_connections").jsonPrimitive.int
        if (open != 0) problems.add("open connections: $open")
        check(problems.isEmpty()) { problems.joinToString("\n") }
    }

    /** System properties stand for variables, which a running JVM cannot set; "" hides a real one. */
    private fun setVariables(script: JsonObject) {
        for (name in listOf("DOMAIN", "API_KEY", "PROTOCOL")) System.setProperty("OPEN_SANDBOX_$name", "")
        (script["env"] as? JsonObject)?.forEach { (name, value) -> System.setProperty(name, (value as JsonPrimitive).content) }
    }

    private companion object {
        const val HTTP_ERROR = 400
    }
}
