// isolation.ts - sessions of their own inside a sandbox.
import { needText } from "./exceptions.js";
import { execute, exitCodeOf } from "./execution.js";
import { FilesystemAdapter } from "./files.js";
import { outward, segment, type HttpClient } from "./http.js";
import type {
    CallOptions, CommandExecution, CreateIsolatedSessionRequest, ExecutionHandlers,
    IsolatedCapabilities, IsolatedRunOpts, IsolatedSessionInfo, IsolatedSessionState,
    IsolatedSessionSummary, ListIsolatedSessionsResponse,
} from "./models.js";
import type { IsolationService, IsolationSession, RunOnceOpts, SandboxFiles } from "./services.js";

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

    async commit(options: CallOptions & { resetUpperAfter?: boolean } = {}): Promise<void> {
        await this.client.send({ method: "POST", path: `${this.path}/commit`,
            json: { reset_upper_after: options.resetUpperAfter ?? false },
            signal: options.signal });
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
