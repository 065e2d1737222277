// factory.ts - what a sandbox and the manager speak through. A program may replace it.
import { CommandsAdapter } from "./commands.js";
import type { ConnectionConfig } from "./config.js";
import { CredentialVaultAdapter, EgressAdapter } from "./egress.js";
import { FilesystemAdapter } from "./files.js";
import { IsolatedSessionsAdapter } from "./isolation.js";
import { ImagesAdapter, PoolsAdapter, SandboxesAdapter, VolumesAdapter } from "./lifecycle.js";
import { HealthAdapter, MetricsAdapter } from "./metrics.js";
import { TerminalsAdapter } from "./pty.js";
import type {
    CredentialVault, Egress, ExecdCommands, ExecdHealth, ExecdMetrics, Images, IsolationService,
    Pools, SandboxFiles, Sandboxes, Terminals, Volumes,
} from "./services.js";

export interface CreateLifecycleStackOptions {
    connectionConfig: ConnectionConfig;
    lifecycleBaseUrl: string;
}

export interface LifecycleStack {
    sandboxes: Sandboxes;
    images?: Images;
    volumes?: Volumes;
    pools?: Pools;
}

export interface CreateExecdStackOptions {
    connectionConfig: ConnectionConfig;
    execdBaseUrl: string;
    endpointHeaders?: Record<string, string>;
    /** Rejects when the sandbox is gone, whose token then is refused. */
    explain?: () => Promise<unknown>;
}

export interface ExecdStack {
    commands: ExecdCommands;
    files: SandboxFiles;
    health: ExecdHealth;
    metrics: ExecdMetrics;
    isolation?: IsolationService;
    terminals?: Terminals;
}

export interface CreateEgressStackOptions {
    connectionConfig: ConnectionConfig;
    egressBaseUrl: string;
    endpointHeaders?: Record<string, string>;
}

export interface EgressStack {
    egress: Egress;
    credentialVault?: CredentialVault;
}

export interface AdapterFactory {
    createLifecycleStack(opts: CreateLifecycleStackOptions): LifecycleStack;
    createExecdStack(opts: CreateExecdStackOptions): ExecdStack;
    createEgressStack(opts: CreateEgressStackOptions): EgressStack;
}

export class DefaultAdapterFactory implements AdapterFactory {
    createLifecycleStack(opts: CreateLifecycleStackOptions): Required<LifecycleStack> {
        const config = opts.connectionConfig;
        const client = config.lifecycleClient(opts.lifecycleBaseUrl);
        return { sandboxes: new SandboxesAdapter(client, { ttlMs: config.endpointCacheTtlMs,
            size: config.endpointCacheSize, disabled: config.endpointCacheDisabled }),
        images: new ImagesAdapter(client), volumes: new VolumesAdapter(client),
        pools: new PoolsAdapter(client) };
    }

    createExecdStack(opts: CreateExecdStackOptions): Required<ExecdStack> {
        const client = opts.connectionConfig.sandboxClient(opts.execdBaseUrl,
            opts.endpointHeaders, opts.explain);
        return { commands: new CommandsAdapter(client), files: new FilesystemAdapter(client),
            health: new HealthAdapter(client), metrics: new MetricsAdapter(client),
            isolation: new IsolatedSessionsAdapter(client),
            terminals: new TerminalsAdapter(client) };
    }

    createEgressStack(opts: CreateEgressStackOptions): Required<EgressStack> {
        const client = opts.connectionConfig.sandboxClient(opts.egressBaseUrl,
            opts.endpointHeaders);
        return { egress: new EgressAdapter(client),
            credentialVault: new CredentialVaultAdapter(client) };
    }
}

export function createDefaultAdapterFactory(): AdapterFactory {
    return new DefaultAdapterFactory();
}
