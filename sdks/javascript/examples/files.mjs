// files.mjs - files in and out, in pieces where they are large.
import { Sandbox } from "@alibaba-group/opensandbox";

const sandbox = await Sandbox.create({ image: process.env.IMAGE ?? "python:3.12" });
const { files } = sandbox;
try {
    await files.createDirectories([{ path: "/tmp/demo", mode: 755 }]);
    await files.writeFiles([
        { path: "/tmp/demo/hello.txt", data: "Hello World\n", mode: 644 },
        { path: "/tmp/demo/large.bin", data: zeros(100) },
    ]);
    console.log(await files.readFile("/tmp/demo/hello.txt"));
    console.log(await files.readFile("/tmp/demo/hello.txt", { range: "bytes=0-4" }));

    let size = 0;
    for await (const piece of files.readBytesStream("/tmp/demo/large.bin"))
        size += piece.length;
    console.log("large.bin has", size, "bytes");

    const found = await files.search({ path: "/tmp/demo", pattern: "*.txt" });
    console.log(found.map((file) => `${file.path} ${file.mode}`));

    await files.uploadDirectory(new URL(".", import.meta.url).pathname, "/tmp/examples");
    console.log((await files.listDirectory({ path: "/tmp/examples" })).length > 0);
} finally {
    await sandbox.kill();
    await sandbox.close();
}

async function* zeros(pieces) {
    for (let n = 0; n < pieces; n++)
        yield new Uint8Array(64 * 1024);
}
