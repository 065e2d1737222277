// js_egress.mjs - network policies by the official SDK; prints TAP.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";

import { refuses, version, withSandbox } from "./js_client.mjs";

const resolves = async (sandbox, name) =>
    (await sandbox.commands.run(`getent hosts ${name}`)).exitCode === 0;

// Digests of the headers that the server got of a request for a name that only curl knows.
async function arrived(sandbox, path = "/digests") {
    const done = await sandbox.commands.run("curl -sS --max-time 30 " +
        `--resolve vault.pinned.test:80:203.0.113.11 http://vault.pinned.test${path}`);
    assert.equal(done.exitCode, 0, JSON.stringify(done));
    return JSON.parse(done.logs.stdout.map((line) => line.text).join(""));
}

// Exactly these of the headers in question must have arrived.
function carries(headers, wanted = {}) {
    const names = ["authorization", "x-api-key", "x-first", "x-second"];
    const digest = (value) => createHash("sha256").update(value).digest("hex");
    assert.deepEqual(
        Object.fromEntries(names.filter((n) => n in headers).map((n) => [n, headers[n]])),
        Object.fromEntries(Object.entries(wanted).map(([n, value]) => [n, digest(value)])));
}

const binding = (name, auth, path = "/*") => ({
    name, auth,
    match: { schemes: ["http"], ports: [80], hosts: ["vault.pinned.test"], paths: [path] },
});

const tests = {
    async "a vault goes through all kinds and revisions"() {
        const options = {
            networkPolicy: {
                defaultAction: "allow", egress: [{ action: "allow", target: "vault.pinned.test" }],
            },
            credentialProxy: { enabled: true },
        };
        await withSandbox(options, async (sandbox) => {
            const vault = sandbox.credentialVault;
            carries(await arrived(sandbox));
            let state = await vault.create({
                credentials: [{ name: "one", source: { value: "first-secret" } }],
                bindings: [binding("b", { type: "bearer", credential: "one" })],
            });
            assert.equal(state.revision, 1);
            carries(await arrived(sandbox), { authorization: "Bearer first-secret" });
            state = await vault.patch({
                expectedRevision: 1,
                credentials: { add: [{ name: "two", source: { value: "dXNlcjpzZWNvbmQtc2VjcmV0" } }] },
                bindings: { replace: [binding("b", { type: "basic", credential: "two" })] },
            });
            assert.equal(state.revision, 2);
            carries(await arrived(sandbox), {
                authorization: "Basic dXNlcjpzZWNvbmQtc2VjcmV0",
            });
            const key = { type: "apiKey", name: "X-Api-Key", credential: "one" };
            state = await vault.patch({ bindings: { delete: ["b"], add: [binding("k", key)] } });
            assert.equal(state.revision, 3);
            carries(await arrived(sandbox), { "x-api-key": "first-secret" });
            state = await vault.patch({
                credentials: { replace: [{ name: "one", source: { value: "newer-secret" } }] },
            });
            assert.equal(state.revision, 4);
            carries(await arrived(sandbox), { "x-api-key": "newer-secret" });
            state = await vault.patch({
                bindings: {
                    add: [binding("h", {
                        type: "customHeaders",
                        headers: [{ name: "X-First", credential: "one" },
                            { name: "X-Second", credential: "two" }],
                    }, "/digests/h")],
                    replace: [binding("k", key, "/digests/k")],
                },
            });
            assert.equal(state.revision, 5);
            carries(await arrived(sandbox, "/digests/h"),
                { "x-first": "newer-secret", "x-second": "dXNlcjpzZWNvbmQtc2VjcmV0" });
            carries(await arrived(sandbox, "/digests/k"), { "x-api-key": "newer-secret" });
            await refuses(409, undefined,
                vault.patch({ expectedRevision: 2, bindings: { delete: ["h"] } }));
            state = await vault.patch({
                bindings: { delete: ["h", "k"] }, credentials: { delete: ["two"] },
            });
            assert.equal(state.revision, 6);
            assert.deepEqual(state.bindings, []);
            for (const path of ["/digests", "/digests/h", "/digests/k"])
                carries(await arrived(sandbox, path));
            await vault.delete();
            await refuses(404, undefined, vault.get());
        });
    },
    async "a policy at create is shown and in force"() {
        const networkPolicy = {
            defaultAction: "deny", egress: [{ action: "allow", target: "*.allowed.test" }],
        };
        await withSandbox({ networkPolicy }, async (sandbox) => {
            assert.deepEqual(await sandbox.getEgressPolicy(), networkPolicy);
            assert.equal(await resolves(sandbox, "www.allowed.test"), true);
            assert.equal(await resolves(sandbox, "other.test"), false);
            await sandbox.patchEgressRules([{ action: "allow", target: "other.test" }]);
            assert.equal((await sandbox.getEgressPolicy()).egress[0].target, "other.test");
            assert.equal(await resolves(sandbox, "other.test"), true);
            await sandbox.deleteEgressRules(["other.test"]);
            assert.equal(await resolves(sandbox, "other.test"), false);
        });
    },
    async "a sandbox without a policy has one that can be changed"() {
        await withSandbox({}, async (sandbox) => {
            assert.equal((await sandbox.getEgressPolicy()).defaultAction, "allow");
            await sandbox.patchEgressRules([{ action: "deny", target: "other.test" }]);
            assert.equal(await resolves(sandbox, "other.test"), false);
            assert.equal(await resolves(sandbox, "denied.test"), true);
            await refuses(400, undefined,
                sandbox.patchEgressRules([{ action: "allow", target: "http://no" }]));
        });
    },
};

console.log(`# @alibaba-group/opensandbox ${version}, node ${process.version}`);
let count = 0;
let failed = 0;
for (const [name, test] of Object.entries(tests)) {
    count++;
    try {
        await test();
        console.log(`ok ${count} - ${name}`);
    } catch (error) {
        failed++;
        console.log(`not ok ${count} - ${name}`);
        console.log(`# ${(error.stack ?? String(error)).replaceAll("\n", "\n# ")}`);
    }
}
console.log(`1..${count}`);
process.exit(failed ? 1 : 0);
