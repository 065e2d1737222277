// A named volume in TypeScript: one sandbox writes, another reads and cannot write.
import { ConnectionConfig, Sandbox } from "@alibaba-group/opensandbox";

const connectionConfig = new ConnectionConfig({
    domain: process.env.SANDBOX_DOMAIN ?? "localhost:8080", apiKey: process.env.SANDBOX_API_KEY });
const image = process.env.SANDBOX_IMAGE ?? "host";
const pvc = { claimName: "opensandbox-ts-demo", deleteOnSandboxTermination: true };

const writer = await Sandbox.create({ image, connectionConfig,
    volumes: [{ name: "data", pvc, mountPath: "/mnt/data" }] });
const reader = await Sandbox.create({ image, connectionConfig,
    volumes: [{ name: "data", pvc, mountPath: "/mnt/data", readOnly: true }] });
try {
    await writer.commands.run("echo hello-from-named-volume > /mnt/data/marker.txt");
    const read = await reader.commands.run("cat /mnt/data/marker.txt");
    console.log("read:", read.logs.stdout.map((line) => line.text.trimEnd()).join("\n"));
    const refused = await reader.commands.run("touch /mnt/data/x");
    console.log("write refused:", refused.exitCode !== 0);
} finally {
    for (const sandbox of [reader, writer]) {
        await sandbox.kill();
        await sandbox.close();
    }
}
