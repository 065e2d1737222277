// Output as it comes: by handlers, by a loop, and by a flow of coroutines.
package examples.streaming

import com.alibaba.opensandbox.sandbox.Sandbox
import com.alibaba.opensandbox.sandbox.coroutines.suspending
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionHandlers
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunCommandRequest
import kotlinx.coroutines.runBlocking

fun main() {
    Sandbox.builder().image("python:3.12").build().use { sandbox ->
        val handlers =
            ExecutionHandlers
                .builder()
                .onStdout { println("out: ${it.text}") }
                .onStderr { println("err: ${it.text}") }
                .build()
        val count = "for i in 1 2 3; do echo \$i; done; echo done >&2"
        sandbox.commands().run(
            RunCommandRequest
                .builder()
                .command(count)
                .handlers(handlers)
                .build(),
        )
        sandbox.commands().stream(count).use { events -> events.forEach { println("event: $it") } }
        runBlocking { sandbox.suspending().commands.stream(count).collect { println("flow: $it") } }
        sandbox.kill()
    }
}
