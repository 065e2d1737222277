// js_run.mjs - runs the tests of js_*.mjs and prints TAP.
import { once } from "node:events";

import { create, discard, version } from "./js_client.mjs";
import * as commands from "./js_commands.mjs";
import * as files from "./js_files.mjs";
import * as keep from "./js_keep.mjs";
import * as life from "./js_life.mjs";

const SECONDS_MAX = 300;
let count = 0;
let failed = 0;

async function check(name, test) {
    const late = once(AbortSignal.timeout(SECONDS_MAX * 1000), "abort");

    count++;
    if (exceptions[name]) { // of on_runtime.py, which has the list
        console.log(`ok ${count} - ${name} # SKIP ${exceptions[name]}`);
        return;
    }
    try {
        await Promise.race([test(), late.then(() => { throw new Error("too late"); })]);
        console.log(`ok ${count} - ${name}`);
    } catch (error) {
        failed++;
        console.log(`not ok ${count} - ${name}`);
        console.log(`# ${(error.stack ?? String(error)).replaceAll("\n", "\n# ")}`);
    }
}

console.log(`# @alibaba-group/opensandbox ${version}, node ${process.version}`);
const exceptions = JSON.parse(process.env.OSB_TEST_EXCEPTIONS ?? "{}");
for (const [name, test] of Object.entries({ ...life.tests, ...keep.tests }))
    await check(name, test);
// One sandbox for the rest: they leave each other alone.
const sandbox = await create();
for (const [name, test] of Object.entries({ ...commands.tests, ...files.tests }))
    await check(name, () => test(sandbox));
await discard(sandbox);
console.log(`1..${count}`);
process.exit(failed ? 1 : 0);
