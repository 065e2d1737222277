// services.ts - what a sandbox and the manager stand on. A program may bring its own by an
// AdapterFactory; members with `?` are extensions that such services need not have.
import type * as m from "./models.js";
import type { Terminal, TerminalInfo, TerminalOptions } from "./pty.js";

export type OutputStream = "stdout" | "stderr";

export interface Sandboxes {
    createSandbox(req: m.CreateSandboxRequest, options?: m.CreateCallOptions,
    ): Promise<m.CreateSandboxResponse>;
    getSandbox(sandboxId: m.SandboxId, options?: m.CallOptions): Promise<m.SandboxInfo>;
    listSandboxes(params?: m.ListSandboxesParams, options?: m.CallOptions,
    ): Promise<m.ListSandboxesResponse>;
    patchSandboxMetadata(sandboxId: m.SandboxId, patch: m.SandboxMetadataPatch,
        options?: m.CallOptions): Promise<m.SandboxInfo>;
    deleteSandbox(sandboxId: m.SandboxId, options?: m.CallOptions): Promise<void>;
    pauseSandbox(sandboxId: m.SandboxId, options?: m.CallOptions): Promise<void>;
    resumeSandbox(sandboxId: m.SandboxId, options?: m.CallOptions): Promise<void>;
    renewSandboxExpiration(sandboxId: m.SandboxId, req: m.RenewSandboxExpirationRequest,
        options?: m.CallOptions): Promise<m.RenewSandboxExpirationResponse>;
    createSnapshot(sandboxId: m.SandboxId, req?: m.CreateSnapshotRequest, options?: m.CallOptions,
    ): Promise<m.SnapshotInfo>;
    getSnapshot(snapshotId: string, options?: m.CallOptions): Promise<m.SnapshotInfo>;
    listSnapshots(params?: m.ListSnapshotsParams, options?: m.CallOptions,
    ): Promise<m.ListSnapshotsResponse>;
    deleteSnapshot(snapshotId: string, options?: m.CallOptions): Promise<void>;
    getSandboxEndpoint(sandboxId: m.SandboxId, port: number, useServerProxy?: boolean,
        options?: m.CallOptions): Promise<m.Endpoint>;
    getSignedEndpoint(sandboxId: m.SandboxId, port: number, expires: number,
        options?: m.CallOptions & { useServerProxy?: boolean }): Promise<m.Endpoint>;
    /** Forgets the addresses of a sandbox's ports. */
    invalidateEndpointCache?(sandboxId: m.SandboxId): void;
    forkSandbox?(sandboxId: m.SandboxId, req: m.ForkOptions, options?: m.CallOptions,
    ): Promise<m.SandboxInfo[]>;
    rollbackSandbox?(sandboxId: m.SandboxId, snapshotId: string, options?: m.CallOptions,
    ): Promise<m.SandboxInfo>;
    watchEvents?(params?: m.WatchEventsParams, options?: m.CallOptions,
    ): AsyncIterable<m.LifecycleEvent>;
    stopSandbox?(sandboxId: m.SandboxId, options?: m.CallOptions): Promise<void>;
    startSandbox?(sandboxId: m.SandboxId, options?: m.CallOptions): Promise<void>;
    getDiagnosticLogs?(sandboxId: m.SandboxId, scope: string, options?: m.CallOptions,
    ): Promise<m.DiagnosticContent>;
    getDiagnosticEvents?(sandboxId: m.SandboxId, scope: string, options?: m.CallOptions,
    ): Promise<m.DiagnosticContent>;
}

/** Images that the server keeps. */
export interface Images {
    list(params?: { page?: number; pageSize?: number }, options?: m.CallOptions,
    ): Promise<m.Page<m.StoredImage>>;
    all(params?: { pageSize?: number }, options?: m.CallOptions): AsyncIterable<m.StoredImage>;
    get(image: string, options?: m.CallOptions): Promise<m.StoredImage>;
    pull(req: m.PullImageRequest | string, options?: m.CallOptions & {
        onProgress?: (progress: m.PullProgress) => void;
    }): Promise<m.StoredImage>;
    /** Sends an archive; the name may be left out when the archive has one. */
    import(archive: m.FileData, options?: m.CallOptions & { name?: string },
    ): Promise<m.StoredImage>;
    /** An OCI archive, in pieces. */
    export(image: string, options?: m.CallOptions): AsyncIterable<Uint8Array>;
    delete(image: string, options?: m.CallOptions): Promise<void>;
    prune(params?: { maxBytes?: number }, options?: m.CallOptions): Promise<m.PruneResult>;
}

/** Named volumes of the server. */
export interface Volumes {
    list(params?: { page?: number; pageSize?: number }, options?: m.CallOptions,
    ): Promise<m.Page<m.NamedVolume>>;
    all(params?: { pageSize?: number }, options?: m.CallOptions): AsyncIterable<m.NamedVolume>;
    create(req: m.CreateVolumeRequest, options?: m.CallOptions): Promise<m.NamedVolume>;
    get(name: string, options?: m.CallOptions): Promise<m.NamedVolume>;
    delete(name: string, options?: m.CallOptions): Promise<void>;
}

/** Pools of sandboxes that the server keeps; `extensions.poolRef` claims one of them. */
export interface Pools {
    list(options?: m.CallOptions): Promise<m.Pool[]>;
    create(req: m.CreatePoolRequest, options?: m.CallOptions): Promise<m.Pool>;
    get(name: string, options?: m.CallOptions): Promise<m.Pool>;
    update(name: string, req: m.UpdatePoolRequest, options?: m.CallOptions): Promise<m.Pool>;
    delete(name: string, options?: m.CallOptions): Promise<void>;
}

export interface ExecdCommands {
    /** Events as they come. A stream that ends without its last event is an error. */
    runStream(command: string, opts?: m.RunCommandOpts, signal?: AbortSignal,
    ): AsyncIterable<m.ServerStreamEvent>;
    run(command: string, opts?: m.RunCommandOpts, handlers?: m.ExecutionHandlers,
        signal?: AbortSignal): Promise<m.CommandExecution>;
    interrupt(sessionId: string, options?: m.CallOptions): Promise<void>;
    getCommandStatus(commandId: string, options?: m.CallOptions): Promise<m.CommandStatus>;
    getBackgroundCommandLogs(commandId: string, cursor?: number, options?: m.CallOptions & {
        stream?: OutputStream;
    }): Promise<m.CommandLogs>;
    createSession(options?: { workingDirectory?: string } & m.CallOptions): Promise<string>;
    runInSession(sessionId: string, command: string, options?: {
        workingDirectory?: string; timeoutSeconds?: number; envs?: Record<string, string>;
    }, handlers?: m.ExecutionHandlers, signal?: AbortSignal): Promise<m.CommandExecution>;
    deleteSession(sessionId: string, options?: m.CallOptions): Promise<void>;
    runInSessionStream?(sessionId: string, command: string, options?: {
        workingDirectory?: string; timeoutSeconds?: number; envs?: Record<string, string>;
    }, signal?: AbortSignal): AsyncIterable<m.ServerStreamEvent>;
    /** The output of a background command, from a cursor to its end. */
    followLogs?(commandId: string, options?: m.CallOptions & { cursor?: number },
    ): AsyncIterable<string>;
    /** Waits for the end of a background command. */
    waitForCommand?(commandId: string, options?: m.CallOptions): Promise<m.CommandStatus>;
    /** Input of a command that was started with `stdinOpen`. */
    writeStdin?(commandId: string, data: m.FileData, options?: m.CallOptions & { eof?: boolean },
    ): Promise<void>;
}

export interface SandboxFiles {
    getFileInfo(paths: string[], options?: m.CallOptions): Promise<Record<string, m.FileInfo>>;
    search(entry: m.SearchEntry, options?: m.CallOptions): Promise<m.SearchFilesResponse>;
    listDirectory(entry: m.DirectoryListEntry, options?: m.CallOptions): Promise<m.FileInfo[]>;
    createDirectories(entries: Pick<m.WriteEntry, "path" | "mode" | "owner" | "group">[],
        options?: m.CallOptions): Promise<void>;
    deleteDirectories(paths: string[], options?: m.CallOptions): Promise<void>;
    writeFiles(entries: m.WriteEntry[], options?: m.CallOptions): Promise<void>;
    readFile(path: string, opts?: { encoding?: string } & m.ReadOptions): Promise<string>;
    readBytes(path: string, opts?: m.ReadOptions): Promise<Uint8Array>;
    /** A connection that breaks is taken up where it broke. */
    readBytesStream(path: string, opts?: m.ReadOptions): AsyncIterable<Uint8Array>;
    deleteFiles(paths: string[], options?: m.CallOptions): Promise<void>;
    moveFiles(entries: m.MoveEntry[], options?: m.CallOptions): Promise<void>;
    replaceContents(entries: m.ContentReplaceEntry[], options?: m.CallOptions): Promise<void>;
    replaceContentsDetailed(entries: m.ContentReplaceEntry[], options?: m.CallOptions,
    ): Promise<m.ContentReplaceResult[]>;
    setPermissions(entries: m.SetPermissionEntry[], options?: m.CallOptions): Promise<void>;
    /** Changes of a directory, until the loop is left or the signal ends it. */
    watch?(path: string, options?: m.CallOptions & { recursive?: boolean },
    ): AsyncIterable<m.WatchEvent>;
    /** A directory as a tar archive, in pieces. */
    downloadArchive?(path: string, options?: m.CallOptions): AsyncIterable<Uint8Array>;
    /** Unpacks a tar archive below a directory. */
    uploadArchive?(path: string, archive: m.FileData, options?: m.CallOptions & {
        /** Files belong to their owners in the archive. */
        owners?: boolean;
    }): Promise<void>;
    /** Copies a local directory into the sandbox. Node only. */
    uploadDirectory?(localPath: string, path: string, options?: m.CallOptions): Promise<void>;
    /** Copies a directory of the sandbox here. Node only. */
    downloadDirectory?(path: string, localPath: string, options?: m.CallOptions): Promise<void>;
    /** The same files with the rights of a user. */
    asUser?(uid: number, gid: number): Required<SandboxFiles>;
}

export interface ExecdHealth {
    ping(options?: m.CallOptions): Promise<boolean>;
}

export interface ExecdMetrics {
    getMetrics(options?: m.CallOptions): Promise<m.SandboxMetrics>;
    /** About one a second, until the loop is left or the signal ends it. */
    watch?(options?: m.CallOptions): AsyncIterable<m.SandboxMetrics>;
}

/** Terminals of a sandbox. */
export interface Terminals {
    /** Starts a terminal and connects to it. */
    open(options?: TerminalOptions & m.CallOptions): Promise<Terminal>;
    /** Connects to one, with its output from byte `since` on. */
    attach(sessionId: string, options?: m.CallOptions & {
        since?: number; takeover?: boolean; pipes?: boolean;
    }): Promise<Terminal>;
    get(sessionId: string, options?: m.CallOptions): Promise<TerminalInfo>;
    delete(sessionId: string, options?: m.CallOptions): Promise<void>;
}

export interface Egress {
    getPolicy(options?: m.CallOptions): Promise<m.NetworkPolicy>;
    patchRules(rules: m.NetworkRule[], options?: m.CallOptions): Promise<void>;
    deleteRules(targets: string[], options?: m.CallOptions): Promise<void>;
    getStatus?(options?: m.CallOptions): Promise<m.PolicyStatus>;
}

export interface CredentialVault {
    create(request: m.CredentialVaultCreateRequest, options?: m.CallOptions,
    ): Promise<m.CredentialVaultState>;
    get(options?: m.CallOptions): Promise<m.CredentialVaultState>;
    patch(request: m.CredentialVaultPatchRequest, options?: m.CallOptions,
    ): Promise<m.CredentialVaultState>;
    delete(options?: m.CallOptions): Promise<void>;
    listCredentials(options?: m.CallOptions): Promise<m.CredentialMetadata[]>;
    getCredential(name: string, options?: m.CallOptions): Promise<m.CredentialMetadata>;
    listBindings(options?: m.CallOptions): Promise<m.CredentialBindingMetadata[]>;
    getBinding(name: string, options?: m.CallOptions): Promise<m.CredentialBindingMetadata>;
}

export interface IsolationSession {
    readonly sessionId: string;
    readonly info: m.IsolatedSessionInfo;
    readonly files: SandboxFiles;
    run(code: string, opts?: m.IsolatedRunOpts, handlers?: m.ExecutionHandlers,
        signal?: AbortSignal): Promise<m.CommandExecution>;
    get(): Promise<m.IsolatedSessionState>;
    delete(): Promise<void>;
    /** What the session wrote, as a gzipped tar archive in pieces. */
    diff?(options?: m.CallOptions): AsyncIterable<Uint8Array>;
    /** Writes that into the workspace. */
    commit?(options?: m.CallOptions & { resetUpperAfter?: boolean }): Promise<m.IsolatedCommit>;
    /** Starts code beside the session's shell and without its state. */
    runInBackground?(code: string, opts?: m.IsolatedRunOpts, options?: m.CallOptions,
    ): Promise<m.IsolatedBackgroundRun>;
    getRunStatus?(runId: string, options?: m.CallOptions): Promise<m.IsolatedRunStatus>;
    /** Output of a background run from a cursor on. */
    getRunLogs?(runId: string, cursor?: number, options?: m.CallOptions): Promise<m.CommandLogs>;
}

export interface RunOnceOpts {
    workspaceMode?: "rw" | "overlay" | "ro";
    runOpts?: m.IsolatedRunOpts;
    handlers?: m.ExecutionHandlers;
    profile?: "strict" | "balanced";
    shareNet?: boolean;
    binds?: m.BindMount[];
    signal?: AbortSignal;
}

export interface IsolationService {
    create(request: m.CreateIsolatedSessionRequest): Promise<IsolationSession>;
    attach(sessionId: string): Promise<IsolationSession>;
    capabilities(): Promise<m.IsolatedCapabilities>;
    list(): Promise<m.IsolatedSessionSummary[]>;
    runOnce(code: string, workspace: string, opts?: RunOnceOpts): Promise<m.CommandExecution>;
    withSession<T>(request: m.CreateIsolatedSessionRequest,
        fn: (session: IsolationSession) => Promise<T>): Promise<T>;
}
