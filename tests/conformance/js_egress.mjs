// js_egress.mjs - network policies by the official SDK; prints TAP.
import assert from "node:assert/strict";

import { refuses, version, withSandbox } from "./js_client.mjs";

const resolves = async (sandbox, name) =>
    (await sandbox.commands.run(`getent hosts ${name}`)).exitCode === 0;

const tests = {
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
