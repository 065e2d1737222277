// quickstart.mjs - a sandbox, a command, the end.
import { Sandbox } from "@alibaba-group/opensandbox";

const sandbox = await Sandbox.create({ image: process.env.IMAGE ?? "python:3.12" });
try {
    const run = await sandbox.commands.run("echo 'Hello Sandbox!'");
    console.log(run.logs.stdout[0]?.text, run.exitCode);
} finally {
    await sandbox.kill();
    await sandbox.close();
}
