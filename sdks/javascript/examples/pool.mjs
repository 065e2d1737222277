// pool.mjs - sandboxes that are ready before they are asked for.
import { SandboxPool } from "@alibaba-group/opensandbox";

const pool = new SandboxPool({
    poolName: "demo",
    maxIdle: 2,
    creationSpec: { image: process.env.IMAGE ?? "python:3.12" },
    warmupSandboxPreparer: async (sandbox) => {
        await sandbox.commands.run("mkdir -p /work");
    },
});
await pool.start();
const sandbox = await pool.acquire({ sandboxTimeoutSeconds: 300 });
try {
    const run = await sandbox.commands.run("ls -d /work || echo made on the spot");
    console.log(run.logs.stdout[0].text);
} finally {
    await sandbox.kill();
    await sandbox.close();
    await pool.shutdown();
}
console.log((await pool.snapshot()).state);
