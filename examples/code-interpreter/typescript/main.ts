// The same program in TypeScript: a cell of Python, its output and its result.
import { ConnectionConfig, Sandbox } from "@alibaba-group/opensandbox";
import { CodeInterpreter } from "@alibaba-group/opensandbox-code-interpreter";

const connectionConfig = new ConnectionConfig({
    domain: process.env.SANDBOX_DOMAIN ?? "localhost:8080", apiKey: process.env.SANDBOX_API_KEY });
const sandbox = await Sandbox.create({
    image: process.env.SANDBOX_IMAGE ?? "opensandbox/code-interpreter:latest",
    entrypoint: ["/opt/code-interpreter/code-interpreter.sh"], connectionConfig });
try {
    const { codes } = await CodeInterpreter.create(sandbox);
    const run = await codes.run("print('Hello from Python')\n{'language': 'python', 'sum': 2 + 2}");
    for (const line of run.logs.stdout)
        console.log(`[stdout] ${line.text.trimEnd()}`);
    for (const result of run.result)
        console.log(`[result] ${result.text}`);
} finally {
    await sandbox.kill();
    await sandbox.close();
}
