// files.ts - files and directories of a sandbox.
import { localFiles } from "#platform";

import { batches, brokenStream } from "./events.js";
import { invalid, needText, SandboxInternalException } from "./exceptions.js";
import { outward, type Call, type HttpClient } from "./http.js";
import type * as wire from "./models_gen.js";
import type {
    CallOptions, ContentReplaceEntry, ContentReplaceResult, DirectoryListEntry, FileData, FileInfo,
    MoveEntry, ReadOptions, SearchEntry, SearchFilesResponse, SetPermissionEntry, WatchEvent,
    WriteEntry,
} from "./models.js";
import { bodyOf, multipart, type Part } from "./multipart.js";
import type { SandboxFiles } from "./services.js";
import { pack, unpack } from "./tar.js";
import { collect, TransportError, type TransportResponse } from "./transport.js";
import { Pauses } from "./wait.js";

const DEFAULT_MODE = 755;

/** 0o755 as the API wants it: 755. */
export function octalMode(mode: number): number {
    if (!Number.isInteger(mode) || mode < 0 || mode > 0o7777)
        throw invalid("mode must be between 0 and 0o7777");
    return Number(mode.toString(8));
}

function infoOf(info: wire.FileInfo): FileInfo {
    const { modified_at, created_at, ...rest } = info;
    return { ...rest, type: rest.type as FileInfo["type"] & string,
        ...(modified_at ? { modifiedAt: new Date(modified_at) } : {}),
        ...(created_at ? { createdAt: new Date(created_at) } : {}) };
}

type Rights = { mode?: number; owner?: string; group?: string };

function rightsOf({ mode, owner, group }: Rights): Rights {
    if (mode !== undefined && !(Number.isInteger(mode) && /^[0-7]{1,4}$/.test(String(mode))))
        throw invalid(`mode ${mode} is not one as 755 or 644; octalMode(0o755) converts`);
    return { ...(mode === undefined ? {} : { mode }), ...(owner === undefined ? {} : { owner }),
        ...(group === undefined ? {} : { group }) };
}

function partOf(entry: WriteEntry): Part {
    needText("path", entry.path);
    return { metadata: { path: entry.path, mode: DEFAULT_MODE, ...rightsOf(entry) },
        name: entry.path.split("/").pop() || "file", data: entry.data ?? "" };
}

function checkRead(path: string, { range, offset, limit }: ReadOptions): void {
    needText("path", path);
    if (range !== undefined && (offset !== undefined || limit !== undefined))
        throw invalid("range goes with neither offset nor limit");
}

/** Where a body of bytes goes on after its connection broke. */
class Download {
    private got = 0;
    private first = 0;
    private end: number | undefined;

    constructor(private readonly response: TransportResponse, private readonly whole: boolean) {
        const range = /^bytes (\d+)-(\d+)\//.exec(response.header("content-range") ?? "");
        if (range) {
            this.first = Number(range[1]);
            this.end = Number(range[2]);
        } else if (whole && /^\d+$/.test(response.header("content-length") ?? "")) {
            this.end = Number(response.header("content-length")) - 1;
        }
    }

    took(bytes: number): void {
        this.got += bytes;
    }

    get isDone(): boolean {
        return this.end !== undefined && this.first + this.got > this.end;
    }

    /** Headers for the rest; undefined of lines, which have no numbers of their own. */
    next(): Record<string, string> | undefined {
        const changed = this.response.header("last-modified");
        if (!this.whole && this.response.status !== 206)
            return undefined;
        return { Range: `bytes=${this.first + this.got}-${this.whole ? "" : this.end ?? ""}`,
            ...(changed === undefined ? {} : { "If-Unmodified-Since": changed }) };
    }
}

export class FilesystemAdapter implements SandboxFiles {
    /** `prefix` leads to the files of a user or of an isolated session. */
    constructor(private readonly client: HttpClient, private readonly prefix = "") {}

    private call(method: string, path: string, options: CallOptions | undefined,
        more: Partial<Call> = {}): Call {
        return { method, path: this.prefix + path, signal: options?.signal, ...more };
    }

    async getFileInfo(paths: string[], options?: CallOptions): Promise<Record<string, FileInfo>> {
        const found = await this.client.json<Record<string, wire.FileInfo>>(
            this.call("GET", "/files/info", options, { query: { path: paths } }));
        return Object.fromEntries(Object.entries(found).map(([path, info]) =>
            [path, infoOf(info)]));
    }

    async search(entry: SearchEntry, options?: CallOptions): Promise<SearchFilesResponse> {
        needText("path", entry.path);
        const found = await this.client.json<wire.FileInfo[]>(this.call("GET", "/files/search",
            options, { query: { path: entry.path, pattern: entry.pattern } }));
        return found.map(infoOf);
    }

    async listDirectory(entry: DirectoryListEntry, options?: CallOptions): Promise<FileInfo[]> {
        needText("path", entry.path);
        const found = await this.client.json<wire.FileInfo[]>(this.call("GET", "/directories/list",
            options, { query: { path: entry.path, depth: entry.depth } }));
        return found.map(infoOf);
    }

    async createDirectories(entries: Pick<WriteEntry, "path" | "mode" | "owner" | "group">[],
        options?: CallOptions): Promise<void> {
        await this.client.send(this.call("POST", "/directories", options, {
            json: Object.fromEntries(entries.map((entry) =>
                [entry.path, { mode: DEFAULT_MODE, ...rightsOf(entry) }])),
        }));
    }

    async deleteDirectories(paths: string[], options?: CallOptions): Promise<void> {
        await this.client.send(this.call("DELETE", "/directories", options,
            { query: { path: paths } }));
    }

    async writeFiles(entries: WriteEntry[], options?: CallOptions): Promise<void> {
        if (entries.length === 0)
            return;
        const { body, contentType } = multipart(entries.map(partOf));
        await this.client.send(this.call("POST", "/files/upload", options, { body, retry: false,
            headers: { "Content-Type": contentType },
            ...(body instanceof Uint8Array ? {} : { timeoutMs: 0 }) }));
    }

    async readFile(path: string, opts: { encoding?: string } & ReadOptions = {}): Promise<string> {
        return new TextDecoder(opts.encoding ?? "utf-8").decode(await this.readBytes(path, opts));
    }

    async readBytes(path: string, opts: ReadOptions = {}): Promise<Uint8Array> {
        return new Uint8Array(await collect(this.readBytesStream(path, opts)));
    }

    async *readBytesStream(path: string, opts: ReadOptions = {}): AsyncGenerator<Uint8Array> {
        checkRead(path, opts);
        const call = this.call("GET", "/files/download", opts, {
            query: { path, offset: opts.offset, limit: opts.limit },
            ...(opts.range === undefined ? {} : { headers: { Range: opts.range } }),
        });
        let response = await this.client.open(call);
        const whole = opts.range === undefined && opts.offset === undefined
            && opts.limit === undefined;
        const place = new Download(response, whole);
        let failures = 0;
        for (const pauses = new Pauses(50); ;) {
            try {
                for await (const piece of response.body) {
                    place.took(piece.length);
                    failures = 0;
                    yield piece;
                }
                return;
            } catch (error) {
                if (place.isDone)
                    return;
                const headers = place.next();
                if (!(error instanceof TransportError) || error.kind !== "broken" || !headers
                    || ++failures > this.client.settings.retry.maxRetries)
                    throw outward(call, error);
                await pauses.wait(opts.signal);
                response = await this.client.open({ ...call, headers });
                if (response.status !== 206) {
                    response.cancel(error);
                    throw outward(call, error);
                }
            }
        }
    }

    async deleteFiles(paths: string[], options?: CallOptions): Promise<void> {
        await this.client.send(this.call("DELETE", "/files", options, { query: { path: paths } }));
    }

    async moveFiles(entries: MoveEntry[], options?: CallOptions): Promise<void> {
        await this.client.send(this.call("POST", "/files/mv", options,
            { json: entries.map(({ src, dest }) => ({ src, dest })) }));
    }

    async replaceContents(entries: ContentReplaceEntry[], options?: CallOptions): Promise<void> {
        await this.client.send(this.call("POST", "/files/replace", options,
            { json: replacements(entries) }));
    }

    async replaceContentsDetailed(entries: ContentReplaceEntry[], options?: CallOptions,
    ): Promise<ContentReplaceResult[]> {
        const counts = await this.client.json<Record<string, { replacedCount?: number }>>(
            this.call("POST", "/files/replace", options,
                { json: replacements(entries), query: { verbose: true } }));
        return Object.entries(counts).map(([path, count]) =>
            ({ path, replacedCount: count.replacedCount ?? 0 }));
    }

    async setPermissions(entries: SetPermissionEntry[], options?: CallOptions): Promise<void> {
        await this.client.send(this.call("POST", "/files/permissions", options, {
            json: Object.fromEntries(entries.map((entry) => [entry.path, rightsOf(entry)])),
        }));
    }

    async *watch(path: string, options: CallOptions & { recursive?: boolean } = {},
    ): AsyncGenerator<WatchEvent> {
        needText("path", path);
        const call = this.call("GET", "/directories/watch", options, { streams: true,
            query: { path, recursive: options.recursive ?? false } });
        const response = await this.client.open(call);
        try {
            for await (const events of batches(response, this.client.settings.streamIdleTimeoutMs))
                for (const event of events as unknown as wire.WatchEvent[])
                    if (event.type === "error")
                        throw new SandboxInternalException({ message: `watching ${path}: `
                            + (event.error?.evalue ?? "failed") });
                    else if (event.type !== "init" && event.type !== "ping")
                        yield event as WatchEvent;
        } catch (error) {
            throw error instanceof TransportError ? brokenStream(`watching ${path}`, error) : error;
        }
        throw brokenStream(`watching ${path}`);
    }

    async *downloadArchive(path: string, options?: CallOptions): AsyncGenerator<Uint8Array> {
        needText("path", path);
        const call = this.call("GET", "/directories/download", options, { query: { path } });
        const response = await this.client.open(call);
        try {
            yield* response.body;
        } catch (error) {
            throw outward(call, error);
        }
    }

    async uploadArchive(path: string, archive: FileData, options: CallOptions & {
        owners?: boolean;
    } = {}): Promise<void> {
        needText("path", path);
        await this.client.send(this.call("POST", "/directories/upload", options, {
            body: bodyOf(archive), query: { path, owners: options.owners }, retry: false,
            headers: { "Content-Type": "application/x-tar" }, timeoutMs: 0,
        }));
    }

    async uploadDirectory(localPath: string, path: string, options?: CallOptions): Promise<void> {
        await this.uploadArchive(path, pack(local().read(localPath)), options);
    }

    async downloadDirectory(path: string, localPath: string, options?: CallOptions,
    ): Promise<void> {
        await local().write(localPath, unpack(this.downloadArchive(path, options)));
    }

    asUser(uid: number, gid: number): Required<SandboxFiles> {
        for (const id of [uid, gid])
            if (!Number.isInteger(id) || id < 0)
                throw invalid("uid and gid must be whole numbers that are not negative");
        return new FilesystemAdapter(this.client, `${this.prefix}/v1/filesystem/${uid}/${gid}`);
    }
}

function local(): NonNullable<typeof localFiles> {
    if (!localFiles)
        throw invalid("this runtime has no local directories: use uploadArchive, downloadArchive");
    return localFiles;
}

function replacements(entries: ContentReplaceEntry[]): Record<string, { old: string; new: string }> {
    return Object.fromEntries(entries.map(({ path, oldContent, newContent }) =>
        [path, { old: oldContent, new: newContent }]));
}
