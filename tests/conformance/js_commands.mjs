// js_commands.mjs - what programs do with `sandbox.commands`.
import assert from "node:assert/strict";

import { awaitFile, output, refuses, texts, until } from "./js_client.mjs";

const finished = (sandbox, id) => until("its end", async () => {
    const status = await sandbox.commands.getCommandStatus(id);
    return !status.running && status;
});

export const tests = {
    async "a command tells stdout from stderr"({ commands }) {
        const result = await commands.run("echo one; echo two >&2; echo three");
        assert.deepEqual(texts(result.logs.stdout), ["one", "three"]);
        assert.deepEqual(texts(result.logs.stderr), ["two"]);
        assert.equal(result.exitCode, 0);
        assert.ok(result.id && !result.error && result.complete.executionTimeMs >= 0);
    },
    async "a failing command tells its exit code"({ commands }) {
        const result = await commands.run("echo before; exit 42");
        assert.equal(result.exitCode, 42);
        assert.deepEqual([result.error.name, result.error.value], ["CommandExecError", "42"]);
        assert.equal(result.complete, undefined);
        assert.deepEqual(texts(result.logs.stdout), ["before"]);
        assert.equal((await commands.run("no-such-program-anywhere")).exitCode, 127);
    },
    async "handlers see events in their order"({ commands }) {
        const seen = [];
        const handlers = {
            onInit: (event) => seen.push(["init", event.id]),
            onStdout: (event) => seen.push(["stdout", event.text]),
            onStderr: (event) => seen.push(["stderr", event.text]),
            onExecutionComplete: () => seen.push(["complete"]),
            onError: (event) => seen.push(["error", event.value]),
        };
        const first = await commands.run("echo a; sleep 0.3; echo b >&2", {}, handlers);
        assert.deepEqual(seen.splice(0),
            [["init", first.id], ["stdout", "a"], ["stderr", "b"], ["complete"]]);
        const second = await commands.run("exit 3", {}, handlers);
        assert.deepEqual(seen, [["init", second.id], ["error", "3"]]);
    },
    async "handlers may keep the output to themselves"({ commands }) {
        const seen = [];
        const result = await commands.run("echo a; echo b", {},
            { onStdout: (event) => seen.push(event.text), skipAccumulation: true });
        assert.deepEqual([seen, result.logs.stdout], [["a", "b"], []]);
    },
    async "output arrives while the command runs"({ commands, files }) {
        const said = []; // and the command goes on once that was heard
        await commands.run(`echo now; ${awaitFile("/tmp/heard")}; echo later`, {}, {
            onStdout: async (event) => {
                said.push(event.text);
                await files.writeFiles([{ path: "/tmp/heard", data: "" }]);
            },
        });
        assert.deepEqual(said, ["now", "later"]);
    },
    async "a stream of events ends when its reader leaves"({ commands }) {
        const types = [];
        for await (const event of commands.runStream("echo x; sleep 60")) {
            if (event.type !== "ping")
                types.push(event.type);
            if (event.type === "stdout")
                break;
        }
        assert.deepEqual(types, ["init", "stdout"]);
    },
    async "lines are events, and empty lines, too"({ commands }) {
        const result = await commands.run("printf 'a\\n\\nb\\n\\n\\nc'");
        assert.deepEqual(texts(result.logs.stdout), ["a", "\n", "b", "\n", "\n", "c"]);
    },
    async "much output is whole"(sandbox) {
        const numbers = Array.from({ length: 20000 }, (_, n) => String(n + 1));
        assert.equal(await output(sandbox, "seq 1 20000"), numbers.join("\n"));
        assert.equal(await output(sandbox, "echo 'grüße 世界 🦀'"), "grüße 世界 🦀");
    },
    async "a command runs in the given directory and as the given user"(sandbox) {
        assert.equal(await output(sandbox, "pwd", { workingDirectory: "/usr/bin" }), "/usr/bin");
        assert.equal(await output(sandbox, "id -u; id -g", { uid: 1000, gid: 1001 }), "1000\n1001");
        assert.equal(await output(sandbox, 'echo "$FIRST/$SECOND"',
            { envs: { FIRST: "1", SECOND: "a b" } }), "1/a b");
        await refuses(400, undefined,
            sandbox.commands.run("pwd", { workingDirectory: "/not/there" }));
    },
    async "a command ends at its timeout"({ commands }) {
        const began = Date.now();
        const result = await commands.run("echo started; sleep 30", { timeoutSeconds: 1 });
        assert.ok(Date.now() - began > 900);
        assert.ok(result.error && result.exitCode !== 0);
    },
    async "the status of a finished command is kept"({ commands }) {
        const { id } = await commands.run("sleep 0.2; exit 5");
        const status = await commands.getCommandStatus(id);
        assert.deepEqual([status.id, status.running, status.exitCode, status.content],
            [id, false, 5, "sleep 0.2; exit 5"]);
        assert.ok(status.startedAt < status.finishedAt);
        assert.ok(Math.abs(status.startedAt - Date.now()) < 60000);
    },
    async "a background command has status and logs"(sandbox) {
        const { commands, files } = sandbox;
        const { id, exitCode } = await commands.run(
            `echo one; ${awaitFile("/tmp/go-on")}; echo two >&2; exit 7`, { background: true });
        assert.ok(id);
        assert.ok(exitCode === null || exitCode === undefined, `${exitCode}`);
        assert.equal((await commands.getCommandStatus(id)).running, true);
        const logs = await until("the first line", async () => {
            const some = await commands.getBackgroundCommandLogs(id);
            return some.content && some;
        });
        assert.equal(logs.content, "one\n");
        await files.writeFiles([{ path: "/tmp/go-on", data: "" }]);
        const status = await finished(sandbox, id);
        assert.equal(status.exitCode, 7);
        assert.ok(status.finishedAt > status.startedAt);
        const rest = await commands.getBackgroundCommandLogs(id, logs.cursor);
        assert.equal(rest.content, "two\n");
        assert.ok(rest.cursor > logs.cursor);
    },
    async "a background command is interrupted"(sandbox) {
        const { id } = await sandbox.commands.run("sleep 60", { background: true });
        await sandbox.commands.interrupt(id);
        assert.notEqual((await finished(sandbox, id)).exitCode, 0);
    },
    async "a foreground command is interrupted"({ commands }) {
        const result = await commands.run("sleep 60", {},
            { onInit: (event) => { commands.interrupt(event.id); } });
        assert.ok(result.error && result.exitCode !== 0);
    },
    async "a session keeps its state"({ commands }) {
        const session = await commands.createSession({ workingDirectory: "/tmp" });
        const run = async (command, options, handlers) => {
            const result = await commands.runInSession(session, command, options, handlers);
            return [...texts(result.logs.stdout), result.exitCode];
        };
        assert.deepEqual(await run("pwd; kept=yes; cd /usr"), ["/tmp", 0]);
        assert.deepEqual(await run("pwd; echo $kept; (exit 3)"), ["/usr", "yes", 3]);
        assert.equal((await run("echo begun; sleep 60", { timeoutSeconds: 1 })).at(-1), -1);
        const seen = [];
        assert.deepEqual(await run("pwd", { workingDirectory: "/etc" },
            { onStdout: (event) => seen.push(event.text) }), ["/etc", 0]);
        assert.deepEqual(seen, ["/etc"]);
        await commands.deleteSession(session);
        await assert.rejects(commands.runInSession(session, "true"));
    },
    async "an isolated session runs code and has files"({ isolation }) {
        const session = await isolation.create({ workspace: { path: "/srv/js" }, uid: 1000 });
        assert.equal(session.info.workspace.mode, "overlay");
        const ran = await session.run("id -u; echo $A; pwd; exit 3", { envs: { A: "b c" } });
        assert.deepEqual([...texts(ran.logs.stdout), ran.exitCode], ["1000", "b c", "/srv/js", 3]);
        await session.files.writeFiles([{ path: "/srv/js/f", data: "text" }]);
        assert.equal(await session.files.readFile("/srv/js/f"), "text");
        assert.equal((await session.get()).status, "active");
        const listed = await isolation.list();
        assert.deepEqual(listed.map((row) => row.session_id), [session.sessionId]);
        assert.equal((await isolation.attach(session.sessionId)).info.uid, 1000);
        await session.delete();
        const once = await isolation.runOnce("echo $((6 * 7))", "/srv/js");
        assert.deepEqual([texts(once.logs.stdout), await isolation.list()], [["42"], []]);
    },
    async "an unknown command is an error"({ commands }) {
        await refuses(404, undefined, commands.getCommandStatus("no-such-command"));
        await refuses(400, undefined, commands.getBackgroundCommandLogs("no-such-command"));
        await assert.rejects(commands.interrupt("no-such-command"));
    },
    async "sixteen commands at a time do not wait for each other"(sandbox) {
        const numbers = Array.from({ length: 16 }, (_, n) => n);
        const allThere = numbers.map((n) => awaitFile(`/tmp/at${n}`)).join("; ");
        await Promise.all(numbers.map(async (n) => assert.equal(
            await output(sandbox, `echo ${n}; touch /tmp/at${n}; ${allThere}; echo ${n}`),
            `${n}\n${n}`)));
    },
};
