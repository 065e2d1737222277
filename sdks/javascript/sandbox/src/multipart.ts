// multipart.ts - bodies of requests: data in any form, and multipart/form-data of files.
import type { FileData } from "./models.js";
import { piecesOf, type Body } from "./transport.js";

const encoder = new TextEncoder();
const WHOLE_BYTES_MAX = 1 << 20; // up to here a body is sent with its length, at once

/** Data as a body: whole where it is at hand, else in pieces. */
export function bodyOf(data: FileData): Uint8Array | AsyncIterable<Uint8Array> {
    if (typeof data === "string")
        return encoder.encode(data);
    if (data instanceof Uint8Array)
        return data;
    if (data instanceof ArrayBuffer)
        return new Uint8Array(data);
    if (typeof (data as Blob).stream === "function")
        return piecesOf((data as Blob).stream());
    if (typeof (data as ReadableStream<Uint8Array>).getReader === "function")
        return piecesOf(data as ReadableStream<Uint8Array>);
    return data as AsyncIterable<Uint8Array>;
}

export interface Part {
    metadata: unknown;
    /** Of the file, for those that look at it. */
    name: string;
    data: FileData;
}

function headOf(boundary: string, part: Part, isFirst: boolean): Uint8Array {
    const name = part.name.replace(/["\\\r\n]/g, "_");
    return encoder.encode(
        `${isFirst ? "" : "\r\n"}--${boundary}\r\n`
        + `Content-Disposition: form-data; name="metadata"; filename="metadata"\r\n`
        + `Content-Type: application/json\r\n\r\n${JSON.stringify(part.metadata)}\r\n`
        + `--${boundary}\r\n`
        + `Content-Disposition: form-data; name="file"; filename="${name}"\r\n`
        + "Content-Type: application/octet-stream\r\n\r\n");
}

async function* pieces(boundary: string, parts: Part[]): AsyncGenerator<Uint8Array> {
    for (const [n, part] of parts.entries()) {
        yield headOf(boundary, part, n === 0);
        const data = bodyOf(part.data);
        if (data instanceof Uint8Array)
            yield data;
        else
            yield* data;
    }
    yield encoder.encode(`\r\n--${boundary}--\r\n`);
}

function sizeOf(data: FileData): number {
    if (typeof data === "string")
        return data.length * 3;
    return data instanceof Uint8Array || data instanceof ArrayBuffer ? data.byteLength : Infinity;
}

function joined(all: Uint8Array[]): Uint8Array {
    const whole = new Uint8Array(all.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of all) {
        whole.set(piece, at);
        at += piece.length;
    }
    return whole;
}

/** Pairs of metadata and file, in their order. */
export function multipart(parts: Part[]): { body: Body; contentType: string } {
    const random = Array.from({ length: 4 }, () =>
        Math.floor(Math.random() * 2 ** 32).toString(16).padStart(8, "0")).join("");
    const boundary = `----opensandbox-${random}`;
    const contentType = `multipart/form-data; boundary=${boundary}`;
    if (parts.reduce((sum, part) => sum + sizeOf(part.data), 0) > WHOLE_BYTES_MAX)
        return { body: pieces(boundary, parts), contentType };
    const all = parts.flatMap((part, n) =>
        [headOf(boundary, part, n === 0), bodyOf(part.data) as Uint8Array]);
    return { body: joined([...all, encoder.encode(`\r\n--${boundary}--\r\n`)]), contentType };
}
