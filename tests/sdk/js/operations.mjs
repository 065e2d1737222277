// operations.mjs - the operations of sdks/conformance/README.md in terms of our SDK.
import { CodeInterpreter, sdk } from "./client.mjs";

/** The SDK has no such operation; the text says why. */
export class NotHere extends Error {}

const seconds = (milliseconds) => milliseconds === undefined ? undefined : milliseconds / 1000;

// Only what is there: an option that is given as undefined is not given.
const some = (object) => Object.fromEntries(Object.entries(object).filter(([, value]) =>
    value !== undefined));

function time(date) {
    return date ? date.toISOString().replace(/\.000Z$/, "Z").replace(/\.(\d{3})Z$/, ".$1000Z") : null;
}

const info = (found) => ({ id: found.id, image: found.image?.uri ?? null,
    snapshot_id: found.snapshotId ?? null, state: found.status.state,
    reason: found.status.reason ?? null, message: found.status.message ?? null,
    metadata: found.metadata ?? null, entrypoint: found.entrypoint,
    expires_at: time(found.expiresAt), created_at: time(found.createdAt),
    platform: found.platform ?? null });

const snapshot = (found) => ({ id: found.id, sandbox_id: found.sandboxId, name: found.name ?? null,
    state: found.status.state, created_at: time(found.createdAt) });

const file = (found) => ({ path: found.path, type: found.type, size: found.size, mode: found.mode,
    owner: found.owner, group: found.group, modified_at: time(found.modifiedAt),
    created_at: time(found.createdAt) });

const page = (found, one) => ({ items: found.items.map(one), page: found.pagination?.page,
    page_size: found.pagination?.pageSize, total_items: found.pagination?.totalItems,
    total_pages: found.pagination?.totalPages, has_next_page: found.pagination?.hasNextPage });

const credential = (found) => ({ name: found.name, source_type: found.sourceType,
    revision: found.revision });
const binding = (found) => ({ ...found });
const vault = (found) => ({ revision: found.revision,
    credentials: found.credentials.map(credential), bindings: found.bindings.map(binding) });

const metrics = (found) => ({ cpu_count: found.cpuCount, cpu_used_pct: found.cpuUsedPercentage,
    mem_total_mib: found.memoryTotalMiB, mem_used_mib: found.memoryUsedMiB,
    timestamp: found.timestamp });

const texts = (messages) => messages.map((message) => message.text);

// What a program prints of a run: lines, and the plain text of results.
function textOf(run) {
    return [...texts(run.logs.stdout), ...run.result.map((one) => one.text).filter(Boolean)]
        .join("\n").replace(/\n+$/, "");
}

const execution = (run) => ({ id: run.id ?? null, stdout: texts(run.logs.stdout),
    stderr: texts(run.logs.stderr), results: run.result.map((one) => one.raw),
    error: run.error ? { name: run.error.name, value: run.error.value,
        traceback: run.error.traceback } : null,
    complete_ms: run.complete?.executionTimeMs ?? null, exit_code: run.exitCode ?? null,
    execution_count: run.executionCount ?? null, text: textOf(run) });

const status = (found) => ({ id: found.id, content: found.content, running: found.running,
    exit_code: found.exitCode ?? null, error: found.error ?? null,
    started_at: time(found.startedAt), finished_at: time(found.finishedAt) });

const diagnostics = (found) => ({ kind: found.kind, scope: found.scope, delivery: found.delivery,
    content_type: found.contentType, content: found.content ?? null,
    content_url: found.contentUrl ?? null, content_length: found.contentLength ?? null,
    truncated: found.truncated, expires_at: time(found.expiresAt), warnings: found.warnings ?? null });

const image = (found) => ({ id: found.id, names: found.names, size: found.size, in_use: found.inUse });
const pool = (found) => ({ name: found.name, total: found.status.total,
    allocated: found.status.allocated, available: found.status.available });
const volume = (found) => ({ name: found.name, size_bytes: found.sizeBytes, used_by: found.usedBy });

const camel = (key) => key.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
const camelKeys = (value) => Array.isArray(value) ? value.map(camelKeys)
    : value !== null && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(
        ([key, inner]) => [camel(key), camelKeys(inner)])) : value;

const credentials = (list) => list?.map(({ name, value }) => ({ name, source: { value } }));

const runOptions = (a) => some({ workingDirectory: a.cwd, background: a.background,
    timeoutSeconds: seconds(a.timeout_ms), uid: a.uid, gid: a.gid, envs: a.envs, argv: a.argv,
    stdin: a.stdin });

async function firstOf(stream, count, one) {
    const found = [];
    for await (const item of stream) {
        found.push(one(item));
        if (found.length >= count)
            break;
    }
    return found;
}

async function* repeated(text, times) {
    for (let n = 0; n < times; n++)
        yield new TextEncoder().encode(text);
}

const capacity = (given) => camelKeys(given);

export class World {
    constructor(config) {
        this.given = config;
        this.open = [];
    }

    config() {
        const { given } = this;
        const value = (name) => given[name] === null ? undefined : given[name];
        return this.made ??= new sdk.ConnectionConfig(some({ domain: value("domain"),
            apiKey: value("api_key"), protocol: value("protocol"), headers: value("headers"),
            useServerProxy: value("use_server_proxy"),
            requestTimeoutSeconds: seconds(value("request_timeout_ms")),
            retry: value("retry") && { maxRetries: given.retry.max,
                initialDelayMillis: given.retry.backoff_ms } }));
    }

    manager() {
        if (!this.theManager) {
            this.theManager = sdk.SandboxManager.create({ connectionConfig: this.config() });
            this.open.push(this.theManager);
        }
        return this.theManager;
    }

    async use(promise) {
        this.sandbox = await promise;
        this.open.push(this.sandbox);

        return { id: this.sandbox.id };
    }

    async codes() {
        return (await CodeInterpreter.create(this.sandbox)).codes;
    }

    files(a) {
        return a.uid === undefined ? this.sandbox.files
            : this.sandbox.files.asUser(a.uid, a.gid ?? a.uid);
    }

    async close() {
        for (const one of this.open)
            await one.close();
    }

    async run(name, args) {
        const operation = OPERATIONS[name];
        if (!operation)
            throw new NotHere(`the runner has no ${name}`);
        return operation.call(this, args);
    }
}

const reading = (a) => some({ range: a.range, offset: a.offset, limit: a.limit });
const writing = (a) => some({ path: a.path, data: a.text, mode: a.mode, owner: a.owner,
    group: a.group });
const paging = (a) => some({ page: a.page, pageSize: a.page_size });
const connecting = (a) => some({ sandboxId: a.id, readyTimeoutSeconds: seconds(a.timeout_ms),
    healthCheckPollingInterval: a.poll_ms, skipHealthCheck: a.skip_health_check });
const replacing = (a) => a.entries.map((entry) => ({ path: entry.path, oldContent: entry.old,
    newContent: entry.new }));
const filter = (a) => ({ ...some({ states: a.states, metadata: a.metadata }), ...paging(a) });

const OPERATIONS = {
    "config.show"() {
        const config = this.config();
        return { base_url: config.getBaseUrl(), api_key: config.apiKey ?? "",
            protocol: config.protocol };
    },

    "sandbox.create"(a) {
        return this.use(sdk.Sandbox.create({ connectionConfig: this.config(), ...some({
            image: a.image_auth ? { uri: a.image, auth: a.image_auth } : a.image,
            snapshotId: a.snapshot_id, timeoutSeconds: a.timeout_s, entrypoint: a.entrypoint,
            resource: a.resource, env: a.env, metadata: a.metadata, extensions: a.extensions,
            secureAccess: a.secure_access, platform: a.platform,
            networkPolicy: a.network_policy && camelKeys(a.network_policy),
            credentialProxy: a.credential_proxy === undefined ? undefined
                : { enabled: a.credential_proxy },
            secretEnv: a.secret_env, idempotencyKey: a.idempotency_key,
            volumes: a.volumes && camelKeys(a.volumes),
            readyTimeoutSeconds: seconds(a.ready_timeout_ms),
            healthCheckPollingInterval: a.poll_ms, skipHealthCheck: a.skip_health_check }) }));
    },
    "sandbox.connect"(a) {
        return this.use(sdk.Sandbox.connect({ connectionConfig: this.config(), ...connecting(a) }));
    },
    "sandbox.resume"(a) {
        return this.use(sdk.Sandbox.resume({ connectionConfig: this.config(), ...connecting(a) }));
    },
    async "sandbox.info"() {
        return info(await this.sandbox.getInfo());
    },
    async "sandbox.renew"(a) {
        return { expires_at: time((await this.sandbox.renew(a.seconds)).expiresAt) };
    },
    "sandbox.pause"() {
        return this.sandbox.pause();
    },
    "sandbox.kill"() {
        return this.sandbox.kill();
    },
    "sandbox.close"() {
        return this.sandbox.close();
    },
    async "sandbox.patch_metadata"(a) {
        return info(await this.sandbox.patchMetadata(a.patch));
    },
    async "sandbox.endpoint"(a) {
        const { endpoint, headers } = await this.sandbox.getEndpoint(a.port);
        return { endpoint, headers: headers ?? {} };
    },
    async "sandbox.signed_endpoint"(a) {
        const { endpoint, headers } = await this.sandbox.getSignedEndpoint(a.port, a.expires);
        return { endpoint, headers: headers ?? {} };
    },
    "sandbox.is_healthy"() {
        return this.sandbox.isHealthy();
    },
    async "sandbox.metrics"() {
        return metrics(await this.sandbox.getMetrics());
    },
    "metrics.watch"(a) {
        return firstOf(this.sandbox.metrics.watch(), a.count, metrics);
    },
    async "sandbox.diagnostic_logs"(a) {
        return diagnostics(await this.sandbox.getDiagnosticLogs(a.scope));
    },
    async "sandbox.diagnostic_events"(a) {
        return diagnostics(await this.sandbox.getDiagnosticEvents(a.scope));
    },
    async "sandbox.snapshot"(a) {
        return snapshot(await this.sandbox.createSnapshot(some({ name: a.name, memory: a.memory })));
    },
    async "sandbox.fork"(a) {
        return (await this.manager().forkSandbox(this.sandbox.id, some({ count: a.count, env: a.env,
            metadata: a.metadata, timeoutSeconds: a.timeout_s, entrypoint: a.entrypoint,
            memory: a.memory }))).map(info);
    },
    async "sandbox.rollback"(a) {
        return info(await this.manager().rollbackSandbox(this.sandbox.id, a.snapshot_id));
    },

    async "command.run"(a) {
        return execution(await this.sandbox.commands.run(a.command ?? "", runOptions(a),
            a.skip_accumulation === undefined ? undefined
                : { skipAccumulation: a.skip_accumulation }));
    },
    async "command.handlers"(a) {
        const seen = [];
        await this.sandbox.commands.run(a.command ?? "", runOptions(a), some({
            onInit: (event) => { seen.push(["init", event.id]); },
            onStdout: (event) => { seen.push(["stdout", event.text]); },
            onStderr: (event) => { seen.push(["stderr", event.text]); },
            onResult: (event) => { seen.push(["result", event.text ?? null]); },
            onError: (event) => { seen.push(["error", event.value]); },
            onExecutionComplete: () => { seen.push(["complete", null]); },
            skipAccumulation: a.skip_accumulation }));
        return seen;
    },
    "command.iterate"(a) {
        return firstOf(this.sandbox.commands.runStream(a.command ?? "", runOptions(a)), Infinity,
            (event) => [event.type, event.text ?? null]);
    },
    async "command.status"(a) {
        return status(await this.sandbox.commands.getCommandStatus(a.id));
    },
    async "command.logs"(a) {
        const logs = await this.sandbox.commands.getBackgroundCommandLogs(a.id, a.cursor);
        return { content: logs.content, cursor: logs.cursor ?? null };
    },
    "command.interrupt"(a) {
        return this.sandbox.commands.interrupt(a.id);
    },
    "command.stdin"(a) {
        return this.sandbox.commands.writeStdin(a.id, a.data, some({ eof: a.eof }));
    },
    async "command.background_until_end"(a) {
        const { commands } = this.sandbox;
        const { id } = await commands.run(a.command, { background: true });
        const ended = await commands.waitForCommand(id);
        const logs = await commands.getBackgroundCommandLogs(id, 0);
        return { ...status(ended), content: logs.content };
    },
    "session.create"(a) {
        return this.sandbox.commands.createSession(some({ workingDirectory: a.cwd }));
    },
    async "session.run"(a) {
        return execution(await this.sandbox.commands.runInSession(a.id, a.command,
            some({ workingDirectory: a.cwd, timeoutSeconds: seconds(a.timeout_ms) })));
    },
    "session.delete"(a) {
        return this.sandbox.commands.deleteSession(a.id);
    },
    async "session.create_and_run"(a) {
        const { commands } = this.sandbox;
        const id = await commands.createSession(some({ workingDirectory: a.cwd }));
        const runs = [];
        for (const command of a.commands)
            runs.push(execution(await commands.runInSession(id, command)));
        await commands.deleteSession(id);
        return runs;
    },

    "files.read"(a) {
        return this.files(a).readFile(a.path, reading(a));
    },
    async "files.read_bytes"(a) {
        return Buffer.from(await this.files(a).readBytes(a.path, reading(a))).toString("hex");
    },
    async "files.read_stream"(a) {
        let size = 0;
        for await (const piece of this.sandbox.files.readBytesStream(a.path))
            size += piece.length;
        return size;
    },
    "files.write"(a) {
        return this.files(a).writeFiles([writing(a)]);
    },
    "files.write_many"(a) {
        return this.sandbox.files.writeFiles(a.entries.map(writing));
    },
    "files.write_stream"(a) {
        return this.sandbox.files.writeFiles([{ path: a.path, data: repeated(a.text, a.times) }]);
    },
    async "files.info"(a) {
        const found = await this.files(a).getFileInfo(a.paths);
        return Object.fromEntries(Object.entries(found).map(([path, one]) => [path, file(one)]));
    },
    async "files.search"(a) {
        return (await this.files(a).search(some({ path: a.path, pattern: a.pattern }))).map(file);
    },
    async "files.list"(a) {
        return (await this.files(a).listDirectory(some({ path: a.path, depth: a.depth }))).map(file);
    },
    "files.delete"(a) {
        return this.files(a).deleteFiles(a.paths);
    },
    "files.delete_directories"(a) {
        return this.files(a).deleteDirectories(a.paths);
    },
    "files.make_directories"(a) {
        return this.files(a).createDirectories(a.entries);
    },
    "files.permissions"(a) {
        return this.files(a).setPermissions(a.entries);
    },
    "files.move"(a) {
        return this.files(a).moveFiles(a.entries);
    },
    "files.replace"(a) {
        return this.files(a).replaceContents(replacing(a));
    },
    async "files.replace_detailed"(a) {
        return (await this.files(a).replaceContentsDetailed(replacing(a))).map((one) =>
            ({ path: one.path, replaced_count: one.replacedCount }));
    },
    "files.watch"(a) {
        return firstOf(this.sandbox.files.watch(a.path, some({ recursive: a.recursive })), a.count,
            (event) => ({ type: event.type, path: event.path ?? null, from: event.from ?? null,
                directory: event.directory ?? null }));
    },

    async "code.run"(a) {
        return execution(await (await this.codes()).run(a.code,
            some({ language: a.language, context: a.context })));
    },
    async "code.create_context"(a) {
        return (await this.codes()).createContext(a.language);
    },
    async "code.get_context"(a) {
        return (await this.codes()).getContext(a.id);
    },
    async "code.list_contexts"(a) {
        return (await this.codes()).listContexts(a.language);
    },
    async "code.delete_context"(a) {
        return (await this.codes()).deleteContext(a.id);
    },
    async "code.delete_contexts"(a) {
        return (await this.codes()).deleteContexts(a.language);
    },
    async "code.interrupt"(a) {
        return (await this.codes()).interrupt(a.id);
    },

    async "egress.get"() {
        const policy = await this.sandbox.getEgressPolicy();
        return { default_action: policy.defaultAction ?? null, egress: policy.egress ?? [] };
    },
    "egress.patch"(a) {
        return this.sandbox.patchEgressRules(a.rules);
    },
    "egress.delete"(a) {
        return this.sandbox.deleteEgressRules(a.targets);
    },
    async "vault.create"(a) {
        return vault(await this.sandbox.credentialVault.create(
            { credentials: credentials(a.credentials), bindings: a.bindings }));
    },
    async "vault.get"() {
        return vault(await this.sandbox.credentialVault.get());
    },
    async "vault.patch"(a) {
        const set = a.credentials && some({ add: credentials(a.credentials.add),
            replace: credentials(a.credentials.replace), delete: a.credentials.delete });
        return vault(await this.sandbox.credentialVault.patch(some({
            expectedRevision: a.expected_revision, credentials: set, bindings: a.bindings })));
    },
    "vault.delete"() {
        return this.sandbox.credentialVault.delete();
    },
    async "vault.list_credentials"() {
        return (await this.sandbox.credentialVault.listCredentials()).map(credential);
    },
    async "vault.get_credential"(a) {
        return credential(await this.sandbox.credentialVault.getCredential(a.name));
    },
    async "vault.list_bindings"() {
        return (await this.sandbox.credentialVault.listBindings()).map(binding);
    },
    async "vault.get_binding"(a) {
        return binding(await this.sandbox.credentialVault.getBinding(a.name));
    },

    async "manager.list"(a) {
        return page(await this.manager().listSandboxInfos(filter(a)), info);
    },
    "manager.iterate"(a) {
        return firstOf(this.manager().sandboxInfos(filter(a)), Infinity, (found) => found.id);
    },
    async "manager.get"(a) {
        return info(await this.manager().getSandboxInfo(a.id));
    },
    "manager.kill"(a) {
        return this.manager().killSandbox(a.id);
    },
    "manager.pause"(a) {
        return this.manager().pauseSandbox(a.id);
    },
    "manager.resume"(a) {
        return this.manager().resumeSandbox(a.id);
    },
    async "manager.renew"(a) {
        return { expires_at: time((await this.manager().renewSandbox(a.id, a.seconds)).expiresAt) };
    },
    async "manager.patch_metadata"(a) {
        return info(await this.manager().patchSandboxMetadata(a.id, a.patch));
    },

    async "snapshots.create"(a) {
        return snapshot(await this.manager().createSnapshot(a.sandbox_id,
            some({ name: a.name, memory: a.memory })));
    },
    async "snapshots.get"(a) {
        return snapshot(await this.manager().getSnapshot(a.id));
    },
    async "snapshots.list"(a) {
        return page(await this.manager().listSnapshots({ ...some({ sandboxId: a.sandbox_id,
            states: a.states }), ...paging(a) }), snapshot);
    },
    "snapshots.delete"(a) {
        return this.manager().deleteSnapshot(a.id);
    },
    async "snapshots.wait"(a) {
        return snapshot(await this.manager().waitForSnapshot(a.id));
    },
    async "snapshots.round_trip"(a) {
        const made = await this.sandbox.createSnapshot({ name: a.name });
        const ready = await this.sandbox.waitForSnapshot(made.id);
        const restored = await sdk.Sandbox.create({ connectionConfig: this.config(),
            snapshotId: made.id });
        const text = await restored.files.readFile("/root/kept");
        await restored.kill();
        await restored.close();
        await this.manager().deleteSnapshot(made.id);
        return { state: ready.status.state, restored: text };
    },

    async "isolated.create"(a) {
        this.isolated = await this.sandbox.isolation.create({ workspace: some({ path: a.path,
            mode: a.mode }) });
        return { id: this.isolated.sessionId };
    },
    async "isolated.run"(a) {
        return execution(await this.isolated.run(a.code, some({ cwd: a.cwd, envs: a.envs,
            timeout_seconds: a.timeout_s })));
    },
    async "isolated.run_background"(a) {
        return { run_id: (await this.isolated.runInBackground(a.code)).run_id };
    },
    async "isolated.run_status"(a) {
        const found = await this.isolated.getRunStatus(a.run_id);
        return { run_id: found.run_id, running: found.running, exit_code: found.exit_code ?? null,
            finished_at: found.finished_at ?? null };
    },
    async "isolated.run_logs"(a) {
        const logs = await this.isolated.getRunLogs(a.run_id, a.cursor);
        return { content: logs.content, cursor: logs.cursor ?? null };
    },
    async "isolated.diff"() {
        return Buffer.concat(await firstOf(this.isolated.diff(), Infinity, (piece) => piece))
            .toString("hex");
    },
    "isolated.commit"(a) {
        return this.isolated.commit(some({ resetUpperAfter: a.reset }));
    },
    "isolated.delete"() {
        return this.isolated.delete();
    },

    "events.watch"(a) {
        return firstOf(this.manager().watchEvents(some({ sandboxId: a.sandbox_id, after: a.after })),
            a.count, (event) => ({ id: event.id ?? null, type: event.type, time: time(event.time),
                tenant: event.tenant ?? null, sandbox_id: event.sandboxId ?? null,
                state: event.state ?? null, reason: event.reason ?? null,
                message: event.message ?? null }));
    },
    async "events.watch_a_pause"() {
        for await (const event of this.manager().watchEvents(
            { sandboxId: this.sandbox.id, after: "0-1" })) {
            if (event.type === "reset")
                await this.sandbox.pause();
            if (event.type === "sandbox.paused")
                return { type: event.type, state: event.state,
                    mine: event.sandboxId === this.sandbox.id };
        }
        return null;
    },

    async "images.list"(a) {
        return page(await this.manager().images.list(paging(a)), image);
    },
    async "images.get"(a) {
        return image(await this.manager().images.get(a.name));
    },
    "images.delete"(a) {
        return this.manager().images.delete(a.name);
    },
    async "images.pull"(a) {
        return image(await this.manager().images.pull({ image: { uri: a.uri },
            ...some({ policy: a.policy }) }));
    },
    async "pools.create"(a) {
        return pool(await this.manager().pools.create({ name: a.name, template: a.template,
            capacitySpec: capacity(a.capacity) }));
    },
    async "pools.get"(a) {
        return pool(await this.manager().pools.get(a.name));
    },
    async "pools.list"() {
        return (await this.manager().pools.list()).map(pool);
    },
    async "pools.update"(a) {
        return pool(await this.manager().pools.update(a.name, { capacitySpec: capacity(a.capacity) }));
    },
    "pools.delete"(a) {
        return this.manager().pools.delete(a.name);
    },
    async "volumes.create"(a) {
        return volume(await this.manager().volumes.create(some({ name: a.name, size: a.size })));
    },
    async "volumes.get"(a) {
        return volume(await this.manager().volumes.get(a.name));
    },
    "volumes.delete"(a) {
        return this.manager().volumes.delete(a.name);
    },
};
