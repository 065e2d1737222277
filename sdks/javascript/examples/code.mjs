// code.mjs - code that keeps its variables, and a chart. With matplotlib in the image the chart is one
// of its figures; without it, a picture drawn by hand.
import { writeFile } from "node:fs/promises";

import { Sandbox } from "@alibaba-group/opensandbox";
import { chartsOf, CodeInterpreter, pngOf } from "@alibaba-group/opensandbox-code-interpreter";

const CHART = `
try:
    import matplotlib
    matplotlib.use("Agg")
    import io, matplotlib.pyplot as plt
    figure = plt.figure()
    plt.plot(values)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    png = out.getvalue()
except ImportError:
    import struct, zlib
    rows = b"".join(b"\\0" + bytes(255 if x < v * 4 else 0 for x in range(64)) for v in values)
    def part(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(
            ">I", zlib.crc32(name + data))
    png = (b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", struct.pack(">IIBBBBB", 64, len(values), 8, 0, 0, 0, 0))
           + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))

class Chart:
    def _repr_png_(self):
        return png

Chart()
`;

const sandbox = await Sandbox.create({ image: process.env.IMAGE ?? "opensandbox/code-interpreter:latest" });
try {
    const { codes } = await CodeInterpreter.create(sandbox);
    await codes.run("values = [n * n % 13 for n in range(20)]");
    console.log((await codes.run("sum(values)")).result[0]?.text);

    const run = await codes.run(CHART);
    const [chart] = chartsOf(run);
    await writeFile("chart.png", pngOf(chart));
    console.log("chart.png has", pngOf(chart).length > 0 ? "a picture" : "nothing");
} finally {
    await sandbox.kill();
    await sandbox.close();
}
