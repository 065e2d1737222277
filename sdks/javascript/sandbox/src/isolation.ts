// isolation.ts - sessions of their own inside a sandbox.
import { needText } from "./exceptions.js";
import { execute, exitCodeOf } from "./execution.js";
import { FilesystemAdapter } from "./files.js";
import { outward, segment, type HttpClient } from "./http.js";
import type {
    CallOptions, CommandExecution, CommandLogs, CreateIsolatedSessionRequest, ExecutionHandlers,
    IsolatedBackgroundRun, IsolatedCapabilities, IsolatedCommit, IsolatedRunOpts, IsolatedRunStatus,
    IsolatedSessionInfo, IsolatedSessionState, IsolatedSessionSummary, ListIsolatedSessionsResponse,
} from "./models.js";
import type { IsolationService, IsolationSession, RunOnceOpts, SandboxFiles } from "./services.js";

const CURSOR_HEADER = "EXECD-ISOLATED-TAIL-CURSOR";

class Session implements IsolationSession {
    readonly sessionId: string;
    readonly files: SandboxFiles;
    private readonly path: string;

    constructor(private readonly client: HttpClient, readonly info: IsolatedSessionInfo) {
        this.sessionId = info.session_id;
        this.path = `/v1/isolated/session/${segment(this.sessionId)}`;
        this.files = new FilesystemAdapter(client, this.path);
    }

    async run(code: string, opts: IsolatedRunOpts = {}, handlers?: ExecutionHandlers,
        signal?: AbortSignal): Promise<CommandExecution> {
        needText("code", code);
        const run = await execute(this.client, { path: `${this.path}/run`, retry: false, signal,
            json: { code, ...opts }, what: "the isolated run" }, handlers);
        run.exitCode = exitCodeOf(run);
        return run;
    }

    get(): Promise<IsolatedSessionState> {
        return this.client.json({ path: this.path });
    }

    async delete(): Promise<void> {
        await this.client.send({ method: "DELETE", path: this.path });
    }

    async *diff(options: CallOptions = {}): AsyncGenerator<Uint8Array> {
        const call = { path: `${this.path}/diff`, signal: options.signal };
        const response = await this.client.open(call);
        try {
            yield* response.body;
        } catch (error) {
            throw outward(call, error);
        }
    }

    commit(options: CallOptions & { resetUpperAfter?: boolean } = {}): Promise<IsolatedCommit> {
        return this.client.json({ method: "POST", path: `${this.path}/commit`, signal: options.signal,
            ...(options.resetUpperAfter ? { json: { reset_upper_after: true } } : {}) });
    }

    async runInBackground(code: string, opts: IsolatedRunOpts = {}, options: CallOptions = {},
    ): Promise<IsolatedBackgroundRun> {
        needText("code", code);
        return this.client.json({ method: "POST", path: `${this.path}/run`, signal: options.signal,
            json: { code, ...opts, background: true } });
    }

    private runPath(runId: string): string {
        needText("run id", runId);
        return `${this.path}/runs/${segment(runId)}`;
    }

    async getRunStatus(runId: string, options: CallOptions = {}): Promise<IsolatedRunStatus> {
        return this.client.json({ path: this.runPath(runId), signal: options.signal });
    }

    async getRunLogs(runId: string, cursor?: number, options: CallOptions = {}): Promise<CommandLogs> {
        const { text, response } = await this.client.text({ path: `${this.runPath(runId)}/logs`,
            query: { cursor }, signal: options.signal });
        const next = response.header(CURSOR_HEADER);
        return { content: text, ...(next !== undefined && /^\d+$/.test(next)
            ? { cursor: Number(next) } : {}) };
    }
}

export class IsolatedSessionsAdapter implements IsolationService {
    constructor(private readonly client: HttpClient) {}

    async create(request: CreateIsolatedSessionRequest): Promise<IsolationSession> {
        return new Session(this.client, await this.client.json<IsolatedSessionInfo>(
            { method: "POST", path: "/v1/isolated/session", json: request }));
    }

    async attach(sessionId: string): Promise<IsolationSession> {
        needText("session id", sessionId);
        return new Session(this.client, await this.client.json<IsolatedSessionInfo>(
            { path: `/v1/isolated/session/${segment(sessionId)}` }));
    }

    capabilities(): Promise<IsolatedCapabilities> {
        return this.client.json({ path: "/v1/isolated/capabilities" });
    }

    async list(): Promise<IsolatedSessionSummary[]> {
        const { sessions } = await this.client.json<ListIsolatedSessionsResponse>(
            { path: "/v1/isolated/sessions" });
        return sessions ?? [];
    }

    runOnce(code: string, workspace: string, opts: RunOnceOpts = {}): Promise<CommandExecution> {
        const { workspaceMode, profile, shareNet, binds } = opts;
        return this.withSession({
            workspace: { path: workspace, ...(workspaceMode ? { mode: workspaceMode } : {}) },
            ...(profile ? { profile } : {}), ...(binds ? { binds } : {}),
            ...(shareNet === undefined ? {} : { share_net: shareNet }),
        }, (session) => session.run(code, opts.runOpts, opts.handlers, opts.signal));
    }

    async withSession<T>(request: CreateIsolatedSessionRequest,
        fn: (session: IsolationSession) => Promise<T>): Promise<T> {
        const session = await this.create(request);
        try {
            return await fn(session);
        } finally {
            await session.delete().catch(() => undefined); // what fn did counts
        }
    }
}
