// run_conformance.mjs - the cases of sdks/conformance by our SDK: against the server that plays them,
// then against the real server, whose address is in the environment.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { end, published, result, sdk, skip } from "./client.mjs";
import { NotHere, World } from "./operations.mjs";

const server = fileURLToPath(new URL("../../../sdks/conformance/server.py", import.meta.url));
const real = { domain: process.env.OPEN_SANDBOX_DOMAIN, api_key: process.env.OPEN_SANDBOX_API_KEY };
const only = process.argv[2];

const child = spawn("/usr/bin/python3", [server], { stdio: ["pipe", "pipe", "inherit"] });
const [first] = await new Promise((resolve) =>
    createInterface(child.stdout).once("line", (line) => resolve([line])));
const { control } = JSON.parse(first);

async function ask(path, body) {
    const answer = await fetch(control + path, body === undefined ? {}
        : { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
    const text = await answer.text();
    if (!answer.ok)
        throw new Error(`${path}: ${answer.status} ${text}`);
    return JSON.parse(text);
}

async function steps(session, world, list) {
    const problems = [];
    for (const [n, step] of list.entries()) {
        let report;
        try {
            report = { result: await world.run(step.do, step.with ?? {}) ?? null };
        } catch (error) {
            if (error instanceof NotHere)
                throw error;
            if (published && /is not a function|of undefined/.test(error.message))  // not there
                throw new NotHere(`${step.do}: ${error.message}`);
            report = { error: errorOf(error) };
        }
        const verdict = await ask(`/sessions/${session}/steps/${n}`, report);
        if (!verdict.ok)
            problems.push(...verdict.problems.map((text) => `step ${n}: ${JSON.stringify(text)}`),
                `reported: ${JSON.stringify(report).slice(0, 2000)}`);
    }
    return problems;
}

const CLASSES = [["SandboxApiException", "api"], ["SandboxReadyTimeoutException", "ready_timeout"],
    ["SandboxUnhealthyException", "unhealthy"], ["InvalidArgumentException", "invalid_argument"],
    ["SandboxInternalException", "internal"]];

function errorOf(error) {
    const found = CLASSES.find(([name]) => error instanceof sdk[name]);
    return { class: found?.[1] ?? error?.name ?? "other", code: error?.error?.code ?? null,
        message: error?.message ?? String(error), status: error?.statusCode ?? null,
        request_id: error?.requestId ?? null, retry_after_s: error?.retryAfterSeconds ?? null };
}

async function one({ id }, mode) {
    const name = `${mode} ${id}`;
    const { session, case: given } = await ask("/sessions", { case: id, mode, published: !!published,
        ...(mode === "real" ? { names: { image: "host", config: real } } : {}) });
    const before = Object.entries(process.env).filter(([key]) => key.startsWith("OPEN_SANDBOX_"));
    for (const [key] of before)
        delete process.env[key];
    Object.assign(process.env, given.env ?? {});
    const world = new World(given.config ?? {});
    let problems = [];
    try {
        problems = await steps(session, world, given.steps);
    } catch (error) {
        if (!(error instanceof NotHere))
            throw error;
        skip(name, error.message);
        return;
    } finally {
        for (const key of Object.keys(given.env ?? {}))
            delete process.env[key];
        Object.assign(process.env, Object.fromEntries(before));
        await world.close();
    }
    const verdict = await ask(`/sessions/${session}/finish`, {});
    if (!verdict.ok)
        problems.push(...verdict.problems.map((text) => JSON.stringify(text)));
    if (mode === "scripted" && verdict.open_connections !== 0)
        problems.push(`${verdict.open_connections} connections are open after close()`);
    result(problems.length === 0 && verdict.ok, name, problems.join("\n"));
}

const { cases } = await ask("/cases");
for (const mode of published ? ["scripted"] : ["scripted", "real"])
    for (const row of cases)
        if ((row.modes ?? ["scripted"]).includes(mode) && (!only || row.id.includes(only)))
            try {
                await one(row, mode);
            } catch (error) {
                result(false, `${mode} ${row.id}`, error?.stack ?? error);
            }
child.stdin.end();
end();
