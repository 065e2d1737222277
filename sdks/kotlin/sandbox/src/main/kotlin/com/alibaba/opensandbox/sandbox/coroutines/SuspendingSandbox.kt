package com.alibaba.opensandbox.sandbox.coroutines

import com.alibaba.opensandbox.sandbox.Sandbox
import com.alibaba.opensandbox.sandbox.SandboxManager
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.CommandLogs
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.CommandStatus
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.Execution
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionEvent
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunCommandRequest
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunInSessionRequest
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.EntryInfo
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.FileEvent
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SearchEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.WriteEntry
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkPolicy
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkRule
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxEndpoint
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxFilter
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxMetrics
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxRenewResponse
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotInfo
import com.alibaba.opensandbox.sandbox.domain.services.Commands
import com.alibaba.opensandbox.sandbox.domain.services.EventStream
import com.alibaba.opensandbox.sandbox.domain.services.Filesystem
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.suspending
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.channels.trySendBlocking
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.callbackFlow
import java.nio.file.Path
import java.time.Duration

/** Any blocking call of this SDK as a suspend function: cancellation ends the request under way. */
@OptIn(InternalOpenSandboxApi::class)
suspend fun <T> withSandbox(call: () -> T): T = suspending(call)

/** Events as a flow; the stream is opened by the collector and closed when it leaves. */
fun <T> eventFlow(open: () -> EventStream<T>): Flow<T> =
    callbackFlow {
        var stream: EventStream<T>? = null
        val reader =
            Thread({
                try {
                    val opened = open().also { stream = it }
                    for (event in opened) if (trySendBlocking(event).isFailure) break
                    close()
                } catch (e: Exception) {
                    close(e)
                }
            }, "opensandbox-events")
        reader.isDaemon = true
        reader.start()
        awaitClose { stream?.close() }
    }.buffer(EVENTS_MAX)

private const val EVENTS_MAX = 256

/** [Sandbox] with suspend functions; [blocking] has what is not here. */
class SuspendingSandbox(
    val blocking: Sandbox,
) : AutoCloseable {
    val id: String get() = blocking.id
    val commands = SuspendingCommands(blocking.commands())
    val files = SuspendingFilesystem(blocking.files())

    suspend fun getInfo(): SandboxInfo = withSandbox { blocking.getInfo() }

    suspend fun getEndpoint(port: Int): SandboxEndpoint = withSandbox { blocking.getEndpoint(port) }

    suspend fun getMetrics(): SandboxMetrics = withSandbox { blocking.getMetrics() }

    fun watchMetrics(): Flow<SandboxMetrics> = eventFlow { blocking.watchMetrics() }

    suspend fun renew(timeout: Duration): SandboxRenewResponse = withSandbox { blocking.renew(timeout) }

    suspend fun patchMetadata(patch: Map<String, String?>): SandboxInfo = withSandbox { blocking.patchMetadata(patch) }

    suspend fun createSnapshot(
        name: String? = null,
        memory: Boolean? = null,
    ): SnapshotInfo = withSandbox { blocking.createSnapshot(name, memory) }

    suspend fun getEgressPolicy(): NetworkPolicy = withSandbox { blocking.getEgressPolicy() }

    suspend fun patchEgressRules(rules: List<NetworkRule>) = withSandbox { blocking.patchEgressRules(rules) }

    suspend fun deleteEgressRules(targets: List<String>) = withSandbox { blocking.deleteEgressRules(targets) }

    suspend fun isHealthy(): Boolean = withSandbox { blocking.isHealthy() }

    suspend fun pause() = withSandbox { blocking.pause() }

    suspend fun resume(): SuspendingSandbox = SuspendingSandbox(withSandbox { blocking.resume() })

    suspend fun kill() = withSandbox { blocking.kill() }

    override fun close() = blocking.close()

    companion object {
        /** Creates a sandbox; cancellation removes what was created. */
        suspend fun create(configure: Sandbox.Builder.() -> Unit): SuspendingSandbox =
            SuspendingSandbox(withSandbox { Sandbox.builder().apply(configure).build() })

        suspend fun connect(configure: Sandbox.Connector.() -> Unit): SuspendingSandbox =
            SuspendingSandbox(withSandbox { Sandbox.connector().apply(configure).connect() })

        suspend fun resume(configure: Sandbox.Resumer.() -> Unit): SuspendingSandbox =
            SuspendingSandbox(withSandbox { Sandbox.resumer().apply(configure).resume() })
    }
}

/** The same object with suspend functions. */
fun Sandbox.suspending(): SuspendingSandbox = SuspendingSandbox(this)

/** Commands with suspend functions. Cancelling a run leaves its stream; the command goes on. */
class SuspendingCommands(
    val blocking: Commands,
) {
    suspend fun run(request: RunCommandRequest): Execution = withSandbox { blocking.run(request) }

    suspend fun run(command: String): Execution = withSandbox { blocking.run(command) }

    fun stream(request: RunCommandRequest): Flow<ExecutionEvent> = eventFlow { blocking.stream(request) }

    fun stream(command: String): Flow<ExecutionEvent> = eventFlow { blocking.stream(command) }

    suspend fun interrupt(executionId: String) = withSandbox { blocking.interrupt(executionId) }

    suspend fun getCommandStatus(executionId: String): CommandStatus = withSandbox { blocking.getCommandStatus(executionId) }

    suspend fun getBackgroundCommandLogs(
        executionId: String,
        cursor: Long? = null,
    ): CommandLogs = withSandbox { blocking.getBackgroundCommandLogs(executionId, cursor) }

    suspend fun waitForCommand(
        executionId: String,
        timeout: Duration? = null,
    ): CommandStatus = withSandbox { blocking.waitForCommand(executionId, timeout) }

    suspend fun writeStdin(
        executionId: String,
        data: String,
        eof: Boolean = false,
    ) = withSandbox { blocking.writeStdin(executionId, data, eof) }

    suspend fun createSession(workingDirectory: String? = null): String = withSandbox { blocking.createSession(workingDirectory) }

    suspend fun runInSession(
        sessionId: String,
        request: RunInSessionRequest,
    ): Execution = withSandbox { blocking.runInSession(sessionId, request) }

    suspend fun runInSession(
        sessionId: String,
        command: String,
    ): Execution = withSandbox { blocking.runInSession(sessionId, command) }

    suspend fun deleteSession(sessionId: String) = withSandbox { blocking.deleteSession(sessionId) }
}

/** Files with suspend functions; [blocking] has what is not here. */
class SuspendingFilesystem(
    val blocking: Filesystem,
) {
    suspend fun readFile(path: String): String = withSandbox { blocking.readFile(path) }

    suspend fun readByteArray(path: String): ByteArray = withSandbox { blocking.readByteArray(path) }

    suspend fun write(entries: List<WriteEntry>) = withSandbox { blocking.write(entries) }

    suspend fun writeFile(
        path: String,
        data: String,
    ) = withSandbox { blocking.writeFile(path, data) }

    suspend fun writeFile(entry: WriteEntry) = withSandbox { blocking.writeFile(entry) }

    suspend fun createDirectories(entries: List<WriteEntry>) = withSandbox { blocking.createDirectories(entries) }

    suspend fun deleteFiles(paths: List<String>) = withSandbox { blocking.deleteFiles(paths) }

    suspend fun deleteDirectories(paths: List<String>) = withSandbox { blocking.deleteDirectories(paths) }

    suspend fun listDirectory(
        path: String,
        depth: Int? = null,
    ): List<EntryInfo> = withSandbox { blocking.listDirectory(path, depth) }

    suspend fun search(entry: SearchEntry): List<EntryInfo> = withSandbox { blocking.search(entry) }

    suspend fun readFileInfo(paths: List<String>): Map<String, EntryInfo> = withSandbox { blocking.readFileInfo(paths) }

    fun watch(
        path: String,
        recursive: Boolean = false,
    ): Flow<FileEvent> = eventFlow { blocking.watch(path, recursive) }

    suspend fun uploadDirectory(
        local: Path,
        path: String,
    ) = withSandbox { blocking.uploadDirectory(local, path) }

    suspend fun downloadDirectory(
        path: String,
        local: Path,
    ) = withSandbox { blocking.downloadDirectory(path, local) }
}

/** All sandboxes that match, a page at a time. */
fun SandboxManager.sandboxInfos(filter: SandboxFilter = SandboxFilter.builder().build()): Flow<SandboxInfo> =
    kotlinx.coroutines.flow.flow {
        var page = filter.page ?: 1
        while (true) {
            val found = withSandbox { listSandboxInfos(filter.ofPage(page++)) }
            found.sandboxInfos.forEach { emit(it) }
            if (!found.pagination.hasNextPage) return@flow
        }
    }
