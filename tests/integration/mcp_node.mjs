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

async function call(client, name, args, options) {
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
