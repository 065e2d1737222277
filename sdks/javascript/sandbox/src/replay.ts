// replay.ts - the rest of a command whose stream broke, from the logs that the daemon keeps.
import type { CommandLogs, CommandStatus, ServerStreamEvent } from "./models.js";
import type { OutputStream } from "./services.js";
import { abortReason } from "./transport.js";
import { Pauses } from "./wait.js";

export interface KeptCommands {
    getCommandStatus(id: string, options?: { signal?: AbortSignal }): Promise<CommandStatus>;
    getBackgroundCommandLogs(id: string, cursor?: number,
        options?: { signal?: AbortSignal; stream?: OutputStream }): Promise<CommandLogs>;
}

const encoder = new TextEncoder();
const NOT_ASCII = /[^\x00-\x7f]/;

function bytesOf(text: string): number {
    return NOT_ASCII.test(text) ? encoder.encode(text).length : text.length;
}

/** Where a stream stands: events are lines without their ends, a log is bytes. */
class Place {
    private cursor = 0;
    private isKnown = true;
    private rest = "";

    constructor(private readonly kind: OutputStream) {}

    saw(event: ServerStreamEvent): void {
        const text = event.text ?? "";
        // What was no UTF-8 has another length in the log.
        this.isKnown &&= !text.includes("\uFFFD");
        this.cursor += (text === "\n" ? 1 : bytesOf(text) + 1)
            - (event["continues"] === true ? 1 : 0);
    }

    /** New lines of the log; undefined when it cannot be read on from here. */
    async read(commands: KeptCommands, id: string, isLast: boolean,
        options: { signal?: AbortSignal }): Promise<ServerStreamEvent[] | undefined> {
        if (!this.isKnown)
            return undefined;
        const logs = await commands.getBackgroundCommandLogs(id, this.cursor,
            { ...options, stream: this.kind });
        const next = logs.cursor ?? this.cursor + bytesOf(logs.content);
        if (logs.content !== "" && next - bytesOf(logs.content) > this.cursor
            && !logs.content.includes("\uFFFD"))
            return undefined; // the log made room for newer bytes
        this.cursor = Math.max(next, this.cursor);
        this.rest += logs.content;
        return this.lines(isLast);
    }

    private lines(isLast: boolean): ServerStreamEvent[] {
        // A CR at the end may be half of a line end.
        const held = !isLast && this.rest.endsWith("\r") ? "\r" : "";
        const lines = this.rest.slice(0, this.rest.length - held.length)
            .replace(/\r\n?/g, "\n").split("\n");
        this.rest = lines.pop() ?? "";
        if (isLast && this.rest !== "")
            lines.push(this.rest);
        this.rest = isLast ? "" : this.rest + held;
        return lines.map((text) => ({ type: this.kind, text: text === "" ? "\n" : text,
            timestamp: Date.now() }));
    }
}

export class Replay {
    private id = "";
    private readonly places: Record<OutputStream, Place> = {
        stdout: new Place("stdout"), stderr: new Place("stderr"),
    };

    constructor(private readonly commands: KeptCommands,
        private readonly signal: AbortSignal | undefined) {}

    saw(event: ServerStreamEvent): void {
        if (event.type === "stdout" || event.type === "stderr")
            this.places[event.type].saw(event);
        else if (event.type === "init")
            this.id = event.text ?? "";
    }

    /** The rest of the events. `broken` is thrown when they cannot be had. */
    async *go(broken: unknown): AsyncGenerator<ServerStreamEvent[]> {
        if (this.id === "")
            throw broken;
        for (let pauses = new Pauses(); ;) {
            const { status, events } = await this.look(broken);
            if (events.length > 0) {
                yield events;
                pauses = new Pauses();
            }
            if (!status.running) {
                yield [last(status)];
                return;
            }
            await pauses.wait(this.signal);
        }
    }

    private async look(broken: unknown): Promise<{
        status: CommandStatus; events: ServerStreamEvent[];
    }> {
        const options = this.signal ? { signal: this.signal } : {};
        try {
            const status = await this.commands.getCommandStatus(this.id, options);
            const out = await this.places.stdout.read(this.commands, this.id, !status.running,
                options);
            const err = await this.places.stderr.read(this.commands, this.id, !status.running,
                options);
            if (out && err)
                return { status, events: [...out, ...err] };
        } catch {
            if (this.signal?.aborted)
                throw abortReason(this.signal);
        }
        throw broken;
    }
}

function last(status: CommandStatus): ServerStreamEvent {
    const timestamp = (status.finishedAt ?? new Date()).getTime();
    const took = Math.max(0, timestamp - (status.startedAt?.getTime() ?? timestamp));
    return status.exitCode === 0
        ? { type: "execution_complete", timestamp, execution_time: took }
        : { type: "error", timestamp, error: { ename: "CommandExecError",
            evalue: String(status.exitCode ?? -1),
            traceback: [status.error ?? `exit status ${status.exitCode ?? -1}`] } };
}
