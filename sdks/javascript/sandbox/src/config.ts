// config.ts - where the server is and how to talk to it.
import { createTransport, readEnv, sendsUserAgent } from "#platform";

import { API_KEY_HEADER, DEFAULT_REQUEST_TIMEOUT_SECONDS, USER_AGENT } from "./constants.js";
import { invalid } from "./exceptions.js";
import { HttpClient, mergeHeaders, retryPolicy, type RetryOptions } from "./http.js";
import { FetchTransport, type Transport } from "./transport.js";

const STREAM_OPEN_SECONDS = 120;
const STREAM_IDLE_SECONDS = 60;

export type ConnectionProtocol = "http" | "https";

export interface ConnectionConfigOptions {
    /**
     * `host[:port]`, also with a scheme and a path in front of `/v1`.
     * OPEN_SANDBOX_DOMAIN, else localhost:8080.
     */
    domain?: string;
    /** A scheme in the domain wins. OPEN_SANDBOX_PROTOCOL, else http. */
    protocol?: ConnectionProtocol;
    /** OPEN_SANDBOX_API_KEY, else none. It goes to the lifecycle API only. */
    apiKey?: string;
    /** Sent with every request. */
    headers?: Record<string, string>;
    /** Of everything but streams; Infinity is no limit. OPEN_SANDBOX_REQUEST_TIMEOUT, else 30. */
    requestTimeoutSeconds?: number;
    /** Logs requests. */
    debug?: boolean;
    /** Reach sandboxes through the server. OPEN_SANDBOX_USE_SERVER_PROXY, else false. */
    useServerProxy?: boolean;
    /** How long the address of a sandbox's port is kept. */
    endpointCacheTtlMs?: number;
    /** How many of them. */
    endpointCacheSize?: number;
    endpointCacheDisabled?: boolean;
    /** Nothing is reported anyway; taken for programs that set it. */
    disableMetrics?: boolean;
    /** Which failed requests are sent again; false is none. An extension. */
    retry?: RetryOptions | false;
    /** Until a stream begins; 120 unless given. An extension. */
    streamOpenTimeoutSeconds?: number;
    /** A stream of a server that pings ends when it is silent for so long; 60. An extension. */
    streamIdleTimeoutSeconds?: number;
    /** Replaces the connections of this package. An extension. */
    fetch?: typeof globalThis.fetch;
}

function flag(value: string | undefined): boolean {
    return value !== undefined && /^(1|true|yes|on)$/i.test(value.trim());
}

function cutDomain(given: string): { protocol?: string; domain: string } {
    const found = /^([a-z][a-z0-9+.-]*):\/\/(.*)$/i.exec(given.trim());
    const rest = (found ? found[2]! : given.trim()).replace(/[?#].*$/, "").replace(/\/+$/, "");
    const domain = rest.replace(/\/v1$/, "").replace(/\/+$/, "");
    return found ? { protocol: found[1]!.toLowerCase(), domain } : { domain };
}

function seconds(name: string, value: number): number {
    if (!(value >= 0))
        throw invalid(`${name} must be a number that is not negative`);
    return value;
}

// A server that sandboxes are used through, and the connections to it.
export class ConnectionConfig {
    readonly protocol: ConnectionProtocol;
    readonly domain: string;
    readonly apiKey?: string;
    readonly headers: Record<string, string>;
    readonly requestTimeoutSeconds: number;
    readonly debug: boolean;
    readonly userAgent: string = USER_AGENT;
    readonly useServerProxy: boolean;
    readonly endpointCacheTtlMs: number;
    readonly endpointCacheSize: number;
    readonly endpointCacheDisabled: boolean;
    readonly disableMetrics: boolean;
    private readonly options: ConnectionConfigOptions;
    private transport: Transport | undefined;
    private users = 0;

    constructor(options: ConnectionConfigOptions = {}) {
        const { protocol, domain } = cutDomain(
            options.domain ?? readEnv("OPEN_SANDBOX_DOMAIN") ?? "localhost:8080");
        const wanted = protocol ?? options.protocol ?? readEnv("OPEN_SANDBOX_PROTOCOL") ?? "http";
        if (!/^https?$/i.test(wanted))
            throw invalid(`protocol must be http or https, not ${wanted}`);
        this.options = options;
        this.protocol = wanted.toLowerCase() as ConnectionProtocol;
        this.domain = domain;
        const key = options.apiKey ?? readEnv("OPEN_SANDBOX_API_KEY");
        if (key)
            this.apiKey = key;
        this.headers = { ...options.headers };
        this.requestTimeoutSeconds = seconds("requestTimeoutSeconds",
            options.requestTimeoutSeconds
            ?? Number(readEnv("OPEN_SANDBOX_REQUEST_TIMEOUT") ?? DEFAULT_REQUEST_TIMEOUT_SECONDS));
        if (this.requestTimeoutSeconds === 0)
            throw invalid("requestTimeoutSeconds must be positive");
        this.debug = options.debug ?? false;
        this.useServerProxy = options.useServerProxy
            ?? flag(readEnv("OPEN_SANDBOX_USE_SERVER_PROXY"));
        this.endpointCacheTtlMs = options.endpointCacheTtlMs ?? 600_000;
        this.endpointCacheSize = options.endpointCacheSize ?? 1024;
        this.endpointCacheDisabled = options.endpointCacheDisabled ?? false;
        this.disableMetrics = options.disableMetrics ?? false;
    }

    /** The address of the lifecycle API, with `/v1`. */
    getBaseUrl(): string {
        return `${this.protocol}://${this.domain}/v1`;
    }

    /** The fetch in use, for requests of one's own: the runtime's unless one was given. */
    get fetch(): typeof globalThis.fetch {
        return this.options.fetch ?? globalThis.fetch;
    }

    get sseFetch(): typeof globalThis.fetch {
        return this.fetch;
    }

    /** A configuration with connections: this one, which its users share and count. */
    withTransportIfMissing(): ConnectionConfig {
        this.transport ??= this.options.fetch
            ? new FetchTransport(this.options.fetch, sendsUserAgent) : createTransport();
        this.users++;
        return this;
    }

    /** The last user closes the connections. */
    async closeTransport(): Promise<void> {
        if (this.users > 0 && --this.users > 0)
            return;
        const { transport } = this;
        this.transport = undefined;
        await transport?.close();
    }

    /** A client of the lifecycle API. */
    lifecycleClient(baseUrl = this.getBaseUrl()): HttpClient {
        return this.client(baseUrl, this.apiKey ? { [API_KEY_HEADER]: this.apiKey } : {},
            this.headers);
    }

    /** A client of a port of a sandbox: the API key is not for it. */
    sandboxClient(baseUrl: string, endpointHeaders: Record<string, string> = {},
        explain?: () => Promise<unknown>): HttpClient {
        const own = Object.fromEntries(Object.entries(this.headers).filter(([name]) =>
            name.toUpperCase() !== API_KEY_HEADER));
        const client = this.client(baseUrl, own, endpointHeaders);
        if (explain)
            client.settings.explain = explain;
        return client;
    }

    private client(baseUrl: string, before: Record<string, string>,
        after: Record<string, string>): HttpClient {
        const { options, requestTimeoutSeconds } = this;
        const config = this;
        return new HttpClient({
            baseUrl: baseUrl.replace(/\/+$/, ""),
            headers: mergeHeaders(sendsUserAgent ? { "User-Agent": this.userAgent } : {}, before,
                after),
            get transport(): Transport {
                return config.connections();
            },
            retry: retryPolicy(options.retry),
            requestTimeoutMs: Number.isFinite(requestTimeoutSeconds)
                ? requestTimeoutSeconds * 1000 : 0,
            streamOpenTimeoutMs: 1000 * seconds(
                "streamOpenTimeoutSeconds", options.streamOpenTimeoutSeconds ?? STREAM_OPEN_SECONDS),
            streamIdleTimeoutMs: 1000 * seconds("streamIdleTimeoutSeconds",
                options.streamIdleTimeoutSeconds ?? STREAM_IDLE_SECONDS),
            debug: this.debug,
        });
    }

    private connections(): Transport {
        return this.transport ??= this.options.fetch
            ? new FetchTransport(this.options.fetch, sendsUserAgent) : createTransport();
    }

    /** The address of a port of a sandbox. */
    endpointUrl(endpoint: string): string {
        const url = endpoint.includes("://") ? endpoint : `${this.protocol}://${endpoint}`;
        return url.replace(/\/+$/, "");
    }

    static from(given: ConnectionConfig | ConnectionConfigOptions | undefined): ConnectionConfig {
        return given instanceof ConnectionConfig ? given : new ConnectionConfig(given);
    }
}
