// Our WebSockets against npm's `ws`, as its server and as its client.
//
// Usage: test_ws_node.mjs HTTPD-PROGRAM PATH-OF-WS. TAP on standard output.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import http from "node:http";

const [program, library] = process.argv.slice(2);
const { WebSocket, WebSocketServer } = await import(library);
const SECONDS_MAX = 60;
const SIZES = [0, 1, 125, 126, 127, 65535, 65536, 1 << 20, (1 << 20) + 1];

async function startHttpd(...options) {
    const child = spawn(program, ["127.0.0.1:0", ...options], { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = await once(child.stdout, "data");
    return { child, address: line.toString().trim() };
}

async function stopHttpd(server) {
    server.child.kill("SIGTERM");
    const [status] = await once(server.child, "exit");
    assert.equal(status, 0);
}

async function dial(address, path, options = {}) {
    const ws = new WebSocket(`ws://${address}${path}`, options);
    await once(ws, "open");
    return ws;
}

async function closed(ws) {
    const [code, reason] = await once(ws, "close");
    return [code, reason.toString()];
}

async function roundTrip(ws, message, options = {}) {
    ws.send(message, options);
    const [data, isBinary] = await once(ws, "message");
    assert.equal(isBinary, typeof message !== "string");
    assert.ok(Buffer.from(message).equals(data), `${message.length} bytes differ`);
}

async function report(address) {
    const url = `http://${httpd.address}/ws/dial?${address}/`;
    const [reply] = await once(http.get(url), "response");
    let text = "";
    for await (const piece of reply)
        text += piece;
    return JSON.parse(text);
}

async function withForeignServer(options, onConnection, body) {
    const server = new WebSocketServer({ host: "127.0.0.1", port: 0, ...options });
    await once(server, "listening");
    server.on("connection", onConnection);
    try {
        await body(`127.0.0.1:${server.address().port}`);
    } finally {
        server.close();
    }
}

function echo(ws) {
    ws.on("message", (data, isBinary) => ws.send(data, { binary: isBinary }));
}

const tests = {
    async "echoes text and binary of every size"() {
        const ws = await dial(httpd.address, "/ws/echo");
        for (const size of SIZES) {
            await roundTrip(ws, randomBytes(size));
            await roundTrip(ws, "ß".repeat(size >> 1));
        }
        ws.close(1000);
        assert.deepEqual(await closed(ws), [1000, ""]);
    },
    async "declines compression that a client offers"() {
        const ws = await dial(httpd.address, "/ws/echo", { perMessageDeflate: true });
        assert.equal(ws.extensions, "");
        await roundTrip(ws, "plain");
        ws.terminate();
    },
    async "joins fragments"() {
        const ws = await dial(httpd.address, "/ws/echo");
        for (const piece of ["a", "", "b"])
            ws.send(piece, { fin: false });
        ws.send("c", { fin: true });
        const [data] = await once(ws, "message");
        assert.equal(data.toString(), "abc");
        ws.terminate();
    },
    async "answers pings"() {
        const ws = await dial(httpd.address, "/ws/echo");
        ws.ping("payload");
        const [data] = await once(ws, "pong");
        assert.equal(data.toString(), "payload");
        ws.terminate();
    },
    async "close codes pass both ways"() {
        for (const code of [1000, 1001, 1011, 3000, 4999]) {
            const theirs = await dial(httpd.address, `/ws/close?${code}`);
            assert.deepEqual(await closed(theirs), [code, "bye"]);
        }
        for (const code of [1000, 3000, 4999]) {
            const ours = await dial(httpd.address, "/ws/echo");
            ours.close(code, "why");
            assert.equal((await closed(ours))[0], code);
        }
    },
    async "serves two hundred at once"() {
        await Promise.all(Array.from({ length: 200 }, async (_, i) => {
            const ws = await dial(httpd.address, "/ws/echo");
            for (const size of [10, 5000, 70000])
                await roundTrip(ws, Buffer.alloc(size, i));
            ws.close();
            await closed(ws);
        }));
    },
    async "a flood is complete, with pauses of the reader"() {
        const ws = new WebSocket(`ws://${httpd.address}/ws/flood?64`);
        let count = 0;
        let pauses = 0;
        ws.on("message", (data) => {
            count += data.length;
            if (count >> 23 > pauses) {
                pauses++;
                ws.pause();
                setTimeout(() => ws.resume(), 20);
            }
        });
        assert.equal((await closed(ws))[0], 1000);
        assert.equal(count, 64 << 20);
    },
    async "our client speaks with a foreign server"() {
        await withForeignServer({}, echo, async (address) => {
            const got = await report(address);
            assert.deepEqual([got.same, got.code, got.error], [5, 1000, ""]);
        });
    },
    async "our client agrees on a subprotocol"() {
        const options = { handleProtocols: () => "echo" };
        await withForeignServer(options, echo, async (address) => {
            const got = await report(address);
            assert.deepEqual([got.same, got.protocol], [5, "echo"]);
        });
    },
    async "our client reports how it was closed"() {
        await withForeignServer({}, (ws) => ws.close(4001, "no"), async (address) => {
            const got = await report(address);
            assert.deepEqual([got.code, got.reason, got.error], [4001, "no", ""]);
        });
    },
    async "through the proxy all is the same"() {
        const proxy = await startHttpd("--backend", httpd.address);
        const ws = await dial(proxy.address, "/proxy/ws/echo");
        for (const size of SIZES)
            await roundTrip(ws, randomBytes(size));
        ws.close(4000);
        assert.equal((await closed(ws))[0], 4000);
        await stopHttpd(proxy);
    },
};

const httpd = await startHttpd();
let failed = 0;
let number = 0;
console.log(`1..${Object.keys(tests).length}`);
for (const [name, test] of Object.entries(tests)) {
    const late = AbortSignal.timeout(SECONDS_MAX * 1000);
    number++;
    try {
        await Promise.race([test(), once(late, "abort").then(() => { throw new Error("too late"); })]);
        console.log(`ok ${number} - ${name}`);
    } catch (error) {
        failed++;
        console.log(`not ok ${number} - ${name}`);
        console.log(`# ${error.stack.replaceAll("\n", "\n# ")}`);
    }
}
await stopHttpd(httpd);
process.exit(failed ? 1 : 0);
