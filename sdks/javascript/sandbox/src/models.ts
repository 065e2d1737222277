// The types that programs see. What is only on the wire is in models_gen.ts.
import type * as wire from "./models_gen.js";

/** Given to every call as its last argument. */
export interface CallOptions {
    /** Ends the call: its promise is rejected with the reason of the signal. */
    signal?: AbortSignal;
}

export interface CreateCallOptions extends CallOptions {
    /**
     * Makes the create safe to repeat: a second one with the key and the same body returns the sandbox
     * of the first, for a day. The client then repeats it like a GET. An extension.
     */
    idempotencyKey?: string;
}

// ---- sandboxes -------------------------------------------------------------------------------

export type SandboxId = string;

export interface ImageAuth extends Record<string, unknown> {
    username?: string;
    password?: string;
    token?: string;
}

export interface ImageSpec {
    uri: string;
    auth?: ImageAuth;
    /** When to pull: IfNotPresent, Always or Never. An extension. */
    pullPolicy?: "IfNotPresent" | "Always" | "Never";
}

export interface PlatformSpec extends Record<string, unknown> {
    os: "linux" | "windows";
    arch: "amd64" | "arm64";
}

export type ResourceLimits = Record<string, string>;
export type NetworkRuleAction = "allow" | "deny";

export interface NetworkRule extends Record<string, unknown> {
    action: NetworkRuleAction;
    /** A host name, `*.domain`, or, where the server takes them, an address or a CIDR. */
    target: string;
}

export interface NetworkPolicy extends Record<string, unknown> {
    defaultAction?: NetworkRuleAction;
    egress?: NetworkRule[];
}

/** Of secretEnv: over HTTPS, requests to these hosts carry the value. */
export interface Secret {
    value: string;
    /** Full domain names, or `*.` and one. */
    hosts: string[];
}

export interface CredentialProxyConfig extends Record<string, unknown> {
    enabled?: boolean;
}

export interface Host extends Record<string, unknown> {
    /** Absolute, of the server's machine. */
    path: string;
}

export interface PVC extends Record<string, unknown> {
    claimName: string;
    createIfNotExists?: boolean;
    deleteOnSandboxTermination?: boolean;
    storageClass?: string | null;
    storage?: string | null;
    accessModes?: string[] | null;
}

export interface OSSFS extends Record<string, unknown> {
    bucket: string;
    endpoint: string;
    version?: "1.0" | "2.0";
    options?: string[];
    accessKeyId: string;
    accessKeySecret: string;
}

/** Exactly one of host, pvc and ossfs. */
export interface Volume extends Record<string, unknown> {
    name: string;
    host?: Host;
    pvc?: PVC;
    ossfs?: OSSFS;
    mountPath: string;
    readOnly?: boolean;
    subPath?: string;
}

export type SandboxState =
    | "Pending" | "Running" | "Pausing" | "Paused" | "Resuming" | "Stopping" | "Terminated"
    | "Failed" | string;

export interface SandboxStatus extends Record<string, unknown> {
    state: SandboxState;
    reason?: string;
    message?: string;
    lastTransitionAt?: Date;
}

export interface SandboxInfo extends Record<string, unknown> {
    id: SandboxId;
    image?: ImageSpec;
    snapshotId?: string;
    platform?: PlatformSpec;
    entrypoint: string[];
    metadata?: Record<string, string>;
    extensions?: Record<string, string>;
    status: SandboxStatus;
    createdAt: Date;
    /** null: never by itself. */
    expiresAt: Date | null;
}

export interface CreateSandboxRequest extends Record<string, unknown> {
    image?: ImageSpec;
    snapshotId?: string;
    entrypoint?: string[];
    platform?: PlatformSpec;
    secureAccess?: boolean;
    timeout?: number | null;
    resourceLimits: ResourceLimits;
    resourceRequests?: ResourceLimits;
    env?: Record<string, string>;
    metadata?: Record<string, string>;
    networkPolicy?: NetworkPolicy;
    credentialProxy?: CredentialProxyConfig;
    secretEnv?: Record<string, Secret>;
    volumes?: Volume[];
    extensions?: Record<string, unknown>;
    persistent?: boolean;
    onExpiry?: "delete" | "stop";
}

export interface CreateSandboxResponse extends Record<string, unknown> {
    id: SandboxId;
    status: SandboxStatus;
    platform?: PlatformSpec;
    metadata?: Record<string, string>;
    extensions?: Record<string, string>;
    expiresAt: Date | null;
    createdAt: Date;
    entrypoint: string[];
}

export interface PaginationInfo extends Record<string, unknown> {
    page: number;
    pageSize: number;
    totalItems: number;
    totalPages: number;
    hasNextPage: boolean;
}

export interface Page<T> extends Record<string, unknown> {
    items: T[];
    pagination?: PaginationInfo;
}

export type ListSandboxesResponse = Page<SandboxInfo>;

export interface ListSandboxesParams {
    /** Any of them. */
    states?: string[];
    /** All of them. */
    metadata?: Record<string, string>;
    /** From 1. */
    page?: number;
    pageSize?: number;
}

/** null deletes a key. */
export type SandboxMetadataPatch = Record<string, string | null>;

export interface RenewSandboxExpirationRequest {
    expiresAt: string;
}

export interface RenewSandboxExpirationResponse extends Record<string, unknown> {
    expiresAt?: Date;
}

export interface Endpoint extends Record<string, unknown> {
    /** `host[:port][/path]`, without a scheme. */
    endpoint: string;
    /** To be sent with every request there. */
    headers?: Record<string, string>;
}

export interface ForkOptions {
    /** 1 unless given. */
    count?: number;
    timeoutSeconds?: number | null;
    /** Added to the variables of the source; null removes one. */
    env?: Record<string, string | null>;
    metadata?: Record<string, string>;
    entrypoint?: string[];
    /** They go on where the source is, with its processes. */
    memory?: boolean;
}

// ---- events ----------------------------------------------------------------------------------

/** Something that happened to a sandbox, such as `sandbox.running`. One of the type `reset` has nothing
 *  else: what came after the place that was asked for is not kept any more. */
export interface LifecycleEvent extends Partial<Omit<wire.LifecycleEvent, "type" | "time">> {
    type: string;
    time?: Date;
}

export interface WatchEventsParams {
    sandboxId?: SandboxId;
    /** Id of the last event that was seen. */
    after?: string;
}

// ---- snapshots -------------------------------------------------------------------------------

export type SnapshotState = "Creating" | "Deleting" | "Ready" | "Failed" | string;

export interface SnapshotStatus extends Record<string, unknown> {
    state: SnapshotState;
    reason?: string;
    message?: string;
    lastTransitionAt?: Date;
}

export interface SnapshotInfo extends Record<string, unknown> {
    id: string;
    sandboxId: SandboxId;
    name?: string;
    status: SnapshotStatus;
    createdAt: Date;
}

export interface CreateSnapshotRequest extends Record<string, unknown> {
    name?: string;
    /** The memory of its processes is saved, too. */
    memory?: boolean;
}

export type ListSnapshotsResponse = Page<SnapshotInfo>;

export interface ListSnapshotsParams {
    sandboxId?: SandboxId;
    name?: string;
    states?: string[];
    page?: number;
    pageSize?: number;
}

// ---- what the server has besides ------------------------------------------------------------

export interface DiagnosticContent extends Omit<wire.DiagnosticContent, "expiresAt"> {
    expiresAt?: Date;
}

export interface StoredImage extends Omit<wire.StoredImage, "createdAt" | "lastUsedAt"> {
    createdAt: Date;
    lastUsedAt: Date;
}

export type PullImageRequest = wire.PullImageRequest;

export interface PullProgress {
    message: string;
    bytesDone: number;
    /** 0 while it is not known. */
    bytesTotal: number;
}

export interface PruneResult {
    removed: string[];
    freedBytes: number;
}

export interface NamedVolume extends Omit<wire.NamedVolume, "createdAt"> {
    createdAt: Date;
}

export type CreateVolumeRequest = wire.CreateVolumeRequest;
export type CapacitySpec = wire.CapacitySpec;
export type CreatePoolRequest = wire.CreatePoolRequest;
export type UpdatePoolRequest = wire.UpdatePoolRequest;

export interface Pool extends Omit<wire.Pool, "createdAt"> {
    createdAt: Date;
}

// ---- egress ----------------------------------------------------------------------------------

/** The policy in force and how it is enforced. */
export interface PolicyStatus {
    status?: string;
    mode?: string;
    enforcementMode?: string;
    reason?: string;
    policy?: NetworkPolicy;
}

export interface InlineCredentialSource extends Record<string, unknown> {
    type?: "inline";
    value: string;
}

export interface Credential extends Record<string, unknown> {
    name: string;
    source: InlineCredentialSource;
}

export type CredentialMatchScheme = "https" | "http";

export interface CredentialMatch extends Record<string, unknown> {
    schemes?: CredentialMatchScheme[];
    ports?: number[];
    hosts: string[];
    methods?: string[];
    paths?: string[];
}

export type CredentialSubstitutionSurface = "path" | "query" | "header" | "body";

export interface CredentialSubstitution extends Record<string, unknown> {
    credential: string;
    placeholder: string;
    in: CredentialSubstitutionSurface[];
}

export interface CustomHeaderEntry extends Record<string, unknown> {
    name: string;
    credential: string;
}

interface WithSubstitutions {
    substitutions?: CredentialSubstitution[];
}

export type CredentialAuth =
    | ({ type: "bearer"; credential: string } & WithSubstitutions)
    | ({ type: "basic"; credential: string } & WithSubstitutions)
    | ({ type: "apiKey"; name: string; credential: string } & WithSubstitutions)
    | ({ type: "customHeaders"; headers: CustomHeaderEntry[] } & WithSubstitutions)
    | ({ type: "passthrough" } & WithSubstitutions);

export interface CredentialBinding extends Record<string, unknown> {
    name: string;
    match: CredentialMatch;
    auth: CredentialAuth;
}

export interface CredentialMetadata {
    name: string;
    sourceType: string;
    revision: number;
}

export interface CredentialAuthMetadata {
    type: string;
    name?: string;
}

export interface CredentialBindingMetadata {
    name: string;
    revision: number;
    match?: CredentialMatch;
    auth?: CredentialAuthMetadata;
}

export interface CredentialVaultState {
    revision: number;
    credentials: CredentialMetadata[];
    bindings: CredentialBindingMetadata[];
}

export interface CredentialListResponse {
    revision: number;
    credentials: CredentialMetadata[];
}

export interface CredentialBindingListResponse {
    revision: number;
    bindings: CredentialBindingMetadata[];
}

export interface CredentialMutationSet extends Record<string, unknown> {
    add?: Credential[];
    replace?: Credential[];
    delete?: string[];
}

export interface CredentialBindingMutationSet extends Record<string, unknown> {
    add?: CredentialBinding[];
    replace?: CredentialBinding[];
    delete?: string[];
}

export interface CredentialVaultCreateRequest extends Record<string, unknown> {
    credentials: Credential[];
    bindings: CredentialBinding[];
}

export interface CredentialVaultPatchRequest extends Record<string, unknown> {
    expectedRevision?: number;
    credentials?: CredentialMutationSet;
    bindings?: CredentialBindingMutationSet;
}

// ---- files -----------------------------------------------------------------------------------

export type FileEntryType = "file" | "directory" | "symlink" | "other";

export interface FileInfo extends Record<string, unknown> {
    path: string;
    type?: FileEntryType;
    size?: number;
    modifiedAt?: Date;
    createdAt?: Date;
    /** Digits as `ls` would show them: 755, 644. */
    mode?: number;
    owner?: string;
    group?: string;
}

export interface Permission extends Record<string, unknown> {
    mode: number;
    owner?: string;
    group?: string;
}

export interface FileMetadata extends Record<string, unknown> {
    path: string;
    mode?: number;
    owner?: string;
    group?: string;
}

export interface RenameFileItem extends Record<string, unknown> {
    src: string;
    dest: string;
}

export interface ReplaceFileContentItem extends Record<string, unknown> {
    old: string;
    new: string;
}

export type FilesInfoResponse = Record<string, FileInfo>;
export type SearchFilesResponse = FileInfo[];

/** What can be written: all at once, or piece by piece. */
export type FileData =
    | string | Uint8Array | ArrayBuffer | Blob | AsyncIterable<Uint8Array>
    | ReadableStream<Uint8Array>;

export interface WriteEntry {
    path: string;
    data?: FileData;
    /** Digits as in `chmod`: 755, not 0o755. octalMode() converts. */
    mode?: number;
    owner?: string;
    group?: string;
}

export interface SearchEntry {
    path: string;
    /** A glob; `**` unless given. */
    pattern?: string;
}

export interface DirectoryListEntry {
    path: string;
    depth?: number;
}

export interface MoveEntry {
    src: string;
    dest: string;
}

export interface ContentReplaceEntry {
    path: string;
    oldContent: string;
    newContent: string;
}

export interface ContentReplaceResult {
    path: string;
    replacedCount: number;
}

export interface SetPermissionEntry {
    path: string;
    mode: number;
    owner?: string;
    group?: string;
}

export interface ReadOptions extends CallOptions {
    /** Such as `bytes=0-99`; not with offset and limit. */
    range?: string;
    /** The first line, from 1. */
    offset?: number;
    /** How many lines. */
    limit?: number;
}

/** A change below a directory that is watched. */
export interface WatchEvent {
    type: "create" | "modify" | "delete" | "move" | "overflow" | string;
    path?: string;
    /** Of move: where it was. */
    from?: string;
    directory?: boolean;
    timestamp: number;
}

// ---- commands and code -----------------------------------------------------------------------

export interface OutputMessage {
    /** A line without its end; `"\n"` is an empty one. */
    text: string;
    timestamp: number;
    isError?: boolean;
    /** Goes on the line of the message before it. An extension. */
    continues?: boolean;
}

export interface ExecutionResult {
    text?: string;
    timestamp: number;
    /** Every form the kernel gave, by MIME type. */
    raw?: Record<string, unknown>;
}

export interface ExecutionError {
    name: string;
    value: string;
    timestamp: number;
    traceback: string[];
}

export interface ExecutionComplete {
    timestamp: number;
    executionTimeMs: number;
}

export interface ExecutionInit {
    id: string;
    timestamp: number;
}

export interface Execution {
    id?: string;
    executionCount?: number;
    logs: {
        stdout: OutputMessage[];
        stderr: OutputMessage[];
    };
    result: ExecutionResult[];
    error?: ExecutionError;
    complete?: ExecutionComplete;
    exitCode?: number | null;
}

export type CommandExecution = Execution;

export interface ExecutionHandlers {
    onEvent?: (ev: unknown) => void | Promise<void>;
    onStdout?: (msg: OutputMessage) => void | Promise<void>;
    onStderr?: (msg: OutputMessage) => void | Promise<void>;
    onResult?: (res: ExecutionResult) => void | Promise<void>;
    onExecutionComplete?: (c: ExecutionComplete) => void | Promise<void>;
    onError?: (err: ExecutionError) => void | Promise<void>;
    onInit?: (init: ExecutionInit) => void | Promise<void>;
    /** Output goes to the handlers and is not kept in the execution. */
    skipAccumulation?: boolean;
}

export interface ServerStreamEvent extends Record<string, unknown> {
    type: "init" | "stdout" | "stderr" | "result" | "execution_count" | "execution_complete"
        | "error" | string;
    timestamp?: number;
    text?: string;
    results?: Record<string, unknown>;
    error?: Record<string, unknown>;
}

export interface CodeContextRequest extends Record<string, unknown> {
    language: string;
}

export type SupportedLanguage = "python" | "go" | "javascript" | "typescript" | "bash" | "java";

export interface RunCommandOpts {
    workingDirectory?: string;
    background?: boolean;
    timeoutSeconds?: number;
    uid?: number;
    gid?: number;
    envs?: Record<string, string>;
    /** A program and its arguments, run without a shell; the command is then "". An extension. */
    argv?: string[];
    /** All of its standard input. An extension. */
    stdin?: string;
    /** Its input does not end: writeStdin() goes on with it. An extension. */
    stdinOpen?: boolean;
}

export interface CommandStatus {
    id?: string;
    content?: string;
    running?: boolean;
    exitCode?: number | null;
    error?: string;
    startedAt?: Date;
    finishedAt?: Date | null;
}

export interface CommandLogs {
    content: string;
    cursor?: number;
}

export interface Metrics extends Record<string, unknown> {
    cpu_count?: number;
    cpu_used_pct?: number;
    mem_total_mib?: number;
    mem_used_mib?: number;
    timestamp?: number;
}

export interface SandboxMetrics {
    cpuCount: number;
    cpuUsedPercentage: number;
    memoryTotalMiB: number;
    memoryUsedMiB: number;
    timestamp: number;
}

export type PingResponse = Record<string, unknown>;

// ---- isolated sessions -----------------------------------------------------------------------

export interface IsolatedWorkspaceSpec {
    path: string;
    mode?: "rw" | "overlay" | "ro";
}

export interface EnvPassthroughSpec {
    mode?: "allow" | "deny";
    keys?: string[];
}

export interface BindMount {
    source: string;
    dest?: string;
    readonly?: boolean;
}

interface IsolationSettings {
    profile?: "strict" | "balanced";
    extra_writable?: string[];
    binds?: BindMount[];
    share_net?: boolean;
    env_passthrough?: EnvPassthroughSpec;
    uid?: number;
    gid?: number;
    uid_mode?: "setpriv" | "userns";
    idle_timeout_seconds?: number;
}

export interface CreateIsolatedSessionRequest extends IsolationSettings {
    workspace: IsolatedWorkspaceSpec;
}

export interface IsolatedSessionInfo extends IsolationSettings {
    session_id: string;
    created_at: string;
    workspace?: IsolatedWorkspaceSpec;
}

export interface IsolatedSessionState extends IsolationSettings {
    status: "active" | "destroyed";
    created_at?: string;
    last_run_at?: string;
    idle_remaining_seconds?: number | null;
    workspace?: IsolatedWorkspaceSpec;
}

export interface IsolatedRunOpts {
    cwd?: string;
    envs?: Record<string, string>;
    timeout_seconds?: number;
}

export interface IsolatedBackgroundRun {
    session_id: string;
    run_id: string;
    started_at?: string;
}

export interface IsolatedRunStatus {
    session_id: string;
    run_id: string;
    running: boolean;
    exit_code?: number | null;
    error?: string;
    started_at?: string;
    finished_at?: string | null;
}

/** What a commit did. */
export interface IsolatedCommit {
    files_written: number;
    paths_removed: number;
    upper_reset: boolean;
}

export interface IsolatedCapabilities {
    available: boolean;
    isolator?: string;
    version?: string;
    message?: string;
    setpriv_available?: boolean;
    userns_available?: boolean;
    commit_supported: boolean;
    diff_supported: boolean;
}

export interface IsolatedSessionSummary {
    session_id: string;
    status: string;
    created_at?: string;
    last_run_at?: string;
    idle_remaining_seconds?: number;
}

export interface ListIsolatedSessionsResponse {
    sessions?: IsolatedSessionSummary[];
}
