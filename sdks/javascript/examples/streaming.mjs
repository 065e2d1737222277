// streaming.mjs - output as it comes: by handlers, by a loop, of a background command, on a terminal.
import { Sandbox } from "@alibaba-group/opensandbox";

const sandbox = await Sandbox.create({ image: process.env.IMAGE ?? "python:3.12" });
const { commands, terminals } = sandbox;
try {
    await commands.run("for i in 1 2 3; do echo \"Count $i\"; sleep 0.1; done; echo bad >&2", {}, {
        onStdout: ({ text }) => console.log("stdout:", text),
        onStderr: ({ text }) => console.log("stderr:", text),
        onExecutionComplete: () => console.log("finished"),
    });

    for await (const event of commands.runStream("seq 3"))
        if (event.type === "stdout")
            console.log("line", event.text);

    const { id } = await commands.run("cat; exit 2", { background: true, stdinOpen: true });
    await commands.writeStdin(id, "to its input\n", { eof: true });
    for await (const text of commands.followLogs(id))
        process.stdout.write(text);
    console.log("exit code", (await commands.waitForCommand(id)).exitCode);

    // A terminal begins as 80 x 24 and is resized; what is written comes after that.
    const terminal = await terminals.open({ command: "read go; stty size", cols: 120, rows: 40 });
    terminal.write("\n");
    console.log("terminal:", (await terminal.readAll()).trim());
} finally {
    await sandbox.kill();
    await sandbox.close();
}
