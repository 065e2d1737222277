// mcp_node.mjs SDK PROGRAM [ARGUMENT...] - opensandbox-mcp as the official client in JavaScript sees
// it, by stdio, or with MCP_URL set over HTTP. SDK is the directory of @modelcontextprotocol/sdk.
// TAP on standard output.
import assert from "node:assert/strict";
import path from "node:path";

const [sdk, program, ...args] = process.argv.slice(2);
const from = (name) => import(path.join(sdk, "dist/esm", name));
const { Client } = await from("client/index.js");
const { StdioClientTransport } = await from("client/stdio.js");
const { StreamableHTTPClientTransport } = await from("client/streamableHttp.js");
const { CallToolResultSchema } = await from("types.js");

const RESOURCE = { cpu: "1", memory: "256Mi" };

function transport() {
  if (!process.env.MCP_URL) return new StdioClientTransport({ command: program, args });
  const headers = { Authorization: `Bearer ${process.env.OPENSANDBOX_MCP_TOKEN}` };
  return new StreamableHTTPClientTransport(new URL(process.env.MCP_URL), {
    requestInit: { headers },
  });
}

async function connected(run) {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport());
  try {
    await run(client);
  } finally {
    await client.close();
  }
}

const called = new Set();

async function call(client, name, args, options) {
  called.add(name);
  const params = { name, arguments: args };
  const result = await client.callTool(params, CallToolResultSchema, options);
  assert.equal(result.isError, false, result.content[0].text);
  return result.structuredContent;
}

const make = async (client) =>
  (await call(client, "sandbox_create", { image: "host", resource: RESOURCE })).sandbox_id;

const tests = {
  async lists_tools_with_schemas(client) {
    assert.equal(client.getServerVersion().name, "OpenSandbox Sandbox");
    const { tools } = await client.listTools();
    const run = tools.find((tool) => tool.name === "command_run");
    assert.deepEqual(run.inputSchema.required, ["sandbox_id", "command"]);
    await client.ping();
    await client.setLoggingLevel("debug");
  },
  async writes_runs_and_reads(client) {
    const heard = [];
    const made = await call(
      client, "sandbox_create", { image: "host", resource: RESOURCE },
      { onprogress: (progress) => heard.push(progress.progress) });
    // The client drops notifications that it reads together with the answer, so the last may miss.
    assert.ok(heard.length > 0);
    assert.deepEqual(heard, [0.1, 0.3, 0.8, 1].slice(0, heard.length));
    const sandbox_id = made.sandbox_id;
    await call(client, "file_write", { sandbox_id, path: "/tmp/a.sh", content: "echo hi; exit 4" });
    const ran = await call(client, "command_run", { sandbox_id, command: "sh /tmp/a.sh" });
    assert.equal(ran.exit_code, 4);
    assert.equal(ran.logs.stdout[0].text, "hi");
    const failed = await client.callTool({ name: "file_read", arguments: { path: "/x" } });
    assert.equal(failed.isError, true);
    await assert.rejects(client.callTool({ name: "nothing", arguments: {} }), { code: -32602 });
    await call(client, "sandbox_kill", { sandbox_id });
  },
  async reads_a_megabyte_by_its_link(client) {
    const sandbox_id = await make(client);
    const result = await client.callTool({
      name: "command_run",
      arguments: { sandbox_id, command: "yes 0123456789abcde | head -n 65536" },
    });
    const link = result.content.find((item) => item.type === "resource_link");
    assert.equal(link.size, 1 << 20);
    const whole = await client.readResource({ uri: link.uri });
    assert.equal(whole.contents[0].text, "0123456789abcde\n".repeat(65536));
  },
  async cancels_a_call(client) {
    const sandbox_id = await make(client);
    const stop = new AbortController();
    const waiting = call(
      client, "command_run", { sandbox_id, command: "echo begun; sleep 1000" },
      { signal: stop.signal, onprogress: () => stop.abort("enough") });
    await assert.rejects(waiting);
    await client.ping();
  },
  async runs_twenty_calls_at_a_time(client) {
    const sandbox_id = await make(client);
    const all = Array.from({ length: 20 }, (_, i) =>
      call(client, "command_run", { sandbox_id, command: `echo ${i}` }));
    const texts = (await Promise.all(all)).map((ran) => ran.logs.stdout[0].text);
    assert.deepEqual(texts, Array.from({ length: 20 }, (_, i) => `${i}`));
  },
};

// Every tool at least once, on one sandbox; images of code, and errors.
tests.uses_every_tool = async (client) => {
  const sandbox_id = await make(client);
  const use = (name, args) => call(client, name, { sandbox_id, ...args });
  const until = async (read, done) => {
    const deadline = Date.now() + 120_000;
    for (let seen; ; ) {
      seen = await read();
      if (done(seen)) return seen;
      assert.ok(Date.now() < deadline, `it stays at ${JSON.stringify(seen)}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const state = (wanted) =>
    until(() => use("sandbox_get_info"), (info) => info.status.state === wanted);

  assert.equal((await use("sandbox_connect")).sandbox_id, sandbox_id);
  const page = await call(client, "sandbox_list", { filter: { states: ["Running"] } });
  assert.ok(page.sandbox_infos.some((info) => info.id === sandbox_id));
  assert.ok((await use("sandbox_renew", { timeout_seconds: 900 })).expires_at);
  assert.ok((await use("sandbox_get_metrics")).memory_total_in_mib > 0);
  assert.equal((await use("sandbox_healthcheck")).healthy, true);
  assert.ok((await use("sandbox_get_endpoint", { port: 8000 })).endpoint);
  await use("sandbox_pause");
  await state("Paused");
  await use("sandbox_resume");
  await state("Running");

  const { id } = await use("command_run", { command: "echo begun; sleep 1000", background: true });
  await until(() => use("command_logs", { execution_id: id, cursor: 0 }),
    (logs) => logs.content === "begun\n");
  assert.deepEqual(await use("command_interrupt", { execution_id: id }), { status: "interrupted" });
  await until(() => use("command_status", { execution_id: id }), (status) => !status.running);

  const { context_id } = await use("code_context_create", { language: "python" });
  const draw = "class P:\n  def _repr_png_(self):\n    return b'\\x89PNG'\nP()";
  called.add("code_run");
  const drawn = await client.callTool(
    { name: "code_run", arguments: { sandbox_id, context_id, code: draw } });
  const image = drawn.content.find((item) => item.type === "image");
  assert.deepEqual([image.mimeType, image.data], ["image/png", btoa("\x89PNG")]);
  const stopped = call(client, "code_run", {
    sandbox_id, context_id, code: "import time\nprint('begun', flush=True)\ntime.sleep(1000)",
  }, { onprogress: () => use("code_interrupt", { context_id }).catch(() => {}) });
  assert.equal((await stopped).error.name, "KeyboardInterrupt");
  await use("code_context_delete", { context_id });

  await use("file_create_directories", { entries: [{ path: "/opt/d" }] });
  await use("file_write", { path: "/opt/d/a", content: "one" });
  await use("file_replace_contents",
    { entries: [{ path: "/opt/d/a", old_content: "one", new_content: "two" }] });
  await use("file_move", { entries: [{ source: "/opt/d/a", destination: "/opt/d/b" }] });
  assert.equal((await use("file_read", { path: "/opt/d/b" })).content, "two");
  assert.equal((await use("file_search", { path: "/opt/d", pattern: "b" })).result.length, 1);
  assert.equal((await use("file_list", { path: "/opt/d" })).result.length, 1);

  const snapshot_id = (await use("snapshot_create", { name: "one" })).id;
  await until(() => call(client, "snapshot_get", { snapshot_id }),
    (snapshot) => snapshot.status.state === "Ready");
  assert.equal((await use("snapshot_list")).items.length, 1);
  const [copy] = (await use("sandbox_fork", { count: 1 })).items;
  await call(client, "sandbox_kill", { sandbox_id: copy.id });
  await use("file_delete", { paths: ["/opt/d/b"] });
  await use("file_delete_directories", { paths: ["/opt/d"] });
  await use("sandbox_rollback", { snapshot_id });
  await until(() => client.callTool({ name: "file_read", arguments: {
    sandbox_id, path: "/opt/d/b" } }), (result) => !result.isError);
  await call(client, "snapshot_delete", { snapshot_id });

  const long = await client.callTool({ name: "command_run", arguments: {
    sandbox_id, command: "yes 0123456789abcde | head -n 65536" } });
  const { uri } = long.content.find((item) => item.type === "resource_link");
  const part = await call(client, "output_read", { uri, offset: 16, length: 3 });
  assert.deepEqual(part, { content: "012", next_offset: 19, total_bytes: 1 << 20 });

  const rules = [{ action: "allow", target: "a.test" }];
  for (const [name, args] of [["egress_get", {}], ["egress_patch", { rules }],
    ["egress_delete", { targets: ["a.test"] }]]) {
    called.add(name);
    const result = await client.callTool({ name, arguments: { sandbox_id, ...args } });
    if (result.isError) assert.match(result.content[0].text, /egress/); // no engine, or no policy
  }
  await use("sandbox_kill");
  for (const name of called) {
    const result = await client.callTool({ name, arguments: { no_such_argument: 1 } });
    assert.equal(result.isError, true, name);
  }
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name).sort(), [...called].sort());
};

// Runs a command until this process is killed.
if (process.env.MCP_VICTIM)
  await connected((client) => client.callTool({ name: "command_run", arguments: {
    sandbox_id: process.env.MCP_VICTIM, connect_if_missing: true,
    command: "echo begun; exec sleep 76543" } }, CallToolResultSchema,
  { onprogress: () => console.log("runs") }));

let count = 0;
for (const [name, test] of Object.entries(tests)) {
  count += 1;
  try {
    await connected(test);
    console.log(`ok ${count} - ${name}`);
  } catch (e) {
    process.exitCode = 1;
    console.log(`not ok ${count} - ${name}\n# ${String(e.stack).replaceAll("\n", "\n# ")}`);
  }
}
console.log(`1..${count}`);
