// run_faults.mjs - servers that die, stall or answer wrongly: the right exception, no hang, no socket
// left. The server is scripted here, because a real one does not fail on demand.
import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import net from "node:net";

import { check, end, sdk } from "./client.mjs";

const CREATED = { id: "sb-1", status: { state: "Pending" }, createdAt: "2026-07-01T09:30:00Z",
    entrypoint: ["x"] };
const event = (value) => `${JSON.stringify({ timestamp: 1, ...value })}\n\n`;

/** A server whose routes are `METHOD path` -> handler; counts its connections. */
class Server {
    constructor(routes) {
        this.requests = [];
        this.sockets = new Set();
        this.http = http.createServer((req, res) => {
            const path = new URL(req.url, "http://x").pathname;
            const name = `${req.method} ${path}`;
            this.requests.push(name);
            req.resume();
            const handler = routes[name] ?? this.defaults[name];
            if (handler)
                handler(req, res);
            else
                res.writeHead(404).end('{"code":"NOT_FOUND","message":"no route"}');
        });
        this.http.on("connection", (socket) => {
            this.sockets.add(socket);
            socket.on("close", () => this.sockets.delete(socket));
            socket.on("error", () => undefined);
        });
        this.defaults = {
            "POST /v1/sandboxes": (_, res) => res.writeHead(202).end(JSON.stringify(CREATED)),
            "GET /v1/sandboxes/sb-1/endpoints/44772": (_, res) =>
                res.end(JSON.stringify({ endpoint: this.domain })),
            "GET /ping": (_, res) => res.end(),
            "DELETE /v1/sandboxes/sb-1": (_, res) => res.writeHead(204).end(),
        };
    }

    async start() {
        this.http.listen(0, "127.0.0.1");
        await once(this.http, "listening");
        this.domain = `127.0.0.1:${this.http.address().port}`;
    }

    count(name) {
        return this.requests.filter((one) => one === name).length;
    }

    /** No connection is left once clients have closed. */
    async empty() {
        for (let n = 0; this.sockets.size > 0 && n < 500; n++)
            await new Promise((resolve) => setTimeout(resolve, 10));
        assert.equal(this.sockets.size, 0, "connections are left");
    }

    async stop() {
        for (const socket of this.sockets)
            socket.destroy();
        this.http.close();
        await once(this.http, "close");
    }
}

async function withServer(routes, use, options = {}) {
    const server = new Server(routes);
    await server.start();
    const connectionConfig = new sdk.ConnectionConfig({ domain: server.domain, apiKey: "secret",
        retry: { initialDelayMillis: 1 }, ...options });
    try {
        await use(server, connectionConfig);
        await server.empty();
    } finally {
        await server.stop();
    }
}

/** A sandbox of the server, closed afterwards. */
const withSandbox = (routes, use, options) => withServer(routes, async (server, connectionConfig) => {
    const sandbox = await sdk.Sandbox.connect({ sandboxId: "sb-1", connectionConfig });
    try {
        await use(sandbox, server);
    } finally {
        await sandbox.close();
    }
}, options);

const rejects = (promise, name, code) => assert.rejects(promise, (error) => {
    assert.ok(error instanceof sdk[name], error);
    if (code)
        assert.equal(error.error.code, code, error);
    return true;
});

await check("lookups that stay 502 end a create, which removes what it made", () => withServer({
    "GET /v1/sandboxes/sb-1/endpoints/44772": (_, res) => res.writeHead(502).end("bad gateway"),
}, async (server, connectionConfig) => {
    await rejects(sdk.Sandbox.create({ image: "x", connectionConfig }), "SandboxApiException");
    assert.equal(server.count("GET /v1/sandboxes/sb-1/endpoints/44772"), 4);
    assert.equal(server.count("DELETE /v1/sandboxes/sb-1"), 1, "what was created is removed");
}));

await check("two 502s and then an answer make a sandbox", async () => {
    let n = 0;
    await withServer({
        "GET /v1/sandboxes/sb-1/endpoints/44772": (req, res) => ++n <= 2
            ? res.writeHead(502).end("bad gateway")
            : res.end(JSON.stringify({ endpoint: req.headers.host })),
    }, async (_, connectionConfig) => {
        const sandbox = await sdk.Sandbox.create({ image: "x", connectionConfig });
        await sandbox.close();
    });
});

await check("a 502 of the create itself is told, and not repeated", () => withServer({
    "POST /v1/sandboxes": (_, res) => res.writeHead(502).end("bad gateway"),
}, async (server, connectionConfig) => {
    await rejects(sdk.Sandbox.create({ image: "x", connectionConfig }), "SandboxApiException",
        "UNEXPECTED_RESPONSE");
    assert.equal(server.count("POST /v1/sandboxes"), 1);
}));

await check("a server killed in the middle of a stream is an error", () => withSandbox({
    "POST /command": (_, res) => {
        res.write(event({ type: "init", text: "c-1" }));
        res.write(event({ type: "stdout", text: "one" }), () => res.socket.resetAndDestroy());
    },
}, async (sandbox, server) => {
    const seen = [];
    await rejects(sandbox.commands.run("x", {}, { onStdout: ({ text }) => { seen.push(text); } }),
        "SandboxInternalException", "STREAM_ENDED");
    assert.deepEqual(seen, ["one"]);
    assert.ok(server.count("GET /command/status/c-1") >= 1, "the rest was asked for");
}));

await check("a server that is gone altogether is an error of iterators, too", () => withSandbox({
    "POST /command": (_, res) => {
        res.write(event({ type: "init", text: "c-1" }), () => res.socket.destroy());
    },
}, async (sandbox) => {
    await rejects((async () => {
        for await (const one of sandbox.commands.runStream("x"))
            assert.equal(one.type, "init");
    })(), "SandboxInternalException", "STREAM_ENDED");
}));

await check("half-open: a unary call ends at its timeout", () => withSandbox({
    "GET /metrics": () => undefined,
}, async (sandbox) => {
    await rejects(sandbox.getMetrics(), "SandboxInternalException");
}, { requestTimeoutSeconds: 2 }));

await check("half-open: a body that stops ends at the timeout", () => withSandbox({
    "GET /metrics": (_, res) => res.writeHead(200, { "content-length": 100 }).write('{"cpu_'),
}, async (sandbox) => {
    await rejects(sandbox.getMetrics(), "SandboxInternalException");
}, { requestTimeoutSeconds: 2 }));

await check("half-open: a stream of a server that pings ends when it falls silent", () => withSandbox({
    "POST /command": (_, res) => {
        res.write(event({ type: "init", text: "c-1" }));
        res.write(event({ type: "ping", text: "pong" }));
    },
}, async (sandbox) => {
    await rejects(sandbox.commands.run("x"), "SandboxInternalException", "STREAM_ENDED");
}, { streamIdleTimeoutSeconds: 0.3 }));

await check("half-open: a stream that does not begin ends", () => withSandbox({
    "POST /command": () => undefined,
}, async (sandbox) => {
    await rejects(sandbox.commands.run("x"), "SandboxInternalException");
}, { streamOpenTimeoutSeconds: 0.3 }));

await check("a timeout of requests does not cut a stream", () => withSandbox({
    "POST /command": (_, res) => {
        res.write(event({ type: "init", text: "c-1" }));
        setTimeout(() => res.end(event({ type: "execution_complete" })), 3000);
    },
}, async (sandbox) => {
    assert.equal((await sandbox.commands.run("x")).exitCode, 0);
}, { requestTimeoutSeconds: 2 }));

await check("a slow reader slows the server down instead of filling memory", async () => {
    const line = event({ type: "stdout", text: "x".repeat(1000) });
    let written = 0;
    let stalled = 0;
    await withSandbox({
        "POST /command": async (_, res) => {
            let wake = () => undefined;
            res.on("drain", () => wake()).on("close", () => wake());
            res.write(event({ type: "init", text: "c-1" }));
            for (let n = 0; n < 20000 && !res.destroyed; n++) {
                written += line.length;
                if (!res.write(line)) {
                    stalled++;
                    await new Promise((resolve) => {
                        wake = resolve;
                    });
                }
            }
            res.end(event({ type: "execution_complete" }));
        },
    }, async (sandbox) => {
        let held = 0;
        const run = await sandbox.commands.run("x", {}, { skipAccumulation: true,
            onStdout: async () => {
                if (++held === 1) { // the reader sleeps, the server must not finish
                    await new Promise((resolve) => setTimeout(resolve, 500));
                    assert.ok(written < 20000 * line.length, "all was taken at once");
                }
            } });
        assert.equal(held, 20000);
        assert.equal(run.exitCode, 0);
        assert.ok(stalled > 0);
    });
});

await check("an aborted call rejects with the reason, and closes its connection", () => withSandbox({
    "POST /command": (_, res) => res.write(event({ type: "init", text: "c-1" })),
    "GET /metrics": () => undefined,
}, async (sandbox, server) => {
    const reason = new Error("enough");
    const stop = new AbortController();
    const running = sandbox.commands.run("x", {}, { onInit: () => stop.abort(reason) }, stop.signal);
    await assert.rejects(running, (error) => error === reason);
    const other = new AbortController();
    const asked = sandbox.metrics.getMetrics({ signal: other.signal });
    while (server.count("GET /metrics") === 0)
        await new Promise((resolve) => setTimeout(resolve, 5));
    other.abort();
    await assert.rejects(asked, { name: "AbortError" });
    await assert.rejects(sandbox.getInfo({ signal: AbortSignal.abort(reason) }),
        (error) => error === reason);
}));

await check("an aborted create removes what it made", () => {
    const stop = new AbortController();
    return withServer({ "GET /ping": () => stop.abort(new Error("enough")) },
        async (server, connectionConfig) => {
            await assert.rejects(sdk.Sandbox.create({ image: "x", connectionConfig,
                signal: stop.signal }), { message: "enough" });
            assert.equal(server.count("DELETE /v1/sandboxes/sb-1"), 1);
        });
});

await check("a loop that is left closes the stream", () => withSandbox({
    "POST /command": (_, res) => {
        res.write(event({ type: "init", text: "c-1" }));
        res.write(event({ type: "stdout", text: "one" }));
    },
}, async (sandbox) => {
    for await (const one of sandbox.commands.runStream("x"))
        if (one.type === "stdout")
            break;
}));

await check("a handler that throws ends the run with its error", () => withSandbox({
    "POST /command": (_, res) => {
        res.write(event({ type: "init", text: "c-1" }));
        res.write(event({ type: "stdout", text: "one" }));
    },
}, async (sandbox) => {
    await assert.rejects(sandbox.commands.run("x", {}, { onStdout: () => {
        throw new Error("mine");
    } }), { message: "mine" });
}));

await check("a connection that the server closed while idle is made anew", () => withSandbox({
    "GET /metrics": (_, res) => res.end(JSON.stringify({ cpu_count: 1, cpu_used_pct: 0,
        mem_total_mib: 1, mem_used_mib: 1, timestamp: 1 })),
}, async (sandbox, server) => {
    await sandbox.getMetrics();
    for (const socket of server.sockets)
        socket.destroy();
    assert.equal((await sandbox.getMetrics()).cpuCount, 1);
}));

await check("no server at all is an error at once", async () => {
    const unused = net.createServer();
    unused.listen(0, "127.0.0.1");
    await once(unused, "listening");
    const { port } = unused.address();
    unused.close();
    await once(unused, "close");
    await rejects(sdk.Sandbox.create({ image: "x", connectionConfig: {
        domain: `127.0.0.1:${port}`, retry: { initialDelayMillis: 1 } } }),
    "SandboxInternalException");
});

await check("an upload whose source fails rejects with that error", () => withSandbox({
    "POST /files/upload": () => undefined,
}, async (sandbox) => {
    const data = (async function* () {
        yield new Uint8Array(2 << 20);
        throw new Error("disk");
    })();
    await assert.rejects(sandbox.files.writeFiles([{ path: "/x", data }]), /disk/);
}));

await check("the API key never goes into a sandbox", async () => {
    const keys = [];
    await withSandbox({ "GET /ping": (req, res) => {
        keys.push(req.headers["open-sandbox-api-key"]);
        res.end();
    } }, async (sandbox) => {
        assert.equal(await sandbox.isHealthy(), true);
    }, { headers: { "Open-Sandbox-Api-Key": "given as a header" } });
    assert.deepEqual(keys, [undefined, undefined]);
});

await check("a client that closed leaves no timer, so its process ends", () => withServer({},
    async (_, connectionConfig) => {
        const timers = () => process.getActiveResourcesInfo()
            .filter((kind) => kind === "Timeout").length;
        const before = timers();
        const sandbox = await sdk.Sandbox.create({ image: "x", connectionConfig });
        await sandbox.waitUntilReady({ readyTimeoutSeconds: 600, pollingIntervalMillis: 10,
            healthCheck: () => true });
        await sandbox.close();
        assert.equal(timers(), before);
    }));

end();
