// platform_node.ts - what the package needs of Node: connections that are kept, WebSockets with
// headers, local directories. The only file that imports modules of Node.
import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat, mkdir, open, readdir, readlink, realpath, rm, symlink } from "node:fs/promises";
import * as http from "node:http";
import * as https from "node:https";
import { dirname, join, relative, resolve as resolvePath, sep } from "node:path";
import type { Socket as TcpSocket } from "node:net";

import { SandboxInternalException } from "./exceptions.js";
import type { LocalFiles } from "./local.js";
import type { Socket, SocketRequest } from "./socket.js";
import type { TarEntry } from "./tar.js";
import {
    abortReason, messageOf, throwIfAborted, tooLarge, tooLate, TransportError, type Transport,
    type TransportRequest, type TransportResponse,
} from "./transport.js";

// Below the 30 s after which servers close idle connections: no request meets a closing one.
const IDLE_MS = 25_000;
const IDLE_CONNECTIONS_MAX = 64;
const UNSENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

export const sendsUserAgent = true;

export function readEnv(name: string): string | undefined {
    return process.env[name] || undefined;
}

function failure(error: unknown): TransportError {
    if (error instanceof TransportError)
        return error;
    const code = (error as { code?: string }).code ?? "";
    return new TransportError(messageOf(error), UNSENT.has(code) ? "unsent" : "broken", error);
}

// Connections are shared by all clients of the process, so that a second sandbox does not begin with
// a handshake. The last client that closes ends those that are idle.
const shared = { clients: 0, agents: {} as { [protocol: string]: http.Agent } };

function agent(protocol: string): http.Agent {
    return shared.agents[protocol] ??= new (protocol === "https:" ? https : http).Agent(
        { keepAlive: true, maxFreeSockets: IDLE_CONNECTIONS_MAX, timeout: IDLE_MS });
}

class NodeTransport implements Transport {
    private readonly open = new Set<http.ClientRequest>();
    private closed = false;

    constructor() {
        shared.clients++;
    }

    send(request: TransportRequest): Promise<TransportResponse> {
        return new Promise((resolve, reject) => {
            throwIfAborted(request.signal);
            const url = new URL(request.url);
            const sent = (url.protocol === "https:" ? https : http).request(url, {
                method: request.method, headers: headersOf(request),
                agent: agent(url.protocol),
            });
            const { signal } = request;
            const abort = (): void => {
                sent.destroy(failure(abortReason(signal!)));
            };
            const late = request.headTimeoutMs > 0
                ? setTimeout(() => sent.destroy(tooLate(request.headTimeoutMs)),
                    request.headTimeoutMs) : undefined;
            this.open.add(sent);
            signal?.addEventListener("abort", abort, { once: true });
            sent.once("close", () => {
                this.open.delete(sent);
                signal?.removeEventListener("abort", abort);
            });
            sent.once("response", (answer) => {
                clearTimeout(late);
                resolve(new NodeResponse(answer, signal));
            });
            sent.on("error", (error) => {
                clearTimeout(late);
                reject(signal?.aborted ? abortReason(signal) : failure(error));
            });
            writeBody(sent, request);
        });
    }

    close(): Promise<void> {
        const closed = new TransportError("the client was closed", "broken");
        for (const sent of this.open)
            sent.destroy(closed);
        if (!this.closed && --shared.clients === 0) {
            for (const one of Object.values(shared.agents))
                one.destroy();
            shared.agents = {};
        }
        this.closed = true;
        return Promise.resolve();
    }
}

function headersOf({ headers, body }: TransportRequest): Record<string, string | number> {
    if (typeof body === "string")
        return { ...headers, "content-length": Buffer.byteLength(body) };
    if (body instanceof Uint8Array)
        return { ...headers, "content-length": body.length };
    return headers;
}

function writeBody(sent: http.ClientRequest, { method, body }: TransportRequest): void {
    if (body === undefined) {
        if (method === "POST" || method === "PUT" || method === "PATCH")
            sent.setHeader("content-length", 0);
        sent.end();
    } else if (typeof body === "string" || body instanceof Uint8Array) {
        sent.end(body);
    } else {
        stream(sent, body).catch((error: unknown) => sent.destroy(error as Error));
    }
}

// A server that answers before it has all may stop to read: the answer then ends the sending.
async function stream(sent: http.ClientRequest, body: AsyncIterable<Uint8Array>): Promise<void> {
    let ended = false;
    let wake = (): void => undefined;
    const end = (): void => {
        ended = true;
        wake();
    };
    sent.once("close", end).on("drain", () => wake());
    let corked = false;
    for await (const piece of body) {
        if (ended)
            return;
        // Small pieces that come at once make one chunk.
        if (!corked) {
            corked = true;
            sent.cork();
            setImmediate(() => {
                corked = false;
                sent.uncork();
            });
        }
        if (piece.length > 0 && !sent.write(piece))
            await new Promise<void>((resolve) => {
                wake = resolve;
                if (ended)
                    resolve();
            });
    }
    sent.end();
}

class NodeResponse implements TransportResponse {
    readonly status: number;
    readonly statusText: string;
    private reason: Error | undefined;

    constructor(private readonly answer: http.IncomingMessage,
        private readonly signal: AbortSignal | undefined) {
        this.status = answer.statusCode ?? 0;
        this.statusText = answer.statusMessage ?? "";
        answer.on("error", () => undefined); // readers get it; without one it is nobody's
    }

    header(name: string): string | undefined {
        const value = this.answer.headers[name.toLowerCase()];
        return Array.isArray(value) ? value.join(", ") : value;
    }

    private failed(error: unknown): unknown {
        if (this.reason)
            return this.reason;
        return this.signal?.aborted ? abortReason(this.signal) : failure(error);
    }

    get body(): AsyncIterable<Uint8Array> {
        return this.pieces();
    }

    private async *pieces(): AsyncGenerator<Uint8Array> {
        try {
            for await (const piece of this.answer)
                yield piece as Uint8Array;
        } catch (error) {
            throw this.failed(error);
        }
        if (!this.answer.complete)
            throw this.failed(new TransportError("the connection broke off", "broken"));
    }

    text(bytesMax: number): Promise<string> {
        return new Promise((resolve, reject) => {
            const pieces: Uint8Array[] = [];
            let size = 0;
            this.answer.on("data", (piece: Uint8Array) => {
                size += piece.length;
                if (size > bytesMax)
                    this.cancel(tooLarge(bytesMax));
                else
                    pieces.push(piece);
            });
            const broken = (error?: unknown): void => reject(this.failed(
                error ?? new TransportError("the connection broke off", "broken")));
            this.answer.on("end", () => this.answer.complete
                ? resolve(Buffer.concat(pieces).toString("utf-8")) : broken());
            this.answer.on("error", broken);
            this.answer.on("close", () => broken()); // after "end" it changes nothing
        });
    }

    cancel(reason: Error): void {
        this.reason = reason;
        this.answer.destroy(reason);
    }
}

export function createTransport(): Transport {
    return new NodeTransport();
}

// ---- WebSockets (RFC 6455) -------------------------------------------------------------------

const FRAME_BYTES_MAX = 4 << 20;
const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

class NodeSocket implements Socket {
    onMessage: (data: string | Uint8Array) => void = () => undefined;
    onClose: (code: number, reason: string) => void = () => undefined;
    private rest: Buffer;
    private parts: Buffer[] = [];
    private partsCode = 0;
    private partsSize = 0;
    private code = 1006;
    private why = "the connection broke off";

    constructor(private readonly tcp: TcpSocket, head: Buffer) {
        this.rest = head;
        tcp.setNoDelay(true);
        tcp.setTimeout(0);
        tcp.on("data", (data) => {
            this.rest = this.rest.length > 0 ? Buffer.concat([this.rest, data]) : data;
            this.read();
        });
        tcp.on("error", (error) => {
            this.why = error.message;
        });
        tcp.on("close", () => this.onClose(this.code, this.why));
    }

    /** Call it when the handlers are set: the first frames may have come with the handshake. */
    read(): void {
        for (let frame = this.frame(); frame; frame = this.frame())
            this.take(frame);
    }

    private frame(): { final: boolean; code: number; data: Buffer } | undefined {
        const { rest } = this;
        if (rest.length < 2)
            return undefined;
        let size = rest[1]! & 127;
        let at = 2;
        if (size === 126) {
            if (rest.length < 4)
                return undefined;
            size = rest.readUInt16BE(2);
            at = 4;
        } else if (size === 127) {
            if (rest.length < 10)
                return undefined;
            size = Number(rest.readBigUInt64BE(2));
            at = 10;
        }
        if (size > FRAME_BYTES_MAX || rest[1]! & 128 || rest[0]! & 0x70) {
            this.fail("the server sent a frame that is not allowed");
            return undefined;
        }
        if (rest.length < at + size)
            return undefined;
        this.rest = rest.subarray(at + size);
        return { final: (rest[0]! & 128) !== 0, code: rest[0]! & 15,
            data: rest.subarray(at, at + size) };
    }

    private fail(why: string): void {
        this.why = why;
        this.rest = Buffer.alloc(0);
        this.tcp.destroy();
    }

    private take({ final, code, data }: { final: boolean; code: number; data: Buffer }): void {
        if (code === PING) {
            this.write(PONG, data);
        } else if (code === CLOSE) {
            this.code = data.length >= 2 ? data.readUInt16BE(0) : 1005;
            this.why = data.subarray(2).toString("utf-8");
            this.write(CLOSE, data.subarray(0, 2));
            this.tcp.end();
        } else if (code === TEXT || code === BINARY || code === 0) {
            if (code !== 0)
                this.partsCode = code;
            this.parts.push(data);
            this.partsSize += data.length;
            if (this.partsSize > FRAME_BYTES_MAX)
                this.fail("the server sent a message that is too long");
            else if (final)
                this.message();
        }
    }

    private message(): void {
        const data = this.parts.length === 1 ? this.parts[0]! : Buffer.concat(this.parts);
        this.parts = [];
        this.partsSize = 0;
        this.onMessage(this.partsCode === TEXT ? data.toString("utf-8") : data);
    }

    private write(code: number, data: Uint8Array): void {
        if (this.tcp.destroyed || this.tcp.writableEnded)
            return;
        const long = data.length > 65535 ? 8 : data.length > 125 ? 2 : 0;
        const frame = Buffer.alloc(2 + long + 4 + data.length);
        frame[0] = 128 | code;
        frame[1] = 128 | (long === 8 ? 127 : long === 2 ? 126 : data.length);
        if (long === 8)
            frame.writeBigUInt64BE(BigInt(data.length), 2);
        else if (long === 2)
            frame.writeUInt16BE(data.length, 2);
        const mask = randomBytes(4);
        frame.set(mask, 2 + long);
        for (let i = 0; i < data.length; i++)
            frame[6 + long + i] = data[i]! ^ mask[i & 3]!;
        this.tcp.write(frame);
    }

    send(data: string | Uint8Array): void {
        if (typeof data === "string")
            this.write(TEXT, Buffer.from(data, "utf-8"));
        else
            this.write(BINARY, data);
    }

    close(): void {
        this.code = 1000;
        this.why = "";
        this.write(CLOSE, Buffer.from([0x03, 0xe8]));
        this.tcp.end();
        setTimeout(() => this.tcp.destroy(), 1000).unref();
    }
}

const acceptOf = (key: string): string =>
    createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");

export function openSocket(request: SocketRequest): Promise<Socket> {
    return new Promise((resolve, reject) => {
        throwIfAborted(request.signal);
        const key = randomBytes(16).toString("base64");
        const url = new URL(request.url.replace(/^ws/, "http"));
        const sent = (url.protocol === "https:" ? https : http).request(url, {
            headers: { ...request.headers, connection: "Upgrade", upgrade: "websocket",
                "sec-websocket-version": "13", "sec-websocket-key": key },
        });
        const abort = (): void => {
            sent.destroy(failure(abortReason(request.signal!)));
        };
        const late = setTimeout(() => sent.destroy(tooLate(request.timeoutMs)), request.timeoutMs);
        const done = (): void => {
            clearTimeout(late);
            request.signal?.removeEventListener("abort", abort);
        };
        request.signal?.addEventListener("abort", abort, { once: true });
        sent.once("upgrade", (answer, tcp, head) => {
            done();
            if (answer.headers["sec-websocket-accept"] !== acceptOf(key)) {
                tcp.destroy();
                reject(new TransportError("the server did not accept the WebSocket", "broken"));
                return;
            }
            const socket = new NodeSocket(tcp as TcpSocket, head);
            resolve(socket);
            setImmediate(() => socket.read());
        });
        sent.once("response", (answer) => {
            done();
            const response = new NodeResponse(answer, request.signal);
            response.text(1 << 20).catch(() => "").then((body) => reject(
                Object.assign(new TransportError(
                    `the server refused the WebSocket: ${response.status} ${body}`, "broken"),
                { status: response.status, body }))).catch(reject);
        });
        sent.once("error", (error) => {
            done();
            reject(request.signal?.aborted ? abortReason(request.signal) : failure(error));
        });
        sent.end();
    });
}

// ---- local directories -----------------------------------------------------------------------

async function* readTree(top: string, directory = top): AsyncGenerator<TarEntry> {
    const entries = await readdir(directory, { withFileTypes: true });
    entries.sort((a, b) => a.name < b.name ? -1 : 1);
    for (const found of entries) {
        const path = join(directory, found.name);
        const info = await lstat(path);
        const entry = { name: relative(top, path).split(sep).join("/"), mode: info.mode & 0o7777,
            mtime: info.mtimeMs / 1000, size: 0 };
        if (info.isDirectory()) {
            yield { ...entry, type: "directory" };
            yield* readTree(top, path);
        } else if (info.isSymbolicLink()) {
            yield { ...entry, type: "symlink", target: await readlink(path) };
        } else if (info.isFile()) {
            yield { ...entry, type: "file", size: info.size,
                data: info.size > 0 ? createReadStream(path, { end: info.size - 1 }) : none() };
        }
    }
}

async function* none(): AsyncGenerator<Uint8Array> {}

// Where an entry goes. An archive comes from a sandbox, which may hold anything: neither names nor
// links that it has made lead out of the directory.
async function placeOf(top: string, name: string): Promise<string> {
    const path = resolvePath(top, name);
    if (path !== top && !path.startsWith(top + sep))
        throw new SandboxInternalException({ message: `the archive has a name outside: ${name}` });
    await mkdir(dirname(path), { recursive: true });
    const parent = await realpath(dirname(path));
    if (parent !== top && !parent.startsWith(top + sep))
        throw new SandboxInternalException(
            { message: `the archive has a name behind a link that leads outside: ${name}` });
    return path;
}

async function writeTree(directory: string, entries: AsyncIterable<TarEntry>): Promise<void> {
    await mkdir(directory, { recursive: true });
    const top = await realpath(directory);
    for await (const entry of entries) {
        if (entry.name === "" || entry.name === ".")
            continue;
        const path = await placeOf(top, entry.name);
        const old = await lstat(path).catch(() => undefined);
        if (old && !(old.isDirectory() && entry.type === "directory"))
            await rm(path, { recursive: true });
        if (entry.type === "directory") {
            await mkdir(path, { recursive: true, mode: (entry.mode & 0o777) | 0o700 });
        } else if (entry.type === "symlink") {
            await symlink(entry.target ?? "", path);
        } else {
            const file = await open(path, "wx", entry.mode & 0o777);
            try {
                for await (const piece of entry.data ?? none())
                    await file.writeFile(piece);
            } finally {
                await file.close();
            }
        }
    }
}

export const localFiles: LocalFiles | undefined = {
    read: (directory) => readTree(resolvePath(directory)),
    write: writeTree,
};
