// vault.mjs - a secret that programs in the sandbox use and never see.
import { Sandbox } from "@alibaba-group/opensandbox";

const sandbox = await Sandbox.create({
    image: process.env.IMAGE ?? "python:3.12",
    networkPolicy: { defaultAction: "deny", egress: [{ action: "allow", target: "api.example.com" }] },
    credentialProxy: { enabled: true },
});
try {
    const vault = await sandbox.credentialVault.create({
        credentials: [{ name: "token", source: { value: process.env.API_TOKEN ?? "secret" } }],
        bindings: [{
            name: "api",
            match: { schemes: ["https"], hosts: ["api.example.com"], paths: ["/v1/*"] },
            auth: { type: "bearer", credential: "token" },
        }],
    });
    console.log("revision", vault.revision, vault.credentials.map(({ name }) => name));
    // The request leaves with an Authorization header that curl did not send.
    const run = await sandbox.commands.run("curl -s https://api.example.com/v1/me");
    console.log(run.exitCode);
    await sandbox.credentialVault.delete();
} finally {
    await sandbox.kill();
    await sandbox.close();
}
