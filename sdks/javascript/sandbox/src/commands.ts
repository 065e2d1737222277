// commands.ts - commands and shell sessions of a sandbox.
import { CURSOR_HEADER } from "./constants.js";
import { invalid, needText } from "./exceptions.js";
import {
    eventBatches, EventIterator, execute, exitCodeOf, type StreamCall,
} from "./execution.js";
import { segment, type HttpClient } from "./http.js";
import type * as wire from "./models_gen.js";
import type {
    CallOptions, CommandExecution, CommandLogs, CommandStatus, ExecutionHandlers, FileData,
    RunCommandOpts, ServerStreamEvent,
} from "./models.js";
import { bodyOf } from "./multipart.js";
import { Replay } from "./replay.js";
import type { ExecdCommands, OutputStream } from "./services.js";
import { Pauses } from "./wait.js";

function milliseconds(name: string, seconds: number | undefined): { timeout?: number } {
    if (seconds === undefined)
        return {};
    if (!Number.isFinite(seconds) || seconds < 0)
        throw invalid(`${name} must be a number that is not negative`);
    return { timeout: Math.round(seconds * 1000) };
}

function checkIds({ uid, gid }: RunCommandOpts): void {
    if (gid !== undefined && uid === undefined)
        throw invalid("gid needs a uid");
    for (const [name, value] of [["uid", uid], ["gid", gid]] as const)
        if (value !== undefined && (!Number.isInteger(value) || value < 0))
            throw invalid(`${name} must be a whole number that is not negative`);
}

function requestOf(command: string, opts: RunCommandOpts): wire.RunCommandRequest {
    if (!opts.argv?.length)
        needText("command", command);
    checkIds(opts);
    return {
        ...(opts.argv?.length ? { argv: opts.argv } : { command }),
        ...(opts.workingDirectory === undefined ? {} : { cwd: opts.workingDirectory }),
        ...(opts.background === undefined ? {} : { background: opts.background }),
        ...milliseconds("timeoutSeconds", opts.timeoutSeconds),
        ...(opts.uid === undefined ? {} : { uid: opts.uid }),
        ...(opts.gid === undefined ? {} : { gid: opts.gid }),
        ...(opts.envs === undefined ? {} : { envs: opts.envs }),
        ...(opts.stdin === undefined ? {} : { stdin: opts.stdin }),
        ...(opts.stdinOpen === undefined ? {} : { stdin_open: opts.stdinOpen }),
    };
}

export class CommandsAdapter implements ExecdCommands {
    constructor(private readonly client: HttpClient) {}

    // A command outlives its stream, and the daemon keeps its output: what broke is read on there.
    private runCall(command: string, opts: RunCommandOpts, signal?: AbortSignal): StreamCall {
        const call: StreamCall = { path: "/command", json: requestOf(command, opts), signal,
            what: "the command", retry: false };
        if (opts.background)
            return call;
        const replay = new Replay(this, signal);
        return { ...call, saw: (event) => replay.saw(event), resume: (error) => replay.go(error) };
    }

    runStream(command: string, opts: RunCommandOpts = {}, signal?: AbortSignal,
    ): AsyncIterableIterator<ServerStreamEvent> {
        return new EventIterator(eventBatches(this.client, this.runCall(command, opts, signal)));
    }

    async run(command: string, opts: RunCommandOpts = {}, handlers?: ExecutionHandlers,
        signal?: AbortSignal): Promise<CommandExecution> {
        const run = await execute(this.client, this.runCall(command, opts, signal), handlers);
        run.exitCode = opts.background ? null : exitCodeOf(run);
        return run;
    }

    async interrupt(sessionId: string, options: CallOptions = {}): Promise<void> {
        needText("id", sessionId);
        await this.client.send({ method: "DELETE", path: "/command", query: { id: sessionId },
            signal: options.signal });
    }

    async getCommandStatus(commandId: string, options: CallOptions = {}): Promise<CommandStatus> {
        needText("id", commandId);
        const status = await this.client.json<wire.CommandStatus>(
            { path: `/command/status/${segment(commandId)}`, signal: options.signal });
        return {
            id: status.id, content: status.content, running: status.running,
            exitCode: status.exit_code ?? null,
            ...(status.error === undefined ? {} : { error: status.error }),
            startedAt: new Date(status.started_at),
            finishedAt: status.finished_at ? new Date(status.finished_at) : null,
        };
    }

    async getBackgroundCommandLogs(commandId: string, cursor?: number, options: CallOptions & {
        stream?: OutputStream;
    } = {}): Promise<CommandLogs> {
        needText("id", commandId);
        const { text, response } = await this.client.text({
            path: `/command/${segment(commandId)}/logs`, signal: options.signal,
            query: { cursor, stream: options.stream },
        });
        const next = Number(response.header(CURSOR_HEADER));
        return { content: text,
            ...(response.header(CURSOR_HEADER) !== undefined && Number.isFinite(next)
                ? { cursor: next } : {}) };
    }

    async *followLogs(commandId: string, options: CallOptions & { cursor?: number } = {},
    ): AsyncGenerator<string> {
        let { cursor } = options;
        for (let pauses = new Pauses(); ;) {
            const { running } = await this.getCommandStatus(commandId, options);
            const logs = await this.getBackgroundCommandLogs(commandId, cursor, options);
            cursor = logs.cursor ?? cursor;
            if (logs.content !== "") {
                yield logs.content;
                pauses = new Pauses();
            } else if (!running) {
                return;
            } else {
                await pauses.wait(options.signal);
            }
        }
    }

    async waitForCommand(commandId: string, options: CallOptions = {}): Promise<CommandStatus> {
        for (const pauses = new Pauses(); ;) {
            const status = await this.getCommandStatus(commandId, options);
            if (!status.running)
                return status;
            await pauses.wait(options.signal);
        }
    }

    async writeStdin(commandId: string, data: FileData, options: CallOptions & {
        eof?: boolean;
    } = {}): Promise<void> {
        needText("id", commandId);
        await this.client.send({
            method: "POST", path: `/command/${segment(commandId)}/stdin`, body: bodyOf(data),
            query: { eof: options.eof ?? false }, signal: options.signal, retry: false,
            headers: { "Content-Type": "application/octet-stream" }, timeoutMs: 0,
        });
    }

    async createSession(options: { workingDirectory?: string } & CallOptions = {},
    ): Promise<string> {
        const { session_id } = await this.client.json<wire.Session>({
            method: "POST", path: "/session", signal: options.signal,
            json: options.workingDirectory === undefined ? {} : { cwd: options.workingDirectory },
        });
        return session_id;
    }

    // A session interrupts the run of a client that leaves: there is nothing to go on with.
    private sessionCall(sessionId: string, command: string, options: {
        workingDirectory?: string; timeoutSeconds?: number; envs?: Record<string, string>;
    }, signal?: AbortSignal): StreamCall {
        needText("session id", sessionId);
        needText("command", command);
        const json: wire.RunInSessionRequest = {
            command,
            ...(options.workingDirectory === undefined ? {} : { cwd: options.workingDirectory }),
            ...milliseconds("timeoutSeconds", options.timeoutSeconds),
            ...(options.envs === undefined ? {} : { envs: options.envs }),
        };
        return { path: `/session/${segment(sessionId)}/run`, json, signal, retry: false,
            what: "the command in a session" };
    }

    async runInSession(sessionId: string, command: string, options: {
        workingDirectory?: string; timeoutSeconds?: number; envs?: Record<string, string>;
    } = {}, handlers?: ExecutionHandlers, signal?: AbortSignal): Promise<CommandExecution> {
        const run = await execute(this.client,
            this.sessionCall(sessionId, command, options, signal), handlers);
        run.exitCode = exitCodeOf(run);
        return run;
    }

    runInSessionStream(sessionId: string, command: string, options: {
        workingDirectory?: string; timeoutSeconds?: number; envs?: Record<string, string>;
    } = {}, signal?: AbortSignal): AsyncIterableIterator<ServerStreamEvent> {
        return new EventIterator(eventBatches(this.client,
            this.sessionCall(sessionId, command, options, signal)));
    }

    async deleteSession(sessionId: string, options: CallOptions = {}): Promise<void> {
        needText("session id", sessionId);
        await this.client.send({ method: "DELETE", path: `/session/${segment(sessionId)}`,
            signal: options.signal });
    }
}
