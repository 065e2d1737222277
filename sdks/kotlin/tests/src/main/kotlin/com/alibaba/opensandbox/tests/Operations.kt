package com.alibaba.opensandbox.tests

import com.alibaba.opensandbox.codeinterpreter.CodeContext
import com.alibaba.opensandbox.codeinterpreter.CodeInterpreter
import com.alibaba.opensandbox.codeinterpreter.RunCodeRequest
import com.alibaba.opensandbox.sandbox.Sandbox
import com.alibaba.opensandbox.sandbox.SandboxManager
import com.alibaba.opensandbox.sandbox.config.ConnectionConfig
import com.alibaba.opensandbox.sandbox.domain.exceptions.InvalidArgumentException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxApiException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxReadyTimeoutException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxUnhealthyException
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionHandlers
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunCommandRequest
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunInSessionRequest
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.ContentReplaceEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.MoveEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SearchEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SetPermissionEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.WriteEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.isolated.IsolatedSessionRequest
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CapacitySpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.Credential
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialAuth
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialBinding
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialBindingMutationSet
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialMatch
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialMutationSet
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CustomHeaderEntry
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ForkRequest
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.Host
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.LifecycleEvent
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkPolicy
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkRule
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.OSSFS
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PVC
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PlatformSpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxFilter
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxImageSpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotFilter
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.Volume
import com.alibaba.opensandbox.sandbox.domain.services.IsolatedSession
import kotlinx.serialization.json.JsonObject
import java.io.ByteArrayInputStream
import java.time.Duration
import java.util.Locale

/** The operations of sdks/conformance/README.md: calls the SDK, returns neutral values. */
class Operations(
    private val settings: JsonObject,
) : AutoCloseable {
    private var sandbox: Sandbox? = null
    private var session: IsolatedSession? = null
    private val config: ConnectionConfig by lazy { makeConfig() }
    private val managing = lazy { SandboxManager.builder().connectionConfig(config).build() }
    private val manager by managing
    private var with = Args(JsonObject(emptyMap()))

    override fun close() {
        sandbox?.close()
        if (managing.isInitialized()) manager.close()
    }

    private fun makeConfig(): ConnectionConfig {
        val a = Args(settings)
        val builder = ConnectionConfig.builder().useServerProxy(a.truth("use_server_proxy") ?: false)
        a.text("domain")?.let { builder.domain(it) }
        a.text("api_key")?.let { builder.apiKey(it) }
        a.text("protocol")?.let { builder.protocol(it) }
        a.map("headers")?.let { builder.headers(it) }
        a.long("request_timeout_ms")?.let { builder.requestTimeout(Duration.ofMillis(it)) }
        a.args("retry")?.let { retry ->
            retry.int("max")?.let { builder.maxRetries(it) }
            retry.long("backoff_ms")?.let { builder.retryBackoff(Duration.ofMillis(it)) }
        }
        return builder.build()
    }

    fun step(step: JsonObject): JsonObject {
        with = Args(step["with"] as? JsonObject ?: JsonObject(emptyMap()))
        val name = Args(step).need("do")
        return try {
            JsonObject(mapOf("result" to json(call(name))))
        } catch (e: SandboxException) {
            JsonObject(mapOf("error" to json(error(e))))
        } catch (e: IllegalArgumentException) {
            JsonObject(mapOf("error" to json(mapOf("class" to "invalid_argument", "message" to e.message))))
        }
    }

    private fun error(e: SandboxException): Map<String, Any?> =
        mapOf(
            "class" to
                when (e) {
                    is SandboxApiException -> "api"
                    is InvalidArgumentException -> "invalid_argument"
                    is SandboxReadyTimeoutException -> "ready_timeout"
                    is SandboxUnhealthyException -> "unhealthy"
                    else -> "internal"
                },
            "code" to e.error.code,
            "message" to e.message,
            "status" to (e as? SandboxApiException)?.statusCode,
            "request_id" to e.requestId,
            "retry_after_s" to (e as? SandboxApiException)?.retryAfter?.seconds,
        )

    private fun current(): Sandbox = sandbox ?: kotlin.error("there is no sandbox")

    private fun call(name: String): Any? =
        when (name.substringBefore('.')) {
            "config" ->
                mapOf("base_url" to config.getBaseUrl(), "api_key" to config.getApiKey(), "protocol" to config.protocol)
            "sandbox" -> sandbox(name)
            "metrics" ->
                current().watchMetrics().use { stream -> stream.asSequence().take(with.int("count")!!).map(::figures).toList() }
            "command" -> command(name)
            "session" -> session(name)
            "files" -> files(name)
            "code" -> code(name)
            "egress" -> egress(name)
            "vault" -> vault(name)
            "manager" -> manager(name)
            "snapshots" -> snapshots(name)
            "isolated" -> isolated(name)
            "events" -> events(name)
            else -> stored(name)
        }

    private fun keep(made: Sandbox): Any {
        sandbox?.close()
        sandbox = made
        return mapOf("id" to made.id)
    }

    // --- sandboxes ---

    private fun sandbox(name: String): Any? =
        when (name) {
            "sandbox.create" -> keep(builder().build())
            "sandbox.connect" -> keep(ready(Sandbox.connector().sandboxId(with.need("id"))) { connectTimeout(it) }.connect())
            "sandbox.resume" -> keep(ready(Sandbox.resumer().sandboxId(with.need("id"))) { resumeTimeout(it) }.resume())
            "sandbox.info" -> info(current().getInfo())
            "sandbox.renew" -> mapOf("expires_at" to current().renew(Duration.ofSeconds(with.long("seconds")!!)).expiresAt)
            "sandbox.pause" -> current().pause()
            "sandbox.kill" -> current().kill()
            "sandbox.close" -> current().close()
            "sandbox.patch_metadata" -> info(current().patchMetadata(with.patch("patch")))
            "sandbox.endpoint" -> endpoint(current().getEndpoint(with.int("port")!!))
            "sandbox.signed_endpoint" -> endpoint(current().getSignedEndpoint(with.int("port")!!, with.long("expires")!!))
            "sandbox.is_healthy" -> current().isHealthy()
            "sandbox.metrics" -> figures(current().getMetrics())
            "sandbox.diagnostic_logs" -> diagnostics(current().getDiagnosticLogs(with.need("scope")))
            "sandbox.diagnostic_events" -> diagnostics(current().getDiagnosticEvents(with.need("scope")))
            "sandbox.snapshot" -> snapshot(current().createSnapshot(with.text("name"), with.truth("memory")))
            "sandbox.fork" -> current().fork(forkRequest()).map(::info)
            "sandbox.rollback" -> info(current().rollback(with.need("snapshot_id")))
            else -> unknown(name)
        }

    private fun unknown(name: String): Nothing = throw UnsupportedOperationException(name)

    private fun forkRequest(): ForkRequest =
        ForkRequest
            .builder()
            .count(with.int("count"))
            .timeout(with.long("timeout_s")?.let(Duration::ofSeconds))
            .env(with.map("env"))
            .metadata(with.map("metadata"))
            .entrypoint(with.list("entrypoint"))
            .memory(with.truth("memory"))
            .build()

    private fun <T : Sandbox.Ready<T>> ready(
        of: T,
        timeout: T.(Duration) -> Unit,
    ): T {
        of.connectionConfig(config)
        of.skipHealthCheck(with.truth("skip_health_check") ?: false)
        with.long("poll_ms")?.let { of.healthCheckPollingInterval(Duration.ofMillis(it)) }
        (with.long("timeout_ms") ?: with.long("ready_timeout_ms"))?.let { of.timeout(Duration.ofMillis(it)) }
        return of
    }

    private fun builder(): Sandbox.Builder {
        val b = ready(Sandbox.builder()) { readyTimeout(it) }
        val auth = with.args("image_auth")
        with.text("image")?.let { image ->
            if (auth == null) {
                b.image(image)
            } else {
                b.imageSpec(
                    SandboxImageSpec
                        .builder()
                        .image(image)
                        .auth(auth.need("username"), auth.need("password"))
                        .build(),
                )
            }
        }
        with.text("snapshot_id")?.let { b.snapshotId(it) }
        with.list("entrypoint")?.let { b.entrypoint(it) }
        with.map("resource")?.let { b.resource(it) }
        with.map("env")?.let { b.env(it) }
        with.map("metadata")?.let { b.metadata(it) }
        with.map("extensions")?.let { b.extensions(it) }
        with.text("idempotency_key")?.let { b.idempotencyKey(it) }
        with.truth("secure_access")?.let { b.secureAccess(it) }
        with.args("platform")?.let { b.platform(PlatformSpec(it.need("os"), it.need("arch"))) }
        with.args("network_policy")?.let { policy ->
            val action = NetworkPolicy.DefaultAction.valueOf(policy.need("default_action").uppercase(Locale.ROOT))
            b.networkPolicy(NetworkPolicy(action, policy.each("egress")!!.map(::rule)))
        }
        with.args("secret_env")?.let { all ->
            for (name in all.names()) {
                val secret = all.args(name)!!
                b.secretEnv(name, secret.need("value"), secret.list("hosts")!!)
            }
        }
        with.truth("credential_proxy")?.let { b.credentialProxyEnabled(it) }
        with.each("volumes")?.let { list -> b.volumes(list.map(::volumeOf)) }
        if (with.isNull("timeout_s")) b.manualCleanup()
        with.long("timeout_s")?.let { b.timeout(Duration.ofSeconds(it)) }
        return b
    }

    private fun rule(a: Args) = NetworkRule(NetworkRule.Action.valueOf(a.need("action").uppercase(Locale.ROOT)), a.need("target"))

    private fun volumeOf(a: Args): Volume {
        val builder =
            Volume
                .builder()
                .name(a.need("name"))
                .mountPath(a.need("mount_path"))
                .subPath(a.text("sub_path"))
                .readOnly(a.truth("read_only") ?: false)
        a.args("host")?.let { builder.host(Host.of(it.need("path"))) }
        a.args("pvc")?.let { builder.pvc(PVC.of(it.need("claim_name"))) }
        a.args("ossfs")?.let {
            builder.ossfs(
                OSSFS
                    .builder()
                    .bucket(it.need("bucket"))
                    .endpoint(it.need("endpoint"))
                    .accessKeyId(it.need("access_key_id"))
                    .accessKeySecret(it.need("access_key_secret"))
                    .build(),
            )
        }
        return builder.build()
    }

    // --- commands ---

    private fun request(handlers: ExecutionHandlers? = null): RunCommandRequest {
        val b =
            RunCommandRequest
                .builder()
                .workingDirectory(with.text("cwd"))
                .background(with.truth("background") ?: false)
                .timeout(with.long("timeout_ms")?.let(Duration::ofMillis))
                .uid(with.int("uid"))
                .gid(with.int("gid"))
                .stdin(with.text("stdin"))
                .handlers(handlers)
        with.text("command")?.let { b.command(it) }
        with.list("argv")?.let { b.argv(it) }
        with.map("envs")?.let { b.envs(it) }
        return b.build()
    }

    private fun command(name: String): Any? {
        val commands = current().commands()
        val id = with.text("id") ?: ""
        return when (name) {
            "command.run" -> {
                val skip = with.truth("skip_accumulation") ?: false
                execution(commands.run(request(ExecutionHandlers.builder().skipAccumulation(skip).build())))
            }
            "command.handlers" -> seenByHandlers()
            "command.iterate" -> commands.stream(request()).use { stream -> stream.map { listOf(it.type, it.text) } }
            "command.status" -> status(commands.getCommandStatus(id))
            "command.logs" -> commands.getBackgroundCommandLogs(id, with.long("cursor"))
                .let { mapOf("content" to it.content, "cursor" to it.cursor) }
            "command.interrupt" -> commands.interrupt(id)
            "command.stdin" -> commands.writeStdin(id, with.need("data"), with.truth("eof") ?: false)
            "command.background_until_end" -> {
                val run =
                    commands.run(
                        RunCommandRequest
                            .builder()
                            .command(with.need("command"))
                            .background()
                            .build(),
                    )
                val ended = commands.waitForCommand(run.id!!)
                val logs = commands.getBackgroundCommandLogs(run.id!!, 0)
                mapOf("content" to logs.content, "exit_code" to ended.exitCode, "running" to ended.running)
            }
            else -> unknown(name)
        }
    }

    private fun seenByHandlers(): Any {
        val seen = ArrayList<List<String?>>()
        val handlers =
            ExecutionHandlers
                .builder()
                .onInit { seen.add(listOf("init", it.id)) }
                .onStdout { seen.add(listOf("stdout", it.text)) }
                .onStderr { seen.add(listOf("stderr", it.text)) }
                .onResult { seen.add(listOf("result", it.text)) }
                .onError { seen.add(listOf("error", it.value)) }
                .onExecutionComplete { seen.add(listOf("complete", null)) }
                .build()
        current().commands().run(request(handlers))
        return seen
    }

    private fun session(name: String): Any? {
        val commands = current().commands()
        return when (name) {
            "session.create" -> commands.createSession(with.text("cwd"))
            "session.run" -> {
                val request =
                    RunInSessionRequest
                        .builder()
                        .command(with.need("command"))
                        .workingDirectory(with.text("cwd"))
                        .timeout(with.long("timeout_ms")?.let(Duration::ofMillis))
                        .build()
                execution(commands.runInSession(with.need("id"), request))
            }
            "session.delete" -> commands.deleteSession(with.need("id"))
            "session.create_and_run" -> {
                val id = commands.createSession(with.text("cwd"))
                val runs = with.list("commands")!!.map { execution(commands.runInSession(id, it)) }
                commands.deleteSession(id)
                runs
            }
            else -> unknown(name)
        }
    }

    // --- files ---

    private fun write(a: Args): WriteEntry {
        val b =
            WriteEntry
                .builder()
                .path(a.need("path"))
                .owner(a.text("owner"))
                .group(a.text("group"))
        a.text("text")?.let { b.data(it) }
        a.int("mode")?.let { b.mode(it) }
        return b.build()
    }

    private fun files(name: String): Any? {
        val files = with.int("uid")?.let { current().files().asUser(it, with.int("gid")!!) } ?: current().files()
        val path = with.text("path") ?: ""
        val paths = with.list("paths") ?: emptyList()
        val (range, offset, limit) = Triple(with.text("range"), with.int("offset"), with.int("limit"))
        return when (name) {
            "files.read" -> files.readFile(path, "UTF-8", range, offset, limit)
            "files.read_bytes" -> files.readByteArray(path, range, offset, limit).joinToString("") { "%02x".format(it) }
            "files.read_stream" -> {
                val piece = ByteArray(with.int("chunk_size")!!)
                files.readStream(path).use { stream -> generateSequence { stream.read(piece).takeIf { it >= 0 } }.sumOf { it.toLong() } }
            }
            "files.write" -> files.writeFile(write(with))
            "files.write_many" -> files.write(with.each("entries")!!.map(::write))
            "files.write_stream" -> {
                val data = with.need("text").repeat(with.int("times")!!).toByteArray()
                files.writeFile(path, ByteArrayInputStream(data))
            }
            "files.info" -> files.readFileInfo(paths).mapValues { file(it.value) }
            "files.search" -> files.search(SearchEntry(path, with.need("pattern"))).map(::file)
            "files.list" -> files.listDirectory(path, with.int("depth")).map(::file)
            "files.delete" -> files.deleteFiles(paths)
            "files.delete_directories" -> files.deleteDirectories(paths)
            "files.make_directories" -> files.createDirectories(with.each("entries")!!.map(::write))
            "files.permissions" -> files.setPermissions(with.each("entries")!!.map(::permission))
            "files.move" -> files.moveFiles(with.each("entries")!!.map { MoveEntry(it.need("src"), it.need("dest")) })
            "files.replace" -> files.replaceContents(replacements())
            "files.replace_detailed" ->
                files.replaceContentsDetailed(replacements()).map { mapOf("path" to it.path, "replaced_count" to it.replacedCount) }
            "files.watch" ->
                files.watch(path, with.truth("recursive") ?: false).use { stream ->
                    stream.asSequence().take(with.int("count")!!).toList().map {
                        mapOf("type" to it.type, "path" to it.path, "from" to it.from, "directory" to it.directory)
                    }
                }
            else -> unknown(name)
        }
    }

    private fun permission(a: Args): SetPermissionEntry {
        val b =
            SetPermissionEntry
                .builder()
                .path(a.need("path"))
                .owner(a.text("owner"))
                .group(a.text("group"))
        a.int("mode")?.let { b.mode(it) }
        return b.build()
    }

    private fun replacements() = with.each("entries")!!.map { ContentReplaceEntry(it.need("path"), it.need("old"), it.need("new")) }

    // --- code ---

    private fun code(name: String): Any? {
        val codes =
            CodeInterpreter
                .builder()
                .fromSandbox(current())
                .build()
                .codes()
        val language = with.text("language")
        return when (name) {
            "code.run" -> {
                val given = with.args("context")
                val context = given?.let { CodeContext(it.text("id"), it.need("language")) }
                val request = RunCodeRequest.builder().code(with.need("code")).context(context).language(language)
                execution(codes.run(request.build()))
            }
            "code.create_context" -> codes.createContext(language!!).let(::context)
            "code.get_context" -> codes.getContext(with.need("id")).let(::context)
            "code.list_contexts" -> codes.listContexts(language!!).map(::context)
            "code.delete_contexts" -> codes.deleteContexts(language!!)
            "code.delete_context" -> codes.deleteContext(with.need("id"))
            "code.interrupt" -> codes.interrupt(with.need("id"))
            else -> unknown(name)
        }
    }

    private fun context(c: CodeContext) = mapOf("id" to c.id, "language" to c.language)

    // --- network ---

    private fun egress(name: String): Any? =
        when (name) {
            "egress.get" -> {
                val policy = current().getEgressPolicy()
                mapOf(
                    "default_action" to policy.defaultAction.name.lowercase(Locale.ROOT),
                    "egress" to policy.egress.map { mapOf("action" to it.action.name.lowercase(Locale.ROOT), "target" to it.target) },
                )
            }
            "egress.patch" -> current().patchEgressRules(with.each("rules")!!.map(::rule))
            "egress.delete" -> current().deleteEgressRules(with.list("targets")!!)
            else -> unknown(name)
        }

    private fun credentialOf(a: Args): Credential =
        Credential
            .builder()
            .name(a.need("name"))
            .inlineSource(a.need("value"))
            .build()

    private fun bindingOf(a: Args): CredentialBinding {
        val match = a.args("match")!!
        val auth = a.args("auth")!!
        return CredentialBinding
            .builder()
            .name(a.need("name"))
            .match(
                CredentialMatch
                    .builder()
                    .hosts(match.list("hosts")!!)
                    .schemes(match.list("schemes"))
                    .methods(match.list("methods"))
                    .paths(match.list("paths"))
                    .build(),
            ).auth(
                CredentialAuth(
                    auth.need("type"),
                    auth.text("credential"),
                    auth.text("name"),
                    auth.each("headers")?.map { CustomHeaderEntry(it.need("name"), it.need("credential")) },
                ),
            ).build()
    }

    private fun vault(name: String): Any? {
        val vault = current().credentialVault()
        return when (name) {
            "vault.create" ->
                vault(vault.create(with.each("credentials")!!.map(::credentialOf), with.each("bindings")!!.map(::bindingOf)))
            "vault.get" -> vault(vault.get())
            "vault.delete" -> vault.delete()
            "vault.patch" -> {
                val credentials =
                    with.args("credentials")?.let { set ->
                        CredentialMutationSet(
                            set.each("add")?.map(::credentialOf),
                            set.each("replace")?.map(::credentialOf),
                            set.list("delete"),
                        )
                    }
                val bindings =
                    with.args("bindings")?.let { set ->
                        CredentialBindingMutationSet(
                            set.each("add")?.map(::bindingOf),
                            set.each("replace")?.map(::bindingOf),
                            set.list("delete"),
                        )
                    }
                vault(vault.patch(with.long("expected_revision"), credentials, bindings))
            }
            "vault.list_credentials" -> vault.listCredentials().map(::credential)
            "vault.get_credential" -> credential(vault.getCredential(with.need("name")))
            "vault.list_bindings" -> vault.listBindings().map(::binding)
            "vault.get_binding" -> binding(vault.getBinding(with.need("name")))
            else -> unknown(name)
        }
    }

    // --- manager, snapshots, images, pools, volumes ---

    private fun filter(): SandboxFilter {
        val b = SandboxFilter.builder()
        with.list("states")?.let { b.states(it) }
        with.map("metadata")?.let { b.metadata(it) }
        with.int("page")?.let { b.page(it) }
        with.int("page_size")?.let { b.pageSize(it) }
        return b.build()
    }

    private fun manager(name: String): Any? {
        val id = with.text("id") ?: ""
        return when (name) {
            "manager.list" -> manager.listSandboxInfos(filter()).let { page(it.sandboxInfos.map(::info), it.pagination) }
            "manager.iterate" -> manager.iterateSandboxInfos(filter()).map { it.id }
            "manager.get" -> info(manager.getSandboxInfo(id))
            "manager.kill" -> manager.killSandbox(id)
            "manager.pause" -> manager.pauseSandbox(id)
            "manager.resume" -> manager.resumeSandbox(id)
            "manager.renew" ->
                mapOf("expires_at" to manager.renewSandbox(id, Duration.ofSeconds(with.long("seconds")!!)).expiresAt)
            "manager.patch_metadata" -> info(manager.patchSandboxMetadata(id, with.patch("patch")))
            else -> unknown(name)
        }
    }

    private fun snapshots(name: String): Any? {
        val id = with.text("id") ?: ""
        return when (name) {
            "snapshots.create" ->
                snapshot(manager.createSnapshot(with.need("sandbox_id"), with.text("name"), with.truth("memory")))
            "snapshots.get" -> snapshot(manager.getSnapshot(id))
            "snapshots.list" -> {
                val b = SnapshotFilter.builder().sandboxId(with.text("sandbox_id"))
                with.list("states")?.let { b.states(it) }
                with.int("page")?.let { b.page(it) }
                with.int("page_size")?.let { b.pageSize(it) }
                manager.listSnapshots(b.build()).let { page(it.snapshotInfos.map(::snapshot), it.pagination) }
            }
            "snapshots.delete" -> manager.deleteSnapshot(id)
            "snapshots.wait" -> snapshot(manager.waitForSnapshot(id))
            "snapshots.round_trip" -> {
                val made = manager.waitForSnapshot(current().createSnapshot(with.text("name")).id)
                Sandbox.builder().connectionConfig(config).snapshotId(made.id).build().use { restored ->
                    val kept = restored.files().readFile("/root/kept")
                    restored.kill()
                    manager.deleteSnapshot(made.id)
                    mapOf("state" to made.status.state, "restored" to kept)
                }
            }
            else -> unknown(name)
        }
    }

    // --- isolated sessions, events ---

    private fun isolated(name: String): Any? {
        if (name == "isolated.create") {
            val request = IsolatedSessionRequest.builder().workspace(with.need("path"), with.text("mode"))
            val made = current().isolation().create(request.build())
            session = made
            return mapOf("id" to made.sessionId)
        }
        val session = session ?: kotlin.error("there is no isolated session")
        val run = with.text("run_id") ?: ""
        val envs = with.map("envs") ?: emptyMap()
        return when (name) {
            "isolated.run" -> {
                val timeout = with.long("timeout_s")?.let(Duration::ofSeconds)
                execution(session.run(with.need("code"), envs, timeout, cwd = with.text("cwd")))
            }
            "isolated.run_background" ->
                mapOf("run_id" to session.runInBackground(with.need("code"), envs, with.text("cwd")).runId)
            "isolated.run_status" ->
                session.getRunStatus(run).let {
                    mapOf(
                        "run_id" to it.runId,
                        "running" to it.running,
                        "exit_code" to it.exitCode,
                        "finished_at" to it.finishedAt,
                    )
                }
            "isolated.run_logs" ->
                session.getRunLogs(run, with.long("cursor") ?: 0).let { mapOf("content" to it.content, "cursor" to it.cursor) }
            "isolated.diff" -> session.diff().use { it.readBytes() }.joinToString("") { "%02x".format(it) }
            "isolated.commit" ->
                session.commit(with.truth("reset") ?: false).let {
                    mapOf(
                        "files_written" to it.filesWritten,
                        "paths_removed" to it.pathsRemoved,
                        "upper_reset" to it.upperReset,
                    )
                }
            "isolated.delete" -> session.delete()
            else -> unknown(name)
        }
    }

    private fun events(name: String): Any? {
        if (name == "events.watch") {
            return manager.watchEvents(with.text("sandbox_id"), with.text("after")).use { stream ->
                stream.asSequence().take(with.int("count")!!).map(::event).toList()
            }
        }
        return manager.watchEvents(current().id, "0-1").use { stream ->
            val paused =
                stream.first {
                    if (it.type == LifecycleEvent.RESET) current().pause()
                    it.type == "sandbox.paused"
                }
            mapOf("type" to paused.type, "state" to paused.state, "mine" to (paused.sandboxId == current().id))
        }
    }

    private fun event(e: LifecycleEvent) =
        mapOf(
            "id" to e.id,
            "type" to e.type,
            "time" to e.time,
            "tenant" to e.tenant,
            "sandbox_id" to e.sandboxId,
            "state" to e.state,
            "reason" to e.reason,
            "message" to e.message,
        )

    private fun capacity(): CapacitySpec =
        with.args("capacity")!!.let {
            CapacitySpec(it.int("buffer_min")!!, it.int("buffer_max")!!, it.int("pool_min")!!, it.int("pool_max")!!)
        }

    private fun stored(name: String): Any? {
        val of = with.text("name") ?: ""
        return when (name) {
            "images.list" ->
                manager.images().list(with.int("page"), with.int("page_size")).let { page(it.imageInfos.map(::image), it.pagination) }
            "images.get" -> image(manager.images().get(of))
            "images.delete" -> manager.images().delete(of)
            "images.pull" -> image(manager.images().pull(SandboxImageSpec(with.need("uri")), with.text("policy"), null))
            "pools.create" -> pool(manager.pools().create(of, with.get("template").toString(), capacity()))
            "pools.get" -> pool(manager.pools().get(of))
            "pools.list" -> manager.pools().list().map(::pool)
            "pools.update" -> pool(manager.pools().update(of, capacity()))
            "pools.delete" -> manager.pools().delete(of)
            "volumes.create" -> volume(manager.volumes().create(of, with.text("size")))
            "volumes.get" -> volume(manager.volumes().get(of))
            "volumes.delete" -> manager.volumes().delete(of)
            else -> unknown(name)
        }
    }
}
