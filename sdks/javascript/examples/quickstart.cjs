// quickstart.cjs - the same for CommonJS.
const { Sandbox } = require("@alibaba-group/opensandbox");

async function main() {
    const sandbox = await Sandbox.create({ image: process.env.IMAGE ?? "python:3.12" });
    try {
        const run = await sandbox.commands.run("echo 'Hello Sandbox!'");
        console.log(run.logs.stdout[0]?.text, run.exitCode);
    } finally {
        await sandbox.kill();
        await sandbox.close();
    }
}

main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
});
