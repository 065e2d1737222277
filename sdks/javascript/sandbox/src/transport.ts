// transport.ts - how bytes get to a server and back. Node has a transport of its own in
// platform_node.ts; the one here stands on fetch and serves every other runtime.

export type Body = string | Uint8Array | AsyncIterable<Uint8Array>;

export interface TransportRequest {
    method: string;
    url: string;
    headers: Record<string, string>;
    body?: Body;
    signal?: AbortSignal;
    /** Milliseconds until the head of the answer must be there; 0 is no limit. */
    headTimeoutMs: number;
}

export interface TransportResponse {
    status: number;
    statusText: string;
    header(name: string): string | undefined;
    /** The body in pieces. Leaving the iteration early closes the connection. */
    body: AsyncIterable<Uint8Array>;
    /** All of a body of at most `bytesMax` bytes. */
    text(bytesMax: number): Promise<string>;
    /** Gives up the body. A reader of it gets `reason`. */
    cancel(reason: Error): void;
}

export interface Transport {
    send(request: TransportRequest): Promise<TransportResponse>;
    /** Closes connections that are idle now, and the others once they are. */
    close(): Promise<void>;
}

/** An exchange that failed below HTTP. */
export class TransportError extends Error {
    override readonly name = "TransportError";

    constructor(
        message: string,
        /** What is known of the request: `unsent` means that the server has not seen it. */
        readonly kind: "unsent" | "broken" | "timeout",
        override readonly cause?: unknown,
    ) {
        super(message);
    }
}

export function messageOf(error: unknown): string {
    if (!(error instanceof Error))
        return String(error);
    const cause = (error as { cause?: unknown }).cause;
    const more = cause instanceof Error && cause.message !== "" ? `: ${cause.message}` : "";
    return error.message === "" ? String((error as { code?: unknown }).code ?? error.name)
        : error.message + (error instanceof TransportError ? "" : more);
}

export function abortReason(signal: AbortSignal): unknown {
    return signal.reason ?? new DOMException("This operation was aborted", "AbortError");
}

export function throwIfAborted(signal: AbortSignal | undefined): void {
    if (signal?.aborted)
        throw abortReason(signal);
}

export function tooLarge(bytesMax: number): TransportError {
    return new TransportError(`the answer is larger than ${bytesMax} bytes`, "broken");
}

export function tooLate(milliseconds: number): TransportError {
    return new TransportError(`no answer within ${milliseconds / 1000} s`, "timeout");
}

export async function collect(pieces: AsyncIterable<Uint8Array>, bytesMax = Infinity,
): Promise<Uint8Array> {
    const all: Uint8Array[] = [];
    let size = 0;
    for await (const piece of pieces) {
        size += piece.length;
        if (size > bytesMax)
            throw tooLarge(bytesMax);
        all.push(piece);
    }
    if (all.length === 1)
        return all[0]!;
    const joined = new Uint8Array(size);
    let at = 0;
    for (const piece of all) {
        joined.set(piece, at);
        at += piece.length;
    }
    return joined;
}

/** The pieces of a web stream; leaving early cancels it. */
export async function* piecesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
    const reader = stream.getReader();
    let ended = false;
    try {
        for (;;) {
            const { done, value } = await reader.read();
            if (done) {
                ended = true;
                return;
            }
            yield value;
        }
    } finally {
        if (!ended)
            await reader.cancel().catch(() => undefined);
        reader.releaseLock();
    }
}

type FetchInit = RequestInit & { duplex?: "half" };

/** A transport that stands on fetch. */
export class FetchTransport implements Transport {
    private readonly open = new Set<AbortController>();

    /** Browsers take no streams as bodies over HTTP/1: they are sent whole. */
    constructor(private readonly fetch: typeof globalThis.fetch,
        private readonly streamsBodies: boolean) {}

    async send(request: TransportRequest): Promise<TransportResponse> {
        throwIfAborted(request.signal);
        const controller = new AbortController();
        const abort = (): void => controller.abort(abortReason(request.signal!));
        request.signal?.addEventListener("abort", abort, { once: true });
        const late = request.headTimeoutMs > 0
            ? setTimeout(() => controller.abort(tooLate(request.headTimeoutMs)),
                request.headTimeoutMs)
            : undefined;
        const done = (): void => {
            request.signal?.removeEventListener("abort", abort);
            this.open.delete(controller);
        };
        this.open.add(controller);
        try {
            const answer = await this.fetch(request.url, {
                method: request.method, headers: request.headers, signal: controller.signal,
                ...await this.bodyOf(request.body),
            });
            return new FetchResponse(answer, controller, done);
        } catch (error) {
            done();
            throw this.failure(error, controller, request.signal);
        } finally {
            clearTimeout(late);
        }
    }

    private async bodyOf(body: Body | undefined): Promise<FetchInit> {
        if (body === undefined)
            return {};
        if (typeof body === "string" || body instanceof Uint8Array)
            return { body: body as BodyInit };
        if (!this.streamsBodies)
            return { body: await collect(body) as BodyInit };
        const pieces = body[Symbol.asyncIterator]();
        const stream = new ReadableStream<Uint8Array>({
            async pull(to) {
                const next = await pieces.next();
                if (next.done)
                    to.close();
                else
                    to.enqueue(next.value);
            },
            async cancel() {
                await pieces.return?.();
            },
        });
        return { body: stream, duplex: "half" };
    }

    private failure(error: unknown, controller: AbortController, signal?: AbortSignal): unknown {
        if (signal?.aborted)
            return abortReason(signal);
        if (controller.signal.aborted)
            return controller.signal.reason;
        return new TransportError(messageOf(error), "broken", error);
    }

    close(): Promise<void> {
        for (const controller of this.open)
            controller.abort(new TransportError("the client was closed", "broken"));
        this.open.clear();
        return Promise.resolve();
    }
}

class FetchResponse implements TransportResponse {
    readonly status: number;
    readonly statusText: string;

    constructor(private readonly answer: Response, private readonly controller: AbortController,
        private readonly done: () => void) {
        this.status = answer.status;
        this.statusText = answer.statusText;
    }

    header(name: string): string | undefined {
        return this.answer.headers.get(name) ?? undefined;
    }

    get body(): AsyncIterable<Uint8Array> {
        return this.pieces();
    }

    private async *pieces(): AsyncGenerator<Uint8Array> {
        try {
            if (this.answer.body)
                yield* piecesOf(this.answer.body);
        } catch (error) {
            if (this.controller.signal.aborted)
                throw this.controller.signal.reason;
            throw new TransportError(messageOf(error), "broken", error);
        } finally {
            this.done();
        }
    }

    async text(bytesMax: number): Promise<string> {
        return new TextDecoder().decode(await collect(this.pieces(), bytesMax));
    }

    cancel(reason: Error): void {
        this.controller.abort(reason);
        this.done();
    }
}
