// pty.ts - terminals of a sandbox: a WebSocket whose binary frames begin with the number of a channel.
import { openSocket } from "#platform";

import { needText, SandboxInternalException } from "./exceptions.js";
import { apiException, segment, type HttpClient } from "./http.js";
import type * as wire from "./models_gen.js";
import type { CallOptions } from "./models.js";
import type { Terminals } from "./services.js";
import type { Socket } from "./socket.js";
import { messageOf, TransportError } from "./transport.js";
import { Pauses } from "./wait.js";

const STDIN = 0;
const STDERR = 2;
const REPLAY = 3;
const PIECE_BYTES = 64 << 10;
const PING_MS = 20_000;
const TAKEN_OVER = 4001;
const QUEUE_BYTES_MAX = 16 << 20;
const encoder = new TextEncoder();

export interface TerminalOptions {
    /** Made if need be. */
    workingDirectory?: string;
    /** What the shell runs; without one it is interactive. */
    command?: string;
    cols?: number;
    rows?: number;
    /** Three pipes instead of a terminal. */
    pipes?: boolean;
}

export interface TerminalInfo {
    sessionId: string;
    running: boolean;
    /** Bytes ever printed. */
    outputOffset: number;
}

export interface TerminalOutput {
    data: Uint8Array;
    /** From standard error; only with pipes. */
    isError: boolean;
}

type Dial = (since: number, takeover: boolean) => Promise<Socket>;

/**
 * A terminal of a sandbox. Iterate over it for its output; the loop ends with its program. A connection
 * that breaks is made anew, and the server replays what was missed.
 */
export class Terminal implements AsyncIterable<Uint8Array> {
    /** Set once the program has ended; -1 after a signal. */
    exitCode: number | undefined;
    private received: number;
    private readonly queue: TerminalOutput[] = [];
    private queued = 0;
    private failure: unknown;
    private ended = false;
    private closed = false;
    private wake: () => void = () => undefined;
    private socket: Socket | undefined;
    private readonly timer: ReturnType<typeof setInterval>;

    /** @internal */
    constructor(readonly sessionId: string, private readonly dial: Dial, socket: Socket,
        since: number, private readonly retries: number) {
        this.received = since;
        this.attach(socket);
        this.timer = setInterval(() => this.say({ type: "ping" }), PING_MS);
        (this.timer as { unref?: () => void }).unref?.();
    }

    /** Bytes of output so far, for attach(). */
    get offset(): number {
        return this.received;
    }

    private attach(socket: Socket): void {
        this.socket = socket;
        socket.onMessage = (data) => typeof data === "string" ? this.told(data) : this.got(data);
        socket.onClose = (code, reason) => {
            this.socket = undefined;
            if (this.ended || this.closed)
                return;
            if (code === TAKEN_OVER)
                this.finish(new SandboxInternalException(
                    { message: "another client took over the terminal" }));
            else
                void this.redial(new SandboxInternalException(
                    { message: `the terminal's connection broke: ${code} ${reason}`.trim() }));
        };
    }

    private async redial(broken: Error): Promise<void> {
        const pauses = new Pauses(50);
        for (let n = 0; n < this.retries && !this.closed; n++) {
            try {
                await pauses.wait();
                const socket = await this.dial(this.received, true);
                if (this.closed)
                    socket.close();
                else
                    this.attach(socket);
                return;
            } catch {
                // told below, unless the next one works
            }
        }
        this.finish(broken);
    }

    private got(data: Uint8Array): void {
        let output = data.subarray(1);
        if (data[0] === REPLAY) {
            const first = Number(new DataView(data.buffer, data.byteOffset).getBigUint64(1));
            output = data.subarray(9);
            const known = this.received - first;
            if (known > 0)
                output = output.subarray(known);
            else
                this.received = first;
        }
        this.received += output.length;
        if (output.length === 0)
            return;
        this.queued += output.length;
        if (this.queued > QUEUE_BYTES_MAX) {
            this.socket?.close();
            this.finish(new SandboxInternalException(
                { message: `nothing read ${QUEUE_BYTES_MAX} bytes of the terminal's output` }));
            return;
        }
        this.queue.push({ data: output, isError: data[0] === STDERR });
        this.wake();
    }

    private told(text: string): void {
        let message: { type?: string; exit_code?: number; error?: string };
        try {
            message = JSON.parse(text) as typeof message;
        } catch {
            return;
        }
        if (message.type === "exit") {
            this.exitCode = message.exit_code ?? -1;
            this.finish();
        } else if (message.type === "error") {
            this.finish(new SandboxInternalException(
                { message: `the terminal failed: ${message.error ?? ""}` }));
        }
    }

    private finish(failure?: unknown): void {
        this.failure ??= failure;
        this.ended = true;
        clearInterval(this.timer);
        this.wake();
    }

    /** Output with the channel it came by. */
    async *output(): AsyncGenerator<TerminalOutput> {
        for (;;) {
            const next = this.queue.shift();
            if (next) {
                this.queued -= next.data.length;
                yield next;
            } else if (this.ended || this.closed) {
                if (this.failure)
                    throw this.failure;
                return;
            } else {
                await new Promise<void>((resolve) => {
                    this.wake = resolve;
                });
            }
        }
    }

    async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
        for await (const { data } of this.output())
            yield data;
    }

    /** All output until the program ends, as text. */
    async readAll(): Promise<string> {
        let text = "";
        const stream = new TextDecoder();
        for await (const piece of this)
            text += stream.decode(piece, { stream: true });
        return text + stream.decode();
    }

    private say(message: unknown): void {
        this.socket?.send(JSON.stringify(message));
    }

    /** Sends keys. */
    write(data: string | Uint8Array): void {
        if (this.closed || this.ended || !this.socket)
            throw new SandboxInternalException({ message: "the terminal is not connected" });
        const bytes = typeof data === "string" ? encoder.encode(data) : data;
        for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
            const piece = bytes.subarray(at, at + PIECE_BYTES);
            const frame = new Uint8Array(piece.length + 1);
            frame[0] = STDIN;
            frame.set(piece, 1);
            this.socket.send(frame);
        }
    }

    resize(cols: number, rows: number): void {
        this.say({ type: "resize", cols, rows });
    }

    /** To the job in the foreground. */
    signal(name: "SIGINT" | "SIGTERM" | "SIGKILL" | "SIGQUIT" | "SIGHUP"): void {
        this.say({ type: "signal", signal: name });
    }

    /** Disconnects. The program goes on; terminals.delete() ends it. */
    close(): void {
        this.closed = true;
        clearInterval(this.timer);
        this.socket?.close();
        this.wake();
    }
}

export class TerminalsAdapter implements Terminals {
    constructor(private readonly client: HttpClient) {}

    async open(options: TerminalOptions & CallOptions = {}): Promise<Terminal> {
        const json: wire.CreatePtyRequest = {
            ...(options.workingDirectory === undefined ? {} : { cwd: options.workingDirectory }),
            ...(options.command === undefined ? {} : { command: options.command }),
        };
        const { session_id } = await this.client.json<{ session_id: string }>(
            { method: "POST", path: "/pty", json, signal: options.signal });
        const terminal = await this.attach(session_id, options);
        if (options.cols !== undefined && options.rows !== undefined)
            terminal.resize(options.cols, options.rows);
        return terminal;
    }

    async attach(sessionId: string, options: CallOptions & {
        since?: number; takeover?: boolean; pipes?: boolean;
    } = {}): Promise<Terminal> {
        needText("session id", sessionId);
        const dial: Dial = (since, takeover) => this.dial(sessionId, since, takeover, options);
        const since = options.since ?? 0;
        return new Terminal(sessionId, dial, await dial(since, options.takeover ?? false), since,
            this.client.settings.retry.maxRetries);
    }

    private async dial(sessionId: string, since: number, takeover: boolean,
        options: CallOptions & { pipes?: boolean }): Promise<Socket> {
        const { baseUrl, headers, requestTimeoutMs } = this.client.settings;
        const query = `since=${since}${takeover ? "&takeover=1" : ""}${options.pipes ? "&pty=0" : ""}`;
        try {
            return await openSocket({
                url: `${baseUrl.replace(/^http/, "ws")}/pty/${segment(sessionId)}/ws?${query}`,
                headers, timeoutMs: requestTimeoutMs || 30_000,
                ...(options.signal ? { signal: options.signal } : {}),
            });
        } catch (error) {
            const { status, body } = error as { status?: number; body?: string };
            if (status !== undefined)
                throw apiException(status, "", body ?? "");
            throw error instanceof TransportError ? new SandboxInternalException(
                { message: `terminal ${sessionId}: ${messageOf(error)}`, cause: error }) : error;
        }
    }

    async get(sessionId: string, options: CallOptions = {}): Promise<TerminalInfo> {
        needText("session id", sessionId);
        const found = await this.client.json<wire.Pty>(
            { path: `/pty/${segment(sessionId)}`, signal: options.signal });
        return { sessionId: found.session_id, running: found.running,
            outputOffset: found.output_offset };
    }

    async delete(sessionId: string, options: CallOptions = {}): Promise<void> {
        needText("session id", sessionId);
        await this.client.send({ method: "DELETE", path: `/pty/${segment(sessionId)}`,
            signal: options.signal });
    }
}

