// egress.mjs - what a sandbox may talk to, and a change of it.
import { Sandbox } from "@alibaba-group/opensandbox";

const sandbox = await Sandbox.create({
    image: process.env.IMAGE ?? "python:3.12",
    networkPolicy: { defaultAction: "deny", egress: [{ action: "allow", target: "pypi.org" }] },
});
const resolves = async (name) => (await sandbox.commands.run(`getent hosts ${name}`)).exitCode === 0;
try {
    console.log(await sandbox.getEgressPolicy());
    console.log("example.org before:", await resolves("example.org"));
    await sandbox.patchEgressRules([{ action: "allow", target: "example.org" }]);
    console.log("example.org after:", await resolves("example.org"));
    await sandbox.deleteEgressRules(["example.org"]);
} finally {
    await sandbox.kill();
    await sandbox.close();
}
