// js_client.mjs - the official SDK, and what all tests of it need. Domain and key of the server are
// in the environment variables that the SDK itself reads.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const SECONDS_MAX = 120; // for what takes milliseconds, on a machine that may do much else
const entry = process.env.OPENSANDBOX_JS_SDK;

export const sdk = await import(pathToFileURL(entry));
export const { version } = JSON.parse(
    readFileSync(new URL("../package.json", pathToFileURL(entry)), "utf-8"));

export function create(options = {}) {
    return sdk.Sandbox.create({ image: "host", timeoutSeconds: 600, ...options });
}

// Runs `use` with a sandbox of its own, which is gone afterwards.
export async function withSandbox(options, use) {
    const sandbox = await create(options);
    try {
        return await use(sandbox);
    } finally {
        await discard(sandbox);
    }
}

export async function withManager(connectionConfig, use) {
    const manager = sdk.SandboxManager.create({ connectionConfig });
    try {
        return await use(manager);
    } finally {
        await manager.close();
    }
}

export async function discard(sandbox) {
    await sandbox.kill().catch((error) => console.log(`# kill: ${error}`));
    await sandbox.close();
}

// The SDK's exception for an answer with this status, and with this code unless it is undefined.
export async function refuses(status, code, promise) {
    const error = await promise.then(
        (value) => assert.fail(`no error, but ${JSON.stringify(value)}`), (reason) => reason);
    assert.ok(error instanceof sdk.SandboxApiException, error);
    assert.equal(error.statusCode, status, `${error.error?.code}: ${error.message}`);
    if (code !== undefined)
        assert.equal(error.error.code, code);
    return error;
}

// The first answer of `ask` that is true.
export async function until(what, ask) {
    for (const end = Date.now() + SECONDS_MAX * 1000; ;) {
        const answer = await ask();
        if (answer)
            return answer;
        assert.ok(Date.now() < end, `waited ${SECONDS_MAX} s for ${what}`);
        await sleep(20);
    }
}

// What a command runs to wait for a file.
export const awaitFile = (path) => `until [ -e ${path} ]; do sleep 0.05; done`;

export const texts = (messages) => messages.map((message) => message.text);

// What a command printed, as one text.
export async function output(sandbox, command, options) {
    return texts((await sandbox.commands.run(command, options)).logs.stdout).join("\n");
}
