// Forks in TypeScript: three ways on from one sandbox, the best one is kept, a snapshot brings it back.
import { ConnectionConfig, Sandbox, SandboxManager } from "@alibaba-group/opensandbox";

const connectionConfig = new ConnectionConfig({
    domain: process.env.SANDBOX_DOMAIN ?? "localhost:8080", apiKey: process.env.SANDBOX_API_KEY });
const proposals = ["x * 2", "x ** 2", "x + 2"];
const TEST = "print(sum(f(x) == x * x for x in range(5)))";

async function run(sandbox: Sandbox, command: string): Promise<string> {
    const done = await sandbox.commands.run(command);
    if (done.exitCode !== 0)
        throw new Error(`${command}: ${done.exitCode}`);
    return done.logs.stdout.map((line) => line.text.trimEnd()).join("\n");
}

const score = async (sandbox: Sandbox) =>
    Number(await run(sandbox, `cat /root/f.py | (cat; echo '${TEST}') | python3 -`));

const manager = SandboxManager.create({ connectionConfig });
const alive = new Set<Sandbox>(); // what is left at the end, also when something fails
const end = async (sandbox: Sandbox) => {
    alive.delete(sandbox);
    await sandbox.kill();
    await sandbox.close();
};

let node = await Sandbox.create({ image: process.env.SANDBOX_IMAGE ?? "host", connectionConfig });
alive.add(node);
try {
    await run(node, "echo 'f = lambda x: 0' > /root/f.py");
    console.log(`start: ${await score(node)} of 5 cases`);
    const forks = await node.fork({ count: proposals.length });
    forks.forEach((fork) => alive.add(fork));
    const scores = await Promise.all(forks.map(async (fork, i) => {
        await run(fork, `echo 'f = lambda x: ${proposals[i]}' > /root/f.py`);
        return score(fork);
    }));
    const best = scores.indexOf(Math.max(...scores));
    console.log(`forks: ${scores.join(" ")}, took ${best}`);
    for (const other of [node, ...forks.filter((_, i) => i !== best)])
        await end(other);
    node = forks[best];
    const snapshot = await node.createSnapshot({ name: "best" });
    try {
        await node.waitForSnapshot(snapshot.id);
        await run(node, "rm /root/f.py");
        await node.rollback(snapshot.id);
        console.log(`after rollback: ${await score(node)} of 5 cases`);
    } finally {
        await manager.deleteSnapshot(snapshot.id);
    }
} finally {
    await Promise.all([...alive].map(end));
    await manager.close();
}
