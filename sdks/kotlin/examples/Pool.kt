// Sandboxes that are ready before they are needed.
package examples.pool

import com.alibaba.opensandbox.sandbox.config.ConnectionConfig
import com.alibaba.opensandbox.sandbox.domain.pool.PoolCreationSpec
import com.alibaba.opensandbox.sandbox.infrastructure.pool.InMemoryPoolStateStore
import com.alibaba.opensandbox.sandbox.pool.SandboxPool
import java.time.Duration

fun main() {
    SandboxPool
        .builder()
        .poolName("example")
        .maxIdle(2)
        .stateStore(InMemoryPoolStateStore()) // RedisPoolStateStore(jedis): several processes
        .connectionConfig(ConnectionConfig.builder().build())
        .creationSpec(PoolCreationSpec.builder().image("python:3.12").build())
        .build()
        .use { pool ->
            pool.start()
            pool.acquire(Duration.ofMinutes(5)).use { sandbox ->
                println(sandbox.commands().run("echo from the pool").text)
                sandbox.kill()
            }
            pool.shutdown()
            pool.releaseAllIdle()
        }
}
