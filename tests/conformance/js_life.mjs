// js_life.mjs - what programs do with sandboxes as such: from creating them to killing them.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import {
    create, discard, output, refuses, sdk, until, withManager, withSandbox,
} from "./js_client.mjs";

const { Sandbox } = sdk;
const UNKNOWN = "00000000-0000-4000-8000-000000000000";
const CONCURRENT = 8;

const minutes = (n) => n * 60 * 1000;
const stateOf = async (sandbox) => (await sandbox.getInfo()).status.state;

export const tests = {
    async "create takes env, metadata, timeout and resource"() {
        const metadata = { "team": "blue", "example.com/stage": "test" };
        const options = {
            image: "node:22", env: { GREETING: "hello world", EMPTY: "" }, metadata,
            timeoutSeconds: 300, resource: { cpu: "500m", memory: "256Mi" },
            entrypoint: ["sleep", "infinity"],
        };
        await withSandbox(options, async (sandbox) => {
            const info = await sandbox.getInfo();
            assert.equal(info.id, sandbox.id);
            assert.equal(info.status.state, "Running");
            assert.equal(info.image.uri, "node:22");
            assert.deepEqual(info.entrypoint, ["sleep", "infinity"]);
            assert.deepEqual(info.metadata, metadata);
            assert.equal(info.expiresAt - info.createdAt, minutes(5));
            assert.ok(Math.abs(info.createdAt - Date.now()) < minutes(1));

            assert.equal(await output(sandbox, 'echo "$GREETING[$EMPTY]"'), "hello world[]");
            assert.equal((await sandbox.getMetrics()).memoryTotalMiB, 256);
            // The kernel ends it, or all of the sandbox.
            const greedy = await sandbox.commands.run("python3 -c 'len(bytearray(500 << 20))'")
                .catch(() => ({}));
            assert.notEqual(greedy.exitCode, 0);
        });
    },
    async "create without a timeout never expires"() {
        await withSandbox({ timeoutSeconds: null }, async (sandbox) => {
            assert.equal((await sandbox.getInfo()).expiresAt, null);
            await refuses(409, "DOCKER::INVALID_EXPIRATION", sandbox.renew(300));
        });
    },
    async "create refuses what is wrong"() {
        const label = "SANDBOX::INVALID_METADATA_LABEL";
        for (const [options, code] of [
            [{ metadata: { "not a key": "x" } }, label],
            [{ metadata: { "opensandbox.io/id": "x" } }, label],
            [{ metadata: { key: "no value is like this" } }, label],
            [{ timeoutSeconds: 5 }, "SANDBOX::INVALID_PARAMETER"],
            [{ resource: { cpu: "many" } }, "SANDBOX::INVALID_PARAMETER"],
            [{ platform: { os: "windows", arch: "amd64" } }, undefined],
        ]) {
            const error = await refuses(400, code, create(options));
            assert.ok(error.error.message && error.requestId, JSON.stringify(options));
        }
        const error = await refuses(
            500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED", create({ image: "no/such-image:1" }));
        assert.match(error.error.message, /no\/such-image:1/);
    },
    async "an unknown id is 404, with code and request id"() {
        await withManager({ headers: { "X-Request-ID": "my-own-request" } }, async (manager) => {
            for (const call of [
                manager.getSandboxInfo(UNKNOWN), manager.killSandbox(UNKNOWN),
                manager.pauseSandbox(UNKNOWN), manager.resumeSandbox(UNKNOWN),
                manager.patchSandboxMetadata(UNKNOWN, { a: "b" }),
                manager.renewSandbox(UNKNOWN, 300),
            ]) {
                const error = await refuses(404, "DOCKER::SANDBOX_NOT_FOUND", call);
                assert.equal(error.requestId, "my-own-request");
            }
        });
        await refuses(404, "DOCKER::SANDBOX_NOT_FOUND", Sandbox.connect({ sandboxId: UNKNOWN }));
    },
    async "a wrong key is 401"() {
        await withManager({ apiKey: "not the key" }, (manager) =>
            refuses(401, "INVALID_API_KEY", manager.listSandboxInfos()));
    },
    async "renew moves the expiry"() {
        await withSandbox({}, async (sandbox) => {
            for (const count of [30, 2]) { // later, and also sooner
                const began = Date.now();
                const answer = await sandbox.renew(count * 60);
                const info = await sandbox.getInfo();
                const since = info.expiresAt - minutes(count);
                assert.ok(began - 1000 < since && since < Date.now() + 1000, `${info.expiresAt}`);
                assert.ok(Math.abs(answer.expiresAt - info.expiresAt) <= 1);
            }
        });
    },
    async "a sandbox expires"() {
        const sandbox = await create();
        for (const seconds of [1, 10, 60]) { // more where those are over before they begin
            try {
                await sandbox.renew(seconds);
                break;
            } catch (error) {
                assert.equal(error.statusCode, 400, error);
            }
        }
        await until("its expiry", async () => {
            try {
                return await stateOf(sandbox) === "Terminated";
            } catch (error) {
                return error.statusCode === 404;
            }
        });
        await sandbox.close();
    },
    async "pause freezes and resume thaws"() {
        await withSandbox({}, async (sandbox) => {
            await sandbox.commands.run("while :; do date +%s%N >/tmp/now; sleep 0.02; done",
                { background: true });
            await sandbox.files.writeFiles([{ path: "/tmp/kept", data: "kept" }]);
            await sandbox.pause();
            await until("Paused", async () => await stateOf(sandbox) === "Paused");
            const pausedAt = BigInt(Date.now()) * 1000000n;
            await refuses(409, "DOCKER::SANDBOX_NOT_RUNNING", sandbox.pause());
            assert.equal(await sandbox.isHealthy(), false);
            await sleep(500);

            const resumed = await sandbox.resume();
            await until("Running", async () => await stateOf(sandbox) === "Running");
            assert.equal(resumed.id, sandbox.id);
            assert.equal(await resumed.isHealthy(), true);
            assert.equal(await resumed.files.readFile("/tmp/kept"), "kept");
            await until("the loop to go on", async () => {
                const now = await output(resumed, "cat /tmp/now");
                return now && BigInt(now) > pausedAt + 400000000n;
            });
            await refuses(409, "DOCKER::SANDBOX_NOT_PAUSED", sandbox.resume());
        });
    },
    async "connect finds a sandbox again"() {
        await withSandbox({ env: { WHO: "first" } }, async (sandbox) => {
            await sandbox.files.writeFiles([{ path: "/tmp/mark", data: "mine" }]);
            const other = await Sandbox.connect({ sandboxId: sandbox.id });
            assert.equal(other.id, sandbox.id);
            assert.equal(await output(other, 'echo "$WHO $(cat /tmp/mark)"'), "first mine");
            await other.close();
            assert.equal(await sandbox.isHealthy(), true); // closing ends the client only
        });
    },
    async "the server proxy serves all calls"() {
        await withSandbox({ connectionConfig: { useServerProxy: true } }, async (sandbox) => {
            await sandbox.files.writeFiles([{ path: "/tmp/x", data: "through the proxy" }]);
            assert.equal(await sandbox.files.readFile("/tmp/x"), "through the proxy");
            assert.equal(await output(sandbox, "wc -c </tmp/x"), "17");
            assert.match((await sandbox.getEndpoint(8000)).endpoint, /\/proxy\/8000$/);
        });
    },
    async "the manager lists by state, metadata and page"() {
        await withManager({}, async (manager) => {
            const sandboxes = [];
            const listed = async (filter) => {
                const { items, pagination } = await manager.listSandboxInfos(filter);
                return [items.map((info) => info.id), pagination];
            };
            try {
                for (let n = 0; n < 5; n++)
                    sandboxes.push(await create(
                        { metadata: { list: "js", kind: n % 2 ? "odd" : "even" } }));
                const all = sandboxes.map((sandbox) => sandbox.id).reverse();
                await manager.pauseSandbox(sandboxes[1].id);
                await until("Paused", async () => await stateOf(sandboxes[1]) === "Paused");

                const [ids, pagination] = await listed({ metadata: { list: "js" } });
                assert.deepEqual(ids, all);
                assert.equal(pagination.totalItems, 5);
                assert.equal(pagination.hasNextPage, false);
                assert.deepEqual((await listed({ metadata: { list: "js", kind: "odd" } }))[0],
                    [sandboxes[3].id, sandboxes[1].id]);
                assert.deepEqual((await listed(
                    { metadata: { list: "js" }, states: ["Paused"] }))[0], [sandboxes[1].id]);
                assert.deepEqual((await listed(
                    { metadata: { list: "js" }, states: ["Paused", "Running"] }))[0], all);
                assert.deepEqual((await listed({ metadata: { list: "none" } }))[0], []);

                const seen = [];
                for (const page of [1, 2, 3]) {
                    const [some, at] = await listed(
                        { metadata: { list: "js" }, page, pageSize: 2 });
                    seen.push(...some);
                    assert.deepEqual([at.page, at.pageSize, at.totalPages, at.hasNextPage],
                        [page, 2, 3, page < 3]);
                }
                assert.deepEqual(seen, all);
            } finally {
                for (const sandbox of sandboxes)
                    await discard(sandbox);
            }
        });
    },
    async "the manager does all a sandbox can"() {
        await withManager({}, async (manager) => {
            const sandbox = await create();
            const info = await manager.getSandboxInfo(sandbox.id);
            assert.equal(info.image.uri, "host");
            await manager.renewSandbox(sandbox.id, 1200);
            assert.ok((await manager.getSandboxInfo(sandbox.id)).expiresAt > info.expiresAt);
            await manager.pauseSandbox(sandbox.id);
            await until("Paused", async () => await stateOf(sandbox) === "Paused");
            await manager.resumeSandbox(sandbox.id);
            await until("Running", async () => await stateOf(sandbox) === "Running");
            await manager.killSandbox(sandbox.id);
            await refuses(404, "DOCKER::SANDBOX_NOT_FOUND", manager.getSandboxInfo(sandbox.id));
            await sandbox.close();
        });
    },
    async "metadata is patched"() {
        await withSandbox({ metadata: { keep: "1", change: "1", drop: "1" } }, async (sandbox) => {
            const info = await sandbox.patchMetadata({ change: "2", drop: null, new: "3" });
            assert.deepEqual(info.metadata, { keep: "1", change: "2", new: "3" });
            await refuses(400, "SANDBOX::INVALID_METADATA_LABEL",
                sandbox.patchMetadata({ "a b": "c" }));
            assert.deepEqual((await sandbox.getInfo()).metadata, info.metadata);
        });
    },
    async "an endpoint reaches a web server inside"() {
        await withSandbox({}, async (sandbox) => {
            const page = "<h1>from inside</h1>";
            await sandbox.files.writeFiles([{ path: "/srv/www/index.html", data: page }]);
            await sandbox.commands.run("python3 -m http.server 8000 --directory /srv/www",
                { background: true });
            const { headers } = await sandbox.getEndpoint(8000);
            const url = await sandbox.getEndpointUrl(8000);
            const reply = await until("the web server", async () => {
                const answer = await fetch(`${url}/index.html`, { headers });
                return answer.ok && answer;
            });
            assert.equal(await reply.text(), page);
            assert.equal((await fetch(`${url}/not-there`, { headers })).status, 404);
            assert.equal((await fetch(`${url}/index.html`)).status, 401);
        });
    },
    async "metrics are those of the sandbox"() {
        await withSandbox({ resource: { cpu: "1", memory: "300Mi" } }, async (sandbox) => {
            const metrics = await sandbox.getMetrics();
            assert.equal(metrics.memoryTotalMiB, 300);
            assert.ok(metrics.memoryUsedMiB > 0 && metrics.memoryUsedMiB < 300);
            assert.ok(metrics.cpuCount >= 1 && metrics.cpuUsedPercentage >= 0);
            assert.ok(Math.abs(metrics.timestamp - Date.now()) < minutes(1));
        });
    },
    async "a health check of one's own decides"() {
        let asked = 0;
        await withSandbox({
            healthCheck: async (sandbox) => ++asked >= 3 && sandbox.isHealthy(),
            healthCheckPollingInterval: 20,
        }, () => assert.ok(asked >= 3));
        await assert.rejects(create({ healthCheck: () => false, readyTimeoutSeconds: 1 }),
            sdk.SandboxReadyTimeoutException);
    },
    async "concurrent sandboxes do not mix"() {
        const ids = await Promise.all(Array.from({ length: CONCURRENT }, (_, n) =>
            withSandbox({ env: { NUMBER: String(n) } }, async (sandbox) => {
                await sandbox.files.writeFiles([{ path: "/tmp/n", data: String(n) }]);
                assert.equal(await output(sandbox, "sleep 0.2; echo $NUMBER $(cat /tmp/n)"),
                    `${n} ${n}`);
                return sandbox.id;
            })));
        assert.equal(new Set(ids).size, CONCURRENT);
    },
    async "a snapshot is taken, listed, restored and deleted"() {
        await withManager({}, (manager) => withSandbox({}, async (sandbox) => {
            await output(sandbox, "echo of the snapshot > /root/kept");
            const first = await manager.createSnapshot(sandbox.id, { name: "first" });
            assert.equal(first.sandboxId, sandbox.id);
            assert.equal(first.name, "first");
            await until("the snapshot", async () =>
                (await manager.getSnapshot(first.id)).status.state === "Ready");
            await output(sandbox, "echo changed since > /root/kept");
            const second = await manager.createSnapshot(sandbox.id);
            await until("the snapshot", async () =>
                (await manager.getSnapshot(second.id)).status.state === "Ready");
            const listed = async (filter) =>
                (await manager.listSnapshots({ sandboxId: sandbox.id, ...filter })).items
                    .map((item) => item.id);
            assert.deepEqual(await listed({}), [second.id, first.id]);
            assert.deepEqual(await listed({ name: "first" }), [first.id]);
            assert.deepEqual(await listed({ states: ["Failed"] }), []);
            assert.deepEqual(await listed({ page: 2, pageSize: 1 }), [first.id]);
            await withSandbox({ image: undefined, snapshotId: first.id }, async (restored) => {
                assert.equal(await output(restored, "cat /root/kept"), "of the snapshot");
                await manager.deleteSnapshot(first.id); // its files stay for the sandbox
                assert.equal(await output(restored, "cat /root/kept"), "of the snapshot");
            });
            await refuses(404, "SNAPSHOT::NOT_FOUND", manager.getSnapshot(first.id));
            await refuses(404, "SNAPSHOT::NOT_FOUND", manager.deleteSnapshot(UNKNOWN));
            await manager.deleteSnapshot(second.id);
        }));
    },
    async "kill ends it for good"() {
        const sandbox = await create();
        assert.equal(await sandbox.isHealthy(), true);
        await sandbox.kill();
        await refuses(404, "DOCKER::SANDBOX_NOT_FOUND", sandbox.getInfo());
        assert.equal(await sandbox.isHealthy(), false);
        await refuses(404, undefined, sandbox.commands.run("echo x"));
        await refuses(404, "DOCKER::SANDBOX_NOT_FOUND", sandbox.kill());
        await sandbox.close();
    },
};
