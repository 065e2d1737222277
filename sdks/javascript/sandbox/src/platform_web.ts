// platform_web.ts - what the package needs of a browser, Deno, Bun or a worker.
import type { LocalFiles } from "./local.js";
import type { Socket, SocketRequest } from "./socket.js";
import { abortReason, FetchTransport, TransportError, type Transport } from "./transport.js";

type Process = { env?: Record<string, string | undefined> };

export const sendsUserAgent = false;
export const localFiles: LocalFiles | undefined = undefined;

export function readEnv(name: string): string | undefined {
    try {
        return (globalThis as { process?: Process }).process?.env?.[name] || undefined;
    } catch {
        return undefined; // Deno without the permission to read it
    }
}

export function createTransport(): Transport {
    const isBrowser = typeof (globalThis as { document?: unknown }).document !== "undefined";
    return new FetchTransport((input, init) => fetch(input, init), !isBrowser);
}

/** Browsers cannot send headers with a WebSocket: use a signed endpoint there. */
export function openSocket(request: SocketRequest): Promise<Socket> {
    return new Promise((resolve, reject) => {
        const make = WebSocket as unknown as
            new (url: string, options?: { headers: Record<string, string> }) => WebSocket;
        const isBrowser = typeof (globalThis as { document?: unknown }).document !== "undefined";
        const web = isBrowser ? new WebSocket(request.url)
            : new make(request.url, { headers: request.headers });
        const socket: Socket = {
            send: (data) => web.send(data as string),
            close: () => web.close(1000),
            onMessage: () => undefined,
            onClose: () => undefined,
        };
        const fail = (error: unknown): void => {
            clearTimeout(late);
            request.signal?.removeEventListener("abort", abort);
            web.onclose = null;
            web.close();
            reject(error);
        };
        const abort = (): void => fail(abortReason(request.signal!));
        const late = setTimeout(() => fail(new TransportError(
            `no WebSocket within ${request.timeoutMs / 1000} s`, "timeout")), request.timeoutMs);
        request.signal?.addEventListener("abort", abort, { once: true });
        web.binaryType = "arraybuffer";
        web.onclose = () => fail(new TransportError("the server refused the WebSocket", "broken"));
        web.onopen = () => {
            clearTimeout(late);
            request.signal?.removeEventListener("abort", abort);
            web.onclose = (event) => socket.onClose(event.code, event.reason);
            web.onmessage = (event: MessageEvent<string | ArrayBuffer>) => socket.onMessage(
                typeof event.data === "string" ? event.data : new Uint8Array(event.data));
            resolve(socket);
        };
    });
}
