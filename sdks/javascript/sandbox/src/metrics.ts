// metrics.ts - whether a sandbox answers, and what it uses.
import { batches, brokenStream } from "./events.js";
import { SandboxInternalException } from "./exceptions.js";
import type { HttpClient } from "./http.js";
import type * as wire from "./models_gen.js";
import type { CallOptions, SandboxMetrics } from "./models.js";
import type { ExecdHealth, ExecdMetrics } from "./services.js";
import { TransportError } from "./transport.js";

export class HealthAdapter implements ExecdHealth {
    constructor(private readonly client: HttpClient) {}

    /** True, or an exception that says why not. */
    async ping(options: CallOptions & { timeoutMs?: number } = {}): Promise<boolean> {
        await this.client.send({ path: "/ping", signal: options.signal, retry: false,
            ...(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }) });
        return true;
    }
}

function metricsOf(metrics: wire.Metrics): SandboxMetrics {
    return { cpuCount: metrics.cpu_count, cpuUsedPercentage: metrics.cpu_used_pct,
        memoryTotalMiB: metrics.mem_total_mib, memoryUsedMiB: metrics.mem_used_mib,
        timestamp: metrics.timestamp };
}

export class MetricsAdapter implements ExecdMetrics {
    constructor(private readonly client: HttpClient) {}

    async getMetrics(options: CallOptions = {}): Promise<SandboxMetrics> {
        return metricsOf(await this.client.json<wire.Metrics>(
            { path: "/metrics", signal: options.signal }));
    }

    async *watch(options: CallOptions = {}): AsyncGenerator<SandboxMetrics> {
        const what = "metrics";
        const response = await this.client.open(
            { path: "/metrics/watch", signal: options.signal, streams: true });
        try {
            for await (const events of batches(response, this.client.settings.streamIdleTimeoutMs))
                for (const event of events) {
                    if (typeof event["error"] === "string")
                        throw new SandboxInternalException({ message: event["error"] });
                    yield metricsOf(event as unknown as wire.Metrics);
                }
        } catch (error) {
            throw error instanceof TransportError ? brokenStream(what, error) : error;
        }
        throw brokenStream(what);
    }
}
