// kube_client.mjs IMAGE PROXY - the official JavaScript SDK and a pod: what programs do with commands
// and files (tests/conformance), by the server's proxy ("yes") or by what endpoints say. Prints what
// failed; its status is their number.
import { create, discard, sdk } from "../conformance/js_client.mjs";
import * as commands from "../conformance/js_commands.mjs";
import * as files from "../conformance/js_files.mjs";

const [image, proxy] = process.argv.slice(2);
// A container has not the right to make namespaces.
const left = new Set(["an isolated session runs code and has files"]);
let failed = 0;
let count = 0;

const connectionConfig = new sdk.ConnectionConfig({
    useServerProxy: proxy === "yes", requestTimeoutSeconds: 180 });
const sandbox = await create({
    image, connectionConfig, resource: { cpu: "50m", memory: "256Mi" },
    entrypoint: ["sleep", "1000000"], readyTimeoutSeconds: 180 });
for (const [name, test] of Object.entries({ ...commands.tests, ...files.tests })) {
    if (left.has(name))
        continue;
    count++;
    try {
        await test(sandbox);
    } catch (error) {
        failed++;
        console.log(`${name}: ${error.stack ?? error}`);
    }
}
await discard(sandbox);
console.log(`${count} tests, ${failed} failed`);
process.exit(failed ? 1 : 0);
