// http.ts - requests to one base URL: queries, JSON, errors, retries, deadlines.
import {
    SandboxApiException, SandboxError, SandboxException, SandboxInternalException,
} from "./exceptions.js";
import { messageOf, TransportError, type Body, type Transport, type TransportResponse,
} from "./transport.js";
import { sleep } from "./wait.js";

const ANSWER_BYTES_MAX = 64 << 20;
const ERROR_BYTES_MAX = 1 << 20;
const RETRY_AFTER_MS_MAX = 30_000;

/** Which failed requests are sent again, and when. */
export interface RetryOptions {
    /** 3 unless given; 0 is never. */
    maxRetries?: number;
    /** 100 unless given; each further pause is twice as long. */
    initialDelayMillis?: number;
    /** 5000 unless given. */
    maxDelayMillis?: number;
    /** 0.25 unless given: a pause is between 75 % and 125 % of its length. */
    jitter?: number;
    /** 429, 502 and 503 unless given. */
    statusCodes?: number[];
}

export type RetryPolicy = Required<RetryOptions>;

export function retryPolicy(options: RetryOptions | false | undefined): RetryPolicy {
    const given = options || {};
    return { maxRetries: options === false ? 0 : given.maxRetries ?? 3,
        initialDelayMillis: given.initialDelayMillis ?? 100,
        maxDelayMillis: given.maxDelayMillis ?? 5000, jitter: given.jitter ?? 0.25,
        statusCodes: given.statusCodes ?? [429, 502, 503] };
}

export type QueryValue = string | number | boolean | undefined | null | readonly string[];

export interface Call {
    method?: string;
    path: string;
    query?: Record<string, QueryValue>;
    headers?: Record<string, string>;
    /** Sent as JSON. */
    json?: unknown;
    /** Sent as it is, once. */
    body?: Body;
    signal?: AbortSignal | undefined;
    /** The body of the answer is read as it comes: only its head has a time limit. */
    streams?: boolean;
    /** The server does it once, however often it is asked: to be repeated like a GET. */
    idempotent?: boolean;
    /** false: a failure is a failure. */
    retry?: boolean;
    /** Milliseconds in place of the client's request timeout. */
    timeoutMs?: number;
}

export interface ClientSettings {
    baseUrl: string;
    headers: Record<string, string>;
    transport: Transport;
    retry: RetryPolicy;
    requestTimeoutMs: number;
    streamOpenTimeoutMs: number;
    streamIdleTimeoutMs: number;
    debug: boolean;
    /** Asked after a 401: rejects with a better error, such as that the sandbox is gone. */
    explain?: () => Promise<unknown>;
}

/** Later ones win, however they are capitalised. */
export function mergeHeaders(...all: Record<string, string>[]): Record<string, string> {
    const found = new Map<string, [string, string]>();
    for (const headers of all)
        for (const [name, value] of Object.entries(headers))
            found.set(name.toLowerCase(), [name, value]);
    return Object.fromEntries(found.values());
}

/** `%2F` and the like for what stands between two slashes. */
export const segment = (value: string): string => encodeURIComponent(value);

function queryOf(query: Record<string, QueryValue> | undefined): string {
    const parts: string[] = [];
    for (const [name, value] of Object.entries(query ?? {}))
        for (const one of Array.isArray(value) ? value as readonly string[] : [value])
            if (one !== undefined && one !== null)
                parts.push(`${name}=${encodeURIComponent(String(one))}`);
    return parts.length > 0 ? `?${parts.join("&")}` : "";
}

function retryAfter(value: string | undefined): number | undefined {
    if (value === undefined)
        return undefined;
    const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
    return Number.isFinite(seconds) && seconds > 0 ? seconds : undefined;
}

type ErrorBody = { code?: unknown; message?: unknown; detail?: unknown };

function bodyOf(text: string): { raw: unknown; code: string; message: string } {
    let raw: unknown = text;
    try {
        raw = JSON.parse(text);
    } catch {
        // not JSON: the text is the message
    }
    let found = (typeof raw === "object" && raw !== null ? raw : {}) as ErrorBody;
    let message = typeof raw === "string" ? raw : "";
    if (found.code === undefined && found.message === undefined && found.detail !== undefined) {
        if (typeof found.detail === "object" && found.detail !== null)
            found = found.detail as ErrorBody;
        else
            message = String(found.detail);
    }
    return { raw, code: typeof found.code === "string" ? found.code : "",
        message: typeof found.message === "string" ? found.message : message };
}

/** The exception of an answer that is an error. */
export function apiException(status: number, statusText: string, text: string, requestId?: string,
    retryAfterSeconds?: number): SandboxApiException {
    const { raw, code, message } = bodyOf(text);
    const said = message.trim().slice(0, 1000) || `HTTP ${status} ${statusText}`.trim();
    return new SandboxApiException({
        message: said, statusCode: status, rawBody: raw,
        error: new SandboxError(code || SandboxError.UNEXPECTED_RESPONSE, said),
        ...(requestId === undefined ? {} : { requestId }),
        ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    });
}

/** An earlier try of a create with an idempotency key is under way. */
const IN_PROGRESS = "IDEMPOTENCY::IN_PROGRESS";
const REPEATABLE = new Set(["GET", "PUT", "DELETE", "HEAD"]);

export class HttpClient {
    constructor(readonly settings: ClientSettings) {}

    get baseUrl(): string {
        return this.settings.baseUrl;
    }

    /** The answer once its head is there and is no error. */
    open(call: Call): Promise<TransportResponse> {
        return this.repeat(call, EMPTY, () => this.openOnce(call));
    }

    /** `gone` is for a DELETE whose first request did it, though its answer was lost. */
    private async repeat<T>(call: Call, gone: T, once: () => Promise<T>): Promise<T> {
        const policy = this.settings.retry;
        for (let n = 0; ; n++) {
            try {
                return await once();
            } catch (error) {
                const last = n >= policy.maxRetries || call.signal?.aborted
                    || !this.canRepeat(call, error);
                if (n > 0 && call.method === "DELETE" && error instanceof SandboxApiException
                    && error.statusCode === 404)
                    return gone;
                if (last) {
                    if (error instanceof SandboxApiException && error.statusCode === 401)
                        await this.settings.explain?.();
                    throw outward(call, error);
                }
                await sleep(this.pause(n, error), call.signal);
            }
        }
    }

    private pause(n: number, error: unknown): number {
        const { initialDelayMillis, maxDelayMillis, jitter } = this.settings.retry;
        const length = Math.min(initialDelayMillis * 2 ** n, maxDelayMillis)
            * (1 + jitter * (2 * Math.random() - 1));
        const asked = error instanceof SandboxApiException ? error.retryAfterSeconds ?? 0 : 0;
        return Math.max(length, Math.min(asked * 1000, RETRY_AFTER_MS_MAX));
    }

    private canRepeat(call: Call, error: unknown): boolean {
        const once = call.retry === false || (call.body !== undefined
            && typeof call.body !== "string" && !(call.body instanceof Uint8Array));
        if (once)
            return false;
        const repeatable = call.idempotent ?? REPEATABLE.has(call.method ?? "GET");
        if (error instanceof TransportError)
            return error.kind === "unsent" || (error.kind === "broken" && repeatable);
        if (!(error instanceof SandboxApiException) || error.statusCode === undefined
            || !(this.settings.retry.statusCodes.includes(error.statusCode)
                || error.error.code === IN_PROGRESS))
            return false;
        return repeatable; // others may have done what they were sent for
    }

    private async openOnce(call: Call): Promise<TransportResponse> {
        const { settings } = this;
        const method = call.method ?? "GET";
        const url = settings.baseUrl + call.path + queryOf(call.query);
        const headers = call.headers ? mergeHeaders(settings.headers, call.headers)
            : { ...settings.headers };
        let { body } = call;
        if (call.json !== undefined) {
            body = JSON.stringify(call.json);
            headers["Content-Type"] = "application/json";
        }
        if (settings.debug)
            console.log(`[opensandbox] -> ${method} ${url}`);
        const response = await settings.transport.send({
            method, url, headers, headTimeoutMs: call.timeoutMs
                ?? (call.streams ? settings.streamOpenTimeoutMs : settings.requestTimeoutMs),
            ...(body === undefined ? {} : { body }),
            ...(call.signal ? { signal: call.signal } : {}),
        });
        if (settings.debug)
            console.log(`[opensandbox] <- ${method} ${url} ${response.status}`);
        if (response.status >= 200 && response.status < 300)
            return response;
        const text = await this.textOf(response, ERROR_BYTES_MAX).catch(() => "");
        throw apiException(response.status, response.statusText, text,
            response.header("x-request-id"), retryAfter(response.header("retry-after")));
    }

    private async textOf(response: TransportResponse, bytesMax: number): Promise<string> {
        const limit = this.settings.requestTimeoutMs;
        const late = limit > 0 ? setTimeout(() => response.cancel(new TransportError(
            `no whole answer within ${limit / 1000} s`, "timeout")), limit) : undefined;
        try {
            return await response.text(bytesMax);
        } finally {
            clearTimeout(late);
        }
    }

    /** The text of the answer, and its head. */
    text(call: Call): Promise<{ text: string; response: TransportResponse }> {
        return this.repeat(call, { text: "", response: EMPTY }, async () => {
            const response = await this.openOnce(call);
            return { text: await this.textOf(response, ANSWER_BYTES_MAX), response };
        });
    }

    /** The JSON of the answer. */
    async json<T>(call: Call): Promise<T> {
        const { text } = await this.text(call);
        try {
            return JSON.parse(text) as T;
        } catch (cause) {
            throw new SandboxInternalException({ cause, code: SandboxError.UNEXPECTED_RESPONSE,
                message: `${nameOf(call)}: the answer is not JSON: ${text.slice(0, 200)}` });
        }
    }

    /** Sends a request whose answer says nothing but that it worked. */
    async send(call: Call): Promise<void> {
        await this.text(call);
    }
}

const nameOf = (call: Call): string => `${call.method ?? "GET"} ${call.path}`;

/** What the caller gets of an error: its own, ours, or the reason of its signal. */
export function outward(call: Call, error: unknown): unknown {
    if (error instanceof SandboxException || !(error instanceof TransportError))
        return error;
    return new SandboxInternalException(
        { message: `${nameOf(call)}: ${messageOf(error)}`, cause: error });
}

const EMPTY: TransportResponse = {
    status: 204, statusText: "", header: () => undefined, body: (async function* () {})(),
    text: () => Promise.resolve(""), cancel: () => undefined,
};
