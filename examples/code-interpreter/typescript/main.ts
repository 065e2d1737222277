// The same program in TypeScript: four languages in one sandbox, each cell with its output and its
// result. usage: main.ts [LANGUAGE...]
import { ConnectionConfig, Sandbox } from "@alibaba-group/opensandbox";
import { CodeInterpreter } from "@alibaba-group/opensandbox-code-interpreter";

const CELLS: Record<string, string> = {
    python: "import platform\nprint('Hello from Python', platform.python_version()[:2])\n"
        + "{'language': 'python', 'sum': 2 + 2}",
    java: 'System.out.println("Hello from Java");\nint result = 2 + 3;\n'
        + 'System.out.println("2 + 3 = " + result);\nresult',
    go: 'package main\nimport "fmt"\nfunc main() {\n    fmt.Println("Hello from Go")\n'
        + '    fmt.Println("3 + 4 =", 3+4)\n}',
    typescript: "const sum: number = [1, 2, 3].reduce((a, b) => a + b, 0);\n"
        + "console.log('Hello from TypeScript');\nconsole.log(`sum = ${sum}`);",
};

const named = process.argv.slice(2);
for (const language of named)
    if (!(language in CELLS))
        throw new Error(`there is no cell in ${language}; there are ${Object.keys(CELLS)}`);
const connectionConfig = new ConnectionConfig({
    domain: process.env.SANDBOX_DOMAIN ?? "localhost:8080", apiKey: process.env.SANDBOX_API_KEY });
const sandbox = await Sandbox.create({
    image: process.env.SANDBOX_IMAGE ?? "opensandbox/code-interpreter:latest",
    entrypoint: ["/opt/code-interpreter/code-interpreter.sh"], connectionConfig });
try {
    const { codes } = await CodeInterpreter.create(sandbox);
    for (const language of named.length ? named : Object.keys(CELLS)) {
        console.log(`=== ${language} ===`);
        const run = await codes.run(CELLS[language], { language });
        for (const line of run.logs.stdout)
            console.log(`[stdout] ${line.text.trimEnd()}`);
        for (const line of run.logs.stderr)
            console.log(`[stderr] ${line.text.trimEnd()}`);
        for (const result of run.result)
            if (result.text)
                console.log(`[result] ${result.text}`);
        if (run.error)
            throw new Error(`the cell in ${language} failed: ${run.error.value}`);
    }
} finally {
    await sandbox.kill();
    await sandbox.close();
}
