// Three steps: where the server is, create, run.
package examples.quickstart

import com.alibaba.opensandbox.sandbox.Sandbox
import com.alibaba.opensandbox.sandbox.config.ConnectionConfig

fun main() {
    val config = ConnectionConfig.builder().build() // OPEN_SANDBOX_DOMAIN, OPEN_SANDBOX_API_KEY
    Sandbox
        .builder()
        .connectionConfig(config)
        .image("python:3.12")
        .build()
        .use { sandbox ->
            println(sandbox.commands().run("echo 'Hello Sandbox!'").text)
            sandbox.kill()
        }
}
