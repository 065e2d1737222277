// lifecycle.ts - the API of the server: sandboxes, snapshots, images, volumes, pools.
import { batches, brokenStream } from "./events.js";
import { checkKey, invalid, needText, SandboxApiException, SandboxError, SandboxInternalException,
} from "./exceptions.js";
import { outward, segment, type HttpClient, type QueryValue } from "./http.js";
import type * as wire from "./models_gen.js";
import type {
    CallOptions, CreateCallOptions, CreatePoolRequest, CreateSandboxRequest, CreateSandboxResponse,
    CreateSnapshotRequest, CreateVolumeRequest, DiagnosticContent, Endpoint, FileData, ForkOptions,
    LifecycleEvent, ListSandboxesParams, ListSandboxesResponse, ListSnapshotsParams, ListSnapshotsResponse,
    NamedVolume, Page, Pool, PruneResult, PullImageRequest, PullProgress, WatchEventsParams,
    RenewSandboxExpirationRequest, RenewSandboxExpirationResponse, SandboxId, SandboxInfo,
    SandboxMetadataPatch, SandboxStatus, SnapshotInfo, StoredImage, UpdatePoolRequest,
} from "./models.js";
import { bodyOf } from "./multipart.js";
import type { Images, Pools, Sandboxes, Volumes } from "./services.js";
import { TransportError } from "./transport.js";

function date(name: string, value: unknown): Date {
    const found = new Date(typeof value === "string" ? value : NaN);
    if (Number.isNaN(found.getTime()))
        throw new SandboxInternalException(
            { message: `the server's ${name} is no time: ${String(value)}` });
    return found;
}

function statusOf<T extends { lastTransitionAt?: string }>(status: T | undefined): SandboxStatus {
    if (typeof status !== "object" || status === null)
        throw new SandboxInternalException({ message: "the server's answer has no status" });
    const { lastTransitionAt, ...rest } = status;
    return { ...(rest as unknown as SandboxStatus),
        ...(lastTransitionAt ? { lastTransitionAt: new Date(lastTransitionAt) } : {}) };
}

export function sandboxOf(found: wire.Sandbox | wire.CreateSandboxResponse): SandboxInfo {
    if (typeof found !== "object" || found === null || typeof found.id !== "string")
        throw new SandboxInternalException({ message: "the server's answer has no sandbox id" });
    return { ...found, status: statusOf(found.status), entrypoint: found.entrypoint ?? [],
        createdAt: date("createdAt", found.createdAt),
        expiresAt: found.expiresAt ? date("expiresAt", found.expiresAt) : null } as SandboxInfo;
}

/** `{}` is the event that says that a place is not kept any more. */
function lifecycleEventOf({ type, time, ...found }: Partial<wire.LifecycleEvent>): LifecycleEvent {
    return { ...found, type: type ?? "reset",
        ...(time === undefined ? {} : { time: date("time", time) }) };
}

function snapshotOf(found: wire.Snapshot): SnapshotInfo {
    return { ...found, status: statusOf(found.status),
        createdAt: date("createdAt", found.createdAt) };
}

function pageQuery(params: { page?: number; pageSize?: number }): Record<string, QueryValue> {
    for (const [name, value] of [["page", params.page], ["pageSize", params.pageSize]] as const)
        if (value !== undefined && (!Number.isInteger(value) || value < 1))
            throw invalid(`${name} must be a whole number from 1`);
    return { page: params.page, pageSize: params.pageSize };
}

// Keys and values are escaped, so that those with & or = are filters, too.
function metadataQuery(metadata: Record<string, string> | undefined): QueryValue {
    const pairs = Object.entries(metadata ?? {});
    const escaped = (text: string): string => text.replace(/[%&=+#]/g, encodeURIComponent);
    return pairs.length === 0 ? undefined
        : pairs.map(([key, value]) => `${escaped(key)}=${escaped(value)}`).join("&");
}

function pageOf<W, T>(found: { items: W[]; pagination?: wire.Pagination }, one: (item: W) => T,
): Page<T> {
    if (!Array.isArray(found?.items))
        throw new SandboxInternalException({ message: "the server's answer has no items" });
    return { items: found.items.map(one), ...(found.pagination
        ? { pagination: { ...found.pagination } } : {}) };
}

/** Every item of a list, page by page. */
export async function* pages<T>(first: number | undefined, load: (page: number) => Promise<Page<T>>,
): AsyncGenerator<T> {
    for (let page = first ?? 1; ; page++) {
        const { items, pagination } = await load(page);
        yield* items;
        if (!pagination?.hasNextPage)
            return;
    }
}

interface Cached { endpoint: Endpoint; until: number }

export interface EndpointCacheOptions {
    ttlMs: number;
    size: number;
    disabled: boolean;
}

/** Addresses of ports: the oldest makes room. */
class EndpointCache {
    private readonly found = new Map<string, Cached>();

    constructor(private readonly options: EndpointCacheOptions) {}

    get(key: string): Endpoint | undefined {
        const cached = this.found.get(key);
        return cached && cached.until > Date.now() ? cached.endpoint : undefined;
    }

    set(key: string, endpoint: Endpoint): void {
        const { disabled, size, ttlMs } = this.options;
        if (disabled || !(size > 0) || !(ttlMs > 0))
            return;
        this.found.delete(key);
        this.found.set(key, { endpoint, until: Date.now() + ttlMs });
        if (this.found.size > size)
            this.found.delete(this.found.keys().next().value!);
    }

    forget(sandboxId: string): void {
        for (const key of this.found.keys())
            if (key.startsWith(`${sandboxId} `))
                this.found.delete(key);
    }
}

export class SandboxesAdapter implements Sandboxes {
    private readonly endpoints: EndpointCache;

    constructor(private readonly client: HttpClient,
        cache: EndpointCacheOptions = { ttlMs: 600_000, size: 1024, disabled: false }) {
        this.endpoints = new EndpointCache(cache);
    }

    private path(id: SandboxId, more = ""): string {
        needText("sandbox id", id);
        return `/sandboxes/${segment(id)}${more}`;
    }

    async createSandbox(req: CreateSandboxRequest, options: CreateCallOptions = {},
    ): Promise<CreateSandboxResponse> {
        const { idempotencyKey: key, signal } = options;
        if (key !== undefined)
            checkKey(key);
        return sandboxOf(await this.client.json<wire.CreateSandboxResponse>({ method: "POST",
            path: "/sandboxes", json: req, signal, ...(key === undefined ? {}
                : { headers: { "Idempotency-Key": key }, idempotent: true }) }));
    }

    async getSandbox(sandboxId: SandboxId, options: CallOptions & { retry?: boolean } = {},
    ): Promise<SandboxInfo> {
        return sandboxOf(await this.client.json<wire.Sandbox>({ path: this.path(sandboxId),
            signal: options.signal, retry: options.retry ?? true }));
    }

    async listSandboxes(params: ListSandboxesParams = {}, options: CallOptions = {},
    ): Promise<ListSandboxesResponse> {
        return pageOf(await this.client.json<wire.SandboxList>({
            path: "/sandboxes", signal: options.signal, query: { state: params.states,
                metadata: metadataQuery(params.metadata), ...pageQuery(params) },
        }), sandboxOf);
    }

    async patchSandboxMetadata(sandboxId: SandboxId, patch: SandboxMetadataPatch,
        options: CallOptions = {}): Promise<SandboxInfo> {
        return sandboxOf(await this.client.json<wire.Sandbox>({ method: "PATCH", json: patch,
            path: this.path(sandboxId, "/metadata"), signal: options.signal }));
    }

    private async post(sandboxId: SandboxId, what: string, options: CallOptions): Promise<void> {
        await this.client.send({ method: "POST", path: this.path(sandboxId, what),
            signal: options.signal });
    }

    async deleteSandbox(sandboxId: SandboxId, options: CallOptions = {}): Promise<void> {
        await this.client.send({ method: "DELETE", path: this.path(sandboxId),
            signal: options.signal });
        this.endpoints.forget(sandboxId);
    }

    async pauseSandbox(sandboxId: SandboxId, options: CallOptions = {}): Promise<void> {
        await this.post(sandboxId, "/pause", options);
        this.endpoints.forget(sandboxId);
    }

    async resumeSandbox(sandboxId: SandboxId, options: CallOptions = {}): Promise<void> {
        await this.post(sandboxId, "/resume", options);
        this.endpoints.forget(sandboxId);
    }

    async stopSandbox(sandboxId: SandboxId, options: CallOptions = {}): Promise<void> {
        await this.post(sandboxId, "/stop", options);
        this.endpoints.forget(sandboxId);
    }

    async startSandbox(sandboxId: SandboxId, options: CallOptions = {}): Promise<void> {
        await this.post(sandboxId, "/start", options);
        this.endpoints.forget(sandboxId);
    }

    async rollbackSandbox(sandboxId: SandboxId, snapshotId: string, options: CallOptions = {},
    ): Promise<SandboxInfo> {
        needText("snapshot id", snapshotId);
        const { text } = await this.client.text({ method: "POST", json: { snapshotId },
            path: this.path(sandboxId, "/rollback"), signal: options.signal });
        this.endpoints.forget(sandboxId);
        return text.trim() === "" ? this.getSandbox(sandboxId, options)
            : sandboxOf(JSON.parse(text) as wire.Sandbox);
    }

    async forkSandbox(sandboxId: SandboxId, req: ForkOptions, options: CallOptions = {},
    ): Promise<SandboxInfo[]> {
        const { timeoutSeconds, ...rest } = req;
        const json: wire.ForkRequest = { ...rest,
            ...(timeoutSeconds === undefined ? {} : { timeout: timeoutSeconds }) };
        const { items } = await this.client.json<{ items: wire.Sandbox[] }>({ method: "POST",
            path: this.path(sandboxId, "/fork"), json, signal: options.signal });
        return items.map(sandboxOf);
    }

    async *watchEvents(params: WatchEventsParams = {}, options: CallOptions = {},
    ): AsyncGenerator<LifecycleEvent> {
        for (let after = params.after; ;) {
            let last: string | undefined;
            let cause: unknown;
            const response = await this.client.open({ path: "/events", streams: true,
                query: { sandboxId: params.sandboxId }, signal: options.signal,
                ...(after === undefined ? {} : { headers: { "Last-Event-ID": after } }) });
            try {
                for await (const events of batches(response, this.client.settings.streamIdleTimeoutMs))
                    for (const event of events) {
                        const found = lifecycleEventOf(event as unknown as wire.LifecycleEvent);
                        last = found.id ?? last;
                        yield found;
                    }
            } catch (error) {
                if (!(error instanceof TransportError))
                    throw error;
                cause = error;
            }
            if (last === undefined)
                throw brokenStream("events", cause);
            after = last;
        }
    }

    async renewSandboxExpiration(sandboxId: SandboxId, req: RenewSandboxExpirationRequest,
        options: CallOptions = {}): Promise<RenewSandboxExpirationResponse> {
        const found = await this.client.json<wire.RenewResponse>({ method: "POST", json: req,
            path: this.path(sandboxId, "/renew-expiration"), signal: options.signal });
        return { ...found, expiresAt: date("expiresAt", found.expiresAt) };
    }

    async createSnapshot(sandboxId: SandboxId, req: CreateSnapshotRequest = {},
        options: CallOptions = {}): Promise<SnapshotInfo> {
        return snapshotOf(await this.client.json<wire.Snapshot>({ method: "POST", json: req,
            path: this.path(sandboxId, "/snapshots"), signal: options.signal }));
    }

    async getSnapshot(snapshotId: string, options: CallOptions = {}): Promise<SnapshotInfo> {
        needText("snapshot id", snapshotId);
        return snapshotOf(await this.client.json<wire.Snapshot>(
            { path: `/snapshots/${segment(snapshotId)}`, signal: options.signal }));
    }

    async listSnapshots(params: ListSnapshotsParams = {}, options: CallOptions = {},
    ): Promise<ListSnapshotsResponse> {
        return pageOf(await this.client.json<wire.SnapshotList>({
            path: "/snapshots", signal: options.signal, query: { sandboxId: params.sandboxId,
                name: params.name, state: params.states, ...pageQuery(params) },
        }), snapshotOf);
    }

    async deleteSnapshot(snapshotId: string, options: CallOptions = {}): Promise<void> {
        needText("snapshot id", snapshotId);
        await this.client.send({ method: "DELETE", path: `/snapshots/${segment(snapshotId)}`,
            signal: options.signal });
    }

    async getSandboxEndpoint(sandboxId: SandboxId, port: number, useServerProxy = false,
        options: CallOptions = {}): Promise<Endpoint> {
        const key = `${sandboxId} ${port} ${useServerProxy}`;
        const known = this.endpoints.get(key);
        if (known)
            return known;
        const found = await this.endpoint(sandboxId, port, { use_server_proxy: useServerProxy },
            options);
        this.endpoints.set(key, found);
        return found;
    }

    async getSignedEndpoint(sandboxId: SandboxId, port: number, expires: number,
        options: CallOptions & { useServerProxy?: boolean } = {}): Promise<Endpoint> {
        if (!Number.isInteger(expires) || expires <= 0)
            throw invalid("expires must be seconds since 1970, as a whole number");
        return this.endpoint(sandboxId, port, { expires,
            use_server_proxy: options.useServerProxy }, options);
    }

    private async endpoint(sandboxId: SandboxId, port: number, query: Record<string, QueryValue>,
        options: CallOptions): Promise<Endpoint> {
        if (!Number.isInteger(port) || port < 1 || port > 65535)
            throw invalid("port must be a whole number from 1 to 65535");
        const found = await this.client.json<Endpoint>({ query, signal: options.signal,
            path: this.path(sandboxId, `/endpoints/${port}`) });
        if (typeof found?.endpoint !== "string" || found.endpoint === "")
            throw new SandboxInternalException({ message: "the server's answer has no endpoint" });
        return found;
    }

    invalidateEndpointCache(sandboxId: SandboxId): void {
        this.endpoints.forget(sandboxId);
    }

    private async diagnostics(sandboxId: SandboxId, kind: string, scope: string,
        options: CallOptions): Promise<DiagnosticContent> {
        needText("scope", scope);
        const { expiresAt, ...rest } = await this.client.json<wire.DiagnosticContent>({
            path: this.path(sandboxId, `/diagnostics/${kind}`), query: { scope },
            signal: options.signal,
        });
        return { ...rest, ...(expiresAt ? { expiresAt: date("expiresAt", expiresAt) } : {}) };
    }

    getDiagnosticLogs(sandboxId: SandboxId, scope: string, options: CallOptions = {},
    ): Promise<DiagnosticContent> {
        return this.diagnostics(sandboxId, "logs", scope, options);
    }

    getDiagnosticEvents(sandboxId: SandboxId, scope: string, options: CallOptions = {},
    ): Promise<DiagnosticContent> {
        return this.diagnostics(sandboxId, "events", scope, options);
    }
}

function imageOf(found: wire.StoredImage): StoredImage {
    return { ...found, createdAt: date("createdAt", found.createdAt),
        lastUsedAt: date("lastUsedAt", found.lastUsedAt) };
}

type PullEvent = {
    type?: string; code?: string; message?: string; bytesDone?: number; bytesTotal?: number;
    image?: wire.StoredImage;
};

export class ImagesAdapter implements Images {
    constructor(private readonly client: HttpClient) {}

    async list(params: { page?: number; pageSize?: number } = {}, options: CallOptions = {},
    ): Promise<Page<StoredImage>> {
        return pageOf(await this.client.json<wire.ImageList>(
            { path: "/images", query: pageQuery(params), signal: options.signal }), imageOf);
    }

    all(params: { pageSize?: number } = {}, options: CallOptions = {}): AsyncIterable<StoredImage> {
        return pages(1, (page) => this.list({ ...params, page }, options));
    }

    async get(image: string, options: CallOptions = {}): Promise<StoredImage> {
        needText("image", image);
        return imageOf(await this.client.json<wire.StoredImage>(
            { path: `/images/${segment(image)}`, signal: options.signal }));
    }

    async pull(req: PullImageRequest | string, options: CallOptions & {
        onProgress?: (progress: PullProgress) => void;
    } = {}): Promise<StoredImage> {
        const call = { method: "POST", path: "/images/pull", retry: false, streams: true,
            json: typeof req === "string" ? { image: { uri: req } } : req,
            headers: { Accept: "text/event-stream" }, signal: options.signal };
        const response = await this.client.open(call);
        let done: StoredImage | undefined;
        try {
            for await (const events of batches(response, 0))
                for (const event of events as PullEvent[]) {
                    if (event.type === "error")
                        throw new SandboxApiException({ message: event.message ?? "",
                            statusCode: response.status, rawBody: event, error: new SandboxError(
                                event.code ?? SandboxError.UNEXPECTED_RESPONSE, event.message) });
                    if (event.type === "done" && event.image)
                        done = imageOf(event.image);
                    else if (event.type === "progress")
                        options.onProgress?.({ message: event.message ?? "",
                            bytesDone: event.bytesDone ?? 0, bytesTotal: event.bytesTotal ?? 0 });
                }
        } catch (error) {
            throw error instanceof TransportError ? brokenStream("the pull", error) : error;
        }
        if (!done)
            throw brokenStream("the pull");
        return done;
    }

    async import(archive: FileData, options: CallOptions & { name?: string } = {},
    ): Promise<StoredImage> {
        return imageOf(await this.client.json<wire.StoredImage>({
            method: "POST", path: "/images/import", query: { name: options.name }, retry: false,
            body: bodyOf(archive), headers: { "Content-Type": "application/x-tar" },
            signal: options.signal, timeoutMs: 0,
        }));
    }

    async *export(image: string, options: CallOptions = {}): AsyncGenerator<Uint8Array> {
        needText("image", image);
        const call = { path: `/images/${segment(image)}/export`, signal: options.signal };
        const response = await this.client.open(call);
        try {
            yield* response.body;
        } catch (error) {
            throw outward(call, error);
        }
    }

    async delete(image: string, options: CallOptions = {}): Promise<void> {
        needText("image", image);
        await this.client.send({ method: "DELETE", path: `/images/${segment(image)}`,
            signal: options.signal });
    }

    prune(params: { maxBytes?: number } = {}, options: CallOptions = {}): Promise<PruneResult> {
        return this.client.json({ method: "POST", path: "/images/prune", json: params,
            signal: options.signal });
    }
}

function dated<T extends { createdAt: string }>(found: T): Omit<T, "createdAt"> & {
    createdAt: Date;
} {
    return { ...found, createdAt: date("createdAt", found.createdAt) };
}

export class VolumesAdapter implements Volumes {
    constructor(private readonly client: HttpClient) {}

    async list(params: { page?: number; pageSize?: number } = {}, options: CallOptions = {},
    ): Promise<Page<NamedVolume>> {
        return pageOf(await this.client.json<wire.NamedVolumeList>(
            { path: "/volumes", query: pageQuery(params), signal: options.signal }), dated);
    }

    all(params: { pageSize?: number } = {}, options: CallOptions = {}): AsyncIterable<NamedVolume> {
        return pages(1, (page) => this.list({ ...params, page }, options));
    }

    async create(req: CreateVolumeRequest, options: CallOptions = {}): Promise<NamedVolume> {
        return dated(await this.client.json<wire.NamedVolume>(
            { method: "POST", path: "/volumes", json: req, signal: options.signal }));
    }

    async get(name: string, options: CallOptions = {}): Promise<NamedVolume> {
        needText("name", name);
        return dated(await this.client.json<wire.NamedVolume>(
            { path: `/volumes/${segment(name)}`, signal: options.signal }));
    }

    async delete(name: string, options: CallOptions = {}): Promise<void> {
        needText("name", name);
        await this.client.send({ method: "DELETE", path: `/volumes/${segment(name)}`,
            signal: options.signal });
    }
}

export class PoolsAdapter implements Pools {
    constructor(private readonly client: HttpClient) {}

    async list(options: CallOptions = {}): Promise<Pool[]> {
        return pageOf(await this.client.json<wire.PoolList>(
            { path: "/pools", signal: options.signal }), dated).items;
    }

    async create(req: CreatePoolRequest, options: CallOptions = {}): Promise<Pool> {
        return dated(await this.client.json<wire.Pool>(
            { method: "POST", path: "/pools", json: req, signal: options.signal }));
    }

    async get(name: string, options: CallOptions = {}): Promise<Pool> {
        needText("name", name);
        return dated(await this.client.json<wire.Pool>(
            { path: `/pools/${segment(name)}`, signal: options.signal }));
    }

    async update(name: string, req: UpdatePoolRequest, options: CallOptions = {}): Promise<Pool> {
        needText("name", name);
        return dated(await this.client.json<wire.Pool>({ method: "PUT", json: req,
            path: `/pools/${segment(name)}`, signal: options.signal }));
    }

    async delete(name: string, options: CallOptions = {}): Promise<void> {
        needText("name", name);
        await this.client.send({ method: "DELETE", path: `/pools/${segment(name)}`,
            signal: options.signal });
    }
}
