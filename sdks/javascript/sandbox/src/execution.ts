// execution.ts - from the events of a stream to an Execution.
import type { HttpClient, Call } from "./http.js";
import { outward } from "./http.js";
import { batches, brokenStream } from "./events.js";
import type {
    Execution, ExecutionHandlers, OutputMessage, ServerStreamEvent,
} from "./models.js";
import { TransportError, type TransportResponse } from "./transport.js";

type Answer = void | Promise<void>;

/** Plain text of a result, under any of the names that servers use. */
function textOf(results: Record<string, unknown>): string | undefined {
    const found = results["text/plain"] ?? results["text"] ?? results["textPlain"];
    return found === undefined || found === null ? undefined : String(found);
}

/** Adds events to an execution and calls the handlers. */
export class ExecutionEventDispatcher {
    constructor(private readonly execution: Execution,
        private readonly handlers?: ExecutionHandlers) {}

    async dispatch(ev: ServerStreamEvent): Promise<void> {
        await this.take(ev);
    }

    /** The same, and a promise only where a handler gave one. */
    take(event: ServerStreamEvent): Answer {
        const { handlers } = this;
        const first = handlers?.onEvent?.(event);
        return first instanceof Promise ? first.then(() => this.sort(event)) : this.sort(event);
    }

    private sort(event: ServerStreamEvent): Answer {
        const { execution, handlers } = this;
        const timestamp = event.timestamp ?? Date.now();
        switch (event.type) {
        case "stdout":
        case "stderr":
            return this.output(event, event.type, timestamp);
        case "init":
            execution.id = event.text ?? "";
            return handlers?.onInit?.({ id: execution.id, timestamp });
        case "result":
            return this.result(event.results ?? {}, timestamp);
        case "execution_count":
            if (typeof event["execution_count"] === "number")
                execution.executionCount = event["execution_count"];
            return undefined;
        case "execution_complete":
            execution.complete = { timestamp,
                executionTimeMs: Number(event["execution_time"] ?? 0) };
            return handlers?.onExecutionComplete?.(execution.complete);
        case "error":
            return this.error(event.error ?? {}, timestamp);
        default:
            // Servers append {code, message} when an execution fails late.
            if (event.type === undefined && typeof event["code"] === "string")
                return this.error({ ename: event["code"], evalue: event["message"] }, timestamp);
            return undefined;
        }
    }

    private output(event: ServerStreamEvent, kind: "stdout" | "stderr", timestamp: number): Answer {
        const { execution, handlers } = this;
        const message: OutputMessage = { text: event.text ?? "", timestamp };
        if (kind === "stderr")
            message.isError = true;
        if (event["continues"] === true)
            message.continues = true;
        if (!handlers?.skipAccumulation)
            execution.logs[kind].push(message);
        return kind === "stdout" ? handlers?.onStdout?.(message) : handlers?.onStderr?.(message);
    }

    private result(results: Record<string, unknown>, timestamp: number): Answer {
        const text = textOf(results);
        const result = { ...(text === undefined ? {} : { text }), timestamp, raw: results };
        this.execution.result.push(result);
        return this.handlers?.onResult?.(result);
    }

    private error(error: Record<string, unknown>, timestamp: number): Answer {
        const traceback = error["traceback"];
        this.execution.error = {
            name: String(error["ename"] ?? error["name"] ?? ""),
            value: String(error["evalue"] ?? error["value"] ?? ""), timestamp,
            traceback: Array.isArray(traceback) ? traceback.map(String) : [],
        };
        return this.handlers?.onError?.(this.execution.error);
    }
}

export function newExecution(): Execution {
    return { logs: { stdout: [], stderr: [] }, result: [] };
}

export function isTerminal(event: ServerStreamEvent): boolean {
    return event.type === "execution_complete" || event.type === "error"
        || (event.type === undefined && typeof event["code"] === "string");
}

/** The exit code of a foreground command that has ended. */
export function exitCodeOf(execution: Execution): number | null {
    if (execution.error)
        return /^-?\d+$/.test(execution.error.value) ? Number(execution.error.value) : null;
    return execution.complete ? 0 : null;
}

const isPing = (event: ServerStreamEvent): boolean => event.type === "ping";

/** Goes on with a stream that broke, where the server kept what it said. */
export type Resume = (cause: unknown) => AsyncGenerator<ServerStreamEvent[]>;

export interface StreamCall extends Call {
    what: string;
    /** Told of every event. */
    saw?: (event: ServerStreamEvent) => void;
    resume?: Resume;
}

/** The events of a run, up to its last one. A stream that ends before is an error. */
export async function* eventBatches(client: HttpClient, call: StreamCall,
): AsyncGenerator<ServerStreamEvent[]> {
    const response = await client.open({ ...call, method: call.method ?? "POST", streams: true });
    let ended = false;
    let cause: unknown;
    try {
        for await (const events of read(response, client)) {
            for (const event of events) {
                call.saw?.(event);
                ended ||= isTerminal(event);
            }
            const told = events.some(isPing) ? events.filter((event) => !isPing(event)) : events;
            if (told.length > 0)
                yield told;
        }
    } catch (error) {
        if (!(error instanceof TransportError))
            throw outward(call, error);
        cause = error;
    }
    if (ended)
        return;
    if (!call.resume)
        throw brokenStream(call.what, cause);
    yield* call.resume(brokenStream(call.what, cause));
}

function read(response: TransportResponse, client: HttpClient,
): AsyncGenerator<ServerStreamEvent[]> {
    return batches(response, client.settings.streamIdleTimeoutMs);
}

/** Runs to the last event and returns all of it. */
export async function execute(client: HttpClient, call: StreamCall,
    handlers?: ExecutionHandlers): Promise<Execution> {
    const execution = newExecution();
    const dispatcher = new ExecutionEventDispatcher(execution, handlers);
    for await (const events of eventBatches(client, call))
        for (const event of events) {
            const answer = dispatcher.take(event);
            if (answer instanceof Promise)
                await answer;
        }
    return execution;
}

/** One event after the other, without a turn of the event loop for each. */
export class EventIterator implements AsyncIterableIterator<ServerStreamEvent> {
    private batch: ServerStreamEvent[] = [];
    private at = 0;

    constructor(private readonly source: AsyncGenerator<ServerStreamEvent[]>) {}

    [Symbol.asyncIterator](): this {
        return this;
    }

    next(): Promise<IteratorResult<ServerStreamEvent>> {
        const value = this.batch[this.at++];
        return value !== undefined ? Promise.resolve({ done: false, value }) : this.fetch();
    }

    private async fetch(): Promise<IteratorResult<ServerStreamEvent>> {
        const { done, value } = await this.source.next();
        if (done)
            return { done: true, value: undefined };
        this.batch = value;
        this.at = 0;
        return this.next();
    }

    async return(): Promise<IteratorResult<ServerStreamEvent>> {
        await this.source.return(undefined);
        return { done: true, value: undefined };
    }
}

