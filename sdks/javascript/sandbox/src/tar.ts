// tar.ts - archives as directories go in and out of a sandbox: ustar with pax headers for what does
// not fit. Links to files outside of an archive are none of its business: see platform_node.ts.
import { SandboxInternalException } from "./exceptions.js";
import { TransportError } from "./transport.js";

const BLOCK = 512;
const PAX_BYTES_MAX = 1 << 20;

export interface TarEntry {
    /** Relative, with `/`. */
    name: string;
    type: "file" | "directory" | "symlink";
    /** Permission bits as a number: 0o644. */
    mode: number;
    /** Seconds since 1970. */
    mtime: number;
    size: number;
    /** Of a symlink. */
    target?: string;
    /** Of a file: exactly `size` bytes. Read it before the next entry. */
    data?: AsyncIterable<Uint8Array>;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function octal(value: number, digits: number): string {
    return Math.max(0, Math.floor(value)).toString(8).padStart(digits, "0");
}

function paxRecord(key: string, value: string): Uint8Array {
    const body = encoder.encode(` ${key}=${value}\n`);
    let length = body.length + 1;
    while (String(length).length + body.length !== length)
        length = String(length).length + body.length;
    const record = new Uint8Array(length);
    record.set(encoder.encode(String(length)));
    record.set(body, String(length).length);
    return record;
}

function header(name: Uint8Array, entry: { mode: number; mtime: number; size: number },
    kind: string, target: Uint8Array): Uint8Array {
    const block = new Uint8Array(BLOCK);
    const put = (at: number, text: string): void => block.set(encoder.encode(text), at);
    block.set(name.subarray(0, 100), 0);
    put(100, octal(entry.mode & 0o7777, 7));
    put(108, octal(0, 7));
    put(116, octal(0, 7));
    put(124, octal(Math.min(entry.size, 0o77777777777), 11));
    put(136, octal(entry.mtime, 11));
    put(148, "        ");
    put(156, kind);
    block.set(target.subarray(0, 100), 157);
    put(257, "ustar\u000000");
    let sum = 0;
    for (const byte of block)
        sum += byte;
    put(148, `${octal(sum, 6)}\0 `);
    return block;
}

const KINDS = { file: "0", directory: "5", symlink: "2" } as const;

/** Archives entries. */
export async function* pack(entries: AsyncIterable<TarEntry>): AsyncGenerator<Uint8Array> {
    for await (const entry of entries) {
        const name = encoder.encode(entry.type === "directory" ? `${entry.name}/` : entry.name);
        const target = encoder.encode(entry.target ?? "");
        const size = entry.type === "file" ? entry.size : 0;
        const extra: Uint8Array[] = [];
        if (name.length > 100)
            extra.push(paxRecord("path", decoder.decode(name)));
        if (target.length > 100)
            extra.push(paxRecord("linkpath", entry.target!));
        if (size > 0o77777777777)
            extra.push(paxRecord("size", String(size)));
        if (extra.length > 0) {
            const bytes = extra.reduce((sum, record) => sum + record.length, 0);
            yield header(encoder.encode("pax"), { mode: 0o644, mtime: 0, size: bytes }, "x",
                new Uint8Array(0));
            yield* extra;
            yield new Uint8Array((BLOCK - bytes % BLOCK) % BLOCK);
        }
        yield header(name, { mode: entry.mode, mtime: entry.mtime, size }, KINDS[entry.type],
            target);
        let sent = 0;
        if (size > 0 && entry.data)
            for await (const piece of entry.data) {
                sent += piece.length;
                if (sent > size)
                    break;
                yield piece;
            }
        if (sent !== size)
            throw new SandboxInternalException(
                { message: `${entry.name} changed while it was read` });
        yield new Uint8Array((BLOCK - size % BLOCK) % BLOCK);
    }
    yield new Uint8Array(2 * BLOCK);
}

/** Cuts a stream into pieces of the wanted sizes. */
class Cutter {
    private rest: Uint8Array = new Uint8Array(0);
    private readonly pieces: AsyncIterator<Uint8Array>;

    constructor(stream: AsyncIterable<Uint8Array>) {
        this.pieces = stream[Symbol.asyncIterator]();
    }

    /** Up to `max` bytes; none at the end. */
    async some(max: number): Promise<Uint8Array> {
        while (this.rest.length === 0) {
            const next = await this.pieces.next();
            if (next.done)
                return new Uint8Array(0);
            this.rest = next.value;
        }
        const taken = this.rest.subarray(0, max);
        this.rest = this.rest.subarray(taken.length);
        return taken;
    }

    async exactly(size: number): Promise<Uint8Array> {
        const all = new Uint8Array(size);
        for (let at = 0; at < size;) {
            const piece = await this.some(size - at);
            if (piece.length === 0)
                throw new TransportError("the archive ends in the middle", "broken");
            all.set(piece, at);
            at += piece.length;
        }
        return all;
    }

    async close(): Promise<void> {
        await this.pieces.return?.();
    }
}

function textAt(block: Uint8Array, at: number, length: number): string {
    const field = block.subarray(at, at + length);
    const end = field.indexOf(0);
    return decoder.decode(end < 0 ? field : field.subarray(0, end));
}

function numberAt(block: Uint8Array, at: number, length: number): number {
    if (block[at]! & 0x80) { // GNU's base 256
        let value = 0;
        for (let i = at + 1; i < at + length; i++)
            value = value * 256 + block[i]!;
        return value;
    }
    return parseInt(textAt(block, at, length).trim() || "0", 8);
}

function paxOf(data: Uint8Array): Record<string, string> {
    const found: Record<string, string> = {};
    for (let at = 0; at < data.length;) {
        const blank = data.indexOf(32, at);
        const length = parseInt(decoder.decode(data.subarray(at, blank)), 10);
        if (blank < 0 || !(length > 0) || at + length > data.length)
            throw new TransportError("a pax header of the archive is broken", "broken");
        const [key, ...value] = decoder.decode(data.subarray(blank + 1, at + length - 1)).split("=");
        found[key!] = value.join("=");
        at += length;
    }
    return found;
}

/** The entries of an archive, in its order. What is neither file, directory nor symlink is left out. */
export async function* unpack(archive: AsyncIterable<Uint8Array>): AsyncGenerator<TarEntry> {
    const input = new Cutter(archive);
    let pax: Record<string, string> = {};
    let longName = "";
    try {
        for (;;) {
            const block = await input.exactly(BLOCK);
            if (block.every((byte) => byte === 0))
                return;
            const size = pax.size ? Number(pax.size) : numberAt(block, 124, 12);
            const kind = String.fromCharCode(block[156]!);
            const padding = (BLOCK - size % BLOCK) % BLOCK;
            if (kind === "x" || kind === "g" || kind === "L") {
                if (size > PAX_BYTES_MAX)
                    throw new TransportError("a header of the archive is too large", "broken");
                const data = await input.exactly(size);
                await input.exactly(padding);
                if (kind === "x")
                    pax = paxOf(data);
                else if (kind === "L")
                    longName = textAt(data, 0, data.length);
                continue;
            }
            const prefix = textAt(block, 345, 155);
            const short = textAt(block, 0, 100);
            const name = pax.path ?? (longName || (prefix ? `${prefix}/${short}` : short));
            const entry = { name: name.replace(/^\.\//, "").replace(/\/+$/, ""),
                mode: numberAt(block, 100, 8), mtime: numberAt(block, 136, 12), size };
            const target = pax.linkpath ?? textAt(block, 157, 100);
            pax = {};
            longName = "";
            let left = size;
            const data = async function* (): AsyncGenerator<Uint8Array> {
                while (left > 0) {
                    const piece = await input.some(left);
                    if (piece.length === 0)
                        throw new TransportError("the archive ends in the middle", "broken");
                    left -= piece.length;
                    yield piece;
                }
            };
            if (kind === "0" || kind === "\0")
                yield { ...entry, type: "file", data: data() };
            else if (kind === "5")
                yield { ...entry, type: "directory", size: 0 };
            else if (kind === "2")
                yield { ...entry, type: "symlink", size: 0, target };
            while (left > 0)
                left -= (await input.some(left)).length || left;
            await input.exactly(padding);
        }
    } finally {
        await input.close();
    }
}
