// js_files.mjs - what programs do with `sandbox.files`.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";

import { output, refuses } from "./js_client.mjs";

const FOLDER = "/tmp/js";
const write = (files, name, data, more = {}) =>
    files.writeFiles([{ path: `${FOLDER}/${name}`, data, ...more }]);
const read = (files, name, options) => files.readFile(`${FOLDER}/${name}`, options);

async function info(files, name) {
    const path = `${FOLDER}/${name}`;
    return (await files.getFileInfo([path]))[path];
}

async function* pieces(data, bytes) {
    for (let at = 0; at < data.length; at += bytes)
        yield data.subarray(at, at + bytes);
}

export const tests = {
    async "text is written and read"(sandbox) {
        const text = "first line\nzweite Zeile: äöü 世界\n";
        await write(sandbox.files, "text", text);
        assert.equal(await read(sandbox.files, "text"), text);
        assert.equal(await output(sandbox, `head -n 1 ${FOLDER}/text`), "first line");
    },
    async "bytes are written in every form, and read"({ files }) {
        const data = Buffer.concat([randomBytes(3000), Buffer.from("\r\n--boundary\r\n")]);
        for (const form of [data, new Uint8Array(data).buffer, new Blob([data]), pieces(data, 700),
            new Blob([data]).stream()]) {
            await write(files, "bytes", form);
            assert.deepEqual(Buffer.from(await files.readBytes(`${FOLDER}/bytes`)), data);
        }
        await write(files, "bytes", "");
        assert.equal((await files.readBytes(`${FOLDER}/bytes`)).length, 0);
    },
    async "megabytes go both ways as streams"({ files }) {
        const data = randomBytes(8 * 1024 * 1024 + 17);
        await write(files, "large", pieces(data, 64 * 1024));
        const chunks = [];
        for await (const chunk of files.readBytesStream(`${FOLDER}/large`))
            chunks.push(chunk);
        assert.ok(Buffer.concat(chunks).equals(data) && chunks.length > 1);
    },
    async "a range of bytes or lines is read"({ files }) {
        await write(files, "range", "0123456789");
        for (const [range, want] of [["bytes=2-4", "234"], ["bytes=7-", "789"], ["bytes=-2", "89"]])
            assert.equal(await read(files, "range", { range }), want);
        await refuses(416, undefined, read(files, "range", { range: "bytes=50-60" }));
        await write(files, "lines", "one\ntwo\nthree\nfour\n");
        assert.equal(await read(files, "lines", { offset: 2, limit: 2 }), "two\nthree");
    },
    async "many files are written at once"({ files }) {
        const entries = Array.from({ length: 20 }, (_, n) =>
            ({ path: `${FOLDER}/many/${n}`, data: `file ${n}`, mode: n % 2 ? 644 : 600 }));
        await files.writeFiles(entries);
        const found = await files.getFileInfo(entries.map((entry) => entry.path));
        for (const { path, data, mode } of entries)
            assert.deepEqual([found[path].mode, found[path].size], [mode, data.length]);
    },
    async "info tells what a file is"({ files }) {
        await write(files, "info", "12345", { mode: 640 });
        const found = await info(files, "info");
        assert.deepEqual(
            [found.path, found.type, found.size, found.mode, found.owner, found.group],
            [`${FOLDER}/info`, "file", 5, 640, "root", "root"]);
        assert.ok(Math.abs(found.modifiedAt - Date.now()) < 60000);
    },
    async "permissions and owners are set"({ files }) {
        await write(files, "perm", "x", { mode: 600, owner: "nobody" });
        let found = await info(files, "perm");
        assert.deepEqual([found.mode, found.owner], [600, "nobody"]);
        await files.setPermissions(
            [{ path: `${FOLDER}/perm`, mode: 754, owner: "root", group: "root" }]);
        found = await info(files, "perm");
        assert.deepEqual([found.mode, found.owner, found.group], [754, "root", "root"]);
    },
    async "files are moved and deleted"(sandbox) {
        const { files } = sandbox;
        await write(files, "a", "a");
        await write(files, "b", "b");
        await files.moveFiles([{ src: `${FOLDER}/a`, dest: `${FOLDER}/moved/a` },
            { src: `${FOLDER}/b`, dest: `${FOLDER}/moved/c` }]);
        assert.equal(await output(sandbox, `ls ${FOLDER}/moved; ls ${FOLDER}/a`), "a\nc");
        await files.deleteFiles([`${FOLDER}/moved/a`, `${FOLDER}/moved/c`]);
        assert.equal(await output(sandbox, `ls ${FOLDER}/moved`), "");
    },
    async "directories are made, listed and deleted"(sandbox) {
        const { files } = sandbox;
        const top = `${FOLDER}/dirs`;
        await files.createDirectories([{ path: `${top}/x/y`, mode: 750 },
            { path: `${top}/w`, mode: 700 }]);
        assert.equal(await output(sandbox, `stat -c '%F %a' ${top}/x/y ${top}/w`),
            "directory 750\ndirectory 700");
        await write(files, "dirs/x/f", "x");
        const near = await files.listDirectory({ path: `${top}/x` });
        assert.deepEqual(near.map((entry) => [entry.path, entry.type]),
            [[`${top}/x/f`, "file"], [`${top}/x/y`, "directory"]]);
        assert.equal((await files.listDirectory({ path: top, depth: 2 })).length, 4);
        await files.deleteDirectories([`${top}/x`, `${top}/w`]);
        assert.equal(await output(sandbox, `ls ${top}`), "");
    },
    async "files are searched by pattern"({ files }) {
        for (const name of ["one.py", "two.txt", "deep/three.py"])
            await write(files, `search/${name}`, "x");
        const path = `${FOLDER}/search`;
        const found = await files.search({ path, pattern: "*.py" });
        assert.deepEqual(found.map((entry) => entry.path).sort(),
            [`${path}/deep/three.py`, `${path}/one.py`]);
        assert.deepEqual(await files.search({ path, pattern: "*.rs" }), []);
    },
    async "contents are replaced, and counted"({ files }) {
        const path = `${FOLDER}/replace`;
        await write(files, "replace", "red green red", { mode: 640 });
        await files.replaceContents([{ path, oldContent: "red", newContent: "blue" }]);
        assert.equal(await read(files, "replace"), "blue green blue");
        assert.equal((await info(files, "replace")).mode, 640);
        for (const [oldContent, replacedCount] of [["blue", 2], ["nothing of the kind", 0]])
            assert.deepEqual(
                await files.replaceContentsDetailed([{ path, oldContent, newContent: "-" }]),
                [{ path, replacedCount }]);
    },
    async "names may hold anything"(sandbox) {
        for (const name of ["with space", "ünïcode-世界", "quote'd", "a+b%20&c=d;e#f?"]) {
            await write(sandbox.files, `names/${name}`, name);
            assert.equal(await read(sandbox.files, `names/${name}`), name);
            assert.equal((await info(sandbox.files, `names/${name}`)).path,
                `${FOLDER}/names/${name}`);
            await sandbox.files.deleteFiles([`${FOLDER}/names/${name}`]);
        }
        assert.equal(await output(sandbox, `ls -A ${FOLDER}/names`), "");
    },
    async "a missing file is 404"({ files }) {
        const path = `${FOLDER}/not-there`;
        await refuses(404, undefined, files.readFile(path));
        await refuses(404, "FILE_NOT_FOUND", files.getFileInfo([path]));
        await refuses(404, "FILE_NOT_FOUND",
            files.moveFiles([{ src: path, dest: `${FOLDER}/x` }]));
    },
};
