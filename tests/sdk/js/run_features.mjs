// run_features.mjs - what the published package has not, against a real server.
import assert from "node:assert/strict";
import { mkdtemp, mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { built, check, CodeInterpreter, end, interpreter, require, sdk } from "./client.mjs";

const create = (options = {}) => sdk.Sandbox.create({ image: "host", ...options });
const texts = (messages) => messages.map((message) => message.text);
const decoder = new TextDecoder();

async function discard(...sandboxes) {
    for (const sandbox of sandboxes) {
        await sandbox.kill().catch(() => undefined);
        await sandbox.close();
    }
}

const sandbox = await create();
const { commands, files, terminals } = sandbox;

await check("a terminal is written to, resized and read to its end", async () => {
    const terminal = await terminals.open({ workingDirectory: "/tmp", cols: 100, rows: 30 });
    terminal.write("stty size; pwd; exit 7\n");
    const text = await terminal.readAll();
    assert.match(text, /30 100/);
    assert.match(text, /^\/tmp/m);
    assert.equal(terminal.exitCode, 7);
    await terminals.delete(terminal.sessionId);
});

await check("a terminal is attached to again where its reader left", async () => {
    const first = await terminals.open({ command: "echo one; read x; echo got $x; exit 0" });
    let seen = "";
    for await (const piece of first) {
        seen += decoder.decode(piece);
        if (seen.includes("one"))
            break;
    }
    const { offset, sessionId } = first;
    first.close();
    assert.equal((await terminals.get(sessionId)).running, true);
    const second = await terminals.attach(sessionId, { since: offset, takeover: true });
    second.write("two\n");
    const rest = await second.readAll();
    assert.match(rest, /got two/);
    assert.doesNotMatch(rest, /one/);
    await assert.rejects(terminals.get("no-such-terminal"), sdk.SandboxApiException);
});

await check("a command gets input, and its log is followed", async () => {
    const { id } = await commands.run("while read -r x; do echo got $x; done; exit 3",
        { background: true, stdinOpen: true });
    await commands.writeStdin(id, "one\n");
    await commands.writeStdin(id, "two\n", { eof: true });
    let text = "";
    for await (const piece of commands.followLogs(id))
        text += piece;
    assert.equal(text, "got one\ngot two\n");
    assert.equal((await commands.waitForCommand(id)).exitCode, 3);
    const run = await commands.run("", { argv: ["printf", "%s|", "a b", "$HOME"] });
    assert.deepEqual(texts(run.logs.stdout), ["a b|$HOME|"]);
    assert.deepEqual(texts((await commands.run("tr a-z A-Z", { stdin: "abc" })).logs.stdout),
        ["ABC"]);
});

await check("a command whose stream breaks is read on to its end", async () => {
    // Between the client and the sandbox stands a proxy that cuts the first stream.
    const { endpoint, headers } = await sandbox.getEndpoint(44772);
    const target = new URL(await sandbox.getEndpointUrl(44772));
    const proxy = http.createServer((req, res) => {
        const onward = http.request({ host: target.hostname, port: target.port, method: req.method,
            path: target.pathname.replace(/\/$/, "") + req.url,
            headers: { ...req.headers, ...headers, host: target.host } }, (answer) => {
            res.writeHead(answer.statusCode, answer.headers);
            if (req.url !== "/command") {
                answer.pipe(res);
                return;
            }
            answer.on("data", (piece) => {
                res.write(piece);
                if (String(piece).includes("line 3\""))
                    res.socket.destroy();
            });
        });
        req.pipe(onward);
    });
    await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    assert.ok(endpoint);
    const config = new sdk.ConnectionConfig();
    const stack = sdk.createDefaultAdapterFactory().createExecdStack({ connectionConfig: config,
        execdBaseUrl: `http://127.0.0.1:${proxy.address().port}` });
    const go = "until [ -e /tmp/read-on ]; do sleep 0.05; done";
    const running = stack.commands.run(`for i in 1 2 3; do echo "line $i"; done; ${go};`
        + " echo 'grüße'; echo bad >&2; printf 'no end'; exit 5", {}, {
        onStdout: async ({ text }) => {
            if (text === "line 3")
                await files.writeFiles([{ path: "/tmp/read-on", data: "" }]);
        } });
    const run = await running;
    assert.deepEqual(texts(run.logs.stdout), ["line 1", "line 2", "line 3", "grüße", "no end"]);
    assert.deepEqual(texts(run.logs.stderr), ["bad"]);
    assert.equal(run.exitCode, 5);
    await config.closeTransport();
    proxy.closeAllConnections();
    proxy.close();
});

await check("directories go in and out", async () => {
    const here = await mkdtemp(join(tmpdir(), "opensandbox-js-"));
    await mkdir(join(here, "in/deep/er"), { recursive: true });
    const long = "n".repeat(120);
    await writeFile(join(here, "in/deep", long), "long name");
    await writeFile(join(here, "in/empty"), "");
    await writeFile(join(here, "in/run.sh"), "#!/bin/sh\necho ran\n", { mode: 0o755 });
    await symlink("run.sh", join(here, "in/link"));
    await files.uploadDirectory(join(here, "in"), "/srv/tree");
    assert.deepEqual(texts((await commands.run("/srv/tree/link")).logs.stdout), ["ran"]);
    await files.downloadDirectory("/srv/tree", join(here, "out"));
    assert.equal(await readFile(join(here, "out/deep", long), "utf-8"), "long name");
    assert.equal(await readFile(join(here, "out/link"), "utf-8"), "#!/bin/sh\necho ran\n");
    assert.equal((await readFile(join(here, "out/empty"))).length, 0);
    await rm(here, { recursive: true });
});

await check("no name and no link of an archive leads outside", async () => {
    const { localFiles } = await import(pathToFileURL(
        join(built, "sandbox/dist/platform_node.js")));
    const here = await mkdtemp(join(tmpdir(), "opensandbox-js-"));
    const entry = { mode: 0o644, mtime: 0, size: 0 };
    const write = (...entries) => localFiles.write(join(here, "in"), (async function* () {
        yield* entries;
    })());
    for (const evil of [[{ ...entry, type: "file", name: "../escaped" }],
        [{ ...entry, type: "file", name: join(here, "escaped") }],
        [{ ...entry, type: "symlink", name: "up", target: ".." },
            { ...entry, type: "file", name: "up/escaped" }]])
        await assert.rejects(write(...evil), sdk.SandboxInternalException);
    assert.deepEqual(await readdir(here), ["in"]);
    await rm(here, { recursive: true });
});

await check("a directory is watched", async () => {
    await files.createDirectories([{ path: "/tmp/watched" }]);
    const seen = [];
    const stop = new AbortController();
    const watching = (async () => {
        for await (const event of files.watch("/tmp/watched", { signal: stop.signal })) {
            seen.push([event.type, event.path]);
            if (event.type === "delete")
                break;
        }
    })();
    // Until the watch sees it: nothing tells when it has begun.
    for (let n = 0; seen.length === 0; n++)
        await files.writeFiles([{ path: `/tmp/watched/f${n}`, data: "x" }]);
    await files.deleteFiles(["/tmp/watched/f0"]);
    await watching;
    assert.ok(seen.some(([type]) => type === "create"));
    stop.abort();
});

await check("files belong to the user that wrote them", async () => {
    const user = files.asUser(1000, 1000);
    await commands.run("mkdir -m 777 /srv/open");
    await user.writeFiles([{ path: "/srv/open/f", data: "mine", mode: 600 }]);
    assert.deepEqual(texts((await commands.run("stat -c %u /srv/open/f")).logs.stdout), ["1000"]);
    await assert.rejects(user.deleteFiles(["/etc/hostname"]), sdk.SandboxApiException);
    assert.equal(sdk.octalMode(0o640), 640);
    await assert.rejects(files.writeFiles([{ path: "/x", mode: 0o755 }]),
        sdk.InvalidArgumentException);
});

await check("metrics are watched", async () => {
    const seen = [];
    for await (const metrics of sandbox.metrics.watch()) {
        seen.push(metrics.memoryTotalMiB);
        if (seen.length === 2)
            break;
    }
    assert.ok(seen.every((mib) => mib > 0));
});

await check("snapshots are waited for, forked and rolled back to", async () => {
    const own = await create();
    await own.files.writeFiles([{ path: "/root/state", data: "before" }]);
    const made = await own.createSnapshot({ name: "js" });
    assert.equal((await own.waitForSnapshot(made.id)).status.state, "Ready");
    await own.files.writeFiles([{ path: "/root/state", data: "after" }]);
    const forks = await own.fork({ count: 2, env: { FORKED: "yes" } });
    for (const fork of forks)
        assert.deepEqual(texts((await fork.commands.run("cat /root/state; echo; echo $FORKED"))
            .logs.stdout), ["after", "yes"]);
    await own.rollback(made.id);
    assert.equal(await own.files.readFile("/root/state"), "before");
    await own.pause();
    assert.equal((await own.waitForState("Paused")).status.state, "Paused");
    await discard(own, ...forks);
    const manager = sdk.SandboxManager.create();
    await manager.deleteSnapshot(made.id);
    await manager.close();
});

await check("the manager iterates, and keeps volumes and pools", async () => {
    const manager = sdk.SandboxManager.create();
    const ids = [];
    for await (const info of manager.sandboxInfos({ pageSize: 1 }))
        ids.push(info.id);
    assert.ok(ids.includes(sandbox.id));
    const volume = await manager.volumes.create({ name: "js-volume" });
    assert.ok(volume.createdAt instanceof Date);
    const names = [];
    for await (const one of manager.volumes.all())
        names.push(one.name);
    assert.ok(names.includes("js-volume"));
    await manager.volumes.delete("js-volume");
    assert.deepEqual(await manager.pools.list(), []);
    const logs = await sandbox.getDiagnosticLogs("container");
    assert.equal(logs.kind, "logs");
    await manager.close();
});

await check("a pool keeps sandboxes ready, replaces dead ones and ends them", async () => {
    const pool = new sdk.SandboxPool({ poolName: "js", maxIdle: 2, warmupConcurrency: 2,
        creationSpec: { image: "host" },
        warmupSandboxPreparer: (one) => one.files.writeFiles([{ path: "/warm", data: "yes" }]) });
    await assert.rejects(pool.acquire(), sdk.PoolNotRunningException);
    await pool.start();
    const full = async () => {
        while ((await pool.snapshot()).idleCount < 2)
            await new Promise((resolve) => setTimeout(resolve, 20));
    };
    await full();
    const [first] = await pool.snapshotIdleEntries();
    const taken = await pool.acquire({ policy: sdk.AcquirePolicy.FAIL_FAST,
        sandboxTimeoutSeconds: 120 });
    assert.equal(taken.id, first.sandboxId);
    assert.equal(await taken.files.readFile("/warm"), "yes");
    assert.ok((await taken.getInfo()).expiresAt - Date.now() < 130_000);
    await full();
    const manager = sdk.SandboxManager.create();
    const [dead] = await pool.snapshotIdleEntries();
    await manager.killSandbox(dead.sandboxId);
    await assert.rejects(pool.acquire({ policy: sdk.AcquirePolicy.FAIL_FAST }),
        sdk.PoolAcquireFailedException);
    await pool.resize(0);
    const idle = await pool.snapshotIdleEntries();
    await pool.shutdown();
    assert.equal((await pool.snapshot()).state, "STOPPED");
    for (const { sandboxId } of idle)
        await assert.rejects(manager.getSandboxInfo(sandboxId), { statusCode: 404 });
    await manager.close();
    await discard(taken);
});

await check("code keeps its variables and gives results in every form", async () => {
    const { codes } = await CodeInterpreter.create(sandbox);
    await codes.run("x = 20");
    const run = await codes.run("print('hi')\nx + 22");
    assert.equal(run.result[0].text, "42");
    assert.deepEqual(texts(run.logs.stdout).map((text) => text.trim()), ["hi"]);
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const rich = await codes.run("import base64\nclass R:\n"
        + "    def _repr_html_(self): return '<b>x</b>'\n"
        + `    def _repr_png_(self): return base64.b64decode('${png}')\nR()`);
    assert.equal(rich.result[0].raw["text/html"], "<b>x</b>");
    assert.deepEqual(interpreter.richestOf(rich.result[0]), { type: "text/html", value: "<b>x</b>" });
    assert.deepEqual([...interpreter.pngOf(rich.result[0]).subarray(1, 4)], [80, 78, 71]);
    assert.equal(interpreter.chartsOf(rich).length, 1);
    const failed = await codes.run("1/0");
    assert.equal(failed.error.name, "ZeroDivisionError");
    const context = await codes.createContext(interpreter.SupportedLanguages.PYTHON);
    assert.equal((await codes.run("x", { context })).error.name, "NameError");
    assert.ok((await codes.listContexts("python")).some((one) => one.id === context.id));
    await codes.deleteContext(context.id);
    await assert.rejects(codes.run("1", { context, language: "python" }),
        sdk.InvalidArgumentException);
    const types = [];
    for await (const event of codes.runStream({ code: "1" }))
        types.push(event.type);
    assert.equal(types.at(-1), "execution_complete");
});

await check("CommonJS programs get the same", async () => {
    const cjs = require("@alibaba-group/opensandbox");
    const other = await cjs.Sandbox.connect({ sandboxId: sandbox.id });
    const { codes } = await require("@alibaba-group/opensandbox-code-interpreter").CodeInterpreter
        .create(other);
    assert.equal((await codes.run("6 * 7")).result[0].text, "42");
    await other.close();
});

await check("a sandbox that fails at its start is noticed with the reason", async () => {
    await assert.rejects(create({ entrypoint: ["/no/such/program"], readyTimeoutSeconds: 60 }),
        sdk.SandboxException);
});

await check("the fetch transport serves the same calls", async () => {
    const other = await sdk.Sandbox.connect({ sandboxId: sandbox.id,
        connectionConfig: { fetch: globalThis.fetch } });
    await other.files.writeFiles([{ path: "/tmp/web", data: "through fetch" }]);
    assert.equal(await other.files.readFile("/tmp/web"), "through fetch");
    assert.equal((await other.commands.run("exit 4")).exitCode, 4);
    await other.close();
});

await discard(sandbox);
await check("no socket is left after close()", async () => {
    // Those of the test's own, to the terminal or a pipe, are no TCP sockets.
    const open = () => process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap");
    for (let n = 0; open().length > 0 && n < 200; n++)
        await new Promise((resolve) => setTimeout(resolve, 10));
    assert.deepEqual(open(), []);
});
end();
