package com.alibaba.opensandbox.tests

import com.alibaba.opensandbox.codeinterpreter.CodeInterpreter
import com.alibaba.opensandbox.codeinterpreter.SupportedLanguage
import com.alibaba.opensandbox.sandbox.Sandbox
import com.alibaba.opensandbox.sandbox.config.ConnectionConfig
import com.alibaba.opensandbox.sandbox.coroutines.SuspendingSandbox
import com.alibaba.opensandbox.sandbox.domain.exceptions.PoolEmptyException
import com.alibaba.opensandbox.sandbox.domain.exceptions.PoolNotRunningException
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.PtyRequest
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunCommandRequest
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedSessionRequest
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxState
import com.alibaba.opensandbox.sandbox.domain.pool.AcquirePolicy
import com.alibaba.opensandbox.sandbox.domain.pool.PoolCreationSpec
import com.alibaba.opensandbox.sandbox.domain.pool.PoolState
import com.alibaba.opensandbox.sandbox.domain.pool.PoolStateStore
import com.alibaba.opensandbox.sandbox.infrastructure.pool.InMemoryPoolStateStore
import com.alibaba.opensandbox.sandbox.infrastructure.pool.RedisPoolStateStore
import com.alibaba.opensandbox.sandbox.pool.SandboxPool
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking
import redis.clients.jedis.JedisPooled
import java.nio.file.Files
import java.time.Duration
import java.util.concurrent.TimeUnit

private const val SECONDS_MAX = 120L

/** What the shared cases do not have, against a real server. */
class RealServer(
    private val tap: Tap,
) {
    private val config =
        ConnectionConfig
            .builder()
            .domain(System.getenv("OPEN_SANDBOX_DOMAIN"))
            .apiKey(System.getenv("OPEN_SANDBOX_API_KEY"))
            .build()

    private fun create(): Sandbox =
        Sandbox
            .builder()
            .image("host")
            .connectionConfig(config)
            .build()

    private fun within(
        what: String,
        condition: () -> Boolean,
    ) {
        val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS_MAX)
        while (!condition()) {
            check(System.nanoTime() < end) { "$what: not within $SECONDS_MAX s" }
            Thread.sleep(POLL_MS)
        }
    }

    fun run() {
        create().use { sandbox ->
            tap.test("server: a terminal") { terminal(sandbox) }
            tap.test("server: directories go in and out") { directories(sandbox) }
            tap.test("server: changes of a directory") { watch(sandbox) }
            tap.test("server: input of a command that runs") { stdin(sandbox) }
            tap.test("server: isolated sessions") { isolation(sandbox) }
            tap.test("server: code keeps its state") { code(sandbox) }
            tap.test("server: pause and resume") { pauseAndResume(sandbox) }
            sandbox.kill()
        }
        tap.test("server: suspend functions and flows") { coroutines() }
        tap.test("server: a pool in memory") { pool(InMemoryPoolStateStore()) }
        System.getenv("OPEN_SANDBOX_TEST_REDIS")?.let { port ->
            tap.test("server: a pool in Redis") {
                JedisPooled("127.0.0.1", port.toInt()).use { pool(RedisPoolStateStore(it, "test:pool")) }
            }
        }
    }

    private fun terminal(sandbox: Sandbox) {
        val request = PtyRequest.builder().command("read x; echo \"got \$x\"; exit 3").size(90, 30).build()
        sandbox.terminals().open(request).use { terminal ->
            terminal.write("hello\n")
            val text = terminal.readAll()
            check("got hello" in text) { text }
            same(terminal.exitCode, 3)
            sandbox.terminals().delete(terminal.sessionId)
        }
    }

    private fun isolation(sandbox: Sandbox) {
        sandbox.commands().run("mkdir -p /workspace")
        check(sandbox.isolation().capabilities().available) { sandbox.isolation().capabilities() }
        val request =
            IsolatedSessionRequest
                .builder()
                .workspace("/workspace", "rw")
                .profile("strict")
                .idleTimeout(Duration.ofMinutes(10))
                .build()
        val id =
            sandbox.isolation().create(request).use { session ->
                val run = session.run("echo $((1+1)) \$NAME; exit 3", mapOf("NAME" to "x"), Duration.ofSeconds(SECONDS_MAX))
                same(run.logs.stdout.map { it.text }, listOf("2 x"))
                same(run.exitCode, 3)
                val background = session.runInBackground("echo built")
                within("the background run") { !session.getRunStatus(background.runId).running }
                same(session.getRunStatus(background.runId).exitCode, 0)
                val logs = session.getRunLogs(background.runId, 2)
                same(logs.content to logs.cursor, "ilt\n" to 6L)
                session.files().writeFile("/workspace/f", "text")
                same(sandbox.files().readFile("/workspace/f"), "text")
                check(session.sessionId in sandbox.isolation().list().map { it.sessionId })
                val again = sandbox.isolation().attach(session.sessionId)
                check(again.getState().idleRemaining!! <= Duration.ofMinutes(10))
                session.sessionId
            }
        check(sandbox.isolation().list().none { it.sessionId == id }) { "close() left it" }
    }

    private fun directories(sandbox: Sandbox) {
        val here = Files.createTempDirectory("osb-kotlin")
        try {
            val from = Files.createDirectories(here.resolve("from/sub/${"long".repeat(30)}"))
            Files.write(from.resolve("f ü"), ByteArray(100_000) { (it % 251).toByte() })
            Files.createSymbolicLink(here.resolve("from/link"), here.fileSystem.getPath("sub"))
            sandbox.files().uploadDirectory(here.resolve("from"), "/tmp/up")
            sandbox.files().downloadDirectory("/tmp/up", here.resolve("back"))
            val back = here.resolve("back/sub/${"long".repeat(30)}/f ü")
            check(Files.readAllBytes(back).contentEquals(Files.readAllBytes(from.resolve("f ü")))) { "the file differs" }
            same(Files.readSymbolicLink(here.resolve("back/link")).toString(), "sub")
        } finally {
            here.toFile().deleteRecursively()
        }
    }

    private fun watch(sandbox: Sandbox) {
        sandbox.commands().run("mkdir -p /tmp/w")
        sandbox.files().watch("/tmp/w").use { events ->
            // The stream is open once its head is there; what follows is seen.
            sandbox.files().writeFile("/tmp/w/a", "x")
            val first = events.next()
            check(first.path!!.startsWith("/tmp/w/")) { first }
        }
    }

    private fun stdin(sandbox: Sandbox) {
        val request =
            RunCommandRequest
                .builder()
                .command("cat")
                .stdinOpen()
                .build()
        val seen = ArrayList<String?>()
        sandbox.commands().stream(request).use { events ->
            for (event in events) {
                if (event.type == "init") {
                    sandbox.commands().writeStdin(event.text!!, "one\n")
                    sandbox.commands().writeStdin(event.text!!, "two\n", true)
                }
                if (event.type == "stdout") seen.add(event.text)
            }
        }
        same(seen, arrayListOf<String?>("one", "two"))
    }

    private fun code(sandbox: Sandbox) {
        val codes =
            CodeInterpreter
                .builder()
                .fromSandbox(sandbox)
                .build()
                .codes()
        val context = codes.createContext(SupportedLanguage.PYTHON)
        codes.run("x = 20", context)
        val run = codes.run("x + 22", context)
        same(run.result.single().text, "42")
        codes.deleteContext(context.id!!)
    }

    private fun pauseAndResume(sandbox: Sandbox) {
        sandbox.pause()
        sandbox.waitForState(SandboxState.PAUSED)
        sandbox.resume().use { again -> same(again.commands().run("echo on").text, "on") }
    }

    private fun coroutines() =
        runBlocking {
            val sandbox =
                SuspendingSandbox.create {
                    image("host")
                    connectionConfig(config)
                }
            sandbox.use {
                same(it.commands.run("echo hi").text, "hi")
                val types = it.commands.stream("echo a; echo b").toList().map { e -> e.type }
                same(types, listOf("init", "stdout", "stdout", "execution_complete"))
                it.files.writeFile("/tmp/x", "y")
                same(it.files.readFile("/tmp/x"), "y")
                same(it.watchMetrics().take(1).toList().size, 1)
                it.kill()
            }
        }

    private fun pool(store: PoolStateStore) {
        val pool =
            SandboxPool
                .builder()
                .poolName("kotlin-${System.nanoTime()}")
                .maxIdle(2)
                .stateStore(store)
                .connectionConfig(config)
                .creationSpec(PoolCreationSpec.builder().image("host").build())
                .warmupSandboxPreparer { it.files().writeFile("/tmp/prepared", "yes") }
                .reconcileInterval(Duration.ofMillis(POOL_MS))
                .build()
        fails<PoolNotRunningException> { pool.acquire() }
        pool.use {
            it.start()
            within("two idle sandboxes") { it.snapshot().idleCount == 2 }
            same(it.snapshot().state, PoolState.HEALTHY)
            it.acquire(Duration.ofMinutes(5), AcquirePolicy.FAIL_FAST).use { sandbox ->
                same(sandbox.files().readFile("/tmp/prepared"), "yes")
                sandbox.kill()
            }
            within("it is filled again") { it.snapshot().idleCount == 2 }
            same(it.snapshotIdleEntries().size, 2)
            it.resize(0)
            within("it is empty") { it.snapshot().idleCount == 0 }
            fails<PoolEmptyException> { it.acquire(null, AcquirePolicy.FAIL_FAST) }
            it.acquire().use { sandbox -> sandbox.kill() }
            it.releaseAllIdle()
        }
        same(pool.snapshot().state, PoolState.STOPPED)
    }

    private companion object {
        const val POLL_MS = 20L
        const val POOL_MS = 100L
    }
}
