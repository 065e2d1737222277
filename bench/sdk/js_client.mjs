// js_client.mjs ENTRY|--ours DOMAIN KEY - takes jobs as python_client.py does, by the JavaScript SDK
// with that entry file, or by ours, which tools/build-js builds if need be.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";

const [given, domain, apiKey] = process.argv.slice(2);
const tool = fileURLToPath(new URL("../../tools/build-js", import.meta.url));
const entry = given === "--ours"
    ? join(execFileSync(tool, { encoding: "utf-8" }).trim(), "sandbox/dist/index.js") : given;
const { ConnectionConfig, Sandbox } = await import(pathToFileURL(entry));
const connectionConfig = new ConnectionConfig({ domain, apiKey });
const LINE = "x".repeat(100);
let kept;

const create = () => Sandbox.create({ image: "host", timeoutSeconds: 3600, connectionConfig,
    resource: { cpu: "1", memory: "256Mi" } });

const JOBS = {
    async first(count) {
        const taken = [];
        for (let n = 0; n < count; n++) {
            const began = performance.now();
            const sandbox = await create();
            let at = 0;
            await sandbox.commands.run("echo hello", {}, { onStdout: () => {
                at ||= performance.now();
            } });
            taken.push(at - began);
            await sandbox.kill();
            await sandbox.close();
        }
        return taken;
    },
    async commands(count) {
        kept ??= await create();
        const began = performance.now();
        for (let n = 0; n < count; n++)
            await kept.commands.run("true");
        return count / ((performance.now() - began) / 1000);
    },
    async lines(count) {
        kept ??= await create();
        let seen = 0;
        const began = performance.now();
        await kept.commands.run(`yes ${LINE} | head -n ${count}`, {}, { skipAccumulation: true,
            onStdout: () => {
                seen++;
            } });
        if (seen !== count)
            throw new Error(`${seen} lines, not ${count}`);
        return count / ((performance.now() - began) / 1000);
    },
};

for await (const line of createInterface(process.stdin)) {
    const [job, count] = line.split(" ");
    console.log(JSON.stringify(await JOBS[job](Number(count))));
}
await kept?.kill();
await kept?.close();
process.exit(0);
