// manager.ts - all sandboxes of a server, and what else it keeps.
import { ConnectionConfig, type ConnectionConfigOptions } from "./config.js";
import { createDefaultAdapterFactory, type AdapterFactory, type LifecycleStack } from "./factory.js";
import { invalid } from "./exceptions.js";
import { pages } from "./lifecycle.js";
import type {
    CallOptions, CreateSnapshotRequest, DiagnosticContent, ForkOptions, LifecycleEvent,
    ListSandboxesResponse,
    ListSnapshotsParams, ListSnapshotsResponse, RenewSandboxExpirationResponse,
    SandboxId, SandboxInfo, SandboxMetadataPatch,
    SnapshotInfo, WatchEventsParams,
} from "./models.js";
import { expiryAfter, snapshotReady } from "./sandbox.js";
import type { Images, Pools, Sandboxes, Volumes } from "./services.js";

export interface SandboxManagerOptions {
    connectionConfig?: ConnectionConfig | ConnectionConfigOptions;
    adapterFactory?: AdapterFactory;
}

export interface SandboxFilter {
    /** Any of them. */
    states?: string[];
    /** All of them. */
    metadata?: Record<string, string>;
    /** From 1. */
    page?: number;
    pageSize?: number;
}

export class SandboxManager {
    private isOpen = true;

    private constructor(private readonly connectionConfig: ConnectionConfig,
        private readonly stack: LifecycleStack) {}

    static create(opts: SandboxManagerOptions = {}): SandboxManager {
        const connectionConfig = ConnectionConfig.from(opts.connectionConfig)
            .withTransportIfMissing();
        const factory = opts.adapterFactory ?? createDefaultAdapterFactory();
        return new SandboxManager(connectionConfig, factory.createLifecycleStack(
            { connectionConfig, lifecycleBaseUrl: connectionConfig.getBaseUrl() }));
    }

    private get sandboxes(): Required<Sandboxes> {
        return this.stack.sandboxes as Required<Sandboxes>;
    }

    private part<T>(name: string, part: T | undefined): T {
        if (part === undefined)
            throw invalid(`the adapter factory gave no ${name}`);
        return part;
    }

    /** Images of the server. An extension. */
    get images(): Images {
        return this.part("images", this.stack.images);
    }

    /** Named volumes of the server. An extension. */
    get volumes(): Volumes {
        return this.part("volumes", this.stack.volumes);
    }

    /** Pools of the server. An extension. */
    get pools(): Pools {
        return this.part("pools", this.stack.pools);
    }

    listSandboxInfos(filter: SandboxFilter = {}, options?: CallOptions,
    ): Promise<ListSandboxesResponse> {
        return this.sandboxes.listSandboxes(filter, options);
    }

    /** Every sandbox that the filter selects, page by page. An extension. */
    sandboxInfos(filter: SandboxFilter = {}, options?: CallOptions): AsyncIterable<SandboxInfo> {
        return pages(filter.page, (page) => this.listSandboxInfos({ ...filter, page }, options));
    }

    getSandboxInfo(sandboxId: SandboxId, options?: CallOptions): Promise<SandboxInfo> {
        return this.sandboxes.getSandbox(sandboxId, options);
    }

    patchSandboxMetadata(sandboxId: SandboxId, patch: SandboxMetadataPatch, options?: CallOptions,
    ): Promise<SandboxInfo> {
        return this.sandboxes.patchSandboxMetadata(sandboxId, patch, options);
    }

    killSandbox(sandboxId: SandboxId, options?: CallOptions): Promise<void> {
        return this.sandboxes.deleteSandbox(sandboxId, options);
    }

    pauseSandbox(sandboxId: SandboxId, options?: CallOptions): Promise<void> {
        return this.sandboxes.pauseSandbox(sandboxId, options);
    }

    resumeSandbox(sandboxId: SandboxId, options?: CallOptions): Promise<void> {
        return this.sandboxes.resumeSandbox(sandboxId, options);
    }

    /** It expires so many seconds from now. */
    renewSandbox(sandboxId: SandboxId, timeoutSeconds: number, options?: CallOptions,
    ): Promise<RenewSandboxExpirationResponse> {
        return this.sandboxes.renewSandboxExpiration(sandboxId,
            { expiresAt: expiryAfter(timeoutSeconds) }, options);
    }

    createSnapshot(sandboxId: SandboxId, req?: CreateSnapshotRequest, options?: CallOptions,
    ): Promise<SnapshotInfo> {
        return this.sandboxes.createSnapshot(sandboxId, req, options);
    }

    getSnapshot(snapshotId: string, options?: CallOptions): Promise<SnapshotInfo> {
        return this.sandboxes.getSnapshot(snapshotId, options);
    }

    listSnapshots(filter: ListSnapshotsParams = {}, options?: CallOptions,
    ): Promise<ListSnapshotsResponse> {
        return this.sandboxes.listSnapshots(filter, options);
    }

    /** Every snapshot that the filter selects, page by page. An extension. */
    snapshotInfos(filter: ListSnapshotsParams = {}, options?: CallOptions,
    ): AsyncIterable<SnapshotInfo> {
        return pages(filter.page, (page) => this.listSnapshots({ ...filter, page }, options));
    }

    /** Waits until a snapshot is Ready. A Failed one is an error. An extension. */
    waitForSnapshot(snapshotId: string, options: CallOptions & { timeoutSeconds?: number } = {},
    ): Promise<SnapshotInfo> {
        return snapshotReady(this.sandboxes, snapshotId, options);
    }

    deleteSnapshot(snapshotId: string, options?: CallOptions): Promise<void> {
        return this.sandboxes.deleteSnapshot(snapshotId, options);
    }

    /** What happens to sandboxes, or to one, until the loop is left or the signal aborts. A stream that
     *  breaks is opened again behind the last event; when none came since it was opened, the break is
     *  an error. An extension. */
    watchEvents(params: WatchEventsParams = {}, options?: CallOptions,
    ): AsyncIterable<LifecycleEvent> {
        return this.sandboxes.watchEvents(params, options);
    }

    /** An extension. */
    forkSandbox(sandboxId: SandboxId, req: ForkOptions = {}, options?: CallOptions,
    ): Promise<SandboxInfo[]> {
        return this.sandboxes.forkSandbox(sandboxId, req, options);
    }

    /** An extension. */
    rollbackSandbox(sandboxId: SandboxId, snapshotId: string, options?: CallOptions,
    ): Promise<SandboxInfo> {
        return this.sandboxes.rollbackSandbox(sandboxId, snapshotId, options);
    }

    getDiagnosticLogs(sandboxId: SandboxId, scope: string, options?: CallOptions,
    ): Promise<DiagnosticContent> {
        return this.sandboxes.getDiagnosticLogs(sandboxId, scope, options);
    }

    getDiagnosticEvents(sandboxId: SandboxId, scope: string, options?: CallOptions,
    ): Promise<DiagnosticContent> {
        return this.sandboxes.getDiagnosticEvents(sandboxId, scope, options);
    }

    /** Frees connections. */
    async close(): Promise<void> {
        if (this.isOpen) {
            this.isOpen = false;
            await this.connectionConfig.closeTransport();
        }
    }
}
