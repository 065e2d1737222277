// events.ts - streams of events: one JSON object per line, empty lines in between, `data:` in front
// or not.
import { SandboxInternalException } from "./exceptions.js";
import { messageOf, TransportError, type TransportResponse } from "./transport.js";
import type { ServerStreamEvent } from "./models.js";

const LINE_BYTES_MAX = 32 << 20;
const WATCH_MS = 1000;
const decoder = new TextDecoder();

export function parseLine(line: string): ServerStreamEvent | undefined {
    let text = line;
    const first = text.charCodeAt(0);
    if (first !== 123) { // no "{"
        text = text.trim();
        if (text.startsWith("data:"))
            text = text.slice(5).trim();
        if (text === "" || text.startsWith(":") || /^(event|id|retry):/.test(text))
            return undefined;
    }
    try {
        const value: unknown = JSON.parse(text);
        if (typeof value === "object" && value !== null && !Array.isArray(value))
            return value as ServerStreamEvent;
    } catch {
        // told below
    }
    throw new SandboxInternalException(
        { message: `an event of the stream is not a JSON object: ${line.slice(0, 200)}` });
}

/** Cuts pieces of a stream into events. */
export class LineCutter {
    /** Whether there was a comment: such a server says that it is there. */
    comments = false;
    private rest: Uint8Array[] = [];
    private restBytes = 0;

    /** The events that `piece` completes. */
    take(piece: Uint8Array): ServerStreamEvent[] {
        const end = piece.lastIndexOf(10);
        if (end < 0) {
            this.keep(piece);
            return [];
        }
        let text = decoder.decode(this.restBytes === 0 ? piece.subarray(0, end)
            : this.joined(piece.subarray(0, end)));
        this.rest = [];
        this.restBytes = 0;
        if (end + 1 < piece.length)
            this.keep(piece.subarray(end + 1));
        const events: ServerStreamEvent[] = [];
        for (const line of text.split("\n"))
            if (line !== "") {
                this.comments ||= line.startsWith(":");
                const event = parseLine(line);
                if (event)
                    events.push(event);
            }
        text = "";
        return events;
    }

    /** What stands behind the last line end: servers append errors there. */
    end(): ServerStreamEvent[] {
        if (this.restBytes === 0)
            return [];
        const event = parseLine(decoder.decode(this.joined(new Uint8Array(0))));
        return event ? [event] : [];
    }

    private keep(piece: Uint8Array): void {
        this.rest.push(piece);
        this.restBytes += piece.length;
        if (this.restBytes > LINE_BYTES_MAX)
            throw new SandboxInternalException(
                { message: `an event of the stream is longer than ${LINE_BYTES_MAX} bytes` });
    }

    private joined(last: Uint8Array): Uint8Array {
        const all = new Uint8Array(this.restBytes + last.length);
        let at = 0;
        for (const piece of [...this.rest, last]) {
            all.set(piece, at);
            at += piece.length;
        }
        return all;
    }
}

/** Ends a stream that fell silent: servers that ping do so every few seconds. */
class Watchdog {
    private last = Date.now();
    private pings = false;
    private readonly timer: ReturnType<typeof setInterval> | undefined;

    constructor(response: TransportResponse, idleMs: number) {
        if (!(idleMs > 0))
            return;
        this.timer = setInterval(() => {
            if (this.pings && Date.now() - this.last > idleMs)
                response.cancel(new TransportError(
                    `the stream was silent for ${idleMs / 1000} s`, "broken"));
        }, Math.min(WATCH_MS, idleMs));
        (this.timer as { unref?: () => void }).unref?.();
    }

    saw(events: ServerStreamEvent[], comments = false): void {
        this.last = Date.now();
        this.pings ||= comments || events.some((event) => event.type === "ping");
    }

    pause(): void {
        this.last = Infinity;
    }

    stop(): void {
        clearInterval(this.timer);
    }
}

/** Batches of the events of a stream, as they arrive. */
export async function* batches(response: TransportResponse, idleMs: number,
): AsyncGenerator<ServerStreamEvent[]> {
    const cutter = new LineCutter();
    const dog = new Watchdog(response, idleMs);
    try {
        for await (const piece of response.body) {
            const events = cutter.take(piece);
            if (events.length > 0) {
                dog.saw(events);
                dog.pause(); // as long as the reader works on them
                yield events;
            }
            dog.saw([], cutter.comments);
        }
        const last = cutter.end();
        if (last.length > 0)
            yield last;
    } finally {
        dog.stop();
    }
}

export function brokenStream(what: string, cause?: unknown): SandboxInternalException {
    const why = cause === undefined ? "it ended without its last event" : messageOf(cause);
    return new SandboxInternalException({ message: `the stream of ${what} broke: ${why}`, cause,
        code: "STREAM_ENDED" });
}
