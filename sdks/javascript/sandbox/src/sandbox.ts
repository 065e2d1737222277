// sandbox.ts - a sandbox that a program created or connected to.
import { ConnectionConfig, type ConnectionConfigOptions } from "./config.js";
import {
    DEFAULT_EGRESS_PORT, DEFAULT_ENTRYPOINT, DEFAULT_EXECD_PORT,
    DEFAULT_HEALTH_CHECK_POLLING_INTERVAL_MILLIS, DEFAULT_READY_TIMEOUT_SECONDS,
    DEFAULT_RESOURCE_LIMITS, DEFAULT_TIMEOUT_SECONDS,
} from "./constants.js";
import {
    invalid, needText, SandboxApiException, SandboxException, SandboxReadyTimeoutException,
    SandboxUnhealthyException,
} from "./exceptions.js";
import {
    createDefaultAdapterFactory, type AdapterFactory, type EgressStack, type ExecdStack,
} from "./factory.js";
import type {
    CallOptions, CreateCallOptions, CreateSandboxRequest, CreateSnapshotRequest, CredentialProxyConfig,
    DiagnosticContent, Endpoint, ForkOptions, ImageSpec, NetworkPolicy, NetworkRule, PlatformSpec,
    RenewSandboxExpirationResponse, SandboxId, SandboxInfo, SandboxMetadataPatch, SandboxMetrics,
    SandboxState, Secret, SnapshotInfo, Volume,
} from "./models.js";
import type {
    CredentialVault, Egress, ExecdCommands, ExecdHealth, ExecdMetrics, IsolationService,
    SandboxFiles, Sandboxes, Terminals,
} from "./services.js";
import { messageOf, throwIfAborted } from "./transport.js";
import { Pauses, sleep } from "./wait.js";

const CLEANUP_MS = 10_000;
const STATE_CHECK_MS = 200;
const PROBE_MS_MIN = 1000;

export type HealthCheck = (sbx: Sandbox) => boolean | Promise<boolean>;

interface ReadyOptions {
    /** Do not wait until the sandbox answers. */
    skipHealthCheck?: boolean;
    /** Replaces the ping of execd. An exception counts as "not yet". */
    healthCheck?: HealthCheck;
    /** 30 unless given. */
    readyTimeoutSeconds?: number;
    /** Milliseconds between two checks, at most; 200 unless given. */
    healthCheckPollingInterval?: number;
}

export interface SandboxCreateOptions extends ReadyOptions, CreateCallOptions {
    connectionConfig?: ConnectionConfig | ConnectionConfigOptions;
    adapterFactory?: AdapterFactory;
    /** Such as `python:3.12`. Exactly one of image and snapshotId. */
    image?: string | (Omit<ImageSpec, "auth"> & {
        auth?: { username: string; password: string };
    });
    snapshotId?: string;
    /** `tail -f /dev/null` unless given. */
    entrypoint?: string[];
    env?: Record<string, string>;
    metadata?: Record<string, string>;
    /** Without a defaultAction it denies. */
    networkPolicy?: NetworkPolicy;
    /** Lets the credential vault add secrets to requests; needs a networkPolicy. */
    credentialProxy?: CredentialProxyConfig;
    /**
     * Secrets by variable, which the code inside never holds: it sees a placeholder, and requests to
     * the secret's hosts over HTTPS carry the value. An extension.
     */
    secretEnv?: Record<string, Secret>;
    volumes?: Volume[];
    extensions?: Record<string, string>;
    platform?: PlatformSpec;
    /** Ports of the sandbox ask for a token even on an open server. */
    secureAccess?: boolean;
    /** Limits; one CPU and 2Gi unless given. */
    resource?: Record<string, string>;
    /** Guaranteed minimums, on Kubernetes. */
    resourceRequests?: Record<string, string>;
    /** 600 unless given; null: until it is killed. */
    timeoutSeconds?: number | null;
    /** Its files stay when it is stopped. An extension. */
    persistent?: boolean;
    /** What happens at its end; "stop" needs persistent. An extension. */
    onExpiry?: "delete" | "stop";
}

export interface SandboxConnectOptions extends ReadyOptions, CallOptions {
    connectionConfig?: ConnectionConfig | ConnectionConfigOptions;
    adapterFactory?: AdapterFactory;
    sandboxId: SandboxId;
}

export interface WaitUntilReadyOptions extends CallOptions {
    readyTimeoutSeconds: number;
    pollingIntervalMillis: number;
    healthCheck?: HealthCheck;
}

const HOST_PATH = /^(\/|[A-Za-z]:[\\/])/;

function checkVolume(volume: Volume): void {
    needText("the name of a volume", volume.name);
    const backends = [volume.host, volume.pvc, volume.ossfs].filter((backend) =>
        backend !== undefined && backend !== null);
    if (backends.length !== 1)
        throw invalid(`volume ${volume.name} must have exactly one of host, pvc and ossfs`);
    if (typeof volume.mountPath !== "string" || !HOST_PATH.test(volume.mountPath))
        throw invalid(`volume ${volume.name}: mountPath must be absolute`);
    if (volume.host && !HOST_PATH.test(volume.host.path))
        throw invalid(`volume ${volume.name}: host.path must be absolute`);
}

function timeoutOf(seconds: number | null | undefined): { timeout?: number } {
    if (seconds === null)
        return {};
    const given = seconds ?? DEFAULT_TIMEOUT_SECONDS;
    if (!Number.isFinite(given))
        throw invalid("timeoutSeconds must be a finite number, or null for no timeout");
    return { timeout: Math.floor(given) };
}

function requestOf(opts: SandboxCreateOptions): CreateSandboxRequest {
    const image = typeof opts.image === "string" ? { uri: opts.image } : opts.image;
    if ((image === undefined) === (opts.snapshotId === undefined))
        throw invalid("exactly one of image and snapshotId must be given");
    if (image)
        needText("image", image.uri);
    else
        needText("snapshotId", opts.snapshotId);
    opts.volumes?.forEach(checkVolume);
    const given = <T, K extends string>(name: K, value: T | undefined): { [k in K]?: T } =>
        value === undefined ? {} : { [name]: value } as { [k in K]?: T };
    return {
        ...given("image", image), ...given("snapshotId", opts.snapshotId),
        // A snapshot has one of its own.
        ...given("entrypoint", opts.entrypoint ?? (image ? DEFAULT_ENTRYPOINT : undefined)),
        ...timeoutOf(opts.timeoutSeconds),
        resourceLimits: opts.resource ?? DEFAULT_RESOURCE_LIMITS,
        ...given("resourceRequests", opts.resourceRequests),
        ...given("env", opts.env), ...given("metadata", opts.metadata),
        ...given("networkPolicy", opts.networkPolicy && { ...opts.networkPolicy,
            defaultAction: opts.networkPolicy.defaultAction ?? "deny" }),
        ...given("credentialProxy", opts.credentialProxy), ...given("secretEnv", opts.secretEnv),
        ...given("volumes", opts.volumes),
        ...given("extensions", opts.extensions),
        ...given("platform", opts.platform), ...given("secureAccess", opts.secureAccess),
        ...given("persistent", opts.persistent), ...given("onExpiry", opts.onExpiry),
    };
}

function unhealthy(info: SandboxInfo): SandboxUnhealthyException {
    const { state, reason, message } = info.status;
    const why = [reason, message].filter(Boolean).join(": ");
    return new SandboxUnhealthyException(
        { message: `sandbox ${info.id} is ${state}${why === "" ? "" : `: ${why}`}` });
}

const hasEnded = (state: SandboxState): boolean => state === "Failed" || state === "Terminated";

/** The vault, found when it is first needed. */
class LazyVault implements CredentialVault {
    constructor(private readonly find: (options?: CallOptions) => Promise<CredentialVault>) {}

    async create(...args: Parameters<CredentialVault["create"]>) {
        return (await this.find(args[1])).create(...args);
    }

    async get(options?: CallOptions) {
        return (await this.find(options)).get(options);
    }

    async patch(...args: Parameters<CredentialVault["patch"]>) {
        return (await this.find(args[1])).patch(...args);
    }

    async delete(options?: CallOptions) {
        return (await this.find(options)).delete(options);
    }

    async listCredentials(options?: CallOptions) {
        return (await this.find(options)).listCredentials(options);
    }

    async getCredential(name: string, options?: CallOptions) {
        return (await this.find(options)).getCredential(name, options);
    }

    async listBindings(options?: CallOptions) {
        return (await this.find(options)).listBindings(options);
    }

    async getBinding(name: string, options?: CallOptions) {
        return (await this.find(options)).getBinding(name, options);
    }
}

interface Parts {
    id: SandboxId;
    config: ConnectionConfig;
    factory: AdapterFactory;
    sandboxes: Sandboxes;
    execd: ExecdStack;
}

/** What an operation of ours needs of services that a program brought. */
function need<T>(what: string, service: T | undefined): T {
    if (service === undefined)
        throw invalid(`the adapter factory gave no ${what}`);
    return service;
}

export class Sandbox {
    readonly id: SandboxId;
    readonly connectionConfig: ConnectionConfig;
    readonly sandboxes: Sandboxes;
    readonly commands: Required<ExecdCommands>;
    readonly files: Required<SandboxFiles>;
    readonly health: ExecdHealth;
    readonly metrics: Required<ExecdMetrics>;
    readonly isolation: IsolationService;
    /** Terminals. An extension. */
    readonly terminals: Terminals;
    readonly credentialVault: CredentialVault;
    private readonly parts: Parts;
    private found: Promise<EgressStack> | undefined;
    private isOpen = true;

    private constructor(parts: Parts) {
        this.parts = parts;
        this.id = parts.id;
        this.connectionConfig = parts.config;
        this.sandboxes = parts.sandboxes;
        this.commands = parts.execd.commands as Required<ExecdCommands>;
        this.files = parts.execd.files as Required<SandboxFiles>;
        this.health = parts.execd.health;
        this.metrics = parts.execd.metrics as Required<ExecdMetrics>;
        this.isolation = parts.execd.isolation ?? missing("isolation");
        this.terminals = parts.execd.terminals ?? missing("terminals");
        this.credentialVault = new LazyVault(async (options) =>
            need("credential vault", (await this.egressStack(options)).credentialVault));
    }

    // ---- making one --------------------------------------------------------------------------

    static async create(opts: SandboxCreateOptions): Promise<Sandbox> {
        const request = requestOf(opts);
        throwIfAborted(opts.signal);
        const config = ConnectionConfig.from(opts.connectionConfig).withTransportIfMissing();
        const factory = opts.adapterFactory ?? createDefaultAdapterFactory();
        let id: SandboxId | undefined;
        const { sandboxes } = factory.createLifecycleStack(
            { connectionConfig: config, lifecycleBaseUrl: config.getBaseUrl() });
        try {
            const made = await sandboxes.createSandbox(request, { ...callOptions(opts),
                ...(opts.idempotencyKey === undefined ? {} : { idempotencyKey: opts.idempotencyKey }) });
            id = made.id;
            if (hasEnded(made.status.state))
                throw unhealthy(made);
            return await Sandbox.open(id, config, factory, sandboxes, opts);
        } catch (error) {
            if (id !== undefined)
                await sandboxes.deleteSandbox(id, { signal: AbortSignal.timeout(CLEANUP_MS) })
                    .catch(() => undefined); // the error that led here counts
            await config.closeTransport();
            throw error;
        }
    }

    static async connect(opts: SandboxConnectOptions): Promise<Sandbox> {
        return Sandbox.reach(opts, () => Promise.resolve());
    }

    /** Lets a paused sandbox go on, then connects to it. */
    static async resume(opts: SandboxConnectOptions): Promise<Sandbox> {
        return Sandbox.reach(opts, (sandboxes) =>
            sandboxes.resumeSandbox(opts.sandboxId, callOptions(opts)));
    }

    private static async reach(opts: SandboxConnectOptions,
        first: (sandboxes: Sandboxes) => Promise<void>): Promise<Sandbox> {
        needText("sandboxId", opts.sandboxId);
        throwIfAborted(opts.signal);
        const config = ConnectionConfig.from(opts.connectionConfig).withTransportIfMissing();
        const factory = opts.adapterFactory ?? createDefaultAdapterFactory();
        try {
            const { sandboxes } = factory.createLifecycleStack(
                { connectionConfig: config, lifecycleBaseUrl: config.getBaseUrl() });
            await first(sandboxes);
            return await Sandbox.open(opts.sandboxId, config, factory, sandboxes, opts);
        } catch (error) {
            await config.closeTransport();
            throw error;
        }
    }

    private static async open(id: SandboxId, config: ConnectionConfig, factory: AdapterFactory,
        sandboxes: Sandboxes, opts: ReadyOptions & CallOptions): Promise<Sandbox> {
        const endpoint = await sandboxes.getSandboxEndpoint(id, DEFAULT_EXECD_PORT,
            config.useServerProxy, callOptions(opts));
        const execd = factory.createExecdStack({ connectionConfig: config,
            execdBaseUrl: config.endpointUrl(endpoint.endpoint),
            explain: () => sandboxes.getSandbox(id),
            ...(endpoint.headers ? { endpointHeaders: endpoint.headers } : {}) });
        const sandbox = new Sandbox({ id, config, factory, sandboxes, execd });
        if (!opts.skipHealthCheck)
            await sandbox.waitUntilReady({
                readyTimeoutSeconds: opts.readyTimeoutSeconds ?? DEFAULT_READY_TIMEOUT_SECONDS,
                pollingIntervalMillis: opts.healthCheckPollingInterval
                    ?? DEFAULT_HEALTH_CHECK_POLLING_INTERVAL_MILLIS,
                ...(opts.healthCheck ? { healthCheck: opts.healthCheck } : {}),
                ...callOptions(opts),
            });
        return sandbox;
    }

    // ---- being ready -------------------------------------------------------------------------

    /** Waits until the sandbox answers. One that failed or ended is an error at once. */
    async waitUntilReady(opts: WaitUntilReadyOptions): Promise<void> {
        const end = Date.now() + opts.readyTimeoutSeconds * 1000;
        const pauses = new Pauses(10, Math.max(1, opts.pollingIntervalMillis));
        let nextLook = 0;
        for (let attempts = 1; ; attempts++) {
            let why = "The health check returned false.";
            try {
                if (await this.probe(opts, end))
                    return;
            } catch (error) {
                throwIfAborted(opts.signal);
                why = `Last health check error: ${messageOf(error)}`;
            }
            if (Date.now() >= nextLook) {
                await this.throwIfEnded(opts.signal);
                nextLook = Date.now() + STATE_CHECK_MS;
            }
            if (Date.now() >= end)
                throw this.notReady(opts.readyTimeoutSeconds, attempts, why);
            await pauses.wait(opts.signal, end - Date.now());
        }
    }

    private async probe(opts: WaitUntilReadyOptions, end: number): Promise<boolean> {
        const left = Math.max(PROBE_MS_MIN, end - Date.now());
        const done = new AbortController();
        const limit = done.signal;
        const over = sleep(left, limit).catch(() => undefined).then(() => {
            throw new SandboxException({ message: `no result within ${left / 1000} s` });
        });
        const check = opts.healthCheck ? Promise.resolve(this).then(opts.healthCheck)
            : this.health.ping({ signal: opts.signal ? anyOf(opts.signal, limit) : limit });
        over.catch(() => undefined);
        try {
            return await Promise.race([check, over]);
        } finally {
            done.abort(); // a timer left behind would keep the process from ending
        }
    }

    private async throwIfEnded(signal?: AbortSignal): Promise<void> {
        let info: SandboxInfo;
        try {
            info = await this.sandboxes.getSandbox(this.id,
                { retry: false, ...(signal ? { signal } : {}) } as CallOptions);
        } catch (error) {
            if (error instanceof SandboxApiException && error.statusCode === 404)
                throw error;
            throwIfAborted(signal);
            return; // the next look may tell
        }
        if (hasEnded(info.status.state))
            throw unhealthy(info);
    }

    private notReady(seconds: number, attempts: number, why: string): SandboxReadyTimeoutException {
        const { domain, useServerProxy } = this.connectionConfig;
        const hint = useServerProxy ? "" : " If sandboxes cannot be reached from here, set"
            + " useServerProxy: true, or [docker].host_ip on the server.";
        return new SandboxReadyTimeoutException({ message: `Sandbox ${this.id} was not ready`
            + ` within ${seconds} s (${attempts} attempts). ${why}`
            + ` Connection: domain=${domain}, useServerProxy=${useServerProxy}.${hint}` });
    }

    /** Whether the sandbox answers; never throws. */
    async isHealthy(options?: CallOptions): Promise<boolean> {
        try {
            return await this.health.ping(options);
        } catch {
            return false;
        }
    }

    /** Waits until the server reports a state, for example Paused. */
    async waitForState(state: SandboxState, options: CallOptions & { timeoutSeconds?: number } = {},
    ): Promise<SandboxInfo> {
        const seconds = options.timeoutSeconds ?? 60;
        const end = Date.now() + seconds * 1000;
        for (const pauses = new Pauses(); ; await pauses.wait(options.signal, end - Date.now())) {
            const info = await this.getInfo(options);
            if (info.status.state === state)
                return info;
            if (hasEnded(info.status.state))
                throw unhealthy(info);
            if (Date.now() >= end)
                throw new SandboxReadyTimeoutException({ message: `sandbox ${this.id} is`
                    + ` ${info.status.state}, not ${state}, after ${seconds} s` });
        }
    }

    // ---- life --------------------------------------------------------------------------------

    getInfo(options?: CallOptions): Promise<SandboxInfo> {
        return this.sandboxes.getSandbox(this.id, options);
    }

    getMetrics(options?: CallOptions): Promise<SandboxMetrics> {
        return this.metrics.getMetrics(options);
    }

    pause(options?: CallOptions): Promise<void> {
        return this.sandboxes.pauseSandbox(this.id, options);
    }

    /** Lets it go on after pause(), and returns a sandbox that is connected anew. */
    resume(opts: ReadyOptions & CallOptions = {}): Promise<Sandbox> {
        return Sandbox.resume({ ...opts, sandboxId: this.id,
            connectionConfig: this.connectionConfig, adapterFactory: this.parts.factory });
    }

    /** Ends it for good. */
    kill(options?: CallOptions): Promise<void> {
        return this.sandboxes.deleteSandbox(this.id, options);
    }

    /** Frees connections. The sandbox goes on. */
    async close(): Promise<void> {
        if (this.isOpen) {
            this.isOpen = false;
            await this.connectionConfig.closeTransport();
        }
    }

    /** It expires so many seconds from now. */
    renew(timeoutSeconds: number, options?: CallOptions): Promise<RenewSandboxExpirationResponse> {
        return this.sandboxes.renewSandboxExpiration(this.id,
            { expiresAt: expiryAfter(timeoutSeconds) }, options);
    }

    patchMetadata(patch: SandboxMetadataPatch, options?: CallOptions): Promise<SandboxInfo> {
        return this.sandboxes.patchSandboxMetadata(this.id, patch, options);
    }

    /** Ends the processes of a persistent sandbox and keeps its files. An extension. */
    stop(options?: CallOptions): Promise<void> {
        return need("stopSandbox", this.sandboxes.stopSandbox?.bind(this.sandboxes))(this.id, options);
    }

    /** Starts a persistent sandbox again. An extension. */
    start(options?: CallOptions): Promise<void> {
        return need("startSandbox", this.sandboxes.startSandbox?.bind(this.sandboxes))(
            this.id, options);
    }

    // ---- snapshots, forks --------------------------------------------------------------------

    createSnapshot(req?: CreateSnapshotRequest, options?: CallOptions): Promise<SnapshotInfo> {
        return this.sandboxes.createSnapshot(this.id, req, options);
    }

    /** Waits until a snapshot is Ready. A Failed one is an error with its reason. */
    waitForSnapshot(snapshotId: string, options: CallOptions & { timeoutSeconds?: number } = {},
    ): Promise<SnapshotInfo> {
        return snapshotReady(this.sandboxes, snapshotId, options);
    }

    /** Sandboxes with the files of this one, once they answer. An extension. */
    async fork(req: ForkOptions = {}, options: ReadyOptions & CallOptions = {}): Promise<Sandbox[]> {
        const infos = await need("forkSandbox", this.sandboxes.forkSandbox?.bind(this.sandboxes))(
            this.id, req, callOptions(options));
        const made = await Promise.allSettled(infos.map((info) => Sandbox.connect({ ...options,
            sandboxId: info.id, connectionConfig: this.connectionConfig,
            adapterFactory: this.parts.factory })));
        const failed = made.find((one) => one.status === "rejected");
        const forks = made.flatMap((one) => one.status === "fulfilled" ? [one.value] : []);
        if (!failed)
            return forks;
        await Promise.all(infos.map((info) => this.sandboxes.deleteSandbox(info.id,
            { signal: AbortSignal.timeout(CLEANUP_MS) }).catch(() => undefined)));
        await Promise.all(forks.map((fork) => fork.close()));
        throw (failed as PromiseRejectedResult).reason;
    }

    /** Returns to the files of a snapshot, and waits until the sandbox answers. An extension. */
    async rollback(snapshotId: string, options: CallOptions & { readyTimeoutSeconds?: number } = {},
    ): Promise<SandboxInfo> {
        await need("rollbackSandbox", this.sandboxes.rollbackSandbox?.bind(this.sandboxes))(
            this.id, snapshotId, options);
        const seconds = options.readyTimeoutSeconds ?? DEFAULT_READY_TIMEOUT_SECONDS;
        const info = await this.waitForState("Running", { ...options, timeoutSeconds: seconds });
        await this.waitUntilReady({ readyTimeoutSeconds: seconds, ...callOptions(options),
            pollingIntervalMillis: DEFAULT_HEALTH_CHECK_POLLING_INTERVAL_MILLIS });
        return info;
    }

    // ---- ports -------------------------------------------------------------------------------

    getEndpoint(port: number, options?: CallOptions): Promise<Endpoint> {
        return this.sandboxes.getSandboxEndpoint(this.id, port,
            this.connectionConfig.useServerProxy, options);
    }

    /** An address that works without headers until `expires`, in seconds since 1970. */
    getSignedEndpoint(port: number, expires: number, options: CallOptions = {}): Promise<Endpoint> {
        return this.sandboxes.getSignedEndpoint(this.id, port, expires,
            { ...options, useServerProxy: this.connectionConfig.useServerProxy });
    }

    async getEndpointUrl(port: number, options?: CallOptions): Promise<string> {
        const { endpoint } = await this.getEndpoint(port, options);
        return endpoint.includes("://") ? endpoint
            : `${this.connectionConfig.protocol}://${endpoint}`;
    }

    // ---- egress ------------------------------------------------------------------------------

    private egressStack(options?: CallOptions): Promise<EgressStack> {
        this.found ??= this.findEgress(options).catch((error: unknown) => {
            this.found = undefined;
            throw error;
        });
        return this.found;
    }

    private async findEgress(options?: CallOptions): Promise<EgressStack> {
        const { endpoint, headers } = await this.getEndpoint(DEFAULT_EGRESS_PORT, options);
        return this.parts.factory.createEgressStack({ connectionConfig: this.connectionConfig,
            egressBaseUrl: this.connectionConfig.endpointUrl(endpoint),
            ...(headers ? { endpointHeaders: headers } : {}) });
    }

    private async egress(options?: CallOptions): Promise<Egress> {
        return (await this.egressStack(options)).egress;
    }

    async getEgressPolicy(options?: CallOptions): Promise<NetworkPolicy> {
        return (await this.egress(options)).getPolicy(options);
    }

    /** A rule replaces the one with the same target; the default action stays. */
    async patchEgressRules(rules: NetworkRule[], options?: CallOptions): Promise<void> {
        for (const rule of rules)
            needText("the target of a rule", rule.target);
        await (await this.egress(options)).patchRules(rules, options);
    }

    /** Unknown targets are ignored. */
    async deleteEgressRules(targets: string[], options?: CallOptions): Promise<void> {
        for (const target of targets)
            needText("a target", target);
        await (await this.egress(options)).deleteRules(targets, options);
    }

    // ---- diagnostics -------------------------------------------------------------------------

    getDiagnosticLogs(scope: string, options?: CallOptions): Promise<DiagnosticContent> {
        return need("getDiagnosticLogs", this.sandboxes.getDiagnosticLogs?.bind(this.sandboxes))(
            this.id, scope, options);
    }

    getDiagnosticEvents(scope: string, options?: CallOptions): Promise<DiagnosticContent> {
        return need("getDiagnosticEvents",
            this.sandboxes.getDiagnosticEvents?.bind(this.sandboxes))(this.id, scope, options);
    }
}

export function expiryAfter(seconds: number): string {
    if (!Number.isFinite(seconds) || seconds <= 0)
        throw invalid("timeoutSeconds must be a positive number");
    return new Date(Date.now() + seconds * 1000).toISOString();
}

export async function snapshotReady(sandboxes: Sandboxes, snapshotId: string,
    options: CallOptions & { timeoutSeconds?: number }): Promise<SnapshotInfo> {
    const seconds = options.timeoutSeconds ?? 300;
    const end = Date.now() + seconds * 1000;
    for (const pauses = new Pauses(); ; await pauses.wait(options.signal, end - Date.now())) {
        const info = await sandboxes.getSnapshot(snapshotId, callOptions(options));
        const { state, reason, message } = info.status;
        if (state === "Ready")
            return info;
        if (state === "Failed")
            throw new SandboxUnhealthyException({ message: `snapshot ${snapshotId} failed: `
                + [reason, message].filter(Boolean).join(": ") });
        if (Date.now() >= end)
            throw new SandboxReadyTimeoutException(
                { message: `snapshot ${snapshotId} is ${state} after ${seconds} s` });
    }
}

function callOptions(options: CallOptions): CallOptions {
    return options.signal ? { signal: options.signal } : {};
}

function anyOf(...signals: AbortSignal[]): AbortSignal {
    const controller = new AbortController();
    for (const signal of signals)
        if (signal.aborted)
            controller.abort(signal.reason);
        else
            signal.addEventListener("abort", () => controller.abort(signal.reason), { once: true,
                signal: controller.signal });
    return controller.signal;
}

/** A service that the factory did not give: an error when it is used. */
function missing<T extends object>(name: string): T {
    return new Proxy({}, { get: () => () => {
        throw invalid(`${name} is not available: the adapter factory did not give it`);
    } }) as T;
}
